"""Between Chat Completions' types and the domain's. Pure functions, no web framework."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, assert_never

from api.errors import ApiError, ErrorKind, invalid, unsupported
from api.extension import is_report_wanted, report_to_wire, scope_of
from api.openai.wire import (
    AssistantMessage,
    ChatCompletionParams,
    ChatMessage,
    FunctionParam,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
)
from api.sampling import nucleus
from engine.chat import Message, Tool, ToolCall
from engine.errors import InvalidRequest
from engine.events import Event, Finished, TextDelta, ThinkingDelta, ToolCallDelta, Usage
from engine.request import GenerationRequest, Sampling
from engine.stopping.record import StopInfo, StopKind
from engine.stopping.rules import StopRules, checked_strings

_HOSTED_MAX_STOPS = 4
# The vendor's seeds are signed; a generator of random numbers takes them as they are in memory.
_SEEDS = 2**64
_EFFORTS_WITHOUT_THINKING = ("none", "minimal")


# -- requests ---------------------------------------------------------------------------------


def requests_from_wire(
    params: ChatCompletionParams, *, strict: bool = False
) -> list[GenerationRequest]:
    """Return what a request asks for: one generation for each of its ``n`` choices.

    Raises: as ``request_from_wire``.
    """
    first = request_from_wire(params, strict=strict)
    seed = first.sampling.seed
    if seed is None:
        return [first] * (params.n or 1)
    # Choices of one seed differ among each other and are the same again next time.
    return [
        replace(first, sampling=replace(first.sampling, seed=(seed + index) % _SEEDS))
        for index in range(params.n or 1)
    ]


def request_from_wire(params: ChatCompletionParams, *, strict: bool = False) -> GenerationRequest:
    """Return what a request asks of each of its choices.

    Args:
        params: The request.
        strict: Refuse what the hosted API refuses.

    Raises:
        ApiError: A feature is not supported, or a field is wrong; the error names it.
        InvalidRequest: A stop is wrong; the message names its index.
    """
    _refuse_unsupported(params)
    tool_names: dict[str, str] = {}
    top_p, top_k = nucleus(params.top_p, params.top_k)
    wanted_tools = params.tools if params.tool_choice != "none" else None
    return GenerationRequest(
        messages=tuple(_turn(message, tool_names) for message in params.messages),
        tools=tuple(
            Tool(
                tool.function.name, tool.function.description or "", tool.function.parameters or {}
            )
            for tool in wanted_tools or []
        ),
        thinking=_thinking(params),
        sampling=Sampling(
            temperature=params.temperature,
            top_p=top_p,
            top_k=top_k,
            min_p=params.min_p,
            repetition_penalty=params.repetition_penalty,
            presence_penalty=params.presence_penalty,
            frequency_penalty=params.frequency_penalty,
            logit_bias=_logit_bias(params.logit_bias or {}),
            seed=None if params.seed is None else params.seed % _SEEDS,
        ),
        stops=StopRules(
            strings=_stop_strings(params.stop, strict),
            token_ids=tuple(dict.fromkeys(params.stop_token_ids or ())),
            scope=scope_of(params.fullstop),
            include_stop=bool(params.include_stop_str_in_output),
            ignore_eos=bool(params.ignore_eos),
            min_tokens=params.min_tokens or 0,
        ),
        max_tokens=params.max_completion_tokens or params.max_tokens,
    )


def allows_parallel_calls(params: ChatCompletionParams) -> bool:
    """Whether an answer may call more than one tool."""
    return params.parallel_tool_calls is not False


def _refuse_unsupported(params: ChatCompletionParams) -> None:
    if params.logprobs:
        raise unsupported(("logprobs",), "returning log-probabilities")
    if params.top_logprobs:
        raise unsupported(("top_logprobs",), "returning log-probabilities")
    if params.response_format is not None and params.response_format.type != "text":
        raise unsupported(
            ("response_format", "type"), f"the response format {params.response_format.type}"
        )
    if params.tool_choice not in (None, "none", "auto"):
        raise unsupported(("tool_choice",), "a forced tool call")
    if params.functions:
        raise invalid(("functions",), "is not supported by this server; send tools instead")
    if "audio" in (params.modalities or []):
        raise unsupported(("modalities",), "audio output")


def _tool(function: FunctionParam) -> Tool:
    return Tool(function.name, function.description or "", function.parameters or {})


def _turn(message: ChatMessage, tool_names: dict[str, str]) -> Message:
    match message:
        case SystemMessage():
            return Message("system", _text(message.content))
        case UserMessage():
            return Message("user", _text(message.content))
        case ToolMessage():
            return Message(
                "tool",
                _text(message.content),
                tool_call_id=message.tool_call_id,
                name=tool_names.get(message.tool_call_id),
            )
        case AssistantMessage():
            calls = message.tool_calls or []
            tool_names.update((call.id, call.function.name) for call in calls)
            # An answer's parts are one text that was cut up, and a prefill must not grow a line.
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


def _text(parts: Sequence[TextPart]) -> str:
    return "\n".join(part.text for part in parts)


def _thinking(params: ChatCompletionParams) -> bool | None:
    """Return the switch that is nearest to the template; None leaves it to the template."""
    kwargs = params.chat_template_kwargs
    if kwargs is not None and kwargs.enable_thinking is not None:
        return kwargs.enable_thinking
    if params.enable_thinking is not None:
        return params.enable_thinking
    if params.reasoning_effort is not None:
        return params.reasoning_effort not in _EFFORTS_WITHOUT_THINKING
    return None


def _stop_strings(stop: object, strict: bool) -> tuple[str, ...]:
    match stop:
        case None:
            return ()
        case str():
            try:
                return checked_strings([stop], "stop")
            except InvalidRequest as error:
                raise invalid(("stop",), error.reason) from None
        case list():
            if strict and len(stop) > _HOSTED_MAX_STOPS:
                raise invalid(
                    ("stop",),
                    f"at most {_HOSTED_MAX_STOPS} stop sequences are allowed, got {len(stop)}",
                    code="array_above_max_length",
                )
            return checked_strings(stop, "stop")
        case _:
            raise invalid(
                ("stop",), "must be a string, a list of strings or null", code="invalid_type"
            )


def _logit_bias(biases: dict[str, float]) -> tuple[tuple[int, float], ...]:
    for key in biases:
        if not (key.isascii() and key.isdigit()):
            raise invalid(("logit_bias", key), "must be a token id in decimal digits")
    return tuple((int(key), bias) for key, bias in biases.items())


# -- answers ----------------------------------------------------------------------------------


def stop_to_wire(stop: StopInfo) -> dict[str, object]:
    """Return ``finish_reason`` with what matched, under both names that clients look for.

    Raises:
        ApiError: It was no normal end, which this API says with an error.
    """
    match stop.kind:
        case StopKind.EOS:
            return _reason("stop", None)
        case StopKind.STOP_STRING | StopKind.STOP_TOKEN:
            return _reason("stop", stop.value)
        case StopKind.MAX_TOKENS | StopKind.CONTEXT_FULL:
            return _reason("length", None)
        case StopKind.TOOL_CALL:
            return _reason("tool_calls", None)
        case StopKind.ERROR | StopKind.CANCELLED:
            raise ApiError(ErrorKind.INTERNAL, f"the generation ended with {stop.kind.value}")
        case _:
            assert_never(stop.kind)


def _reason(reason: str, matched: str | int | None) -> dict[str, object]:
    return {"finish_reason": reason, "matched_stop": matched, "stop_reason": matched}


def usage_to_wire(usages: Sequence[Usage]) -> dict[str, object]:
    """Return ``usage`` over all choices: they share one prompt, which is counted once."""
    prompt_tokens = usages[0].prompt_tokens
    completion_tokens = sum(usage.output_tokens for usage in usages)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usages[0].cached_tokens},
        "completion_tokens_details": {
            "reasoning_tokens": sum(usage.thinking_tokens for usage in usages)
        },
    }


def response_to_wire(
    answers: Sequence[tuple[Sequence[Event], Finished]],
    *,
    completion_id: str,
    created: int,
    model: str,
    params: ChatCompletionParams,
) -> dict[str, Any]:
    """Return the whole answer.

    Args:
        answers: For each choice its events, neighbouring deltas merged, and its end.
        completion_id: The answer's id.
        created: Unix time, in seconds.
        model: The name of the model that answered.
        params: The request.
    """
    choices = []
    for index, (events, finished) in enumerate(answers):
        choice: dict[str, object] = {
            "index": index,
            "message": _message(events, params),
            "logprobs": None,
            **stop_to_wire(finished.stop),
        }
        if is_report_wanted(params.fullstop):
            choice["fullstop"] = report_to_wire(finished)
        choices.append(choice)
    return {
        "id": completion_id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": choices,
        "usage": usage_to_wire([finished.usage for _, finished in answers]),
    }


def _message(events: Sequence[Event], params: ChatCompletionParams) -> dict[str, object]:
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    thinking = "".join(event.text for event in events if isinstance(event, ThinkingDelta))
    calls = [
        call_to_wire(event.call)
        for event in events
        if isinstance(event, ToolCallDelta) and (event.index == 0 or allows_parallel_calls(params))
    ]
    message: dict[str, object] = {
        "role": "assistant",
        "content": text if text or not calls else None,
        "refusal": None,
    }
    if thinking:
        message["reasoning_content"] = thinking
    if calls:
        message["tool_calls"] = calls
    return message


def call_to_wire(call: ToolCall) -> dict[str, object]:
    """Return a call as this API spells it."""
    return {
        "id": f"call_{call.id}",
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }
