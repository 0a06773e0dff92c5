"""Reads the output format that Chat Completions and Responses ask for.

Pure functions, no web framework. Any thread.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from api.dialects.openai.parameters import GenerationParams, StructuredOutputs
from api.dialects.shared.parameters.extension import allows_more_keys
from api.dialects.shared.parameters.text_forms import choices_form, grammar_form, regex_form
from api.transport.errors import FieldPath, invalid, required, unsupported
from engine import OutputConstraint

_FIELDS_OF_FORMS = (
    "constraint",
    "constraint.json_schema",
    "constraint.regex",
    "constraint.choices",
    "constraint.grammar",
)


def constraint_of(
    kind: str, schema: Mapping[str, Any] | None, path: FieldPath, schema_path: FieldPath
) -> OutputConstraint | None:
    """Return the constraint that a format asks for; None if the text is free."""
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
    """Return the constraint of the answer, from the API's own field or from those of open
    servers.
    """
    found = constraint
    for path, asked in _asked(params):
        if found is not None:
            raise invalid(path, "the format of the answer is given twice; leave one of them out")
        found = asked
    return found


def form_names(params: GenerationParams) -> Mapping[str, str]:
    """Return this request's own names of the engine's constraint fields."""
    for path, _ in _asked(params):
        return dict.fromkeys(_FIELDS_OF_FORMS, ".".join(map(str, path)))
    return {}


def allows_more(params: GenerationParams) -> bool:
    """Whether JSON may have keys that are not in its schema."""
    wanted = params.structured_outputs
    if wanted is not None and wanted.disable_additional_properties is not None:
        return not wanted.disable_additional_properties
    return allows_more_keys(params.fullstop)


def _asked(params: GenerationParams) -> Iterator[tuple[FieldPath, OutputConstraint]]:
    """Yield the formats in the fields of open servers, each with its path in the request."""
    for path, asked in _spellings(params):
        if asked is not None:
            yield path, asked


def _spellings(params: GenerationParams) -> Iterator[tuple[FieldPath, OutputConstraint | None]]:
    # vLLM until 0.11: https://docs.vllm.ai/en/v0.10.2/features/structured_outputs.html
    yield ("guided_json",), _guided_json(params.guided_json, ("guided_json",))
    yield ("guided_regex",), regex_form(params.guided_regex)
    yield ("guided_choice",), choices_form(params.guided_choice)
    yield ("guided_grammar",), grammar_form(params.guided_grammar)
    # SGLang: https://docs.sglang.ai/advanced_features/structured_outputs.html
    yield ("regex",), regex_form(params.regex)
    yield ("ebnf",), grammar_form(params.ebnf)
    # llama.cpp: https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md
    yield ("grammar",), grammar_form(params.grammar)
    if (wanted := params.structured_outputs) is not None:
        yield from _structured(wanted)


def _structured(
    wanted: StructuredOutputs,
) -> Iterator[tuple[FieldPath, OutputConstraint | None]]:
    # vLLM since 0.11: https://docs.vllm.ai/en/latest/features/structured_outputs.html
    name = "structured_outputs"
    if wanted.structural_tag is not None:
        raise unsupported((name, "structural_tag"), "holding the answer to structural tags")
    schema = _guided_json(wanted.json_schema, (name, "json"))
    yield (name, "json"), schema
    if schema is None and wanted.json_object:
        yield (name, "json_object"), OutputConstraint()
    yield (name, "regex"), regex_form(wanted.regex)
    yield (name, "choice"), choices_form(wanted.choice)
    yield (name, "grammar"), grammar_form(wanted.grammar)


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
