"""Parses a request's body: bytes to JSON to a wire model, with errors that name the field.

Pure; knows no vendor. Any thread.
"""

import json
import math
from collections.abc import Iterator, Mapping
from functools import cache
from types import UnionType
from typing import Any, NoReturn, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError
from pydantic_core import PydanticCustomError, core_schema

from api.dialects.shared.unknown_parameters import (
    DEFAULTS,
    FALSY,
    NEUTRAL,
    PARAMETER_OBJECTS,
    REFUSED,
    SPELLINGS,
    is_off,
)
from api.service.errors import (
    ApiError,
    ErrorKind,
    FieldPath,
    invalid,
    required,
    shown,
    unsupported,
)

_TOO_LARGE = "the number is too large"
# A turn takes many times its size in memory, and no conversation has as many.
_MAX_TURNS = 65_536
# Python's objects take many times the memory of their JSON.
_MAX_VALUES = 2_000_000


def _coerce_integral(value: object) -> object:
    """Return a number with no fraction as an integer; refuse one of more than 64 bits."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and value.bit_length() > 64:
        raise PydanticCustomError("number_too_large", _TOO_LARGE)
    return value


def _adapt(schema: Any) -> Any:
    """Return a core schema whose lists end at the first wrong item, and that accepts 5.0 as 5.

    An integral float is an integer in JSON Schema
    (https://json-schema.org/draft/2020-12/json-schema-validation#name-type).
    """
    if isinstance(schema, list | tuple):
        return type(schema)(map(_adapt, schema))
    if not isinstance(schema, dict):
        return schema
    function = schema.get("function")
    if isinstance(function, dict) and function.get("function") is _coerce_integral:
        return schema  # of an inner model, which is adapted already
    kind = schema.get("type")
    if kind == "int":
        return core_schema.no_info_before_validator_function(_coerce_integral, schema)
    for key in schema.keys() - {"metadata", "default", "expected", "function"}:
        schema[key] = _adapt(schema[key])
    if kind == "list":
        schema["fail_fast"] = True
    return schema


class WireModel(BaseModel):
    """The base of all wire models: unknown fields are ignored, types are not converted."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, defer_build=True)

    @property
    def needs_recall(self) -> bool:
        """Whether it refers to stored items, which the dialect's ``recall`` adds."""
        return False

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        schema: core_schema.CoreSchema = _adapt(handler(source))
        return schema


_Model = TypeVar("_Model", bound=WireModel)


def parse_body(raw: bytes | bytearray, model: type[_Model]) -> tuple[_Model, tuple[str, ...]]:
    """Return a request's body as a wire model, and the names of its fields without effect.

    Raises:
        ApiError: It is invalid (the error names the first wrong field), or has too many values, or
            its answer would depend on a parameter that the route does not have.
    """
    value = _json(raw)
    if not isinstance(value, dict):
        raise invalid((), "the body must be a JSON object")
    for name in _inner_models(model).keys() & {"messages", "input"}:
        turns = value.get(name)
        # Tokens are no turns; the length of the context bounds them.
        if isinstance(turns, list) and len(turns) > _MAX_TURNS and isinstance(turns[-1], dict):
            raise invalid((name,), f"at most {_MAX_TURNS:,} items are possible; send fewer")
    try:
        params = model.model_validate(value)
    except ValidationError as error:
        raise _field_error(error, value) from None
    return params, tuple(_not_applied(value, model, ()))


def _json(raw: bytes | bytearray) -> object:
    if not raw.strip():
        raise invalid((), "the body is empty; a JSON object is expected")
    # Each value has one of these marks; those in texts are counted, too.
    if sum(map(raw.count, (b",", b":", b"{", b"["))) > _MAX_VALUES:
        raise ApiError(
            ErrorKind.TOO_LARGE,
            f"the body has more than {_MAX_VALUES:,} values; send fewer, and prompts as text",
        )
    try:
        value = json.loads(raw.decode(), parse_constant=_refuse_constant, parse_float=_finite)
        if b"\\u" in raw:
            # Only an escape can put half of a surrogate pair into valid UTF-8.
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise invalid((), f"the body is not UTF-8 (byte {error.start})") from None
    except UnicodeEncodeError:
        raise invalid((), "the body contains a lone surrogate, which is not valid text") from None
    except json.JSONDecodeError as error:
        position = f"line {error.lineno} column {error.colno}"
        raise invalid((), f"the body is not valid JSON: {error.msg} at {position}") from None
    except ValueError as error:
        raise invalid((), f"the body is not valid JSON: {error}") from None
    except RecursionError:
        raise invalid((), "the body is nested too deeply") from None
    return value


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(_TOO_LARGE)
    return value


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def _not_applied(value: dict[str, Any], model: type[WireModel], path: FieldPath) -> Iterator[str]:
    """Yield the names of the fields that a model does not have and that would have an effect.

    Raises:
        ApiError: The answer depends on one of them.
    """
    fields = _inner_models(model)
    for name, given in value.items():
        if name in fields:
            inner = fields[name]
            if inner is not None and isinstance(given, dict):
                yield from _not_applied(given, inner, (*path, name))
        elif is_off(given, DEFAULTS.get(name, FALSY)):
            continue
        elif name in REFUSED and PARAMETER_OBJECTS.issuperset(path):
            spellings = () if path else SPELLINGS.get(REFUSED[name], ())
            known = (spelling for spelling in spellings if _has(model, spelling))
            raise unsupported((*path, name), REFUSED[name], next(known, ""))
        else:
            dotted = ".".join(map(str, (*path, name)))
            if NEUTRAL.isdisjoint((name, dotted)):
                yield dotted


def _has(model: type[WireModel], name: str) -> bool:
    """Whether a model has a field, or its object has one, as in ``text.format``."""
    name, _, inner_name = name.partition(".")
    inner = _inner_models(model).get(name)
    if not inner_name:
        return name in _inner_models(model)
    return inner is not None and inner_name in _inner_models(inner)


@cache
def _inner_models(model: type[WireModel]) -> Mapping[str, type[WireModel] | None]:
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


def _field_error(error: ValidationError, body: dict[str, Any]) -> ApiError:
    first = error.errors(include_url=False)[0]
    kind = first["type"]
    path = _wire_path(first["loc"], body, is_missing=kind == "missing")
    if kind == "missing":
        return required(path)
    context = first.get("ctx", {})
    key = str(context.get("discriminator", "type")).strip("'")
    if kind == "union_tag_not_found":
        return required((*path, key))
    if kind == "union_tag_invalid":
        expected = context.get("expected_tags", "")
        tag = shown(str(context.get("tag")))
        message = f"{tag!r} is not supported here; expected one of {expected}"
        return invalid((*path, key), message, code="invalid_value")
    code = "invalid_type" if kind.endswith("_type") else "invalid_value"
    return invalid(path, first["msg"], code=code)


def _wire_path(loc: FieldPath, body: object, *, is_missing: bool) -> FieldPath:
    """Return the path in the body as sent, without the union tags that pydantic adds."""
    path: list[str | int] = []
    value: Any = body
    for index, part in enumerate(loc):
        is_index = isinstance(part, int) and isinstance(value, list)
        if is_index or (isinstance(value, dict) and part in value):
            value = value[part]
        elif not (is_missing and index == len(loc) - 1):
            continue
        path.append(part)
    return tuple(path)
