"""Checks values of files, variables and the command line against declared settings."""

from dataclasses import fields
from functools import cache
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

from ui.preferences import Declaration, declared

if TYPE_CHECKING:
    from pydantic import BaseModel


@cache
def checks_of(kind: type) -> "type[BaseModel]":
    """Return the model that checks the settings of a dataclass and of its nested dataclasses."""
    from pydantic import ConfigDict, Field, create_model  # help and most commands do without it

    hints = get_type_hints(kind)
    options = {option.name: option for option in declared(kind) if "." not in option.path}
    checked: dict[str, Any] = {}
    for field_ in fields(kind):
        if field_.name in options:
            checked[field_.name] = _field_of(options[field_.name])
        else:
            inner = checks_of(hints[field_.name])
            checked[field_.name] = (inner, Field(default_factory=inner))
    config = ConfigDict(extra="forbid", allow_inf_nan=False)
    return create_model(kind.__name__, __config__=config, **checked)


def _field_of(option: Declaration) -> tuple[Any, Any]:
    default = list(option.default) if isinstance(option.default, tuple) else option.default
    if isinstance(default, Path):
        default = str(default)
    return _json_type(option.kind, option), default


def _json_type(kind: Any, setting: Declaration) -> Any:
    """Return the type of a value in a file, with its limits."""
    from pydantic import Field

    if isinstance(kind, UnionType):
        item, _ = get_args(kind)
        return _json_type(item, setting) | None
    if kind is Path:
        return Annotated[str, Field(min_length=1)]
    if kind in (int, float):
        above = setting.minimum if setting.exclusive_minimum else None
        minimum = None if setting.exclusive_minimum else setting.minimum
        return Annotated[kind, Field(gt=above, ge=minimum, le=setting.maximum)]
    if get_origin(kind) is tuple and get_args(kind)[-1] is Ellipsis:
        return list[get_args(kind)[0]]  # type: ignore[misc]
    return kind
