"""Refuses parameters that would change the answer and are not supported here, by name.

A dialect lists them in one table, from which the fields of its requests are made too. Knows a
vendor only by the names of its parameters. Pure; any thread.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic.json_schema import SkipJsonSchema

from api.dialects.shared.body import WireModel
from api.dialects.shared.parameters.fields import with_fields
from api.dialects.shared.parameters.vendors import Vendor, spellings
from api.transport.errors import FieldPath, unsupported

_Model = TypeVar("_Model", bound=WireModel)

# Values that ask for nothing: of text and collection parameters, and of all parameters.
EMPTY: tuple[object, ...] = ("", [], {})
FALSY: tuple[object, ...] = (*EMPTY, False, 0)


class RefusedParameter(NamedTuple):
    """A parameter that is refused."""

    what: str
    off: tuple[object, ...] = ()


def refusals(
    vendor: Vendor, table: Mapping[str, RefusedParameter]
) -> Mapping[str, RefusedParameter]:
    """Return a table of refused parameters, compared with those that are honoured."""
    if both := sorted(table.keys() & set(spellings(vendor))):
        raise ValueError(f"{vendor}: honoured and refused at once: {', '.join(both)}")
    return table


def with_refused(table: Mapping[str, RefusedParameter]) -> Callable[[type[_Model]], type[_Model]]:
    """Return a decorator that adds the parameters of a table, without documenting them."""
    hidden = Annotated[Any, SkipJsonSchema()]
    return with_fields(dict.fromkeys(table, hidden))


def refuse(params: WireModel, table: Mapping[str, RefusedParameter], path: FieldPath = ()) -> None:
    """Refuse a parameter of a table that is present and not switched off."""
    for name, refusal in table.items():
        if name not in params.model_fields_set:
            continue
        value = getattr(params, name)
        if value is not None and not any(_is_same(value, off) for off in refusal.off):
            raise unsupported((*path, name), refusal.what)


def _is_same(value: object, off: object) -> bool:
    """Whether two values are equal; 0 does not equal false."""
    return isinstance(value, bool) == isinstance(off, bool) and value == off
