"""Reads what requests of OpenAI's three APIs share: stops, thinking, formats, tools.

Pure functions; any thread, any process.
"""

from collections.abc import Mapping
from dataclasses import replace

from api.dialects.openai.wire import (
    ChoicesParams,
    ConversationParams,
    GenerationParams,
    ResponseFormat,
)
from api.dialects.shared.inspector_bodies import JsonObject, drop_empty
from api.dialects.shared.parameters import (
    OPENAI_STOP_OPTIONS,
    ReadContext,
    effort_of,
    enables_thinking,
    given_effort,
    json_form,
    sampling_of,
    stop_options_of,
    stop_strings,
    text_constraint,
    token_limit,
    with_own_options,
    with_template_options,
)
from api.service.errors import FieldPath, invalid, required, shown, unsupported
from engine.stopping.rules import StopRules, checked_token_ids
from engine.values.request import GenerationRequest, OutputConstraint

# The fields of open servers with a format in another notation than JSON Schema:
# vLLM until 0.11: https://docs.vllm.ai/en/v0.10.2/features/structured_outputs.html
# SGLang: https://docs.sglang.ai/advanced_features/structured_outputs.html
# llama.cpp: https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md
_TEXT_FORMS = {
    "guided_regex": "regex",
    "guided_choice": "choices",
    "guided_grammar": "grammar",
    "regex": "regex",
    "ebnf": "grammar",
    "grammar": "grammar",
}


def generation_of(
    params: GenerationParams,
    context: ReadContext,
    *,
    effort: str | None = None,
    default_effort: str | None = None,
    thinking_budget: int | None = None,
    constraint: OutputConstraint | None = None,
) -> GenerationRequest:
    """Return a generation without its prompt: sampling, stops, reasoning, the output format.

    The last parameters are those of the API's own fields; ``default_effort`` counts where
    ``effort`` leaves it open.
    """
    rules = StopRules.of(
        *stop_strings(params.stop, ("stop",), limit=4 if context.strict else None),
        token_ids=checked_token_ids(params.stop_token_ids or ()),
    ).with_options(stop_options_of(params, OPENAI_STOP_OPTIONS))
    thinking = params.enable_thinking
    if thinking is None and (given := given_effort(effort) or default_effort) is not None:
        thinking = enables_thinking(given)
    allows_more_keys = params.fullstop.additional_properties
    outputs = params.structured_outputs
    if outputs is not None and outputs.disable_additional_properties is not None:
        allows_more_keys = not outputs.disable_additional_properties
    for path, form in _given_forms(params).items():
        if constraint is not None:
            raise invalid(path, "the format of the answer is given twice; leave one of them out")
        constraint = form
    request = GenerationRequest(
        sampling=sampling_of(params),
        stops=with_own_options(rules, params.fullstop, context, params.repetition_detection),
        thinking=thinking,
        thinking_budget=token_limit(
            thinking_budget, params.thinking_budget, params.thinking_token_budget
        ),
        effort=effort_of(effort),
        constraint=constraint,
        allows_more_keys=allows_more_keys,
    )
    return with_template_options(request, params.chat_template_kwargs)


def with_last_turn(
    request: GenerationRequest, params: ConversationParams, *, is_answered: bool = True
) -> GenerationRequest:
    """Return a request that continues a last turn of the assistant, or answers it.

    As on OpenAI's service and in vLLM, a new turn follows it unless the request says otherwise.
    https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html#extra-parameters_1
    """
    continues, opens = bool(params.continue_final_message), params.add_generation_prompt
    field = ("continue_final_message",)
    if continues and opens:
        raise invalid(
            field,
            "cannot be true together with add_generation_prompt: an answer either continues the "
            "last message or begins after it",
        )
    is_last = [turn.role for turn in request.messages[-1:]] == ["assistant"]
    if continues and not is_last:
        raise invalid(field, "is possible only where the last message is the assistant's")
    if is_answered and opens is False and not continues:
        raise unsupported(
            ("add_generation_prompt",), "an answer that is not opened after the last message"
        )
    is_open = continues or opens is not False
    return replace(request, opens_answer=is_open, continues_last=continues or not is_last)


def refuse_unsupported_choices(params: ChoicesParams) -> None:
    """Refuse to choose among answers, and to stream a prompt's log-probabilities, as vLLM does."""
    count = params.n or 1
    if params.best_of is not None and params.best_of != count:
        raise unsupported(("best_of",), f"choosing among more answers than n ({count})")
    if params.prompt_logprobs is not None and params.stream:
        raise unsupported(("prompt_logprobs",), "log-probabilities of the prompt in a stream")


def form_names(params: GenerationParams) -> Mapping[str, str]:
    """Return this request's own names of the engine's constraint fields."""
    path = next(iter(_given_forms(params)), None)
    kinds = ("", ".json_schema", ".regex", ".choices", ".grammar")
    return {} if path is None else {f"constraint{kind}": ".".join(map(str, path)) for kind in kinds}


def _given_forms(params: GenerationParams) -> Mapping[FieldPath, OutputConstraint]:
    """Return the formats in the fields of open servers, by their paths in the request."""
    forms: dict[FieldPath, OutputConstraint | None] = {}
    if (form := params.response_format) is not None:
        path, constraint = _format(form)
        forms["response_format", *path] = constraint
    forms["json_schema",] = json_form(params.json_schema, ("json_schema",))
    is_json = params.format == "json"
    forms["format",] = (
        OutputConstraint() if is_json else json_form(params.format or None, ("format",))
    )
    forms["guided_json",] = json_form(params.guided_json, ("guided_json",))
    for name, kind in _TEXT_FORMS.items():
        forms[name,] = text_constraint(kind, getattr(params, name))
    if (outputs := params.structured_outputs) is not None:
        name = "structured_outputs"
        schema = forms[name, "json"] = json_form(outputs.json_schema, (name, "json"))
        if schema is None and outputs.json_object:
            forms[name, "json_object"] = OutputConstraint()
        forms[name, "regex"] = text_constraint("regex", outputs.regex)
        forms[name, "choice"] = text_constraint("choices", outputs.choice)
        forms[name, "grammar"] = text_constraint("grammar", outputs.grammar)
    return {path: form for path, form in forms.items() if form is not None}


def _format(form: ResponseFormat) -> tuple[FieldPath, OutputConstraint | None]:
    """Return the constraint of ``response_format``, and which of its fields has it."""
    match form.type:
        case "text":
            return (), None
        case "regex":
            name = "pattern" if form.pattern is not None else "value"
            text = getattr(form, name)
            if not isinstance(text, str) or not text:
                raise required(("response_format", name))
            return (name,), text_constraint("regex", text)
        case "grammar":
            if not form.grammar:
                raise required(("response_format", "grammar"))
            return ("grammar",), text_constraint("grammar", form.grammar)
        case "json" | "json_object" | "json_schema":
            return _json_format(form)
        case _:
            raise unsupported(("response_format", "type"), f"the format {shown(form.type)}")


def _json_format(form: ResponseFormat) -> tuple[FieldPath, OutputConstraint | None]:
    named = form.json_schema or {}
    # A schema without its envelope has neither of these.
    is_envelope = "schema" in named or "name" in named
    envelope_path: FieldPath = ("json_schema", "schema") if is_envelope else ("json_schema",)
    given = {
        envelope_path: named.get("schema") if is_envelope else named or None,
        ("schema",): form.plain_schema,
        ("value",): form.value,
    }
    schemas = {path: schema for path, schema in given.items() if schema is not None}
    if not schemas:
        if form.type == "json_schema":
            raise required(("response_format", "json_schema", "schema"))
        return (), OutputConstraint()
    path, schema = next(iter(schemas.items()))
    for other_path, other in schemas.items():
        if other != schema:
            raise invalid(
                ("response_format", *other_path), "is another schema than the one before it"
            )
    held = json_form(schema, ("response_format", *path))
    is_strict = form.strict is True or (is_envelope and named.get("strict") is True)
    return path, None if held is None else replace(held, is_strict=is_strict)


def format_fields(constraint: OutputConstraint | None) -> JsonObject:
    """Return the fields that ask for a format; those of vLLM for formats other than JSON."""
    if constraint is None:
        return {}
    if (form := constraint.text_form) is not None:
        return {
            "guided_regex": form.regex,
            "guided_choice": list(form.choices),
            "guided_grammar": form.grammar,
        }
    if constraint.json_schema is None:
        return {"response_format": {"type": "json_object"}}
    schema = drop_empty(
        name="answer", schema=dict(constraint.json_schema), strict=constraint.is_strict or None
    )
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def scoring_fields(request: GenerationRequest) -> JsonObject:
    """Return the field that asks for the log-probabilities of a whole prompt."""
    scoring = request.prompt_scoring
    if scoring is None or scoring.start:
        return {}
    return {"prompt_logprobs": scoring.top}


def last_turn_fields(request: GenerationRequest) -> JsonObject:
    """Return the fields that have the last turn continued, where it is."""
    if not request.continues_message:
        return {}
    return {"continue_final_message": True, "add_generation_prompt": False}
