"""The options of stops in requests: fields, and how they are read and written.

Every option of the engine is accepted in the object ``fullstop`` of every dialect; those that a
vendor spells (``api.dialects.shared.parameters.vendors``) are accepted there as well. Pure; any
thread.
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

# In the object ``fullstop``, where its own name would say too little.
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
    """Yield the options that a vendor spells, each with its spelling."""
    for option in STOP_OPTIONS:
        spelling = STOP_SPELLINGS.get(option.name, {}).get(vendor)
        if spelling is not None:
            yield option, spelling


def with_stop_options(vendor: Vendor) -> Callable[[type[_Model]], type[_Model]]:
    """Return a decorator that adds a vendor's options of stops to a type of requests."""
    return with_fields({name: _type(option) | None for option, name in _spelled(vendor)})


def with_own_stop_options(model: type[_Model]) -> type[_Model]:
    """Add every option of stops to the type of the object ``fullstop``."""
    return with_fields({_own_name(one): _type(one) | None for one in STOP_OPTIONS})(model)


def stop_options_of(params: WireModel, vendor: Vendor) -> StopOptions:
    """Return how stops count, as far as a vendor's fields say it."""
    sent = {option.name: getattr(params, spelling) for option, spelling in _spelled(vendor)}
    return StopOptions(**{name: value for name, value in sent.items() if value is not None})


def own_stop_options(options: WireModel) -> dict[str, Any]:
    """Return the options that a request's object ``fullstop`` names, as the engine has them."""
    sent = ((option, getattr(options, _own_name(option))) for option in STOP_OPTIONS)
    return {one.name: type(one.default)(value) for one, value in sent if value is not None}


def stop_options_to_wire(options: StopOptions, vendor: Vendor) -> dict[str, Any]:
    """Return the fields with which a vendor's request says how stops count."""
    values = ((one, name, getattr(options, one.name)) for one, name in _spelled(vendor))
    return {name: _wire(value) for one, name, value in values if value != one.default}


def own_stop_options_to_wire(options: StopOptions, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that the object ``fullstop`` has to say beside a body.

    Args:
        options: How stops count.
        body: The body of a request; what one of its fields says needs no second word.
    """
    said = {*body, *(name for part in body.values() if isinstance(part, dict) for name in part)}
    values = ((one, getattr(options, one.name)) for one in STOP_OPTIONS)
    return {
        _own_name(one): _wire(value)
        for one, value in values
        if value != one.default and said.isdisjoint(STOP_SPELLINGS.get(one.name, {}).values())
    }
