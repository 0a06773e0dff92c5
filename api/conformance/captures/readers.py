"""Reads answers of the APIs that Fullstop speaks, too, but for Responses: one reader for each.

Pure; any thread.
"""

import json
import re
from dataclasses import replace
from typing import Any

from api.conformance.captures.draft import ChoiceDraft, Draft, count, items, mapping, usage
from api.conformance.captures.frames import Frame
from api.conformance.captures.values import (
    CapturedEnding,
    CapturedUsage,
    Severity,
    WireDialect,
)

# Reads answers of the Messages API.

_MESSAGES_ENDINGS = {
    "end_turn": CapturedEnding.NATURAL,
    "stop_sequence": CapturedEnding.STOP,
    "max_tokens": CapturedEnding.LIMIT,
    "model_context_window_exceeded": CapturedEnding.LIMIT,
    "tool_use": CapturedEnding.TOOL,
    "pause_turn": CapturedEnding.OTHER,
    "refusal": CapturedEnding.OTHER,
}
MESSAGES_REASONS = frozenset(_MESSAGES_ENDINGS)
_MESSAGES_KNOWN = {
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "ping",
    "error",
}
# The vendor's clients add these to the events of the stream.
_MESSAGES_MADE_BY_CLIENTS = frozenset({"text", "input_json", "thinking", "signature", "citation"})
MESSAGES_EVENTS = frozenset(_MESSAGES_KNOWN - {"error", "ping"})
# The vendor's clients fail on a delta of another type than its block.
_MESSAGES_DELTAS = {
    "text_delta": "text",
    "citations_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use",
}


# What the blocks of these types have; no block of another type has it.
_MESSAGES_CONTENT = {"text": "text", "thinking": "thinking"}


def read_messages_whole(draft: Draft, body: dict[str, Any]) -> None:
    """Read a message that was not streamed."""
    draft.model, draft.answer_id = body.get("model"), body.get("id")
    for number, block in enumerate(map(mapping, items(body.get("content")))):
        kind = block.get("type")
        due = next((due for name, due in _MESSAGES_CONTENT.items() if name in block), None)
        if due is not None and isinstance(kind, str) and kind not in (due, "compaction"):
            said = f"content[{number}].type is {kind}, but the block has {due}, as {due} blocks do."
            draft.find("block_type", Severity.ERROR, said, 0)
        if kind == "thinking":
            draft.add_thinking(0, block.get("thinking"))
        elif kind == "tool_use":
            _add_messages_call(draft, number, block)
        else:
            draft.add_text(0, block.get("text"))
    _messages_end(draft, 0, body)
    if "usage" in body:
        draft.usage = _messages_usage(body["usage"])
    else:
        draft.lacks_usage("The message has no usage.", Severity.ERROR)
    draft.check_content("content", body)


def read_messages_stream(draft: Draft, frames: tuple[Frame, ...]) -> None:
    """Read a stream, checking the order of its events on the way."""
    _MessagesStream(draft).read(frames)


class _MessagesStream:
    """The state of a stream: which events may follow."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._has_started = False
        self._has_ended = False
        self._has_delta = False
        self._open: list[int] = []
        self._kinds: dict[int, str] = {}
        self._blocks = 0

    def read(self, frames: tuple[Frame, ...]) -> None:
        for index, frame in enumerate(frames):
            value = mapping(frame.value)
            kind = value.get("type")
            kind = kind if isinstance(kind, str) and kind else frame.name
            self._check_name(index, frame, kind)
            if frame.is_done_mark or not isinstance(kind, str):
                continue
            if self._draft.is_dump and kind in _MESSAGES_MADE_BY_CLIENTS:
                continue
            self._draft.check_form(index, value)
            if self._has_ended:
                self._draft.misplaced(index, f"{kind} comes after message_stop.")
            elif not self._has_started and kind not in ("message_start", "ping", "error"):
                self._draft.misplaced(index, f"{kind} comes before message_start.")
            self._take(index, kind, value)
        self._close()

    def _check_name(self, index: int, frame: Frame, kind: object) -> None:
        draft = self._draft
        if frame.is_done_mark or not frame.is_json or draft.is_dump:
            return
        if frame.name is None:
            draft.find(
                "event_name_missing",
                Severity.ERROR,
                "An event has no event: line; the vendor's clients drop it.",
                index,
            )
        elif frame.name != kind:
            draft.find(
                "event_name_differs",
                Severity.ERROR,
                f"The event: line says {frame.name}, the data says {kind}.",
                index,
            )
        if isinstance(kind, str) and kind not in _MESSAGES_KNOWN:
            draft.find(
                "unknown_event",
                # The vendor says that more events may come, which clients have to ignore.
                Severity.NOTE,
                f"{kind} is not an event of this API; some clients refuse the stream.",
                index,
            )

    def _take(self, index: int, kind: str, value: dict[str, Any]) -> None:
        draft = self._draft
        match kind:
            case "message_start":
                if self._has_started:
                    draft.misplaced(index, "message_start comes twice.")
                self._has_started = True
                message = mapping(value.get("message"))
                draft.model, draft.answer_id = message.get("model"), message.get("id")
                draft.usage = _messages_usage(message.get("usage")) if "usage" in message else None
                if "usage" not in message:
                    draft.lacks_usage("message_start has no usage; clients fail.", Severity.ERROR)
            case "content_block_start":
                self._start_block(index, value)
            case "content_block_delta":
                self._add(index, value)
            case "content_block_stop":
                if value.get("index") in self._open:
                    self._open.remove(value["index"])
                else:
                    draft.misplaced(index, "content_block_stop closes a block that is not open.")
                    self._open.clear()
            case "message_delta":
                self._has_delta = True
                if self._open:
                    draft.misplaced(index, "message_delta comes while a block is still open.")
                _messages_end(draft, index, mapping(value.get("delta")))
                self._count(value)
            case "message_stop":
                if not self._has_delta:
                    draft.misplaced(index, "message_stop comes before message_delta.")
                self._has_ended = True
            case "error":
                draft.set_error(value.get("error"))
            case _:
                pass

    def _start_block(self, index: int, value: dict[str, Any]) -> None:
        draft, number = self._draft, value.get("index")
        if self._open:
            draft.misplaced(index, "A block starts while another is still open.")
        elif number != self._blocks:
            draft.misplaced(index, f"Block {number} starts where block {self._blocks} is expected.")
        if self._has_delta:
            draft.misplaced(index, "A block starts after message_delta.")
        number = number if isinstance(number, int) else self._blocks
        self._open.append(number)
        self._blocks += 1
        block = mapping(value.get("content_block"))
        draft.add_text(index, block.get("text"))
        draft.add_thinking(index, block.get("thinking"))
        # The vendor itself runs the tools of other types, such as server_tool_use.
        self._kinds[number] = str(block.get("type"))
        if self._kinds[number] == "tool_use":
            draft.add_call(number, block.get("name"), "")

    def _add(self, index: int, value: dict[str, Any]) -> None:
        draft, number = self._draft, value.get("index")
        if number not in self._open:
            draft.misplaced(index, f"A delta belongs to block {number}, which is not open.")
        delta = mapping(value.get("delta"))
        kind = delta.get("type")
        wanted = _MESSAGES_DELTAS.get(kind) if isinstance(kind, str) else None
        own = self._kinds.get(number, "") if isinstance(number, int) else ""
        # The vendor's other tools have such blocks, too: server_tool_use, mcp_tool_use.
        is_alike = own == wanted or (wanted == "tool_use" and own.endswith("tool_use"))
        if wanted and own and not is_alike:
            draft.misplaced(index, f"A {kind} belongs to block {number}, which is {own}.")
            return
        if not wanted and isinstance(kind, str) and own in _MESSAGES_DELTAS.values():
            said = f"{kind} is no delta of this API, so clients lose what a {own} block gets by it."
            draft.find("unknown_delta", Severity.ERROR, said, index)
        draft.add_text(index, delta.get("text"))
        draft.add_thinking(index, delta.get("thinking"))
        if "partial_json" in delta and own == "tool_use":
            draft.add_call(number, "", delta["partial_json"])

    def _count(self, value: dict[str, Any]) -> None:
        draft = self._draft
        if "usage" not in value:
            sentence = "message_delta has no usage; clients count no output tokens."
            draft.lacks_usage(sentence, Severity.ERROR)
            return
        begun, ended = draft.usage, _messages_usage(value["usage"])
        if begun is not None:
            for name in ("input_tokens", "output_tokens"):
                first, last = getattr(begun, name), getattr(ended, name)
                if first is not None and last is not None and last < first and last >= 0:
                    said = (
                        f"usage.{name} falls from {first} in message_start to {last} in "
                        "message_delta, where counts are cumulative."
                    )
                    draft.find("usage_falls", Severity.ERROR, said)
        if begun is not None and ended.input_tokens is None:
            ended = replace(
                ended, input_tokens=begun.input_tokens, cached_tokens=begun.cached_tokens
            )
        draft.usage = ended

    def _close(self) -> None:
        draft = self._draft
        if draft.error is not None:
            return
        if self._open:
            draft.find(
                "stream_truncated",
                Severity.ERROR,
                f"The stream ends while block {self._open[-1]} is open.",
            )
        elif not self._has_ended:
            draft.lacks_end("The stream ends without message_stop; some clients lose the reason.")


def _messages_end(draft: Draft, index: int, holder: dict[str, Any]) -> None:
    draft.set_matched(holder.get("stop_sequence"))
    reason = holder.get("stop_reason")
    if isinstance(reason, str):
        draft.set_reason(index, reason, _MESSAGES_ENDINGS.get(reason, CapturedEnding.OTHER))
    else:
        draft.check_reason_kept(index, "A message_delta")


def _messages_usage(value: Any) -> CapturedUsage:
    return usage(value, "input_tokens", "output_tokens", ("cache_read_input_tokens",))


def _add_messages_call(draft: Draft, key: int, block: dict[str, Any]) -> None:
    if isinstance(block.get("input"), str):
        draft.misshapes_arguments(0, "an object")
    draft.add_call(key, block.get("name"), json.dumps(block.get("input"), ensure_ascii=False))


# Reads answers of Chat Completions and of Completions.

_CHAT_ENDINGS = {
    "stop": CapturedEnding.NATURAL_OR_STOP,
    "eos": CapturedEnding.NATURAL,
    "length": CapturedEnding.LIMIT,
    "tool_calls": CapturedEnding.TOOL,
    "function_call": CapturedEnding.TOOL,
    "content_filter": CapturedEnding.OTHER,
    # No reason of this API; some servers say so of an answer that is an error.
    "error": CapturedEnding.ERROR,
}
# Servers round.
_LOGPROB_TOLERANCE = 0.01
# Names of the field in which open servers report the stop that matched.
_MATCHED = ("matched_stop", "stop_reason", "stopping_word")


def read_chat_whole(draft: Draft, body: dict[str, Any]) -> None:
    """Read an answer that was not streamed."""
    draft.model, draft.answer_id = body.get("model"), body.get("id")
    choices = [mapping(choice) for choice in items(body.get("choices"))]
    _check_indexes(draft, [choice.get("index") for choice in choices])
    for choice in choices:
        into = draft.choice(choice.get("index"))
        calls = _ChatCalls(into)
        message = mapping(choice.get("message"))
        if message and "role" not in message:
            draft.lacks_role("The message of the answer has no role.")
        _add(into, calls, 0, message)
        into.add_text(0, choice.get("text"))
        _check_logprobs(into, 0, choice)
        _chat_end(into, 0, choice)
    if isinstance(body.get("usage"), dict):
        draft.usage = _chat_usage(body["usage"])
    else:
        draft.lacks_usage("The answer has no usage.", Severity.NOTE)


def read_chat_stream(draft: Draft, frames: tuple[Frame, ...]) -> None:
    """Read the chunks of a stream, checking their order on the way."""
    names_usage = is_chat = has_role = is_late = False
    calls: dict[ChoiceDraft, _ChatCalls] = {}
    indexes: list[object] = []
    created: object = None
    for index, value in draft.values_until_done(frames, "A chunk"):
        draft.model = draft.model or value.get("model")
        draft.answer_id = first_id = draft.answer_id or value.get("id")
        # A recording may have another answer after this one.
        is_own = draft.is_whole or draft.reason is None
        if is_own and value.get("id") not in (first_id, None, ""):
            draft.changes_id(index, "chunks of one stream", first_id, value["id"])
        if is_own and value.get("model") not in (draft.model, None, ""):
            draft.changes_model(index, draft.model, value["model"])
        created = created or value.get("created")
        if is_own and value.get("created") not in (created, None, 0):
            draft.changes_created(index, created, value["created"])
        names_usage |= "usage" in value
        if isinstance(value.get("usage"), dict):
            draft.usage = _chat_usage(value["usage"])
        for choice in map(mapping, items(value.get("choices"))):
            into = draft.choice(choice.get("index"))
            if choice.get("index") not in indexes:
                indexes.append(choice.get("index"))
            is_chat |= draft.dialect is WireDialect.CHAT and isinstance(choice.get("delta"), dict)
            delta = mapping(choice.get("delta"))
            has_role |= bool(delta.get("role"))
            is_late |= bool(delta.get("content")) and not has_role
            # Some servers send the last text and the reason in one chunk, so read the text first.
            own_calls = calls.setdefault(into, _ChatCalls(into))
            _add(into, own_calls, index, mapping(choice.get("delta")))
            into.add_text(index, choice.get("text"))
            _check_logprobs(into, index, choice)
            _chat_end(into, index, choice)
    if draft.error is not None:
        return
    if draft.is_whole:
        _check_indexes(draft, indexes)
        for own_calls in calls.values():
            own_calls.close()
    if is_chat and not has_role and not draft.is_dump:
        draft.lacks_role("No chunk of the stream has the role.")
    elif is_chat and is_late and not draft.is_dump:
        draft.lacks_role("The role, which is due in the first chunk, comes after text.")
    if draft.usage is None and names_usage and not draft.is_dump:
        draft.lacks_usage("The stream announces usage by usage: null, but never sends it.")
    elif draft.usage is None:
        draft.lacks_usage(
            "The stream has no usage (request it with stream_options.include_usage).", Severity.NOTE
        )


def _check_indexes(draft: Draft, indexes: list[object]) -> None:
    """Record indexes of choices that are not 0, 1 and so on, each of them once."""
    counts = [index for index in indexes if count(index) is not None]
    if len(counts) == len(indexes) and sorted(map(str, counts)) != sorted(
        map(str, range(len(counts)))
    ):
        named = ", ".join(map(str, counts))
        said = f"The index of {len(counts)} choices is {named}, where they count from 0."
        draft.find("choice_index", Severity.ERROR, said)


def _check_logprobs(into: ChoiceDraft, index: int, choice: dict[str, Any]) -> None:
    """Record lists of tokens, probabilities and offsets that do not belong together."""
    logged = mapping(choice.get("logprobs"))
    names = ("tokens", "token_logprobs", "text_offset", "top_logprobs")
    lengths = {name: len(logged[name]) for name in names if isinstance(logged.get(name), list)}
    if len(set(lengths.values())) > 1:
        named = ", ".join(f"{length} {name}" for name, length in lengths.items())
        said = f"The logprobs have {named}, where each token has one of each."
        into.find("logprobs_lengths", Severity.ERROR, said, index)
    for entry in map(mapping, items(logged.get("content"))):
        token, spelled = entry.get("token"), entry.get("bytes")
        # Half a character has bytes of its own, whatever stands for it in the text.
        is_text = isinstance(token, str) and not re.search(r"\ufffd|\\x|^bytes:", token)
        if is_text and isinstance(spelled, list) and spelled != list(str(token).encode()):
            said = f"The bytes of the token {token!r} in the logprobs are not its bytes in UTF-8."
            into.find("logprobs_bytes", Severity.ERROR, said, index)
        own, tops = entry.get("logprob"), map(mapping, items(entry.get("top_logprobs")))
        same = [top.get("logprob") for top in tops if top.get("token") == token]
        if is_text and len(same) == 1 and own is not None and not _is_near(own, same[0]):
            said = f"The token {token!r} has another logprob among the alternatives: {same[0]}."
            into.find("logprobs_unlike", Severity.ERROR, said, index)


def _is_near(one: object, other: object) -> bool:
    if not isinstance(one, int | float) or not isinstance(other, int | float):
        return True  # that is noted as the form of a field
    return abs(one - other) <= _LOGPROB_TOLERANCE


def _add(into: ChoiceDraft, calls: "_ChatCalls", index: int, part: dict[str, Any]) -> None:
    content = part.get("content")
    if isinstance(content, list):
        content = "".join(str(mapping(piece).get("text", "")) for piece in content)
    into.add_text(index, content)
    into.add_thinking(index, part.get("reasoning_content") or part.get("reasoning"))
    for number, call in enumerate(map(mapping, items(part.get("tool_calls")))):
        calls.add(index, call.get("index", number), call)
    # The API's older form of tool calls.
    if isinstance(part.get("function_call"), dict):
        calls.add(index, "function_call", {"function": part["function_call"]})


class _ChatCalls:
    """The calls of one choice, by the index under which clients join their parts."""

    def __init__(self, into: ChoiceDraft) -> None:
        self._into = into
        self._ids: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._places: list[object] = []

    def close(self) -> None:
        """Record what the calls of a whole stream lack."""
        places = [place for place in self._places if isinstance(place, int)]
        if sorted(places) != list(range(len(places))):
            said = f"The index of {len(places)} calls is {places}, where they count from 0."
            self._into.find("call_index", Severity.ERROR, said)
        for place in self._places:
            if isinstance(place, int) and repr(place) not in self._ids:
                said = f"No part of call {place} has its id, by which its result is sent."
                self._into.find("call_id_missing", Severity.ERROR, said)

    def add(self, index: int, place: object, call: dict[str, Any]) -> None:
        """Add a call, or a part of one."""
        into, key = self._into, repr(place)
        if place not in self._places:
            self._places.append(place)
        custom = mapping(call.get("custom"))
        if custom:
            # Custom tools take any text, not only JSON.
            into.add_call(key, custom.get("name"), "{}" if custom.get("name") else "")
            return
        function = mapping(call.get("function"))
        given = function.get("name")
        name = given if isinstance(given, str) else ""
        key = self._identified(index, key, call.get("id"), name)
        if name and name == self._names.get(key):
            into.find(
                "call_name_repeated",
                Severity.ERROR,
                f"The name {name!r} of a call comes again; clients join the parts of a name.",
                index,
            )
        self._names[key] = self._names.get(key, "") + name
        into.add_call(key, self._names[key], into.as_string(index, function.get("arguments")))

    def _identified(self, index: int, key: str, given: object, name: str) -> str:
        """Return the key of the call that has an id, and record ids that cannot be right."""
        if not isinstance(given, str) or not given:
            return key
        known = self._ids.setdefault(key, given)
        if known != given:
            said = f"Two calls, {known} and {given}, have index {key}; clients make one of them."
            code = "call_index_repeated"
            if not name:
                said = f"The id of a call changes from {known} to {given}."
                code = "call_id_changes"
            self._into.find(code, Severity.ERROR, said, index)
            return f"{key} {given}" if name else key
        if list(self._ids.values()).count(given) > 1:
            said = f"The call {given} comes under more than one index; clients make two of it."
            self._into.find("call_id_repeated", Severity.ERROR, said, index)
        return key


def _chat_end(into: ChoiceDraft, index: int, choice: dict[str, Any]) -> None:
    reason = choice.get("finish_reason")
    if reason == "":
        into.find(
            "reason_empty",
            Severity.ERROR,
            "finish_reason is an empty string where null is due: no reason, or the end.",
            index,
        )
    if not isinstance(reason, str) or not reason:
        return
    for name in _MATCHED:
        if name in choice:
            into.set_matched(choice[name])
            break
    ending = _CHAT_ENDINGS.get(reason, CapturedEnding.OTHER)
    if ending is CapturedEnding.NATURAL_OR_STOP and into.matched is not None:
        ending = CapturedEnding.STOP
    into.set_reason(index, reason, ending)


def _chat_usage(value: Any) -> CapturedUsage:
    cached = ("prompt_tokens_details", "cached_tokens")
    reasoning = ("completion_tokens_details", "reasoning_tokens")
    return usage(value, "prompt_tokens", "completion_tokens", cached, "total_tokens", reasoning)


# Reads answers of SGLang's ``/generate``, each frame has the whole text.


def read_generate_whole(draft: Draft, body: dict[str, Any]) -> None:
    """Read an answer that was not streamed."""
    draft.add_text(0, body.get("text"))
    _generate_end(draft, 0, body)


def read_generate_stream(draft: Draft, frames: tuple[Frame, ...]) -> None:
    """Read frames of cumulative text."""
    first: dict[str, Any] = {}
    counted = 0
    for index, value in draft.values_until_done(frames, "A frame"):
        text, meta = value.get("text"), mapping(value.get("meta_info"))
        first = first or meta
        if meta.get("id") not in (first.get("id"), None):
            draft.changes_id(index, "events of one answer", first.get("id"), meta["id"])
        if (tokens := count(meta.get("completion_tokens"))) is not None:
            if 0 <= tokens < counted:
                said = f"completion_tokens falls from {counted} to {tokens}."
                draft.find("usage_falls", Severity.ERROR, said, index)
            counted = tokens
        if isinstance(text, str):
            if text.startswith(draft.text):
                draft.add_text(index, text[len(draft.text) :])
            else:
                draft.find(
                    "text_retracted",
                    Severity.ERROR,
                    "The text of an event does not begin with the text of the event before it.",
                    index,
                )
        _generate_end(draft, index, value)


def _generate_end(draft: Draft, index: int, value: dict[str, Any]) -> None:
    meta = mapping(value.get("meta_info"))
    draft.answer_id = draft.answer_id or meta.get("id")
    ids = [item for item in items(value.get("output_ids")) if isinstance(item, int)]
    draft.output_ids = ids or draft.output_ids
    if "completion_tokens" in meta:
        draft.usage = usage(meta, "prompt_tokens", "completion_tokens", ("cached_tokens",))
    reason = meta.get("finish_reason")
    if reason is None:
        draft.check_reason_kept(index, "A frame")
        return
    if isinstance(reason, str):
        reason = {"type": reason}
    kind = mapping(reason).get("type")
    matched = mapping(reason).get("matched", meta.get("matched_stop"))
    draft.set_matched(matched)
    match kind:
        case "stop":
            # The id that matched may be the end-of-sequence token, which is a natural end.
            ending = (
                CapturedEnding.STOP if isinstance(matched, str) else CapturedEnding.NATURAL_OR_STOP
            )
        case "length":
            ending = CapturedEnding.LIMIT
            length, made = (
                count(mapping(reason).get("length")),
                count(meta.get("completion_tokens")),
            )
            if length is not None and made is not None and length != made:
                said = (
                    f"The length of the finish_reason is {length}, but {made} tokens are counted."
                )
                draft.find("length_differs", Severity.ERROR, said, index)
        case "abort":
            ending = CapturedEnding.ERROR
        case _:
            ending = CapturedEnding.OTHER
    draft.set_reason(index, str(kind), ending)
    if draft.usage is None:
        draft.lacks_usage("meta_info has no completion_tokens.")


# Reads Ollama's answers, from ``/api/chat`` and ``/api/generate``.

# No model makes a token in a microsecond.
_SHORTEST_NS = 1_000
_OLLAMA_ENDINGS = {"stop": CapturedEnding.NATURAL_OR_STOP, "length": CapturedEnding.LIMIT}


def read_ollama_whole(draft: Draft, body: dict[str, Any]) -> None:
    """Read an answer that was not streamed."""
    _take(draft, 0, body)
    if body.get("done") is not True:
        draft.lacks_end('The answer is whole, but does not say "done": true.')


def read_ollama_stream(draft: Draft, frames: tuple[Frame, ...]) -> None:
    """Read one object a line."""
    is_done = False
    for index, frame in enumerate(frames):
        value = mapping(frame.value)
        if is_done and value:
            draft.misplaced(index, "An object comes after the one that says done.")
        if value.get("model") not in (draft.model, None) and draft.model is not None:
            draft.changes_model(index, draft.model, value["model"])
        draft.check_form(index, value)
        _take(draft, index, value)
        is_done |= value.get("done") is True
    if draft.error is None and not is_done:
        draft.lacks_end('The stream ends without an object that says "done": true.')


def _take(draft: Draft, index: int, value: dict[str, Any]) -> None:
    if "error" in value:
        draft.set_error(value["error"])
        return
    draft.model = value.get("model") or draft.model
    message = mapping(value.get("message"))
    draft.add_text(index, message.get("content"))
    draft.add_text(index, value.get("response"))
    draft.add_thinking(index, message.get("thinking") or value.get("thinking"))
    for number, call in enumerate(items(message.get("tool_calls"))):
        function = mapping(mapping(call).get("function"))
        if isinstance(function.get("arguments"), str):
            draft.misshapes_arguments(index, "an object")
        arguments = json.dumps(function.get("arguments"), ensure_ascii=False)
        draft.add_call((index, number), function.get("name"), arguments)
    if value.get("done") is not True:
        if draft.is_streamed and value.get("done_reason"):
            said = f"done_reason is {value['done_reason']} in an object that is not done."
            draft.find("reason_early", Severity.ERROR, said, index)
        return
    reason = value.get("done_reason")
    if isinstance(reason, str):
        draft.set_reason(index, reason, _OLLAMA_ENDINGS.get(reason, CapturedEnding.OTHER))
    _check_durations(draft, index, value)
    if "eval_count" in value:
        draft.usage = usage(value, "prompt_eval_count", "eval_count")
    else:
        draft.lacks_usage("The last object has no token counts (eval_count).")


def _check_durations(draft: Draft, index: int, value: dict[str, Any]) -> None:
    """Record times that are no nanoseconds, or less than those of their parts."""
    total = count(value.get("total_duration"))
    parts = [count(value.get(name)) or 0 for name in ("prompt_eval_duration", "eval_duration")]
    if not total or total < 0:
        return
    if total < _SHORTEST_NS and value.get("eval_count"):
        said = f"total_duration is {total}, where nanoseconds are due."
        draft.find("duration", Severity.ERROR, said, index)
    elif sum(parts) > 1.01 * total:
        said = f"total_duration is {total}, but the durations of its parts are {sum(parts)}."
        draft.find("duration", Severity.ERROR, said, index)
