"""Converts requests of Chat Completions to the engine's. Pure functions, no web framework."""

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from api.dialects.chat.wire import (
    AssistantMessage,
    ChatCompletionParams,
    ChatTurn,
    FilePart,
    ImagePart,
    InputPart,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from api.dialects.openai.decoding import stops_of, thinking_budget_of, thinking_of, with_last_turn
from api.dialects.openai.output_format import allows_more, constraint_of, guided
from api.dialects.openai.prompt_logprobs import refuse_in_stream
from api.dialects.openai.tool_choice import chosen_tools
from api.dialects.openai.unhonoured import UNHONOURED
from api.dialects.shared.parameters.content import TextPart
from api.dialects.shared.parameters.effort import effort_of
from api.dialects.shared.parameters.extension import wants_image_notes
from api.dialects.shared.parameters.images import media_type_of, note_of
from api.dialects.shared.parameters.refusing import refuse
from api.dialects.shared.parameters.sampling import choices_of, sampling_of
from api.dialects.shared.parameters.tools import function_of
from api.transport.errors import FieldPath, invalid, unsupported
from engine import (
    GenerationRequest,
    Message,
    OutputConstraint,
    PromptScoring,
    Tool,
    ToolCall,
    TraceLevel,
)


def requests_from_wire(
    params: ChatCompletionParams, *, strict: bool = False
) -> list[GenerationRequest]:
    """Return what a request asks for: one generation for each of its ``n`` choices.

    Takes and raises what ``ReadRequest`` does.
    """
    _refuse_unsupported(params)
    if strict and params.prediction is not None:
        _refuse_beside_prediction(params)
    tool_names: dict[str, str] = {}
    tools, tool_choice = chosen_tools(params.tool_choice, _functions(params))
    has_notes = wants_image_notes(params.fullstop)
    effort = _effort(params)
    asked = GenerationRequest(
        messages=tuple(
            _turn(message, tool_names, ("messages", index, "content"), has_notes)
            for index, message in enumerate(params.messages)
        ),
        tools=tools,
        tool_choice=tool_choice,
        thinking=thinking_of(params, effort or ("medium" if _is_enabled(params) else None)),
        thinking_budget=thinking_budget_of(
            params, None if params.reasoning is None else params.reasoning.max_tokens
        ),
        effort=effort_of(effort),
        sampling=sampling_of(params, "OpenAI"),
        stops=stops_of(params, strict=strict),
        max_tokens=params.max_completion_tokens or params.max_tokens,
        constraint=guided(params, _constraint(params)),
        allows_more_keys=allows_more(params),
        trace=TraceLevel.FULL if params.logprobs else TraceLevel.OFF,
        top_logprobs=params.top_logprobs or 0,
        prediction=_prediction(params),
        prompt_scoring=(
            None if params.prompt_logprobs is None else PromptScoring(top=params.prompt_logprobs)
        ),
    )
    first, *others = choices_of(with_last_turn(asked, params), params.n or 1)
    # The choices share one prompt, which the answer reports once.
    return [first, *(replace(one, prompt_scoring=None) for one in others)]


def allows_parallel_calls(params: ChatCompletionParams) -> bool:
    """Whether an answer may call more than one tool."""
    return params.parallel_tool_calls is not False


def shows_thinking(params: ChatCompletionParams) -> bool:
    """Whether the answer includes the text of the reasoning."""
    return params.reasoning is None or not params.reasoning.exclude


def _functions(params: ChatCompletionParams) -> list[Tool]:
    """Return the functions among the tools; tools of some other types are left out."""
    found = [
        function_of(tool.type, tool.function, ("tools", index))
        for index, tool in enumerate(params.tools or [])
    ]
    return [tool for tool in found if tool is not None]


def _effort(params: ChatCompletionParams) -> str | None:
    """Return the reasoning effort; the ``reasoning`` object of gateways also has a switch."""
    asked = params.reasoning
    if params.reasoning_effort is not None or asked is None:
        return params.reasoning_effort
    return "none" if asked.enabled is False else asked.effort


def _is_enabled(params: ChatCompletionParams) -> bool:
    """Return whether the ``reasoning`` object of gateways turns thinking on, if only by a budget.

    https://openrouter.ai/docs/use-cases/reasoning-tokens
    """
    asked = params.reasoning
    return asked is not None and bool(asked.enabled or asked.max_tokens)


def _refuse_unsupported(params: ChatCompletionParams) -> None:
    refuse(params, UNHONOURED)
    refuse_in_stream(params)
    count = params.n or 1
    if params.best_of is not None and params.best_of != count:
        raise unsupported(("best_of",), f"choosing among more answers than n ({count})")
    if params.top_logprobs and not params.logprobs:
        raise invalid(("top_logprobs",), "is possible only where logprobs is true")
    if params.functions:
        raise invalid(("functions",), "is not supported by this server; send tools instead")
    if "audio" in (params.modalities or []):
        raise unsupported(("modalities",), "audio output")


def _refuse_beside_prediction(params: ChatCompletionParams) -> None:
    """Refuse parameters that the hosted API does not allow with a prediction.

    They all work here, so only strict servers refuse them.
    https://platform.openai.com/docs/guides/predicted-outputs#limitations
    """
    given = {
        "n": (params.n or 1) > 1,
        "logprobs": bool(params.logprobs),
        "presence_penalty": (sampling_of(params, "OpenAI").presence_penalty or 0) > 0,
        "frequency_penalty": (sampling_of(params, "OpenAI").frequency_penalty or 0) > 0,
        "max_completion_tokens": params.max_completion_tokens is not None,
        "tools": bool(params.tools),
    }
    for field, is_given in given.items():
        if is_given:
            raise invalid((field,), "is not possible beside a prediction on the hosted service")


def _prediction(params: ChatCompletionParams) -> str | None:
    if params.prediction is None:
        return None
    # The parts are pieces of one text.
    return "".join(part.text for part in params.prediction.content) or None


def _constraint(params: ChatCompletionParams) -> OutputConstraint | None:
    wanted = params.response_format
    if wanted is None:
        return None
    path = ("response_format",)
    schema = wanted.json_schema.json_schema if wanted.json_schema is not None else None
    return constraint_of(wanted.type, schema, path, (*path, "json_schema", "schema"))


def _turn(
    message: ChatTurn, tool_names: dict[str, str], path: FieldPath, has_notes: bool
) -> Message:
    match message:
        case SystemMessage():
            return Message("system", _text(message.content, path, has_notes))
        case UserMessage():
            return Message("user", _text(message.content, path, has_notes))
        case ToolMessage():
            return Message(
                "tool",
                _text(message.content, path, has_notes),
                tool_call_id=message.tool_call_id,
                name=tool_names.get(message.tool_call_id),
            )
        case AssistantMessage():
            calls = message.tool_calls or []
            tool_names.update((call.id, call.function.name) for call in calls)
            # The parts are pieces of one text: a line break between them would change a prefilled
            # answer.
            return Message(
                "assistant",
                "".join(
                    part.text if isinstance(part, TextPart) else part.refusal
                    for part in message.content
                ),
                thinking=message.reasoning_content or "",
                tool_calls=tuple(
                    ToolCall(call.id, call.function.name, call.function.arguments or "{}")
                    for call in calls
                ),
            )
        case _:
            assert_never(message)


def _text(parts: Sequence[InputPart], path: FieldPath, has_notes: bool) -> str:
    return "\n".join(
        part.text if isinstance(part, TextPart) else _note(part, (*path, index), has_notes)
        for index, part in enumerate(parts)
    )


def _note(part: ImagePart | FilePart, path: FieldPath, has_notes: bool) -> str:
    if isinstance(part, FilePart):
        data = part.file.get("file_data") if isinstance(part.file, dict) else None
        return note_of(path, media_type_of(data), is_allowed=has_notes, what="document")
    image = part.image_url
    url = image.get("url") if isinstance(image, dict) else image
    return note_of(path, media_type_of(url), is_allowed=has_notes)
