"""Reads a request's body: bytes to JSON to a wire model, with errors that name the place.

Pure functions; knows no web framework and no vendor. Any thread.
"""

import json
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from api.errors import ApiError, FieldPath, invalid

_MISSING = {"missing"}
_TAGS = {"union_tag_invalid", "union_tag_not_found"}


class WireModel(BaseModel):
    """What every wire model has in common: unknown fields are ignored, types are not guessed."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


_Model = TypeVar("_Model", bound=WireModel)


def parsed(raw: bytes, model: type[_Model]) -> _Model:
    """Return a request's body as a wire model.

    Raises:
        ApiError: It is no JSON (the message gives line and column), no object, or a field is
            missing or wrong (the error names the first one).
    """
    value = _json(raw)
    if not isinstance(value, dict):
        raise invalid((), f"the body must be a JSON object, not {_kind_of(value)}")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise _field_error(error, value) from None


def _json(raw: bytes) -> object:
    if not raw.strip():
        raise invalid((), "the body is empty; a JSON object is expected")
    try:
        value = json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)
        if b"\\u" in raw:
            # Only an escape can smuggle half of a surrogate pair into valid UTF-8.
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise invalid((), f"the body is not UTF-8 (byte {error.start})") from None
    except UnicodeEncodeError:
        raise invalid(
            _path_of_surrogate(value), "contains a lone surrogate, which is no text"
        ) from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise invalid((), f"the body is not valid JSON: {error.msg} at {place}") from None
    except ValueError as error:
        raise invalid((), f"the body is not valid JSON: {error}") from None
    except RecursionError:
        raise invalid((), "the body is nested too deeply") from None
    return value


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


def _path_of_surrogate(value: object) -> FieldPath:
    """Return where the first text with a lone surrogate is."""
    items: list[tuple[str | int, object]]
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    else:
        return ()
    for key, item in items:
        if isinstance(key, str) and _is_broken(key):
            return ()
        if isinstance(item, str) and _is_broken(item):
            return (key,)
        if rest := _path_of_surrogate(item):
            return (key, *rest)
    return ()


def _is_broken(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text)


def _field_error(error: ValidationError, body: dict[str, Any]) -> ApiError:
    first = error.errors(include_url=False)[0]
    kind = first["type"]
    path = _wire_path(first["loc"], body, is_missing=kind in _MISSING)
    if kind in _MISSING:
        return invalid(path, "Field required", code="missing_required_parameter")
    if kind in _TAGS:
        context = first.get("ctx", {})
        key = str(context.get("discriminator", "type")).strip("'")
        if kind == "union_tag_not_found":
            return invalid((*path, key), "Field required", code="missing_required_parameter")
        expected = context.get("expected_tags", "")
        message = f"{context.get('tag')!r} is not supported here; expected one of {expected}"
        return invalid((*path, key), message, code="invalid_value")
    code = "invalid_type" if kind.endswith("_type") else "invalid_value"
    return invalid(path, first["msg"], code=code)


def _wire_path(loc: FieldPath, body: object, *, is_missing: bool) -> FieldPath:
    """Return the path in the body as sent: pydantic adds the tags of unions to it."""
    path: list[str | int] = []
    at: Any = body
    for index, part in enumerate(loc):
        if _holds(at, part):
            at = at[part]
        elif not (is_missing and index == len(loc) - 1):
            continue
        path.append(part)
    return tuple(path)


def _holds(value: object, part: str | int) -> bool:
    if isinstance(part, int):
        return isinstance(value, list) and part < len(value)
    return isinstance(value, dict) and part in value


def _kind_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case _:
            return "an array"
