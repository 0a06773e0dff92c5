"""Fields that accept several forms: how they are read and documented.

Pure; knows no vendor and no web framework. Any thread.
"""

from collections.abc import Callable
from typing import Any, Literal

from pydantic import BeforeValidator, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from api.dialects.shared.body import WireModel


class TextOr:
    """Accepts a text in place of the annotated list, and documents that in JSON schemas."""

    def __init__(self, read: Callable[[Any], Any], *, accepts_null: bool = False) -> None:
        self._validator = BeforeValidator(read)
        self._forms = [{"type": "string"}, *([{"type": "null"}] if accepts_null else [])]

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return self._validator.__get_pydantic_core_schema__(source, handler)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"anyOf": [*self._forms, handler(schema)]}


def _as_parts(value: Any) -> Any:
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    if isinstance(value, list):
        return value
    raise PydanticCustomError("content_type", "must be a string or a list of content blocks")


def _as_parts_or_none(value: Any) -> Any:
    return [] if value is None else _as_parts(value)


# For annotations: Annotated[list[Part], TEXT_OR_PARTS].
TEXT_OR_PARTS = TextOr(_as_parts)
TEXT_OR_PARTS_OR_NULL = TextOr(_as_parts_or_none, accepts_null=True)


class TextPart(WireModel):
    """``{"type": "text"}``."""

    type: Literal["text"]
    text: str


class RefusalPart(WireModel):
    """``{"type": "refusal"}`` of an earlier answer."""

    type: Literal["refusal"]
    refusal: str
