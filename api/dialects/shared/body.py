"""Parses a request's body: bytes to JSON to a wire model, with errors that name the field.

Pure; knows no vendor. Any thread.
"""

import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import UnionType
from typing import Any, NoReturn, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError
from pydantic_core import core_schema

from api.dialects.shared.foreign_parameters import (
    DEFAULTS,
    FALSY,
    NEUTRAL,
    PARAMETER_OBJECTS,
    REFUSED,
    is_off,
)
from api.transport.errors import ApiError, ErrorKind, FieldPath, invalid, shown, unsupported
from engine.files.json_items import WIDEST, text_memory

_MISSING = {"missing"}
_TAGS = {"union_tag_invalid", "union_tag_not_found"}
# Seeds may have this many.
_MAX_BITS = 64
_TOO_LARGE = "the number is too large"
_HUGE = object()
_NO_SCHEMAS = {"metadata", "default", "expected", "function"}
_LISTS = {"list", "tuple", "set", "frozenset"}
_MAX_KEYS = 10_000
_TURNS = ("messages", "input")
# Names of fields without effect that are kept.
_MAX_NAMED = 50
# An item takes many times its size in memory, and no conversation has as many.
_MAX_TURNS = 1 << 16


def _adapt(schema: Any) -> None:
    """Change what a schema's lists, objects and integers accept.

    Lists stop at their first wrong item, objects have a limit of keys, and 5.0 is an integer, as
    JSON Schema has it (https://json-schema.org/draft/2020-12/json-schema-validation#name-type).
    """
    places: list[tuple[Any, Any]]
    if isinstance(schema, dict):
        if _kind(schema) in _LISTS:
            schema["fail_fast"] = True
        places = [(key, part) for key, part in schema.items() if key not in _NO_SCHEMAS]
    elif isinstance(schema, (list, tuple)):
        places = list(enumerate(schema))
    else:
        return
    is_checked = _checks_itself(schema)
    for key, part in places:
        _adapt(part)
        check = None if is_checked or isinstance(schema, tuple) else _check_for(part)
        if check is not None and not (check is _whole and _kind(schema) in _LISTS):
            schema[key] = core_schema.no_info_before_validator_function(check, part)


def _kind(schema: object) -> str | None:
    """Return the type of a schema; None for other values."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    return kind if isinstance(kind, str) else None  # among a model's fields, "type" may be a field


def _checks_itself(schema: Any) -> bool:
    """Whether a schema is one that ``_adapt`` has put around another."""
    function = schema.get("function") if isinstance(schema, dict) else None
    return isinstance(function, dict) and function.get("function") in (_few, _whole, _whole_items)


def _check_for(schema: object) -> Callable[[object], object] | None:
    """Return what is called before a value is checked; the values of objects are all checked."""
    kind = _kind(schema)
    if kind == "dict":
        return _few
    if kind == "int":
        return _whole
    if kind == "list" and isinstance(schema, dict) and _kind(schema.get("items_schema")) == "int":
        return _whole_items
    return None


def _few(value: object) -> object:
    if isinstance(value, dict) and len(value) > _MAX_KEYS:
        raise ValueError(f"at most {_MAX_KEYS} keys are possible")
    return value


def _whole(value: object) -> object:
    """Return a number with no fraction as an integer, unless it is beyond all of them."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**_MAX_BITS:
        return int(value)
    return value


def _whole_items(value: object) -> object:
    """Return a list of numbers, which may be long, with integers."""
    if isinstance(value, list) and float in set(map(type, value)):
        return [_whole(item) for item in value]
    return value


class WireModel(BaseModel):
    """The base of all wire models: unknown fields are ignored, types are not converted."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, defer_build=True)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Check lists to their first wrong item, so that the error names only that item."""
        schema = handler(source)
        _adapt(schema)
        return schema


_Model = TypeVar("_Model", bound=WireModel)


def parsed(raw: bytes, model: type[_Model]) -> tuple[_Model, tuple[str, ...]]:
    """Return a request's body as a wire model, and the names of its fields without effect.

    Raises:
        ApiError: It is invalid (the error names the first wrong field), or has too many values, or
            its answer would depend on a parameter that the route does not have.
    """
    _check_counts(raw)
    value = _json(raw)
    if not isinstance(value, dict):
        raise invalid((), f"the body must be a JSON object, not {_kind_of(value)}")
    known = {field.alias or name for name, field in model.model_fields.items()}
    for name in known.intersection(_TURNS):
        turns = value.get(name)
        # Tokens are no turns; the length of the context bounds them.
        if isinstance(turns, list) and len(turns) > _MAX_TURNS and isinstance(turns[-1], dict):
            raise invalid((name,), f"at most {_MAX_TURNS:,} items are possible; send fewer")
    _check_integers({name: inner for name, inner in value.items() if name in known}, ())
    try:
        params = model.model_validate(value)
    except ValidationError as error:
        raise _field_error(error, value) from None
    return params, tuple(_not_applied(value, model, ()))[:_MAX_NAMED]


def _not_applied(value: dict[str, Any], model: type[WireModel], path: FieldPath) -> Iterator[str]:
    """Yield the names of the fields that a model does not have and that would have an effect.

    Raises:
        ApiError: The answer depends on one of them.
    """
    fields = _inner_models(model)
    for name, given in value.items():
        if name in fields:
            inner = fields[name]
            for part in (given if isinstance(given, list) else [given]) if inner else ():
                if isinstance(part, dict) and inner is not None:
                    yield from _not_applied(part, inner, (*path, name))
            continue
        if name in REFUSED and PARAMETER_OBJECTS.issuperset(path):
            refusal = REFUSED[name]
            if not is_off(given, refusal.off):
                known = (other for other in refusal.instead if not path and _has(model, other))
                raise unsupported((*path, name), refusal.what, next(known, ""))
            continue
        dotted = ".".join(map(str, (*path, name)))
        is_neutral = name in NEUTRAL or dotted in NEUTRAL
        if not is_neutral and not is_off(given, DEFAULTS.get(name, FALSY)):
            yield dotted


def _has(model: type[WireModel], name: str) -> bool:
    """Whether a model has a field, or its object has one, as in ``text.format``."""
    name, _, rest = name.partition(".")
    fields = _inner_models(model)
    inner = fields.get(name)
    return name in fields and (not rest or (inner is not None and rest in _inner_models(inner)))


@cache
def _inner_models(model: type[WireModel]) -> Mapping[str, type[WireModel] | None]:
    """Return a model's fields by their names in requests, each with the model of its object."""
    return {
        field.alias or name: _inner_model(field.annotation)
        for name, field in model.model_fields.items()
    }


def _inner_model(annotation: object) -> type[WireModel] | None:
    """Return the model of a field that is one object; None for lists and for unknown fields."""
    options = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    for option in options:
        if isinstance(option, type) and issubclass(option, WireModel):
            return None if option.model_config.get("extra") == "allow" else option
    return None


def _json(raw: bytes) -> object:
    if not raw.strip():
        raise invalid((), "the body is empty; a JSON object is expected")
    try:
        value = _value_of(raw.decode("utf-8"))
        if b"\\u" in raw:
            # Only an escape can put half of a surrogate pair into valid UTF-8.
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise invalid((), f"the body is not UTF-8 (byte {error.start})") from None
    except UnicodeEncodeError:
        raise invalid(
            _path_of(value, _is_broken), "contains a lone surrogate, which is not valid text"
        ) from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise invalid((), f"the body is not valid JSON: {error.msg} at {place}") from None
    except ValueError as error:
        raise invalid((), f"the body is not valid JSON: {error}") from None
    except RecursionError:
        raise invalid((), "the body is nested too deeply") from None
    return value


def _value_of(text: str) -> object:
    """Return the value of a JSON text; the only place where numbers of requests are parsed."""
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except json.JSONDecodeError:
        raise
    except ValueError as error:
        # Python refuses to parse very long integers; a second pass finds which one it was.
        value = json.loads(
            text, parse_constant=_refuse_constant, parse_float=_or_huge, parse_int=_or_huge
        )
        path = _path_of(value, lambda item: item is _HUGE)
        if not path and value is not _HUGE:
            raise error
        raise invalid(path, _TOO_LARGE, code="invalid_value") from None


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(_TOO_LARGE)
    return value


def _or_huge(text: str) -> object:
    return _HUGE if math.isinf(float(text)) else 0


def _check_integers(values: dict[str, Any], path: FieldPath) -> None:
    """Refuse integers of more than 64 bits in the parameters of a request.

    Deeper values, and those in lists, are content: schemas, tools' arguments, token ids.
    """
    for name, value in values.items():
        if type(value) is int:
            if value.bit_length() > _MAX_BITS:
                raise invalid((*path, name), _TOO_LARGE, code="invalid_value")
        elif not path and isinstance(value, dict):
            _check_integers(value, (name,))


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def _path_of(value: object, is_wrong: Callable[[object], bool]) -> FieldPath:
    """Return the path of the first wrong value."""
    items: list[tuple[str | int, object]]
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    else:
        return ()
    for key, item in items:
        if is_wrong(key):
            return ()
        if is_wrong(item):
            return (key,)
        if rest := _path_of(item, is_wrong):
            return (key, *rest)
    return ()


def _is_broken(value: object) -> bool:
    return isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value)


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
        tag = shown(str(context.get("tag")))
        message = f"{tag!r} is not supported here; expected one of {expected}"
        return invalid((*path, key), message, code="invalid_value")
    code = "invalid_type" if kind.endswith("_type") else "invalid_value"
    return invalid(path, first["msg"], code=code)


def _wire_path(loc: FieldPath, body: object, *, is_missing: bool) -> FieldPath:
    """Return the path in the body as sent, without the union tags that pydantic adds."""
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


# -- values and texts are counted before they are made -----------------------------------------
# Python objects take many times the memory of their JSON.


_MAX_VALUES = 1_000_000
# Objects, lists and fields of objects.
_MAX_NODES = 400_000
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_COMMA, _NODES = ord(","), b"{[:"


def check_text_memory(raw: bytes, max_bytes: int) -> None:
    """Refuse a body whose text takes more memory than the largest body of ASCII would."""
    if len(raw) * WIDEST > max_bytes and (why := text_memory(raw).excess(max_bytes)):
        raise ApiError(ErrorKind.TOO_LARGE, f"the body takes too much memory: {why}")


def _check_counts(raw: bytes) -> None:
    if not _is_beyond(raw):
        return
    # Marks in strings do not count. Strings are left out only if it matters, because that takes
    # time, and are not copied, because there may be millions.
    values = nodes = start = 0
    for string in itertools.chain(_STRING.finditer(raw), (None,)):
        end = len(raw) if string is None else string.start()
        if end > start + 1:
            values += raw.count(b",", start, end)
            nodes += _count_nodes(raw, start, end)
        elif end > start:
            values += raw[start] == _COMMA
            nodes += raw[start] in _NODES
        for count, limit, what in (
            (values, _MAX_VALUES, "values"),
            (nodes, _MAX_NODES, "objects, lists and fields"),
        ):
            if count >= limit:
                raise ApiError(
                    ErrorKind.TOO_LARGE,
                    f"the body holds more than {limit:,} {what}; send fewer, and prompts as text",
                )
        start = 0 if string is None else string.end()


def _is_beyond(raw: bytes) -> bool:
    return raw.count(b",") >= _MAX_VALUES or _count_nodes(raw, 0, len(raw)) >= _MAX_NODES


def _count_nodes(raw: bytes, start: int, end: int) -> int:
    return sum(raw.count(mark, start, end) for mark in (b"{", b"[", b":"))
