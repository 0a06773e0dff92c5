"""Reads what requests of OpenAI's three APIs share: stops, thinking, formats, tools.

Pure functions; any thread, any process.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from api.dialects.openai.wire import (
    CustomFormat,
    GenerationParams,
    LastTurnParams,
    ResponseFormat,
    ScoringParams,
    StructuredOutputs,
)
from api.dialects.shared.parameters import (
    OPENAI_STOP_OPTIONS,
    SEEDS,
    allows_more_keys,
    budget_of,
    choices_form,
    enables_thinking,
    given_effort,
    grammar_form,
    regex_form,
    stop_options_of,
    stop_strings,
    with_own_options,
)
from api.dialects.shared.requests import JsonObject, sampling_and_stops
from api.transport.errors import FieldPath, invalid, required, shown, unsupported
from engine import (
    GenerationRequest,
    OutputConstraint,
    StopRules,
    Tool,
    ToolChoice,
    checked_token_ids,
)

# -- stops, thinking, the last turn ------------------------------------------------------------


_HOSTED_MAX_STOPS = 4


def stops_of(params: GenerationParams, *, strict: bool) -> StopRules:
    """Return the stop rules of a request."""
    rules = StopRules.of(
        *stop_strings(params.stop, ("stop",), limit=_HOSTED_MAX_STOPS if strict else None),
        token_ids=checked_token_ids(params.stop_token_ids or ()),
    ).with_options(stop_options_of(params, OPENAI_STOP_OPTIONS))
    return with_own_options(rules, params.fullstop)


def thinking_budget_of(params: GenerationParams, asked: int | None = None) -> int | None:
    """Return the reasoning budget in tokens; None for no limit."""
    return budget_of(asked, params.thinking_budget, params.thinking_token_budget)


def thinking_of(params: GenerationParams, effort: str | None) -> bool | None:
    """Return whether to reason, by the most specific switch; None leaves it to the template."""
    if params.enable_thinking is not None:
        return params.enable_thinking
    if (given := given_effort(effort)) is not None:
        return enables_thinking(given)
    return None


def with_last_turn(
    wanted: GenerationRequest, params: LastTurnParams, *, is_answered: bool = True
) -> GenerationRequest:
    """Return a request that treats a last turn of the assistant as asked.

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
    is_last = [turn.role for turn in wanted.messages[-1:]] == ["assistant"]
    if continues and not is_last:
        raise invalid(field, "is possible only where the last message is the assistant's")
    if is_answered and opens is False and not continues:
        raise unsupported(
            ("add_generation_prompt",), "an answer that is not opened after the last message"
        )
    is_open = continues or opens is not False
    return replace(wanted, opens_answer=is_open, continues_last=continues or not is_last)


def refuse_in_stream(params: ScoringParams) -> None:
    """Refuse to stream a prompt's log-probabilities, as the vendor does."""
    if params.prompt_logprobs is not None and params.stream:
        raise unsupported(("prompt_logprobs",), "log-probabilities of the prompt in a stream")


# -- the output format -------------------------------------------------------------------------


_FIELDS_OF_FORMS = (
    "constraint",
    "constraint.json_schema",
    "constraint.regex",
    "constraint.choices",
    "constraint.grammar",
)


def constraint_of(
    kind: str,
    schema: Mapping[str, Any] | None,
    path: FieldPath,
    schema_path: FieldPath,
    *,
    is_strict: bool = False,
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
            return OutputConstraint(schema, is_strict=is_strict)
        case _:
            raise unsupported((*path, "type"), f"the format {kind}")


def guided(
    params: GenerationParams, constraint: OutputConstraint | None = None
) -> OutputConstraint | None:
    """Return the constraint of the answer, from the API's own field or from those of open
    servers.
    """
    chosen = constraint
    for path, asked in _asked(params):
        if chosen is not None:
            raise invalid(path, "the format of the answer is given twice; leave one of them out")
        chosen = asked
    return chosen


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
    if (form := params.response_format) is not None:
        path, constraint = _format(form)
        yield ("response_format", *path), constraint
    # llama.cpp: https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md
    yield ("json_schema",), _guided_json(params.json_schema, ("json_schema",))
    # Ollama: https://github.com/ollama/ollama/blob/main/docs/api.md
    is_json = params.format == "json"
    yield (
        ("format",),
        OutputConstraint() if is_json else _guided_json(params.format or None, ("format",)),
    )
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
            return (name,), regex_form(text)
        case "grammar":
            if not form.grammar:
                raise required(("response_format", "grammar"))
            return ("grammar",), grammar_form(form.grammar)
        case "json" | "json_object" | "json_schema":
            return _json_format(form)
        case _:
            raise unsupported(("response_format", "type"), f"the format {shown(form.type)}")


def _json_format(form: ResponseFormat) -> tuple[FieldPath, OutputConstraint | None]:
    named = form.json_schema or {}
    # A schema in the place of its envelope has neither of these.
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
    held = _guided_json(schema, ("response_format", *path))
    is_strict = form.strict is True or (is_envelope and named.get("strict") is True)
    return path, None if held is None else replace(held, is_strict=is_strict)


def _structured(
    wanted: StructuredOutputs,
) -> Iterator[tuple[FieldPath, OutputConstraint | None]]:
    # vLLM since 0.11: https://docs.vllm.ai/en/latest/features/structured_outputs.html
    name = "structured_outputs"
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


# -- offered tools -----------------------------------------------------------------------------
# The tools that a request offers, as the client and as the model know them.
#
# A model knows functions with JSON arguments and one name each. Clients of OpenAI's APIs also
# offer functions in namespaces, and custom tools, whose input is any text. The model is told each
# of them as a function, and its calls are told to the client in the client's own terms.
#
# https://platform.openai.com/docs/guides/function-calling


_INPUT = "input"
_JOINT = "__"


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool of a request."""

    function: Tool
    name: str
    namespace: str | None = None
    is_custom: bool = False


def model_name(name: str, namespace: str | None) -> str:
    """Return the name that the model uses for a tool; earlier calls are told by the same name."""
    if not namespace:
        return name
    return f"{namespace.removesuffix(_JOINT)}{_JOINT}{name}"


def offered_function(tool: Tool, namespace: str | None = None) -> OfferedTool:
    """Return a function as it is offered."""
    known = Tool(model_name(tool.name, namespace), tool.description, tool.parameters)
    return OfferedTool(known, tool.name, namespace)


def offered_custom(
    name: str,
    description: str | None,
    form: CustomFormat | None,
    path: FieldPath,
    namespace: str | None = None,
) -> OfferedTool:
    """Return a custom tool as it is offered.

    A required call is held to a regular expression. A grammar is only told to the model: it would
    have to hold for the text inside a JSON string.
    """
    text: dict[str, Any] = {"type": "string", "description": "The whole input, as one string."}
    words = [description or "", f'The input of this tool is one text, in the argument "{_INPUT}".']
    if form is not None and form.type == "grammar":
        grammar, place = form.grammar or form, path if form.grammar is None else (*path, "grammar")
        if not grammar.definition:
            raise required((*place, "definition"))
        if grammar.syntax == "regex":
            text["pattern"] = f"^(?:{grammar.definition})$"
        elif grammar.syntax == "lark":
            words.append(f"It follows this grammar, in Lark's notation:\n{grammar.definition}")
        else:
            raise unsupported((*place, "syntax"), f"the syntax {shown(str(grammar.syntax))}")
    elif form is not None and form.type != "text":
        raise unsupported((*path, "type"), f"the format {shown(form.type)}")
    parameters = {
        "type": "object",
        "properties": {_INPUT: text},
        "required": [_INPUT],
        "additionalProperties": False,
    }
    described = "\n\n".join(word for word in words if word)
    known = Tool(model_name(name, namespace), described, parameters)
    return OfferedTool(known, name, namespace, is_custom=True)


def check_names(tools: Sequence[OfferedTool]) -> None:
    """Refuse tools of different namespaces that have the same name for the model."""
    known: dict[str, OfferedTool] = {}
    for tool in tools:
        other = known.setdefault(tool.function.name, tool)
        if (other.name, other.namespace) != (tool.name, tool.namespace):
            raise invalid(("tools",), f"two tools have the name {shown(tool.function.name)}")


def called_tool(name: str, tools: Iterable[OfferedTool]) -> OfferedTool | None:
    """Return the tool that a call of the model means; None if it is none of them.

    Models sometimes leave a namespace out; its only tool of that name is meant then.
    """
    similar = []
    for tool in tools:
        if tool.function.name == name:
            return tool
        if tool.name == name:
            similar.append(tool)
    return similar[0] if len(similar) == 1 else None


def arguments_of_input(text: str) -> str:
    """Return the arguments of the function that stands for a custom tool."""
    return json.dumps({_INPUT: text}, ensure_ascii=False)


def input_of_arguments(arguments: str) -> str:
    """Return the input of a custom call; if the model wrote other arguments, all of them."""
    try:
        value = json.loads(arguments, strict=False)
    except (ValueError, RecursionError):
        return arguments
    if isinstance(value, dict):
        # A model that names its one argument otherwise means the same.
        value = value.get(_INPUT, next(iter(value.values())) if len(value) == 1 else None)
    return _encodable(value) if isinstance(value, str) else arguments


def _encodable(text: str) -> str:
    """Return a text without lone surrogates, which escapes of JSON can contain."""
    return text.encode("utf-8", "replace").decode()


# -- the choice among them ---------------------------------------------------------------------


_FIELD = "tool_choice"
_KINDS = ("function", "custom")


def chosen_tools(
    choice: object, offered: Sequence[OfferedTool]
) -> tuple[tuple[Tool, ...], ToolChoice]:
    """Return the offered tools, and whether one of them must be called."""
    tools = tuple(tool.function for tool in offered)
    match choice:
        case None | "auto":
            return tools, ToolChoice()
        case "none":
            return (), ToolChoice("none")
        case "required":
            return _required(tools)
        case dict() if choice.get("type") in _KINDS:
            return tools, ToolChoice("required", _found(choice, offered).name)
        case dict() if choice.get("type") == "allowed_tools":
            return _allowed(choice, offered)
        case str() | {"type": _}:
            raise unsupported((_FIELD,), f"the tool choice {_kind(choice)!r}")
        case _:
            raise invalid((_FIELD,), "must be a word, an object with a type, or null")


def _required(tools: Sequence[Tool]) -> tuple[tuple[Tool, ...], ToolChoice]:
    if not tools:
        raise invalid((_FIELD,), "requires a call, but there is no function among the tools")
    return tuple(tools), ToolChoice("required")


def _allowed(
    choice: dict[str, object], offered: Sequence[OfferedTool]
) -> tuple[tuple[Tool, ...], ToolChoice]:
    """Keep the tools of a list; Chat puts it one level deeper than Responses."""
    inner = choice.get("allowed_tools", choice)
    listed = inner.get("tools") if isinstance(inner, dict) else None
    if not isinstance(listed, list):
        raise invalid((_FIELD, "tools"), "must be a list of tools")
    allowed: list[Tool] = []
    for listed_tool in listed:
        kind = listed_tool.get("type", "function") if isinstance(listed_tool, dict) else None
        if kind == "namespace":
            allowed += [
                tool.function for tool in offered if tool.namespace == listed_tool.get("name")
            ]
        elif kind in _KINDS:
            allowed.append(_found(listed_tool, offered))
        # Other kinds do not run here and were left out, so that they cannot be called either.
    kept = [tool for index, tool in enumerate(allowed) if tool not in allowed[:index]]
    if isinstance(inner, dict) and inner.get("mode") == "required":
        return _required(kept)
    return tuple(kept), ToolChoice()


def _found(choice: dict[str, object], offered: Sequence[OfferedTool]) -> Tool:
    """Return the function that the model is told for a tool that the client names.

    Chat puts the name one level deeper than Responses. A namespace may be left out.
    """
    kind = str(choice.get("type") or "function")
    inner = choice.get(kind, choice)
    name = inner.get("name") if isinstance(inner, dict) else None
    path: FieldPath = (_FIELD, kind, "name") if kind in choice else (_FIELD, "name")
    if not isinstance(name, str) or not name:
        raise invalid(path, "must be the name of one of the tools")
    namespace = choice.get("namespace")
    for tool in offered:
        is_meant = name in (tool.name, tool.function.name) and namespace in (None, tool.namespace)
        if is_meant and tool.is_custom == (kind == "custom"):
            return tool.function
    raise invalid((_FIELD,), f"{shown(name)} is not among the tools")


def _kind(choice: object) -> object:
    return choice.get("type") if isinstance(choice, dict) else choice


# -- the reverse -------------------------------------------------------------------------------


def openai_sampling_and_stops(request: GenerationRequest) -> JsonObject:
    """Return the sampling and stop fields of a request; the API's seeds are signed."""
    fields = sampling_and_stops(request, OPENAI_STOP_OPTIONS)
    if (seed := fields.get("seed")) is not None and seed >= SEEDS // 2:
        fields["seed"] = seed - SEEDS
    return fields


def scoring_fields(request: GenerationRequest) -> JsonObject:
    """Return the field that asks for the log-probabilities of a whole prompt."""
    wanted = request.prompt_scoring
    if wanted is None or wanted.start or wanted.token_ids:
        return {}
    return {"prompt_logprobs": wanted.top}


def last_turn_fields(request: GenerationRequest) -> JsonObject:
    """Return the fields that have the last turn continued, where it is."""
    if not request.continues_message:
        return {}
    return {"continue_final_message": True, "add_generation_prompt": False}
