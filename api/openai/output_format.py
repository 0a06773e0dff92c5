"""The form that an answer's text must have, as Chat Completions and Responses ask for it.

Pure functions, no web framework. Any thread.
"""

from collections.abc import Mapping
from typing import Any

from api.errors import FieldPath, invalid, unsupported
from engine.request import OutputConstraint


def constraint_of(
    kind: str, schema: Mapping[str, Any] | None, path: FieldPath, schema_path: FieldPath
) -> OutputConstraint | None:
    """Return what holds the answer to a format, or None where its text is free.

    Args:
        kind: The format's type.
        schema: Its JSON schema, where it has one.
        path: Where the format is in the request.
        schema_path: Where its schema is or should be.

    Raises:
        ApiError: The format is not known, or its schema is missing.
    """
    match kind:
        case "text":
            return None
        case "json_object":
            return OutputConstraint()
        case "json_schema":
            if schema is None:
                raise invalid(schema_path, "Field required", code="missing_required_parameter")
            return OutputConstraint(schema)
        case _:
            raise unsupported((*path, "type"), f"the format {kind}")
