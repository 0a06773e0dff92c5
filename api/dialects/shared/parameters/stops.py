"""Reads the stop strings of requests: one string, a list or null. Pure; any thread."""

from pydantic import WithJsonSchema

from api.transport.errors import FieldPath, invalid
from engine import MAX_STOP_CHARS, MAX_STOPS, InvalidRequest, checked_strings

_STOP = {"type": "string", "minLength": 1, "maxLength": MAX_STOP_CHARS}
_LIST = {"type": "array", "items": _STOP, "maxItems": MAX_STOPS}
# JSON schemas for fields that accept any type; ``checked_strings`` decides what is valid.
STOPS = WithJsonSchema({"anyOf": [_STOP, _LIST, {"type": "null"}]})
STOP_LIST = WithJsonSchema({"anyOf": [_LIST, {"type": "null"}]})


def stop_strings(stop: object, field: FieldPath, *, most: int | None = None) -> tuple[str, ...]:
    """Return the stop strings of a request."""
    name = ".".join(str(part) for part in field)
    match stop:
        case None:
            return ()
        case str():
            try:
                return checked_strings([stop], name)
            except InvalidRequest as error:
                raise invalid(field, error.reason) from None
        case list():
            strings = checked_strings(stop, name)
            if most is not None and len(strings) > most:
                raise invalid(
                    field,
                    f"at most {most} stop sequences are allowed, got {len(strings)}",
                    code="array_above_max_length",
                )
            return strings
        case _:
            raise invalid(field, "must be a string, a list of strings or null", code="invalid_type")
