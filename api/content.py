"""A content that may be a string or a list of parts, read as a list of parts in either case.

Pure; knows no vendor and no web framework. Any thread.
"""

from typing import Any

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError


def _as_parts(value: Any) -> Any:
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    if isinstance(value, list):
        return value
    raise PydanticCustomError("content_type", "must be a string or a list of content blocks")


def _as_parts_or_none(value: Any) -> Any:
    return [] if value is None else _as_parts(value)


# For annotations: Annotated[list[Part], TEXT_OR_PARTS].
TEXT_OR_PARTS = BeforeValidator(_as_parts)
TEXT_OR_PARTS_OR_NULL = BeforeValidator(_as_parts_or_none)
