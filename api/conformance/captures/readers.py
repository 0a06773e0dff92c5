"""Reads answers of the six APIs that Fullstop speaks, too: one reader for each.

Pure; any thread.
"""

import json
from dataclasses import replace
from typing import Any

from api.conformance.captures.draft import ChoiceDraft, Draft, items, mapping, usage
from api.conformance.captures.frames import Frame
from api.conformance.captures.values import CapturedEnding, CapturedUsage, Severity

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


def read_messages_whole(draft: Draft, body: dict[str, Any]) -> None:
    """Read a message that was not streamed."""
    draft.model = body.get("model")
    for number, block in enumerate(map(mapping, items(body.get("content")))):
        kind = block.get("type")
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
            kind = value.get("type") or frame.name
            self._check_name(index, frame, kind)
            if frame.is_done_mark or not isinstance(kind, str):
                continue
            if self._draft.is_dump and kind in _MESSAGES_MADE_BY_CLIENTS:
                continue
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
                draft.model = message.get("model")
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
        if wanted and own in _MESSAGES_DELTAS.values() and own != wanted:
            draft.misplaced(index, f"A {kind} belongs to block {number}, which is {own}.")
            return
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
# Names of the field in which open servers report the stop that matched.
_MATCHED = ("matched_stop", "stop_reason", "stopping_word")


def read_chat_whole(draft: Draft, body: dict[str, Any]) -> None:
    """Read an answer that was not streamed."""
    draft.model = body.get("model")
    for choice in map(mapping, items(body.get("choices"))):
        into = draft.choice(choice.get("index"))
        calls = _ChatCalls(into)
        message = mapping(choice.get("message"))
        if message and "role" not in message:
            draft.lacks_role("The message of the answer has no role.")
        _add(into, calls, 0, message)
        into.add_text(0, choice.get("text"))
        _chat_end(into, 0, choice)
    if isinstance(body.get("usage"), dict):
        draft.usage = _chat_usage(body["usage"])
    else:
        draft.lacks_usage("The answer has no usage.", Severity.NOTE)


def read_chat_stream(draft: Draft, frames: tuple[Frame, ...]) -> None:
    """Read the chunks of a stream, checking their order on the way."""
    names_usage = is_chat = has_role = False
    calls: dict[ChoiceDraft, _ChatCalls] = {}
    first_id: object = None
    for index, value in draft.values_until_done(frames, "A chunk"):
        draft.model = draft.model or value.get("model")
        first_id = first_id or value.get("id")
        if draft.reason is None and value.get("id") not in (first_id, None, ""):
            draft.changes_id(index, "chunks of one stream", first_id, value["id"])
        names_usage |= "usage" in value
        if isinstance(value.get("usage"), dict):
            draft.usage = _chat_usage(value["usage"])
        for choice in map(mapping, items(value.get("choices"))):
            into = draft.choice(choice.get("index"))
            is_chat |= isinstance(choice.get("delta"), dict)
            has_role |= isinstance(mapping(choice.get("delta")).get("role"), str)
            # Some servers send the last text and the reason in one chunk, so read the text first.
            own_calls = calls.setdefault(into, _ChatCalls(into))
            _add(into, own_calls, index, mapping(choice.get("delta")))
            into.add_text(index, choice.get("text"))
            _chat_end(into, index, choice)
    if draft.error is not None:
        return
    if is_chat and not has_role and not draft.is_dump:
        draft.lacks_role("No chunk of the stream has the role.")
    if draft.usage is None and names_usage and not draft.is_dump:
        draft.lacks_usage("The stream announces usage by usage: null, but never sends it.")
    elif draft.usage is None:
        draft.lacks_usage(
            "The stream has no usage (request it with stream_options.include_usage).", Severity.NOTE
        )


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

    def add(self, index: int, place: object, call: dict[str, Any]) -> None:
        """Add a call, or a part of one."""
        into, key = self._into, repr(place)
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
    path = ("prompt_tokens_details", "cached_tokens")
    return usage(value, "prompt_tokens", "completion_tokens", path, "total_tokens")


# Reads answers of the Responses API.

# The last one is the Realtime API's, whose events are those of Responses otherwise.
_LAST = ("response.completed", "response.incomplete", "response.failed", "response.done")
_TEXTS = ("response.output_text", "response.text", "response.output_audio_transcript")
_DONE = frozenset({"response.content_part.done", "response.output_item.done"})


def read_responses_whole(draft: Draft, body: dict[str, Any]) -> None:
    """Read a response that was not streamed."""
    for number, item in enumerate(map(mapping, items(body.get("output")))):
        match item.get("type"):
            case "message":
                for part in map(mapping, items(item.get("content"))):
                    draft.add_text(0, part.get("text"))
            case "reasoning":
                for part in items(item.get("content")) or items(item.get("summary")):
                    draft.add_thinking(0, mapping(part).get("text"))
            case "function_call":
                arguments = draft.as_string(0, item.get("arguments"))
                draft.add_call(number, item.get("name"), arguments)
            case _:
                pass
    _responses_end(draft, 0, body)


def read_responses_stream(draft: Draft, frames: tuple[Frame, ...]) -> None:
    """Read a stream, checking the order of its events on the way."""
    _ResponsesStream(draft).read(frames)


class _ResponsesStream:
    """The state of a stream: which events may follow."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._number: int | None = None
        self._has_started = False
        self._last: str | None = None
        self._id: object = None
        self._items: set[str] = set()
        self._parts: set[tuple[str, str]] = set()
        self._texts: dict[tuple[str, str], list[str]] = {}
        self._argued: set[str] = set()
        self._kinds: set[str] = set()

    def read(self, frames: tuple[Frame, ...]) -> None:
        draft = self._draft
        for index, frame in enumerate(frames):
            value = mapping(frame.value)
            kind = value.get("type") or frame.name
            if frame.is_done_mark or not isinstance(kind, str):
                continue
            if "event_id" in value and not kind.startswith("response.") and kind != "error":
                continue  # the Realtime API's events of the session
            self._check_place(index, kind, value)
            if kind in _LAST:
                self._last = kind
                self._end(index, kind, mapping(value.get("response")))
            elif kind == "error":
                draft.set_error(value.get("error") or value.get("message"))
            else:
                self._take(index, kind, value)
        if self._last is None and draft.error is None:
            draft.lacks_end(
                "The stream ends without response.completed; clients then raise an error."
            )

    def _check_place(self, index: int, kind: str, value: dict[str, Any]) -> None:
        draft = self._draft
        if self._last is not None:
            draft.misplaced(index, f"{kind} comes after {self._last}.")
        if not self._has_started and kind not in ("response.created", "error"):
            draft.misplaced(index, f"{kind} comes before response.created.")
        self._has_started = True
        number = value.get("sequence_number")
        if isinstance(number, int):
            if self._number is not None and number <= self._number:
                draft.misplaced(index, f"sequence_number {number} follows {self._number}.")
            self._number = number

    def _end(self, index: int, kind: str, response: dict[str, Any]) -> None:
        """Compare the response of the last event with the events before it."""
        draft, status = self._draft, response.get("status")
        _responses_end(draft, index, response)
        if kind not in ("response.completed", "response.incomplete"):
            return
        if isinstance(status, str) and kind != f"response.{status}":
            draft.find(
                "event_name_differs",
                Severity.ERROR,
                f"{kind} ends a response whose status is {status}, for which response.{status} "
                "is due.",
                index,
            )
        if self._id is not None and response.get("id") != self._id:
            draft.changes_id(index, "events of one response", self._id, response.get("id"))
        streamed = "".join(text for texts in self._texts.values() for text in texts)
        output = [mapping(item) for item in items(response.get("output"))]
        parts = [mapping(part) for item in output for part in items(item.get("content"))]
        texts = [str(part.get("text")) for part in parts if part.get("type") == "output_text"]
        if streamed and streamed != "".join(texts):
            draft.find(
                "text_differs",
                Severity.ERROR,
                f"The output in {kind}, from which clients take the answer, has not the text that "
                "was streamed.",
                index,
            )
        ended = {f"{text}.done" for text in _TEXTS if f"{text}.delta" in self._kinds}
        for missing in sorted((ended | _DONE) - self._kinds) if ended else ():
            said = f"The stream has text, but no {missing}, which some clients wait for."
            draft.find("event_missing", Severity.ERROR, said, index)

    def _take(self, index: int, kind: str, value: dict[str, Any]) -> None:
        draft = self._draft
        self._kinds.add(kind)
        item = repr(value.get("output_index"))
        part = (item, repr(value.get("content_index")))
        match kind:
            case "response.created":
                draft.model = mapping(value.get("response")).get("model")
                self._id = mapping(value.get("response")).get("id")
            case "response.output_item.added":
                self._items.add(item)
                added = mapping(value.get("item"))
                if added.get("type") == "function_call":
                    draft.add_call(item, added.get("name"), "")
            case "response.content_part.added":
                if item not in self._items:
                    draft.misplaced(index, "A part is added to an item that was not added.")
                self._parts.add(part)
            case _ if kind.endswith(".delta") and kind.removesuffix(".delta") in _TEXTS:
                if part not in self._parts:
                    draft.misplaced(index, "Text comes for a part that was not added.")
                draft.add_text(index, value.get("delta"))
                self._texts.setdefault(part, []).append(str(value.get("delta") or ""))
            case "response.output_text.done":
                if value.get("text") != "".join(self._texts.get(part, ())):
                    draft.find(
                        "text_differs",
                        Severity.ERROR,
                        "The text of output_text.done differs from the deltas before it.",
                        index,
                    )
            case "response.reasoning_text.delta" | "response.reasoning_summary_text.delta":
                draft.add_thinking(index, value.get("delta"))
            case "response.function_call_arguments.delta":
                self._argued.add(item)
                draft.add_call(item, "", value.get("delta"))
            case "response.function_call_arguments.done" | "response.output_item.done":
                # Not every server sends the arguments of a call in pieces first.
                done = value if "arguments" in value else mapping(value.get("item"))
                if item not in self._argued and isinstance(done.get("arguments"), str):
                    self._argued.add(item)
                    draft.add_call(item, done.get("name"), done["arguments"])
            case _:
                pass


def _responses_end(draft: Draft, index: int, response: dict[str, Any]) -> None:
    draft.model = response.get("model") or draft.model
    if isinstance(response.get("usage"), dict):
        draft.usage = _responses_usage(response["usage"])
    elif response.get("status") != "failed":
        draft.lacks_usage("The response has no usage.")
    stop = mapping(mapping(response.get("fullstop")).get("stop"))
    if stop:
        draft.set_matched(stop.get("value"))
    status = response.get("status")
    if not isinstance(status, str):
        return
    if status == "failed":
        draft.set_error(response.get("error"))
    elif status == "incomplete":
        why = mapping(response.get("incomplete_details")).get("reason")
        ending = CapturedEnding.LIMIT if why == "max_output_tokens" else CapturedEnding.OTHER
        draft.set_reason(index, f"incomplete: {why}", ending)
        cut = mapping(next(reversed(items(response.get("output"))), None))
        is_message = cut.get("type") == "message" and ending is CapturedEnding.LIMIT
        if is_message and cut.get("status") == "completed":
            said = "The response is incomplete, but the item in which it was cut says completed."
            draft.find("item_status", Severity.ERROR, said, index)
    elif status == "completed":
        stopped = CapturedEnding.NATURAL_OR_STOP if draft.matched is None else CapturedEnding.STOP
        draft.set_reason(index, status, stopped)
    else:
        draft.set_reason(index, status, CapturedEnding.OTHER)


def _responses_usage(value: Any) -> CapturedUsage:
    path = ("input_tokens_details", "cached_tokens")
    return usage(value, "input_tokens", "output_tokens", path, "total_tokens")


# Reads answers of SGLang's ``/generate``, each frame has the whole text.


def read_generate_whole(draft: Draft, body: dict[str, Any]) -> None:
    """Read an answer that was not streamed."""
    draft.add_text(0, body.get("text"))
    _generate_end(draft, 0, body)


def read_generate_stream(draft: Draft, frames: tuple[Frame, ...]) -> None:
    """Read frames of cumulative text."""
    for index, value in draft.values_until_done(frames, "A frame"):
        text = value.get("text")
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
    ids = [item for item in items(value.get("output_ids")) if isinstance(item, int)]
    draft.output_ids = ids or draft.output_ids
    if "completion_tokens" in meta:
        draft.usage = usage(meta, "prompt_tokens", "completion_tokens", ("cached_tokens",))
    reason = meta.get("finish_reason")
    if reason is None:
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
        case "abort":
            ending = CapturedEnding.ERROR
        case _:
            ending = CapturedEnding.OTHER
    draft.set_reason(index, str(kind), ending)
    if draft.usage is None:
        draft.lacks_usage("meta_info has no completion_tokens.")


# Reads Ollama's answers, from ``/api/chat`` and ``/api/generate``.

_OLLAMA_ENDINGS = {"stop": CapturedEnding.NATURAL_OR_STOP, "length": CapturedEnding.LIMIT}


def read_ollama_whole(draft: Draft, body: dict[str, Any]) -> None:
    """Read an answer that was not streamed."""
    _take(draft, 0, body)


def read_ollama_stream(draft: Draft, frames: tuple[Frame, ...]) -> None:
    """Read one object a line."""
    is_done = False
    for index, frame in enumerate(frames):
        value = mapping(frame.value)
        if is_done and value:
            draft.misplaced(index, "An object comes after the one that says done.")
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
        return
    reason = value.get("done_reason")
    if isinstance(reason, str):
        draft.set_reason(index, reason, _OLLAMA_ENDINGS.get(reason, CapturedEnding.OTHER))
    if "eval_count" in value:
        draft.usage = usage(value, "prompt_eval_count", "eval_count")
    else:
        draft.lacks_usage("The last object has no token counts (eval_count).")
