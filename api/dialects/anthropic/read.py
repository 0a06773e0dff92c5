"""Between the Messages API's types and the domain's. Pure functions, no web framework."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, assert_never

from api.dialects.anthropic.requirements import (
    constraint_of,
    tool_choice_of,
    tools_of,
    wants_report,
)
from api.dialects.anthropic.turns import TurnReader, append_turn
from api.dialects.anthropic.wire import CountTokensParams, MessageCreateParams
from api.dialects.shared.extension import (
    allows_more_keys,
    report_to_wire,
    scoped,
    wants_image_notes,
)
from api.dialects.shared.sampling import nucleus
from api.transport.errors import ApiError, ErrorKind, failure_of, invalid, unsupported
from engine import (
    Event,
    Finished,
    GenerationRequest,
    Message,
    Sampling,
    StopInfo,
    StopKind,
    StopRules,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
    checked_strings,
    checked_token_ids,
)

# Thinking blocks must carry a signature. Ours vouches for nothing: clients only hand it back.
SIGNATURE = "unsigned"


# -- requests ---------------------------------------------------------------------------------


def request_from_wire(params: MessageCreateParams, *, strict: bool = False) -> GenerationRequest:
    """Return what a request asks for.

    Args:
        params: The request.
        strict: Refuse what the hosted API refuses.

    Raises:
        ApiError: A feature is not supported, or a field is wrong; the error names it.
        InvalidRequest: A stop sequence is wrong; the message names its index.
    """
    prompt = prompt_from_wire(params)
    if only_warms(params) and params.stream:
        raise invalid(
            ("stream",), "is of no use with max_tokens 0, which reads the prompt and says nothing"
        )
    top_p, top_k = nucleus(params.top_p, params.top_k)
    return GenerationRequest(
        messages=prompt.messages,
        tools=prompt.tools,
        tool_choice=prompt.tool_choice,
        constraint=prompt.constraint,
        allows_more_keys=prompt.allows_more_keys,
        thinking=prompt.thinking,
        sampling=Sampling(temperature=params.temperature, top_p=top_p, top_k=top_k),
        stops=scoped(
            StopRules(
                strings=_stop_strings(params.stop_sequences or [], strict),
                token_ids=checked_token_ids(params.stop_token_ids or ()),
            ),
            params.fullstop,
        ),
        # To read a whole prompt is to sample a token.
        max_tokens=max(params.max_tokens, 1),
    )


def prompt_from_wire(params: CountTokensParams) -> GenerationRequest:
    """Return the part of a request that makes up its prompt; raises as ``request_from_wire``."""
    _refuse_unsupported(params)
    system = "\n\n".join(block.text for block in params.system or [])
    messages = [Message("system", system)] if system else []
    reader = TurnReader(has_notes=wants_image_notes(params.fullstop))
    for index, message in enumerate(params.messages):
        for turn in reader.turns(message, ("messages", index, "content")):
            append_turn(messages, turn)
    tools = tools_of(params)
    choice = tool_choice_of(params, tools)
    return GenerationRequest(
        messages=tuple(messages),
        tools=tools if choice.mode != "none" else (),
        tool_choice=choice,
        constraint=constraint_of(params),
        allows_more_keys=allows_more_keys(params.fullstop),
        # Absent means off, as in the vendor's API, whatever the model's template prefers.
        thinking=params.thinking is not None and params.thinking.type in ("enabled", "adaptive"),
    )


def allows_parallel_calls(params: CountTokensParams) -> bool:
    """Whether an answer may call more than one tool."""
    choice = params.tool_choice
    return choice is None or not choice.disable_parallel_tool_use


def only_warms(params: CountTokensParams) -> bool:
    """Whether a request only wants its prompt in the cache, and no answer."""
    return isinstance(params, MessageCreateParams) and params.max_tokens == 0


def shows_thinking(params: CountTokensParams) -> bool:
    """Whether the text of thinking is part of the answer."""
    return params.thinking is None or params.thinking.display != "omitted"


def _refuse_unsupported(params: CountTokensParams) -> None:
    if params.thread is not None:
        # Vendors' clients know this code: they send the whole conversation again without it.
        raise invalid(
            ("thread",),
            "threads are not kept here; send the full conversation without it",
            details={"error_code": "thread_unsupported_request"},
        )
    if params.mcp_servers:
        raise unsupported(("mcp_servers",), "calling MCP servers")


def _stop_strings(values: Sequence[object], strict: bool) -> tuple[str, ...]:
    strings = checked_strings(values, "stop_sequences")
    if strict:
        for index, value in enumerate(values):
            if isinstance(value, str) and not value.strip():
                raise invalid(("stop_sequences", index), "must contain non-whitespace")
    return strings


# -- answers ----------------------------------------------------------------------------------


def stop_to_wire(stop: StopInfo) -> tuple[str, str | None]:
    """Return ``stop_reason`` and ``stop_sequence``; the latter only with "stop_sequence".

    Raises:
        ApiError: It was no normal end, which this API says with an error.
    """
    match stop.kind:
        case StopKind.EOS | StopKind.STOP_TOKEN:
            return "end_turn", None
        case StopKind.STOP_STRING:
            return "stop_sequence", str(stop.value)
        case StopKind.MAX_TOKENS:
            return "max_tokens", None
        case StopKind.CONTEXT_FULL:
            return "model_context_window_exceeded", None
        case StopKind.TOOL_CALL:
            return "tool_use", None
        case StopKind.ERROR | StopKind.CANCELLED:
            raise ApiError(ErrorKind.INTERNAL, f"the generation ended with {stop.kind.value}")
        case _:
            assert_never(stop.kind)


def usage_to_wire(usage: Usage) -> dict[str, object]:
    """Return ``usage``: the input without what the cache held, which is counted beside it."""
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"thinking_tokens": usage.thinking_tokens},
    }


def response_to_wire(
    events: Sequence[Event],
    *,
    message_id: str,
    model: str,
    params: CountTokensParams,
    finished: Finished,
) -> dict[str, Any]:
    """Return the whole answer.

    Args:
        events: The generation's events, neighbouring deltas merged.
        message_id: The answer's id.
        model: The name of the model that answered.
        params: The request.
        finished: The last event.
    """
    if only_warms(params) and failure_of(finished) is None:
        finished = replace(
            finished,
            stop=StopInfo(StopKind.MAX_TOKENS),
            usage=replace(finished.usage, output_tokens=0, thinking_tokens=0),
        )
    stop_reason, stop_sequence = stop_to_wire(finished.stop)
    message: dict[str, Any] = {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [] if only_warms(params) else _content(events, params),
        "stop_reason": stop_reason,
        "stop_sequence": stop_sequence,
        "usage": usage_to_wire(finished.usage),
    }
    if isinstance(params, MessageCreateParams) and wants_report(params):
        message["fullstop"] = report_to_wire(finished)
    return message


def _content(events: Sequence[Event], params: CountTokensParams) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for event in events:
        match event:
            case ThinkingDelta():
                text = event.text if shows_thinking(params) else ""
                blocks.append({"type": "thinking", "thinking": text, "signature": SIGNATURE})
            case TextDelta():
                blocks.append({"type": "text", "text": event.text})
            case ToolCallDelta() if event.index == 0 or allows_parallel_calls(params):
                blocks.append(
                    {
                        "type": "tool_use",
                        "id": call_id(event.call),
                        "name": event.call.name,
                        "input": json.loads(event.call.arguments),
                    }
                )
            case _:
                pass
    return blocks or [{"type": "text", "text": ""}]


def call_id(call: ToolCall) -> str:
    """Return a call's id as this API spells it."""
    return f"toolu_{call.id}"
