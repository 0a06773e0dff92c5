"""Streamed and whole answers agree, however the text is cut into pieces."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from api.dialects.anthropic.wire import MessageCreateParams
from api.dialects.anthropic.write import MessageEncoder, write_message
from api.dialects.openai import chat_write as chat
from api.dialects.openai.chat_wire import ChatCompletionParams
from api.dialects.openai.chat_write import ChatEncoder
from api.dialects.shared.dialect import Head
from engine.generation import merge_deltas
from engine.stopping.record import StopInfo, StopKind
from engine.values.events import (
    Event,
    Finished,
    PromptProgress,
    TextDelta,
    ThinkingDelta,
    Timing,
    ToolCallArguments,
    ToolCallCompleted,
    ToolCallStarted,
    Usage,
)
from engine.values.request import ToolCall
from tests.support.random_cases import cases

HEAD = Head("1", 1, "m", "req_1")
ASK = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
NORMAL = [kind for kind in StopKind if kind not in (StopKind.ERROR, StopKind.CANCELLED)]
VALUES: dict[StopKind, str | int] = {StopKind.STOP_STRING: "END", StopKind.STOP_TOKEN: 21}

texts = st.lists(st.text(min_size=1, max_size=8), max_size=6)
calls = st.lists(st.dictionaries(st.text(max_size=4), st.text(max_size=4)), max_size=2)


@st.composite
def told_calls(draw: st.DrawFn, call: ToolCall, index: int) -> list[Event]:
    """A call that arrives whole, or in random pieces while it is written."""
    whole = ToolCallCompleted(index, call)
    if draw(st.booleans()):
        return [whole]
    cut = draw(st.integers(0, len(call.arguments)))
    parts = [part for part in (call.arguments[:cut], call.arguments[cut:]) if part]
    return [
        ToolCallStarted(index, call.id, call.name),
        *(ToolCallArguments(call.id, part) for part in parts),
        whole,
    ]


@st.composite
def answers(draw: st.DrawFn) -> list[list[Event]]:
    """A generation's batches: thinking, text, calls and a normal end, cut into random pieces."""
    kind = draw(st.sampled_from(NORMAL))
    events: list[Event] = [PromptProgress(3, 9, 3)]
    events += [ThinkingDelta(text) for text in draw(texts)]
    events += [TextDelta(text) for text in draw(texts)]
    for index, arguments in enumerate(draw(calls)):
        events += draw(told_calls(ToolCall(f"id{index}", "f", json.dumps(arguments)), index))
    events.append(Finished(StopInfo(kind, VALUES.get(kind)), Usage(9, 3, 20, 4), Timing()))
    batches: list[list[Event]] = []
    while events:
        size = draw(st.integers(1, len(events)))
        batches.append(merge_deltas(events[:size]))
        events = events[size:]
    return batches


def whole(batches: list[list[Event]]) -> tuple[list[Event], Finished]:
    events = [event for batch in batches for event in batch]
    finished = events.pop()
    assert isinstance(finished, Finished)
    return merge_deltas(
        [event for event in events if not isinstance(event, PromptProgress)]
    ), finished


def rebuilt_message(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Put a streamed message together as clients do."""
    message: dict[str, Any] = {}
    for event in events:
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                message["content"].append({**event["content_block"], "_json": ""})
            case "content_block_delta":
                block, delta = message["content"][event["index"]], event["delta"]
                match delta["type"]:
                    case "text_delta":
                        block["text"] += delta["text"]
                    case "thinking_delta":
                        block["thinking"] += delta["thinking"]
                    case "signature_delta":
                        block["signature"] = delta["signature"]
                    case "input_json_delta":
                        block["_json"] += delta["partial_json"]
            case "content_block_stop":
                block = message["content"][event["index"]]
                partial = block.pop("_json")
                if block["type"] == "tool_use":
                    block["input"] = json.loads(partial)
            case "message_delta":
                message |= event["delta"]
                message["usage"] = event["usage"]
    return message


@settings(max_examples=cases(25), deadline=None)
@given(answers())
def test_a_streamed_message_adds_up_to_the_whole_one(batches: list[list[Event]]) -> None:
    params = MessageCreateParams.model_validate({**ASK, "max_tokens": 64})
    encoder = MessageEncoder(params, HEAD)
    streamed = [json.loads(event.data) for batch in batches for event in encoder.encode(batch)]

    assert rebuilt_message(streamed) == write_message([whole(batches)], params, HEAD)


def rebuilt_completion(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    """Put a streamed completion together as clients do."""
    message: dict[str, Any] = {"content": "", "reasoning_content": "", "tool_calls": []}
    end: dict[str, Any] = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            delta = choice["delta"]
            message["role"] = delta.get("role", message.get("role"))
            message["content"] += delta.get("content", "")
            message["reasoning_content"] += delta.get("reasoning_content", "")
            for call in delta.get("tool_calls", []):
                index = call.pop("index")
                if "id" in call:
                    assert index == len(message["tool_calls"])
                    message["tool_calls"].append(call)
                else:
                    assert index == len(message["tool_calls"]) - 1
                    function = message["tool_calls"][index]["function"]
                    function["arguments"] += call["function"]["arguments"]
            if choice["finish_reason"] is not None:
                end = {key: choice[key] for key in ("finish_reason", "matched_stop", "stop_reason")}
    return {"message": message, "usage": chunks[-1]["usage"], **end}


@settings(max_examples=cases(25), deadline=None)
@given(answers())
def test_a_streamed_completion_adds_up_to_the_whole_one(batches: list[list[Event]]) -> None:
    params = ChatCompletionParams.model_validate({**ASK, "stream_options": {"include_usage": True}})
    encoder = ChatEncoder(params, HEAD)
    lines = [event.data for batch in batches for event in encoder.encode(batch)]
    assert lines.pop() == "[DONE]"
    found = rebuilt_completion([json.loads(line) for line in lines])
    body = chat.write_completion([whole(batches)], params, HEAD)
    (choice,) = body["choices"]

    assert found["usage"] == body["usage"]
    assert {key: found[key] for key in ("finish_reason", "matched_stop", "stop_reason")} == {
        key: choice[key] for key in ("finish_reason", "matched_stop", "stop_reason")
    }
    message = choice["message"]
    assert found["message"] == {
        "role": message["role"],
        "content": message["content"] or "",
        "reasoning_content": message.get("reasoning_content", ""),
        "tool_calls": message.get("tool_calls", []),
    }
