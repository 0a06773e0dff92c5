"""Between the Messages API's types and the domain's. Pure functions, no web framework."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, assert_never

from api.anthropic.requirements import constraint_of, tool_choice_of, wants_report
from api.anthropic.wire import (
    ContentBlock,
    CountTokensParams,
    MessageCreateParams,
    MessageParam,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolParam,
    ToolResultBlock,
    ToolUseBlock,
)
from api.errors import ApiError, ErrorKind, FieldPath, failure_of, invalid, unsupported
from api.extension import report_to_wire, scoped
from api.sampling import nucleus
from engine.chat import Message, Tool, ToolCall
from engine.events import Event, Finished, TextDelta, ThinkingDelta, ToolCallDelta, Usage
from engine.request import GenerationRequest, Sampling
from engine.stopping.record import StopInfo, StopKind
from engine.stopping.rules import StopRules, checked_strings

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
        thinking=prompt.thinking,
        sampling=Sampling(temperature=params.temperature, top_p=top_p, top_k=top_k),
        stops=scoped(
            StopRules(
                strings=_stop_strings(params.stop_sequences or [], strict),
                token_ids=tuple(dict.fromkeys(params.stop_token_ids or ())),
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
    tool_names: dict[str, str] = {}
    for index, message in enumerate(params.messages):
        for turn in _turns(message, ("messages", index, "content"), tool_names):
            _append(messages, turn)
    choice = tool_choice_of(params)
    wants_tools = choice.mode != "none"
    return GenerationRequest(
        messages=tuple(messages),
        tools=tuple(_tool(tool) for tool in params.tools or [] if wants_tools),
        tool_choice=choice,
        constraint=constraint_of(params),
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


def _tool(tool: ToolParam) -> Tool:
    return Tool(tool.name, tool.description or "", tool.input_schema)


def _turns(message: MessageParam, path: FieldPath, tool_names: dict[str, str]) -> Iterator[Message]:
    """Yield the domain's turns of one wire turn: results of tools are turns of their own."""
    match message.role:
        case "assistant":
            yield _assistant_turn(message.content, path, tool_names)
        case "user" | "system":
            texts: list[str] = []
            for index, block in enumerate(message.content):
                match block:
                    case TextBlock():
                        texts.append(block.text)
                    case ToolResultBlock():
                        if texts:
                            yield Message(message.role, "\n".join(texts))
                            texts = []
                        name = tool_names.get(block.tool_use_id)
                        yield Message(
                            "tool",
                            _result_text(block),
                            tool_call_id=block.tool_use_id,
                            name=name,
                        )
                    case ThinkingBlock() | RedactedThinkingBlock() | ToolUseBlock():
                        raise invalid(
                            (*path, index), f"{block.type} blocks belong into assistant turns"
                        )
                    case _:
                        assert_never(block)
            if texts or not message.content:
                yield Message(message.role, "\n".join(texts))
        case _:
            assert_never(message.role)


def _assistant_turn(
    blocks: Sequence[ContentBlock], path: FieldPath, tool_names: dict[str, str]
) -> Message:
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[ToolCall] = []
    for index, block in enumerate(blocks):
        match block:
            case TextBlock():
                texts.append(block.text)
            case ThinkingBlock():
                thoughts.append(block.thinking)
            case RedactedThinkingBlock():
                pass
            case ToolUseBlock():
                tool_names[block.id] = block.name
                arguments = json.dumps(block.input, ensure_ascii=False)
                calls.append(ToolCall(block.id, block.name, arguments))
            case ToolResultBlock():
                raise invalid((*path, index), "tool_result blocks belong into user turns")
            case _:
                assert_never(block)
    # An answer's blocks are one text that was cut up, and a prefill must not grow a line break.
    return Message("assistant", "".join(texts), thinking="".join(thoughts), tool_calls=tuple(calls))


def _result_text(block: ToolResultBlock) -> str:
    text = "\n".join(part.text for part in block.content or [])
    return f"Error: {text}" if block.is_error else text


def _append(messages: list[Message], turn: Message) -> None:
    """Add a turn; as in the vendor's API, the same role twice in a row is one turn."""
    last = messages[-1] if messages else None
    if last is None or last.role != turn.role or turn.role not in ("user", "assistant"):
        messages.append(turn)
        return
    messages[-1] = Message(
        turn.role,
        ("\n" if turn.role == "user" else "").join((last.content, turn.content)),
        thinking=last.thinking + turn.thinking,
        tool_calls=last.tool_calls + turn.tool_calls,
    )


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
