"""The stop options of requests: their fields, and how they are read and written.

Every option of the engine is accepted in the object ``fullstop`` of every dialect. Options that a
vendor has, too (``api.dialects.shared.parameters.vendors``), are also accepted by the vendor's
name. Pure; any thread.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from api.dialects.shared.body import WireModel
from api.dialects.shared.parameters.fields import with_fields
from api.dialects.shared.parameters.vendors import STOP_SPELLINGS, Vendor
from engine import STOP_OPTIONS, StopOption, StopOptions

_Model = TypeVar("_Model", bound=WireModel)

# Names in the object ``fullstop``, for options whose own name would say too little.
_OWN_NAMES = {"scope": "stop_scope"}


def _own_name(option: StopOption) -> str:
    return _OWN_NAMES.get(option.name, option.name)


def _type(option: StopOption) -> Any:
    match option.default:
        case Enum():
            return Literal[tuple(one.value for one in type(option.default))]
        case bool():
            return bool
        case _:
            return Annotated[int, Field(ge=0)]


def _wire(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _spelled(vendor: Vendor) -> Iterator[tuple[StopOption, str]]:
    """Yield the options that a vendor has, each with its spelling."""
    for option in STOP_OPTIONS:
        spelling = STOP_SPELLINGS.get(option.name, {}).get(vendor)
        if spelling is not None:
            yield option, spelling


def with_stop_options(vendor: Vendor) -> Callable[[type[_Model]], type[_Model]]:
    """Return a decorator that adds a vendor's stop options to a type of requests."""
    return with_fields({name: _type(option) | None for option, name in _spelled(vendor)})


def with_own_stop_options(model: type[_Model]) -> type[_Model]:
    """Add every stop option to the type of the object ``fullstop``."""
    return with_fields({_own_name(one): _type(one) | None for one in STOP_OPTIONS})(model)


def stop_options_of(params: WireModel, vendor: Vendor) -> StopOptions:
    """Return the stop options that a vendor's fields set."""
    sent = {option.name: getattr(params, spelling) for option, spelling in _spelled(vendor)}
    return StopOptions(**{name: value for name, value in sent.items() if value is not None})


def own_stop_options(options: WireModel) -> dict[str, Any]:
    """Return the engine's stop options that a request's object ``fullstop`` sets."""
    sent = ((option, getattr(options, _own_name(option))) for option in STOP_OPTIONS)
    return {one.name: type(one.default)(value) for one, value in sent if value is not None}


def stop_options_to_wire(options: StopOptions, vendor: Vendor) -> dict[str, Any]:
    """Return the fields of a vendor's request for these stop options."""
    values = ((one, name, getattr(options, one.name)) for one, name in _spelled(vendor))
    return {name: _wire(value) for one, name, value in values if value != one.default}


def own_stop_options_to_wire(options: StopOptions, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that a body cannot express without the object ``fullstop``."""
    said = {*body, *(name for part in body.values() if isinstance(part, dict) for name in part)}
    values = ((one, getattr(options, one.name)) for one in STOP_OPTIONS)
    return {
        _own_name(one): _wire(value)
        for one, value in values
        if value != one.default and said.isdisjoint(STOP_SPELLINGS.get(one.name, {}).values())
    }
