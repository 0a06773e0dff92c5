"""The form that an answer's text must have, as Chat Completions and Responses ask for it.

Pure functions, no web framework. Any thread.
"""

import json
from collections.abc import Mapping
from typing import Any

from api.dialects.openai.parameters import GenerationParams, StructuredOutputs
from api.dialects.shared.parameters.extension import allows_more_keys
from api.transport.errors import FieldPath, invalid, required, unsupported
from engine import OutputConstraint

_OTHER_FORMS = {
    "regex": "a regular expression",
    "choice": "a list of texts",
    "grammar": "a grammar",
    "structural_tag": "structural tags",
}


def constraint_of(
    kind: str, schema: Mapping[str, Any] | None, path: FieldPath, schema_path: FieldPath
) -> OutputConstraint | None:
    """Return the constraint that a format asks for; None if the text is free.

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
                raise required(schema_path)
            return OutputConstraint(schema)
        case _:
            raise unsupported((*path, "type"), f"the format {kind}")


def guided(
    params: GenerationParams, constraint: OutputConstraint | None = None
) -> OutputConstraint | None:
    """Return the constraint of the answer, also if fields of open servers ask for it.

    Args:
        params: The request.
        constraint: What the API's own field asks for.

    Raises:
        ApiError: More than one field asks for a form, or the form is not JSON.
    """
    found = constraint
    for name, asked in (
        ("guided_json", _guided_json(params.guided_json, ("guided_json",))),
        ("structured_outputs", _structured(params.structured_outputs)),
    ):
        if asked is not None and found is not None:
            raise invalid((name,), "the format of the answer is given twice; leave one of them out")
        found = found or asked
    return found


def form_names(params: GenerationParams) -> Mapping[str, str]:
    """Return this request's names of the engine's constraint fields, if not those of its API."""
    asked = _asking_field(params)
    return {} if asked is None else {"constraint.json_schema": asked, "constraint": asked}


def _asking_field(params: GenerationParams) -> str | None:
    """Return the field of open servers that asks for a form; None where none does."""
    if params.guided_json is not None:
        return "guided_json"
    wanted = params.structured_outputs
    if wanted is None or (wanted.json_schema is None and not wanted.json_object):
        return None
    return "structured_outputs.json" if wanted.json_schema is not None else "structured_outputs"


def allows_more(params: GenerationParams) -> bool:
    """Whether JSON may have keys that its schema does not name."""
    wanted = params.structured_outputs
    if wanted is not None and wanted.disable_additional_properties is not None:
        return not wanted.disable_additional_properties
    return allows_more_keys(params.fullstop)


def _structured(wanted: StructuredOutputs | None) -> OutputConstraint | None:
    if wanted is None:
        return None
    for name, what in _OTHER_FORMS.items():
        if getattr(wanted, name) is not None:
            raise unsupported(("structured_outputs", name), f"holding the answer to {what}")
    asked = _guided_json(wanted.json_schema, ("structured_outputs", "json"))
    return OutputConstraint() if asked is None and wanted.json_object else asked


def _guided_json(schema: object, path: FieldPath) -> OutputConstraint | None:
    """Return the constraint of a schema that may be written as JSON text."""
    if schema is None:
        return None
    if isinstance(schema, str):
        try:
            schema = json.loads(schema)
        except (ValueError, RecursionError):
            raise invalid(path, "must be a JSON schema, or one as JSON text") from None
    if not isinstance(schema, dict):
        raise invalid(path, "must be a JSON schema, or one as JSON text")
    return OutputConstraint(schema)
