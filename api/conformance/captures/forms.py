"""The form of answers as data: which fields each API's objects and events have, and of which kind.

Only what the vendors' references require is named: every other field is left to the server.
Pure; any thread.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from api.conformance.captures.values import WireDialect

# Kinds of values, and how a value is compared with one.

Fits = Callable[[Any], bool]
Place = tuple[str | int, ...]
_SHOWN_CHARS = 60


@dataclass(frozen=True, slots=True)
class Kind:
    """What a value must be: one that fits, and whose inner values are of their own kinds.

    Attributes:
        said: The kind in words, as in "a whole number".
        fits: Whether a value is of this kind, apart from what is inside.
        fields: The fields of an object that are always there.
        options: The fields of an object that may be missing, too.
        item: The kind of each item of an array.
        named: More fields of an object by its ``type``; objects of other types have no more.
    """

    said: str
    fits: Fits
    fields: Mapping[str, "Kind"] | None = None
    options: Mapping[str, "Kind"] | None = None
    item: "Kind | None" = None
    named: Mapping[str, "Kind"] | None = None


@dataclass(frozen=True, slots=True)
class Misfit:
    """A value of another kind than its place requires."""

    place: str
    wanted: str
    got: str

    @property
    def is_absent(self) -> bool:
        """Whether there is no value: a recording may leave it out, or have null for it."""
        return self.got in ("missing", "null")

    @property
    def sentence(self) -> str:
        """What is wrong, for a person."""
        return f"{self.place} is {self.got}, where {self.wanted} is due."


def misfits(value: Any, kind: Kind, place: Place = ()) -> Iterator[Misfit]:
    """Yield what is not as a kind requires, the outermost values first."""
    if not kind.fits(value):
        yield Misfit(_path(place), kind.said, _shown(value))
    elif isinstance(value, dict):
        yield from _misfits_of_fields(value, kind, place)
        of_type = value.get("type")
        if kind.named and isinstance(of_type, str) and of_type in kind.named:
            yield from _misfits_of_fields(value, kind.named[of_type], place)
    elif kind.item is not None and isinstance(value, list):
        for index, item in enumerate(value):
            yield from misfits(item, kind.item, (*place, index))


def _misfits_of_fields(value: dict[str, Any], kind: Kind, place: Place) -> Iterator[Misfit]:
    for name, inner in (kind.fields or {}).items():
        if name in value:
            yield from misfits(value[name], inner, (*place, name))
        else:
            yield Misfit(_path((*place, name)), inner.said, "missing")
    for name, inner in (kind.options or {}).items():
        if name in value:
            yield from misfits(value[name], inner, (*place, name))


def _path(place: Place) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return "".join(parts).removeprefix(".") or "The event"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]} …"


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is(*values: str | None) -> Kind:
    said = " or ".join("null" if value is None else f'"{value}"' for value in values)
    return Kind(said, lambda value: (value is None or isinstance(value, str)) and value in values)


def _or_null(kind: Kind) -> Kind:
    return Kind(
        f"{kind.said} or null",
        lambda value: value is None or kind.fits(value),
        kind.fields,
        kind.options,
        kind.item,
        kind.named,
    )


def _object(
    fields: Mapping[str, Kind] | None = None,
    options: Mapping[str, Kind] | None = None,
    named: Mapping[str, Kind] | None = None,
) -> Kind:
    return Kind("an object", lambda value: isinstance(value, dict), fields, options, None, named)


def _array(item: Kind | None = None) -> Kind:
    return Kind("an array", lambda value: isinstance(value, list), item=item)


_TEXT = Kind("a string", lambda value: isinstance(value, str))
_NAME = Kind(
    "a string that is not empty", lambda value: isinstance(value, str) and bool(value.strip())
)
_WHOLE = Kind("a whole number", _is_whole)
# Counts of another kind, or below 0, have a finding of their own.
_COUNT = Kind("a whole number", lambda value: value is not None)
_INDEX = Kind("a whole number from 0", lambda value: _is_whole(value) and value >= 0)
_FLAG = Kind("true or false", lambda value: isinstance(value, bool))
# Rounding may lift it above 0.
_LOGPROB = Kind("a number of at most 0", lambda value: _is_number(value) and value < 0.01)
# From 2001 to 2286: what is less counts from another moment, what is more counts milliseconds.
_SINCE_1970 = (1_000_000_000, 10_000_000_000)
_SECONDS = Kind(
    "a time in whole seconds since 1970",
    lambda value: _is_whole(value) and _SINCE_1970[0] <= value < _SINCE_1970[1],
)
_ANY_SECONDS = Kind(
    "a time in seconds since 1970",
    lambda value: _is_number(value) and _SINCE_1970[0] <= value < _SINCE_1970[1],
)
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?")
_ISO_TIME = Kind(
    "a time such as 2026-01-31T12:00:00Z",
    lambda value: isinstance(value, str) and _ISO.fullmatch(value) is not None,
)
# Calls without a name, and arguments of the wrong form, have findings of their own.
_ARGUMENTS = Kind("JSON in a string", lambda value: isinstance(value, str | dict | list))
_OBJECT, _ARRAY = _object(), _array()


# Chat Completions and Completions.

_OPENAI_USAGE = _object(
    {"prompt_tokens": _COUNT, "completion_tokens": _COUNT, "total_tokens": _COUNT},
    {
        "prompt_tokens_details": _or_null(_object({}, {"cached_tokens": _or_null(_WHOLE)})),
        "completion_tokens_details": _or_null(_object({}, {"reasoning_tokens": _or_null(_WHOLE)})),
    },
)
_LOGGED = _object(
    {"logprob": _LOGPROB},
    {
        "token": _TEXT,
        "bytes": _or_null(_array(_WHOLE)),
        "top_logprobs": _or_null(_array(_object({"logprob": _LOGPROB}, {"token": _TEXT}))),
    },
)
_CHAT_LOGPROBS = _or_null(_object({}, {"content": _or_null(_array(_LOGGED))}))
_SCORES = _or_null(_array(_or_null(_LOGPROB)))
_COMPLETIONS_LOGPROBS = _or_null(
    _object(
        {},
        {
            "tokens": _or_null(_ARRAY),
            "token_logprobs": _SCORES,
            "text_offset": _or_null(_array(_INDEX)),
            "top_logprobs": _or_null(_array(_or_null(_OBJECT))),
        },
    )
)
_CALL = _object(
    {"id": _NAME, "type": _is("function", "custom")},
    {"index": _or_null(_INDEX)},
    {"function": _object({"function": _object({"arguments": _ARGUMENTS})})},
)
_PART_OF_CALL = _object(
    {"index": _INDEX},
    {
        "id": _or_null(_TEXT),
        "type": _is("function", "custom", "", None),
        "function": _or_null(
            _object({}, {"name": _or_null(_TEXT), "arguments": _or_null(_ARGUMENTS)})
        ),
    },
)
# Some vendors send an answer's text in parts.
_CONTENT = Kind("a string or null", lambda value: value is None or isinstance(value, str | list))
_REASON = _or_null(_TEXT)


def _openai(name: str, choice: Kind) -> Kind:
    # The chunk with the counts has none.
    choices = Kind(
        "an array that is not empty",
        lambda value: isinstance(value, list) and (bool(value) or name in _STREAMED_NAMES),
        item=choice,
    )
    return _object(
        {
            "id": _NAME,
            "object": _is(name),
            "created": _SECONDS,
            "model": _TEXT,
            "choices": choices,
        },
        {"usage": _or_null(_OPENAI_USAGE), "system_fingerprint": _or_null(_TEXT)},
    )


_STREAMED_NAMES = ("chat.completion.chunk", "text_completion")


def _said(call: Kind, *roles: str | None) -> Kind:
    """Return the kind of a message, or of a part of one."""
    return _object(
        {},
        {
            "role": _is(*roles),
            "content": _CONTENT,
            "tool_calls": _or_null(_array(call)),
            "reasoning_content": _or_null(_TEXT),
            "reasoning": _or_null(_TEXT),
        },
    )


def _choice(name: str, content: Kind, logprobs: Kind) -> Kind:
    return _object(
        {"index": _INDEX, name: content}, {"finish_reason": _REASON, "logprobs": logprobs}
    )


_MESSAGE, _DELTA = _said(_CALL, "assistant"), _said(_PART_OF_CALL, "assistant", "", None)
_CHAT = _openai("chat.completion", _choice("message", _MESSAGE, _CHAT_LOGPROBS))
_CHUNK = _openai("chat.completion.chunk", _choice("delta", _DELTA, _CHAT_LOGPROBS))
_COMPLETION = _openai("text_completion", _choice("text", _TEXT, _COMPLETIONS_LOGPROBS))


# Messages.

_MESSAGES_USAGE = _object(
    {"input_tokens": _COUNT, "output_tokens": _COUNT},
    {
        "cache_read_input_tokens": _or_null(_WHOLE),
        "cache_creation_input_tokens": _or_null(_WHOLE),
    },
)


def _block(arguments: Kind) -> Kind:
    """Return the kind of a block whose arguments, if it is a call, are of a kind."""
    return _object(
        {"type": _NAME},
        {},
        {
            "text": _object({"text": _TEXT}),
            "thinking": _object({"thinking": _TEXT}, {"signature": _TEXT}),
            "tool_use": _object({"id": _NAME, "name": _TEXT, "input": arguments}),
        },
    )


# Arguments in a string have a finding of their own.
_BLOCK = _block(Kind("an object", lambda value: isinstance(value, dict | str)))
_NEW_BLOCK = _block(Kind("an empty object, to which deltas add", lambda value: value == {}))


def _message(fields: Mapping[str, Kind], options: Mapping[str, Kind]) -> Kind:
    return _object(
        {
            "id": _NAME,
            "type": _is("message"),
            "role": _is("assistant"),
            "model": _TEXT,
            **fields,
        },
        options,
    )


_NULL = _is(None)
_WHOLE_MESSAGE = _message(
    {"content": _array(_BLOCK)},
    {"usage": _MESSAGES_USAGE, "stop_reason": _REASON, "stop_sequence": _or_null(_TEXT)},
)
_EMPTY_MESSAGE = _message(
    {"content": Kind("an empty array", lambda value: value == [])},
    {
        "usage": _object({"input_tokens": _WHOLE, "output_tokens": _INDEX}),
        "stop_reason": _NULL,
        "stop_sequence": _NULL,
    },
)
_BLOCK_DELTA = _object(
    {"type": _NAME},
    {},
    {
        "text_delta": _object({"text": _TEXT}),
        "thinking_delta": _object({"thinking": _TEXT}),
        "signature_delta": _object({"signature": _TEXT}),
        "input_json_delta": _object({"partial_json": _TEXT}),
    },
)
_MESSAGES_EVENT = _object(
    {"type": _NAME},
    {},
    {
        "message_start": _object({"message": _EMPTY_MESSAGE}),
        "content_block_start": _object({"index": _INDEX, "content_block": _NEW_BLOCK}),
        "content_block_delta": _object({"index": _INDEX, "delta": _BLOCK_DELTA}),
        "content_block_stop": _object({"index": _INDEX}),
        "message_delta": _object(
            # Clients read a missing stop_sequence as null.
            {"delta": _object({"stop_reason": _REASON}, {"stop_sequence": _or_null(_TEXT)})},
            {"usage": _object({"output_tokens": _COUNT}, {"input_tokens": _or_null(_WHOLE)})},
        ),
    },
)


# Responses.

_STATUS = _is("in_progress", "completed", "incomplete")
_FIELDS_OF_PARTS = {
    "output_text": _object({"text": _TEXT, "annotations": _ARRAY}),
    "reasoning_text": _object({"text": _TEXT}),
    "summary_text": _object({"text": _TEXT}),
    "refusal": _object({"refusal": _TEXT}),
}


def _part(*types: str) -> Kind:
    """Return the kind of a part of one of some types."""
    return _object({"type": _is(*types)}, {}, _FIELDS_OF_PARTS)


_PART = _part(*_FIELDS_OF_PARTS)
_ITEM = _object(
    {"type": _NAME},
    {},
    {
        "message": _object(
            {
                "id": _NAME,
                "role": _is("assistant"),
                "status": _STATUS,
                "content": _array(_part("output_text", "refusal")),
            }
        ),
        "function_call": _object(
            {"call_id": _NAME, "name": _TEXT, "arguments": _ARGUMENTS},
            {"id": _or_null(_NAME), "status": _or_null(_STATUS)},
        ),
        "reasoning": _object(
            {"id": _NAME},
            {
                "summary": _or_null(_array(_part("summary_text"))),
                "content": _or_null(_array(_part("reasoning_text"))),
                "status": _or_null(_STATUS),
            },
        ),
    },
)
_RESPONSE = _object(
    {
        "id": _NAME,
        "object": _is("response"),
        "created_at": _ANY_SECONDS,
        "status": _NAME,
        "model": _TEXT,
        "output": _array(_ITEM),
    },
    {
        "error": _or_null(_OBJECT),
        "incomplete_details": _or_null(_object({}, {"reason": _or_null(_TEXT)})),
        "usage": _or_null(
            _object(
                {"input_tokens": _COUNT, "output_tokens": _COUNT, "total_tokens": _COUNT},
                {
                    "input_tokens_details": _or_null(
                        _object({}, {"cached_tokens": _or_null(_WHOLE)})
                    ),
                    "output_tokens_details": _or_null(
                        _object({}, {"reasoning_tokens": _or_null(_WHOLE)})
                    ),
                },
            )
        ),
    },
)
_OF_RESPONSE = _object({"response": _RESPONSE})
_OF_ITEM = _object({"output_index": _INDEX, "item": _ITEM})
_IN_ITEM = {"item_id": _NAME, "output_index": _INDEX}
_IN_PART = {**_IN_ITEM, "content_index": _INDEX}
_IN_SUMMARY = {**_IN_ITEM, "summary_index": _INDEX}
_RESPONSES_EVENT = _object(
    {"type": _NAME, "sequence_number": _INDEX},
    {},
    {
        **{
            f"response.{name}": _OF_RESPONSE
            for name in ("created", "in_progress", "completed", "incomplete", "failed")
        },
        "response.output_item.added": _OF_ITEM,
        "response.output_item.done": _OF_ITEM,
        "response.content_part.added": _object({**_IN_PART, "part": _PART}),
        "response.content_part.done": _object({**_IN_PART, "part": _PART}),
        "response.output_text.delta": _object({**_IN_PART, "delta": _TEXT}),
        "response.output_text.done": _object({**_IN_PART, "text": _TEXT}),
        "response.reasoning_text.delta": _object({**_IN_PART, "delta": _TEXT}),
        "response.reasoning_text.done": _object({**_IN_PART, "text": _TEXT}),
        "response.reasoning_summary_text.delta": _object({**_IN_SUMMARY, "delta": _TEXT}),
        "response.reasoning_summary_text.done": _object({**_IN_SUMMARY, "text": _TEXT}),
        "response.function_call_arguments.delta": _object({**_IN_ITEM, "delta": _TEXT}),
        "response.function_call_arguments.done": _object({**_IN_ITEM, "arguments": _TEXT}),
    },
)


# SGLang's /generate, and Ollama.

_GENERATE_REASON = _or_null(
    _object(
        {"type": _NAME},
        {
            "length": _or_null(_WHOLE),
            "matched": Kind(
                "a string, a token's id or null",
                lambda value: value is None or isinstance(value, str) or _is_whole(value),
            ),
        },
    )
)
_GENERATED = _object(
    {
        "text": _TEXT,
        "meta_info": _object(
            {"id": _NAME, "prompt_tokens": _WHOLE, "completion_tokens": _WHOLE},
            {"finish_reason": _GENERATE_REASON, "cached_tokens": _or_null(_WHOLE)},
        ),
    },
    {"output_ids": _or_null(_array(_WHOLE))},
)
_OLLAMA_COMMON = {
    "created_at": _ISO_TIME,
    "done_reason": _or_null(_TEXT),
    **dict.fromkeys(("prompt_eval_count", "eval_count"), _WHOLE),
    **dict.fromkeys(
        ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration"), _INDEX
    ),
}
_OLLAMA_CALL = _object({"function": _object({}, {"arguments": _ARGUMENTS})})
_OLLAMA_CHAT = _object(
    {
        "model": _NAME,
        "done": _FLAG,
        "message": _object(
            {"role": _is("assistant")},
            {
                "content": _TEXT,
                "thinking": _or_null(_TEXT),
                "tool_calls": _or_null(_array(_OLLAMA_CALL)),
            },
        ),
    },
    _OLLAMA_COMMON,
)
_OLLAMA_GENERATE = _object(
    {"model": _NAME, "done": _FLAG, "response": _TEXT},
    {**_OLLAMA_COMMON, "thinking": _or_null(_TEXT)},
)


# The form of a whole answer, and that of an event of a stream.

_FORMS: Mapping[WireDialect, tuple[Kind, Kind]] = {
    WireDialect.CHAT: (_CHAT, _CHUNK),
    WireDialect.COMPLETIONS: (_COMPLETION, _COMPLETION),
    WireDialect.MESSAGES: (_WHOLE_MESSAGE, _MESSAGES_EVENT),
    WireDialect.RESPONSES: (_RESPONSE, _RESPONSES_EVENT),
    WireDialect.GENERATE: (_GENERATED, _GENERATED),
    WireDialect.OLLAMA: (_OLLAMA_CHAT, _OLLAMA_CHAT),
}


def form_of(dialect: WireDialect, value: dict[str, Any], *, is_streamed: bool) -> Kind | None:
    """Return the form of an answer or event; None where the server may send what it likes."""
    if dialect not in _FORMS or ("error" in value and value["error"] is not None):
        return None
    if dialect is WireDialect.OLLAMA and "response" in value:
        return _OLLAMA_GENERATE
    # Some vendors send a chunk of their own before those of the answer.
    if is_streamed and value.get("choices") == [] and not value.get("usage"):
        return None
    whole, streamed = _FORMS[dialect]
    return streamed if is_streamed else whole
