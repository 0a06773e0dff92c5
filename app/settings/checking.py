"""Checks external values against declared settings, and makes a dataclass from them.

The checks are pydantic models made from the declarations, so that each limit is declared once. Any
thread.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from ui.preferences.declaring import Declaration, Declared, declared

T = TypeVar("T")


class _Checked(BaseModel):
    """The base of all these models: unknown names are errors, and numbers are finite."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


@cache
def checks_of(kind: type) -> type[BaseModel]:
    """Return the model that checks the settings of a dataclass and of its nested dataclasses.

    Paths are texts and tuples are lists, as in files and on the command line.
    """
    hints = get_type_hints(kind)
    said = {one.name: one for one in declared(kind) if "." not in one.path}
    checked: dict[str, Any] = {}
    for one in fields(kind):
        if one.name in said:
            checked[one.name] = _check(said[one.name])
        else:
            inner = checks_of(hints[one.name])
            checked[one.name] = (inner, Field(default_factory=inner))
    return create_model(kind.__name__, __base__=_Checked, **checked)


def made(kind: type[T], values: Mapping[str, Any]) -> T:
    """Return a dataclass of checked values; missing names get defaults."""
    hints = get_type_hints(kind)
    return kind(**{name: _made(hints[name], value) for name, value in values.items()})


def _check(one: Declared) -> tuple[Any, Any]:
    default = list(one.default) if isinstance(one.default, tuple) else one.default
    return _spelled(one.kind, one.setting), str(default) if isinstance(default, Path) else default


def _spelled(kind: Any, said: Declaration) -> Any:
    """Return the external type of a value of ``kind``, with its limits."""
    if isinstance(kind, UnionType):
        one, _ = get_args(kind)
        return _spelled(one, said) | None
    if kind is Path:
        return Annotated[str, Field(min_length=1)]
    if kind in (int, float):
        above = said.least if said.excludes_least else None
        least = None if said.excludes_least else said.least
        return Annotated[kind, Field(gt=above, ge=least, le=said.most)]
    if get_origin(kind) is tuple and get_args(kind)[-1] is Ellipsis:
        return list[get_args(kind)[0]]  # type: ignore[misc]
    return kind


def _made(kind: Any, value: Any) -> Any:
    if isinstance(kind, UnionType):
        (kind,) = (one for one in get_args(kind) if one is not NoneType)
        return None if value is None else _made(kind, value)
    if is_dataclass(kind) and isinstance(kind, type):
        return made(kind, value)
    if kind is Path:
        return Path(value).expanduser()
    if get_origin(kind) is tuple and isinstance(value, list):
        return tuple(value)
    return value
