"""The fields that each API's answers and events must have, as data.

Only fields that the vendors' references require are named. Pure; any thread.
"""

from collections.abc import Mapping
from typing import Any

from api.conformance.captures.kinds import Fields, Kind, array_of, is_whole, object_of, one_of
from api.conformance.captures.values import WireDialect

_TEXT = Kind("a string", lambda v: isinstance(v, str))
_NAME = Kind("a string that is not empty", lambda v: isinstance(v, str) and bool(v.strip()))
_WHOLE = Kind("a whole number", is_whole)
# Counts of another kind, or below 0, have a finding of their own.
_COUNT = Kind("a whole number", lambda v: v is not None)
_INDEX = Kind("a whole number from 0", lambda v: is_whole(v) and v >= 0)
_FLAG = Kind("true or false", lambda v: isinstance(v, bool))
_NUMBER = Kind("a number", lambda v: isinstance(v, int | float) and not isinstance(v, bool))
# Arguments of the wrong form have a finding of their own.
_ARGUMENTS = Kind("JSON in a string", lambda v: isinstance(v, str | dict | list))
_REASON, _NULL = _TEXT.or_null, one_of(None)


# Chat Completions and Completions.

_OPENAI_USAGE = object_of(
    dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"), _COUNT)
)
_CALL = object_of(
    {"id": _NAME, "type": one_of("function", "custom"), "index?": _INDEX.or_null},
    function={"function": object_of({"arguments": _ARGUMENTS})},
)
_CALL_DELTA = object_of(
    {
        "index": _INDEX,
        "id?": _TEXT.or_null,
        "type?": one_of("function", "custom", "", None),
        "function?": object_of({"name?": _TEXT.or_null, "arguments?": _ARGUMENTS.or_null}).or_null,
    }
)
# Some vendors send an answer's text in parts.
_CONTENT = Kind("a string or null", lambda v: v is None or isinstance(v, str | list))


def _openai(name: str, choice: Fields) -> Kind:
    # The chunk with the counts has no choices.
    may_be_empty = name in ("chat.completion.chunk", "text_completion")
    choices = Kind(
        "an array that is not empty",
        lambda v: isinstance(v, list) and (bool(v) or may_be_empty),
        item=object_of({"index": _INDEX, **choice, "finish_reason?": _REASON}),
    )
    return object_of(
        {
            "id": _NAME,
            "object": one_of(name),
            "created": _WHOLE,
            "model": _TEXT,
            "choices": choices,
            "usage?": _OPENAI_USAGE.or_null,
        }
    )


def _chat_message(call: Kind, *roles: str | None) -> Kind:
    return object_of(
        {
            "role?": one_of(*roles),
            "content?": _CONTENT,
            "tool_calls?": array_of(call).or_null,
        }
    )


_CHAT = _openai("chat.completion", {"message": _chat_message(_CALL, "assistant")})
_CHUNK = _openai(
    "chat.completion.chunk",
    {"delta": _chat_message(_CALL_DELTA, "assistant", "", None)},
)
_COMPLETION = _openai("text_completion", {"text": _TEXT})


# Messages.


def _block(arguments: Kind) -> Kind:
    return object_of(
        {"type": _NAME},
        text={"text": _TEXT},
        thinking={"thinking": _TEXT},
        tool_use={"id": _NAME, "name": _TEXT, "input": arguments},
    )


_MESSAGE_HEAD = {
    "id": _NAME,
    "type": one_of("message"),
    "role": one_of("assistant"),
    "model": _TEXT,
}
_MESSAGE = object_of(
    {
        **_MESSAGE_HEAD,
        # Arguments in a string have a finding of their own.
        "content": array_of(_block(Kind("an object", lambda v: isinstance(v, dict | str)))),
        "usage?": object_of(
            {
                "input_tokens": _COUNT,
                "output_tokens": _COUNT,
            }
        ),
        "stop_reason?": _REASON,
        "stop_sequence?": _TEXT.or_null,
    }
)
_EMPTY_MESSAGE = object_of(
    {
        **_MESSAGE_HEAD,
        "content": Kind("an empty array", lambda v: v == []),
        "usage?": object_of({"input_tokens": _WHOLE, "output_tokens": _INDEX}),
        "stop_reason?": _NULL,
        "stop_sequence?": _NULL,
    }
)
_BLOCK_DELTA = object_of(
    {"type": _NAME},
    text_delta={"text": _TEXT},
    thinking_delta={"thinking": _TEXT},
    signature_delta={"signature": _TEXT},
    input_json_delta={"partial_json": _TEXT},
)
_NEW_BLOCK = _block(Kind("an empty object, to which deltas add", lambda v: v == {}))
_MESSAGES_EVENT = object_of(
    {"type": _NAME},
    message_start={"message": _EMPTY_MESSAGE},
    content_block_start={"index": _INDEX, "content_block": _NEW_BLOCK},
    content_block_delta={"index": _INDEX, "delta": _BLOCK_DELTA},
    content_block_stop={"index": _INDEX},
    message_delta={
        # Clients read a missing stop_sequence as null.
        "delta": object_of({"stop_reason": _REASON, "stop_sequence?": _TEXT.or_null}),
        "usage?": object_of({"output_tokens": _COUNT, "input_tokens?": _WHOLE.or_null}),
    },
)


# Responses.

_STATUS = one_of("in_progress", "completed", "incomplete")
_PARTS: Mapping[str, Fields] = {
    "output_text": {"text": _TEXT, "annotations": array_of()},
    "reasoning_text": {"text": _TEXT},
    "summary_text": {"text": _TEXT},
    "refusal": {"refusal": _TEXT},
}


def _part(*types: str) -> Kind:
    return object_of({"type": one_of(*(types or _PARTS))}, **_PARTS)


_ITEM = object_of(
    {"type": _NAME},
    message={
        "id": _NAME,
        "role": one_of("assistant"),
        "status": _STATUS,
        "content": array_of(_part("output_text", "refusal")),
    },
    function_call={
        "call_id": _NAME,
        "name": _TEXT,
        "arguments": _ARGUMENTS,
    },
    reasoning={
        "id": _NAME,
        "summary?": array_of(_part("summary_text")).or_null,
        "content?": array_of(_part("reasoning_text")).or_null,
    },
)
_RESPONSES_USAGE = object_of(
    dict.fromkeys(("input_tokens", "output_tokens", "total_tokens"), _COUNT)
)
_RESPONSE = object_of(
    {
        "id": _NAME,
        "object": one_of("response"),
        "created_at": _NUMBER,
        "status": _NAME,
        "model": _TEXT,
        "output": array_of(_ITEM),
        "usage?": _RESPONSES_USAGE.or_null,
    }
)
_IN_ITEM = {"item_id": _NAME, "output_index": _INDEX}
_IN_PART = {**_IN_ITEM, "content_index": _INDEX}
_IN_SUMMARY = {**_IN_ITEM, "summary_index": _INDEX}
_RESPONSES_EVENTS: Mapping[str, Fields] = {
    **{
        name: {"response": _RESPONSE}
        for name in ("created", "in_progress", "completed", "incomplete", "failed")
    },
    "output_item.added": {"output_index": _INDEX, "item": _ITEM},
    "output_item.done": {"output_index": _INDEX, "item": _ITEM},
    "content_part.added": {**_IN_PART, "part": _part()},
    "content_part.done": {**_IN_PART, "part": _part()},
    "output_text.delta": {**_IN_PART, "delta": _TEXT},
    "output_text.done": {**_IN_PART, "text": _TEXT},
    "reasoning_text.delta": {**_IN_PART, "delta": _TEXT},
    "reasoning_text.done": {**_IN_PART, "text": _TEXT},
    "reasoning_summary_text.delta": {**_IN_SUMMARY, "delta": _TEXT},
    "reasoning_summary_text.done": {**_IN_SUMMARY, "text": _TEXT},
    "function_call_arguments.delta": {**_IN_ITEM, "delta": _TEXT},
    "function_call_arguments.done": {**_IN_ITEM, "arguments": _TEXT},
}
_RESPONSES_EVENT = object_of(
    {"type": _NAME, "sequence_number": _INDEX},
    **{f"response.{name}": fields for name, fields in _RESPONSES_EVENTS.items()},
)


# SGLang's /generate, and Ollama.

_GENERATE_REASON = object_of({"type": _NAME}).or_null
_META = {
    "id": _NAME,
    "prompt_tokens": _WHOLE,
    "completion_tokens": _WHOLE,
    "finish_reason?": _GENERATE_REASON,
}
_GENERATED = object_of(
    {"text": _TEXT, "meta_info": object_of(_META), "output_ids?": array_of(_WHOLE).or_null}
)
_OLLAMA = {
    "model": _NAME,
    "done": _FLAG,
    "done_reason?": _TEXT.or_null,
    "prompt_eval_count?": _WHOLE,
    "eval_count?": _WHOLE,
}
_OLLAMA_CALL = object_of({"function": object_of({"arguments?": _ARGUMENTS})})
_OLLAMA_MESSAGE = object_of(
    {
        "role": one_of("assistant"),
        "content?": _TEXT,
        "thinking?": _TEXT.or_null,
        "tool_calls?": array_of(_OLLAMA_CALL).or_null,
    }
)
_OLLAMA_CHAT = object_of({**_OLLAMA, "message": _OLLAMA_MESSAGE})
_OLLAMA_GENERATE = object_of({**_OLLAMA, "response": _TEXT, "thinking?": _TEXT.or_null})

# The schema of a whole answer, and of an event of a stream.
_SCHEMAS: Mapping[WireDialect, tuple[Kind, Kind]] = {
    WireDialect.CHAT: (_CHAT, _CHUNK),
    WireDialect.COMPLETIONS: (_COMPLETION, _COMPLETION),
    WireDialect.MESSAGES: (_MESSAGE, _MESSAGES_EVENT),
    WireDialect.RESPONSES: (_RESPONSE, _RESPONSES_EVENT),
    WireDialect.GENERATE: (_GENERATED, _GENERATED),
    WireDialect.OLLAMA: (_OLLAMA_CHAT, _OLLAMA_CHAT),
}


def schema_of(dialect: WireDialect, value: dict[str, Any], *, is_streamed: bool) -> Kind | None:
    """Return the schema of an answer or event; None where the dialect prescribes none."""
    if value.get("error") is not None:
        return None
    if dialect is WireDialect.OLLAMA and "response" in value:
        return _OLLAMA_GENERATE
    # Some vendors send a chunk of their own before those of the answer.
    if is_streamed and value.get("choices") == [] and not value.get("usage"):
        return None
    return _SCHEMAS[dialect][is_streamed]
