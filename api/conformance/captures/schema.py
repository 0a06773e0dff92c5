"""The fields that each API's answers and events must have, as data.

Only fields that the vendors' references require are named. Pure; any thread.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from api.conformance.captures.values import WireDialect

_SHOWN_CHARS = 60
# From 2001 to 2286: smaller numbers count from another moment, larger ones milliseconds.
_SECONDS_RANGE = (1_000_000_000, 10_000_000_000)
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?")

Fields = Mapping[str, "Kind"]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value.

    Attributes:
        name: The kind in a message, as in "a whole number".
        fits: Whether a value is of this kind, apart from its inner values.
        fields: The fields of an object; an optional one has a name that ends with "?".
        item: The kind of each item of an array.
        variants: More fields of an object by its ``type``.
    """

    name: str
    fits: Callable[[Any], bool]
    fields: Fields = field(default_factory=dict)
    item: "Kind | None" = None
    variants: Mapping[str, Fields] = field(default_factory=dict)

    @property
    def or_null(self) -> "Kind":
        """The same kind, or null."""
        fits = self.fits
        return replace(self, name=f"{self.name} or null", fits=lambda v: v is None or fits(v))


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A value of another kind than its field requires; an absent one is missing or null."""

    sentence: str
    is_absent: bool


def mismatches(value: Any, kind: Kind, path: str = "") -> Iterator[Mismatch]:
    """Yield the values that are not of the kind that is required, the outermost first."""
    if not kind.fits(value):
        text = json.dumps(value, ensure_ascii=False)
        shown = text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]} …"
        yield _mismatch(path, shown, kind)
    elif isinstance(value, dict):
        of_type = value.get("type")
        more = kind.variants.get(of_type, {}) if isinstance(of_type, str) else {}
        for name, inner in {**kind.fields, **more}.items():
            bare = name.removesuffix("?")
            inner_path = f"{path}.{bare}".removeprefix(".")
            if bare in value:
                yield from mismatches(value[bare], inner, inner_path)
            elif bare == name:
                yield _mismatch(inner_path, "missing", inner)
    elif kind.item is not None and isinstance(value, list):
        for index, item in enumerate(value):
            yield from mismatches(item, kind.item, f"{path}[{index}]")


def _mismatch(path: str, shown: str, kind: Kind) -> Mismatch:
    sentence = f"{path or 'The event'} is {shown}, where {kind.name} is due."
    return Mismatch(sentence, shown in ("missing", "null"))


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


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_time(value: Any) -> bool:
    return _is_number(value) and _SECONDS_RANGE[0] <= value < _SECONDS_RANGE[1]


def _one_of(*values: str | None) -> Kind:
    name = " or ".join("null" if value is None else f'"{value}"' for value in values)
    return Kind(name, lambda v: (v is None or isinstance(v, str)) and v in values)


def _object(fields: Fields | None = None, **variants: Fields) -> Kind:
    return Kind("an object", lambda v: isinstance(v, dict), fields or {}, None, variants)


def _array(item: Kind | None = None) -> Kind:
    return Kind("an array", lambda v: isinstance(v, list), item=item)


_TEXT = Kind("a string", lambda v: isinstance(v, str))
_NAME = Kind("a string that is not empty", lambda v: isinstance(v, str) and bool(v.strip()))
_WHOLE = Kind("a whole number", _is_whole)
# Counts of another kind, or below 0, have a finding of their own.
_COUNT = Kind("a whole number", lambda v: v is not None)
_INDEX = Kind("a whole number from 0", lambda v: _is_whole(v) and v >= 0)
_FLAG = Kind("true or false", lambda v: isinstance(v, bool))
# Rounding may lift it above 0.
_LOGPROB = Kind("a number of at most 0", lambda v: _is_number(v) and v < 0.01)
_SECONDS = Kind("a time in whole seconds since 1970", lambda v: _is_whole(v) and _is_time(v))
_ANY_SECONDS = Kind("a time in seconds since 1970", _is_time)
_ISO_TIME = Kind(
    "a time such as 2026-01-31T12:00:00Z",
    lambda v: isinstance(v, str) and _ISO.fullmatch(v) is not None,
)
# Arguments of the wrong form have a finding of their own.
_ARGUMENTS = Kind("JSON in a string", lambda v: isinstance(v, str | dict | list))
_OPEN_OBJECT, _REASON, _NULL = _object(), _TEXT.or_null, _one_of(None)


def _details(name: str) -> Kind:
    return _object({f"{name}?": _WHOLE.or_null}).or_null


# Chat Completions and Completions.

_OPENAI_USAGE = _object(
    {
        **dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"), _COUNT),
        "prompt_tokens_details?": _details("cached_tokens"),
        "completion_tokens_details?": _details("reasoning_tokens"),
    }
)
_LOGGED_TOKEN = _object(
    {
        "logprob": _LOGPROB,
        "token?": _TEXT,
        "bytes?": _array(_WHOLE).or_null,
        "top_logprobs?": _array(_object({"logprob": _LOGPROB, "token?": _TEXT})).or_null,
    }
)
_CHAT_LOGPROBS = _object({"content?": _array(_LOGGED_TOKEN).or_null}).or_null
_COMPLETIONS_LOGPROBS = _object(
    {
        "tokens?": _array().or_null,
        "token_logprobs?": _array(_LOGPROB.or_null).or_null,
        "text_offset?": _array(_INDEX).or_null,
        "top_logprobs?": _array(_OPEN_OBJECT.or_null).or_null,
    }
).or_null
_CALL = _object(
    {"id": _NAME, "type": _one_of("function", "custom"), "index?": _INDEX.or_null},
    function={"function": _object({"arguments": _ARGUMENTS})},
)
_CALL_DELTA = _object(
    {
        "index": _INDEX,
        "id?": _TEXT.or_null,
        "type?": _one_of("function", "custom", "", None),
        "function?": _object({"name?": _TEXT.or_null, "arguments?": _ARGUMENTS.or_null}).or_null,
    }
)
# Some vendors send an answer's text in parts.
_CONTENT = Kind("a string or null", lambda v: v is None or isinstance(v, str | list))


def _openai(name: str, choice: Fields, logprobs: Kind) -> Kind:
    # The chunk with the counts has no choices.
    may_be_empty = name in ("chat.completion.chunk", "text_completion")
    more = {"finish_reason?": _REASON, "logprobs?": logprobs}
    choices = Kind(
        "an array that is not empty",
        lambda v: isinstance(v, list) and (bool(v) or may_be_empty),
        item=_object({"index": _INDEX, **choice, **more}),
    )
    return _object(
        {
            "id": _NAME,
            "object": _one_of(name),
            "created": _SECONDS,
            "model": _TEXT,
            "choices": choices,
            "usage?": _OPENAI_USAGE.or_null,
            "system_fingerprint?": _TEXT.or_null,
        }
    )


def _chat_message(call: Kind, *roles: str | None) -> Kind:
    return _object(
        {
            "role?": _one_of(*roles),
            "content?": _CONTENT,
            "tool_calls?": _array(call).or_null,
            "reasoning_content?": _TEXT.or_null,
            "reasoning?": _TEXT.or_null,
        }
    )


_CHAT = _openai("chat.completion", {"message": _chat_message(_CALL, "assistant")}, _CHAT_LOGPROBS)
_CHUNK = _openai(
    "chat.completion.chunk",
    {"delta": _chat_message(_CALL_DELTA, "assistant", "", None)},
    _CHAT_LOGPROBS,
)
_COMPLETION = _openai("text_completion", {"text": _TEXT}, _COMPLETIONS_LOGPROBS)


# Messages.


def _block(arguments: Kind) -> Kind:
    return _object(
        {"type": _NAME},
        text={"text": _TEXT},
        thinking={"thinking": _TEXT, "signature?": _TEXT},
        tool_use={"id": _NAME, "name": _TEXT, "input": arguments},
    )


_MESSAGE_HEAD = {
    "id": _NAME,
    "type": _one_of("message"),
    "role": _one_of("assistant"),
    "model": _TEXT,
}
_MESSAGE = _object(
    {
        **_MESSAGE_HEAD,
        # Arguments in a string have a finding of their own.
        "content": _array(_block(Kind("an object", lambda v: isinstance(v, dict | str)))),
        "usage?": _object(
            {
                "input_tokens": _COUNT,
                "output_tokens": _COUNT,
                "cache_read_input_tokens?": _WHOLE.or_null,
                "cache_creation_input_tokens?": _WHOLE.or_null,
            }
        ),
        "stop_reason?": _REASON,
        "stop_sequence?": _TEXT.or_null,
    }
)
_EMPTY_MESSAGE = _object(
    {
        **_MESSAGE_HEAD,
        "content": Kind("an empty array", lambda v: v == []),
        "usage?": _object({"input_tokens": _WHOLE, "output_tokens": _INDEX}),
        "stop_reason?": _NULL,
        "stop_sequence?": _NULL,
    }
)
_BLOCK_DELTA = _object(
    {"type": _NAME},
    text_delta={"text": _TEXT},
    thinking_delta={"thinking": _TEXT},
    signature_delta={"signature": _TEXT},
    input_json_delta={"partial_json": _TEXT},
)
_NEW_BLOCK = _block(Kind("an empty object, to which deltas add", lambda v: v == {}))
_MESSAGES_EVENT = _object(
    {"type": _NAME},
    message_start={"message": _EMPTY_MESSAGE},
    content_block_start={"index": _INDEX, "content_block": _NEW_BLOCK},
    content_block_delta={"index": _INDEX, "delta": _BLOCK_DELTA},
    content_block_stop={"index": _INDEX},
    message_delta={
        # Clients read a missing stop_sequence as null.
        "delta": _object({"stop_reason": _REASON, "stop_sequence?": _TEXT.or_null}),
        "usage?": _object({"output_tokens": _COUNT, "input_tokens?": _WHOLE.or_null}),
    },
)


# Responses.

_STATUS = _one_of("in_progress", "completed", "incomplete")
_PARTS: Mapping[str, Fields] = {
    "output_text": {"text": _TEXT, "annotations": _array()},
    "reasoning_text": {"text": _TEXT},
    "summary_text": {"text": _TEXT},
    "refusal": {"refusal": _TEXT},
}


def _part(*types: str) -> Kind:
    return _object({"type": _one_of(*(types or _PARTS))}, **_PARTS)


_ITEM = _object(
    {"type": _NAME},
    message={
        "id": _NAME,
        "role": _one_of("assistant"),
        "status": _STATUS,
        "content": _array(_part("output_text", "refusal")),
    },
    function_call={
        "call_id": _NAME,
        "name": _TEXT,
        "arguments": _ARGUMENTS,
        "id?": _NAME.or_null,
        "status?": _STATUS.or_null,
    },
    reasoning={
        "id": _NAME,
        "summary?": _array(_part("summary_text")).or_null,
        "content?": _array(_part("reasoning_text")).or_null,
        "status?": _STATUS.or_null,
    },
)
_RESPONSES_USAGE = _object(
    {
        **dict.fromkeys(("input_tokens", "output_tokens", "total_tokens"), _COUNT),
        "input_tokens_details?": _details("cached_tokens"),
        "output_tokens_details?": _details("reasoning_tokens"),
    }
)
_RESPONSE = _object(
    {
        "id": _NAME,
        "object": _one_of("response"),
        "created_at": _ANY_SECONDS,
        "status": _NAME,
        "model": _TEXT,
        "output": _array(_ITEM),
        "error?": _OPEN_OBJECT.or_null,
        "incomplete_details?": _object({"reason?": _TEXT.or_null}).or_null,
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
_RESPONSES_EVENT = _object(
    {"type": _NAME, "sequence_number": _INDEX},
    **{f"response.{name}": fields for name, fields in _RESPONSES_EVENTS.items()},
)


# SGLang's /generate, and Ollama.

_MATCHED = Kind(
    "a string, a token's id or null", lambda v: v is None or isinstance(v, str) or _is_whole(v)
)
_GENERATE_REASON = _object({"type": _NAME, "length?": _WHOLE.or_null, "matched?": _MATCHED}).or_null
_META = {
    "id": _NAME,
    "prompt_tokens": _WHOLE,
    "completion_tokens": _WHOLE,
    "finish_reason?": _GENERATE_REASON,
    "cached_tokens?": _WHOLE.or_null,
}
_GENERATED = _object(
    {"text": _TEXT, "meta_info": _object(_META), "output_ids?": _array(_WHOLE).or_null}
)
_DURATIONS = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
_OLLAMA = {
    "model": _NAME,
    "done": _FLAG,
    "created_at?": _ISO_TIME,
    "done_reason?": _TEXT.or_null,
    "prompt_eval_count?": _WHOLE,
    "eval_count?": _WHOLE,
    **{f"{name}?": _INDEX for name in _DURATIONS},
}
_OLLAMA_CALL = _object({"function": _object({"arguments?": _ARGUMENTS})})
_OLLAMA_MESSAGE = _object(
    {
        "role": _one_of("assistant"),
        "content?": _TEXT,
        "thinking?": _TEXT.or_null,
        "tool_calls?": _array(_OLLAMA_CALL).or_null,
    }
)
_OLLAMA_CHAT = _object({**_OLLAMA, "message": _OLLAMA_MESSAGE})
_OLLAMA_GENERATE = _object({**_OLLAMA, "response": _TEXT, "thinking?": _TEXT.or_null})

# The schema of a whole answer, and of an event of a stream.
_SCHEMAS: Mapping[WireDialect, tuple[Kind, Kind]] = {
    WireDialect.CHAT: (_CHAT, _CHUNK),
    WireDialect.COMPLETIONS: (_COMPLETION, _COMPLETION),
    WireDialect.MESSAGES: (_MESSAGE, _MESSAGES_EVENT),
    WireDialect.RESPONSES: (_RESPONSE, _RESPONSES_EVENT),
    WireDialect.GENERATE: (_GENERATED, _GENERATED),
    WireDialect.OLLAMA: (_OLLAMA_CHAT, _OLLAMA_CHAT),
}
