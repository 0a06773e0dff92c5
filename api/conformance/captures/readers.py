"""Reads answers of the six APIs that Fullstop speaks, too: one reader for each.

Pure; any thread.
"""

import json
from dataclasses import replace
from typing import Any

from api.conformance.captures.draft import ChoiceDraft, Draft, count, items, mapping, usage
from api.conformance.captures.frames import Frame
from api.conformance.captures.values import CapturedEnding, CapturedUsage, Severity

# So many tokens leave something to show.
_MANY_TOKENS = 8


def _check_empty(draft: Draft, name: str, holder: dict[str, Any]) -> None:
    """Record that an answer of many tokens has an empty array of what was generated."""
    made = draft.usage.output_tokens if draft.usage is not None else None
    if holder.get(name) == [] and (made or 0) > _MANY_TOKENS:
        said = f"{name} is an empty array, though {made} tokens are counted."
        draft.find("content_empty", Severity.ERROR, said)


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
    _check_empty(draft, "content", body)


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
    for index, value in draft.values_until_done(frames, "A chunk"):
        draft.model = draft.model or value.get("model")
        draft.answer_id = first_id = draft.answer_id or value.get("id")
        # A recording may have another answer after this one.
        is_own = draft.is_whole or draft.reason is None
        if is_own and value.get("id") not in (first_id, None, ""):
            draft.changes_id(index, "chunks of one stream", first_id, value["id"])
        if is_own and value.get("model") not in (draft.model, None, ""):
            draft.changes_model(index, draft.model, value["model"])
        names_usage |= "usage" in value
        if isinstance(value.get("usage"), dict):
            draft.usage = _chat_usage(value["usage"])
        for choice in map(mapping, items(value.get("choices"))):
            into = draft.choice(choice.get("index"))
            if choice.get("index") not in indexes:
                indexes.append(choice.get("index"))
            is_chat |= isinstance(choice.get("delta"), dict)
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
    path = ("prompt_tokens_details", "cached_tokens")
    return usage(value, "prompt_tokens", "completion_tokens", path, "total_tokens")


# Reads answers of the Responses API.

# The last one is the Realtime API's, whose events are those of Responses otherwise.
_LAST = ("response.completed", "response.incomplete", "response.failed", "response.done")
_TEXTS = ("response.output_text", "response.text", "response.output_audio_transcript")
_CALL = "function_call"
_CUT_CALL = ("response.incomplete", _CALL)
_ARGUMENTS = "response.function_call_arguments"
_ITEM_DONE = "response.output_item.done"
_DONE = frozenset({"response.content_part.done", _ITEM_DONE})


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


class _ResponsesItem:
    """An item of a stream: what its events said so far."""

    def __init__(self, added: dict[str, Any]) -> None:
        self.added = added
        self.done: dict[str, Any] | None = None
        self.arguments = ""
        self.has_pieces = False
        self.parts: dict[str, dict[str, Any]] = {}
        self.texts: dict[str, list[str]] = {}
        self.closed: set[str] = set()

    @property
    def text(self) -> str:
        """The text of all parts."""
        return "".join(text for texts in self.texts.values() for text in texts)


class _ResponsesStream:
    """The state of a stream: which events may follow."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._number: int | None = None
        self._has_started = False
        self._last: str | None = None
        self._begun: dict[str, Any] = {}
        self._items: dict[str, _ResponsesItem] = {}
        self._kinds: set[str] = set()

    def read(self, frames: tuple[Frame, ...]) -> None:
        draft = self._draft
        for index, frame in enumerate(frames):
            value = mapping(frame.value)
            kind = value.get("type")
            kind = kind if isinstance(kind, str) and kind else frame.name
            if frame.is_done_mark or not isinstance(kind, str):
                continue
            if "event_id" in value and not kind.startswith("response.") and kind != "error":
                continue  # the Realtime API's events of the session
            if frame.name is not None and frame.name != kind and not draft.is_dump:
                said = f"The event: line says {frame.name}, the data says {kind}."
                draft.find("event_name_differs", Severity.ERROR, said, index)
            draft.check_form(index, value)
            self._check_place(index, kind, value)
            if kind in _LAST:
                self._last = kind
                self._end(index, kind, mapping(value.get("response")))
            elif kind == "error":
                draft.set_error(value.get("error") or value.get("message"))
            else:
                self._kinds.add(kind)
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
        if self._has_started and kind == "response.created":
            draft.misplaced(index, "response.created comes twice.")
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
        self._check_same_response(index, response)
        output = [mapping(item) for item in items(response.get("output"))]
        parts = [mapping(part) for item in output for part in items(item.get("content"))]
        texts = [str(part.get("text")) for part in parts if part.get("type") == "output_text"]
        streamed = "".join(
            item.text for item in self._items.values() if item.added.get("type") != "reasoning"
        )
        if streamed and streamed != "".join(texts):
            draft.find(
                "text_differs",
                Severity.ERROR,
                f"The output in {kind}, from which clients take the answer, has not the text that "
                "was streamed.",
                index,
            )
        else:
            self._check_output(index, kind, output)
        ended = {f"{text}.done" for text in _TEXTS if f"{text}.delta" in self._kinds}
        # A call that was cut is never done.
        if _ARGUMENTS + ".delta" in self._kinds:
            is_cut = kind == "response.incomplete"
            ended |= set() if is_cut else {_ARGUMENTS + ".done", _ITEM_DONE}
        elif ended:
            ended |= _DONE
        for missing in sorted(ended - self._kinds):
            noun = "arguments" if "arguments" in missing else "text"
            said = f"The stream has {noun}, but no {missing}, which some clients wait for."
            draft.find("event_missing", Severity.ERROR, said, index)
        if not ended - self._kinds:
            self._check_closed(index)

    def _check_same_response(self, index: int, response: dict[str, Any]) -> None:
        """Compare the response of an event with that of response.created."""
        draft, begun = self._draft, self._begun
        if begun.get("id") is not None and response.get("id") != begun["id"]:
            draft.changes_id(index, "events of one response", begun["id"], response.get("id"))
        if begun.get("model") and response.get("model") not in (begun["model"], None):
            draft.changes_model(index, begun["model"], response["model"])
        first, last = begun.get("created_at"), response.get("created_at")
        if first is not None and last is not None and int(first) != int(last):
            said = f"created_at changes within a response: {first}, then {last}."
            draft.find("created_changes", Severity.ERROR, said, index)

    def _check_output(self, index: int, kind: str, output: list[dict[str, Any]]) -> None:
        """Compare the items of the last event with those that were streamed."""
        draft = self._draft
        done = [item.done or item.added for item in self._items.values()]
        if not self._items:
            return
        if len(output) != len(done):
            if kind == "response.incomplete":
                return  # what was cut may be left out
            said = f"{kind} has {len(output)} output items, but {len(done)} were streamed."
            draft.find("output_differs", Severity.ERROR, said, index)
            return
        for number, (streamed, last) in enumerate(zip(done, output, strict=True)):
            for name in ("type", "id", "call_id", "name", "arguments"):
                first = streamed.get(name)
                if first is not None and last.get(name) is not None and first != last[name]:
                    said = (
                        f"output[{number}].{name} is {last[name]} in {kind}, but {first} in the "
                        "events before it."
                    )
                    draft.find("output_differs", Severity.ERROR, said, index)
            first, status = streamed.get("status"), last.get("status")
            if first is not None and status is not None and first != status:
                said = f"output[{number}].status is {status} in {kind}, but {first} before it."
                draft.find("item_status", Severity.ERROR, said, index)

    def _check_closed(self, index: int) -> None:
        """Record items and parts that were begun, and never said to be done."""
        for place, item in self._items.items():
            if item.done is None and (self._last, item.added.get("type")) != _CUT_CALL:
                said = f"Item {place} has no response.output_item.done."
                self._draft.find("event_missing", Severity.ERROR, said, index)
            for part in item.parts:
                if part not in item.closed:
                    said = f"Part {part} of item {place} has no response.content_part.done."
                    self._draft.find("event_missing", Severity.ERROR, said, index)

    def _take(self, index: int, kind: str, value: dict[str, Any]) -> None:
        draft = self._draft
        place, number = repr(value.get("output_index")), repr(value.get("content_index"))
        item = self._items.get(place)
        match kind:
            case "response.created" | "response.in_progress":
                self._begin(index, kind, mapping(value.get("response")))
                return
            case "response.output_item.added":
                self._add_item(index, place, mapping(value.get("item")))
                return
            case _ if "output_index" not in value:
                return
        if item is None:
            if kind == "response.content_part.added":
                draft.misplaced(index, "A part is added to an item that was not added.")
            elif _has_text(kind):
                draft.misplaced(index, "Text comes for a part that was not added.")
            elif kind in (_ARGUMENTS + ".delta", _ARGUMENTS + ".done", _ITEM_DONE):
                draft.misplaced(index, f"{kind} is about item {place}, which was not added.")
            item = self._items.setdefault(place, _ResponsesItem({}))
        if item.done is not None:
            draft.misplaced(index, f"{kind} is about item {place}, which is done.")
        own_id, given = item.added.get("id"), value.get("item_id")
        if own_id and given and own_id != given:
            said = f"{kind} says item_id {given}, but item {place} has the id {own_id}."
            draft.find("item_id_differs", Severity.ERROR, said, index)
        match kind:
            case "response.content_part.added":
                item.parts[number] = mapping(value.get("part"))
            case "response.content_part.done":
                self._end_part(index, item, number, mapping(value.get("part")))
            case _ if _has_text(kind):
                if number not in item.parts:
                    draft.misplaced(index, "Text comes for a part that was not added.")
                elif number not in item.texts and item.parts[number].get("text"):
                    said = "A part is added with text, to which the text of deltas is added."
                    draft.find("text_repeated", Severity.ERROR, said, index)
                draft.add_text(index, value.get("delta"))
                item.texts.setdefault(number, []).append(str(value.get("delta") or ""))
            case "response.output_text.done" | "response.reasoning_text.done":
                self._compare(index, kind, item.texts.get(number), value.get("text"))
            case "response.reasoning_text.delta" | "response.reasoning_summary_text.delta":
                draft.add_thinking(index, value.get("delta"))
                if "content_index" in value:
                    item.texts.setdefault(number, []).append(str(value.get("delta") or ""))
            case _ if kind == _ARGUMENTS + ".delta":
                self._add_arguments(index, place, item, value.get("delta"))
            case _ if kind == _ARGUMENTS + ".done":
                self._end_arguments(index, kind, place, item, value)
            case _ if kind == _ITEM_DONE:
                self._end_item(index, place, item, mapping(value.get("item")))
            case _:
                pass

    def _begin(self, index: int, kind: str, response: dict[str, Any]) -> None:
        draft, status = self._draft, response.get("status")
        if isinstance(status, str) and status not in ("in_progress", "queued"):
            said = f"The response of {kind} has the status {status}, where in_progress is due."
            draft.find("response_status", Severity.ERROR, said, index)
        if kind == "response.created":
            draft.model = response.get("model")
            self._begun = response
            if items(response.get("output")):
                said = "response.created has output already, which clients then have twice."
                draft.find("output_early", Severity.ERROR, said, index)
        else:
            self._check_same_response(index, response)

    def _add_item(self, index: int, place: str, added: dict[str, Any]) -> None:
        draft = self._draft
        if place in self._items:
            draft.misplaced(index, f"Item {place} is added twice.")
        elif draft.is_whole and place != repr(len(self._items)):
            said = f"Item {place} is added where item {len(self._items)} is expected."
            draft.misplaced(index, said)
        given = added.get("id")
        if given and any(other.added.get("id") == given for other in self._items.values()):
            said = f"Two items of the output have the id {given}."
            draft.find("item_id_repeated", Severity.ERROR, said, index)
        status = added.get("status")
        if status in ("completed", "incomplete") and added.get("type") in ("message", _CALL):
            said = f"An item is added with the status {status}, where in_progress is due."
            draft.find("item_status", Severity.ERROR, said, index)
        self._items[place] = _ResponsesItem(added)
        if added.get("type") == _CALL:
            draft.add_call(place, added.get("name"), "")

    def _end_part(
        self, index: int, item: _ResponsesItem, number: str, part: dict[str, Any]
    ) -> None:
        draft, begun = self._draft, item.parts.get(number)
        if begun is None:
            draft.misplaced(index, "A part is done that was not added.")
        elif number in item.closed:
            draft.misplaced(index, f"Part {number} is done twice.")
        elif begun.get("type") and begun["type"] != part.get("type"):
            said = f"A part is added as {begun.get('type')} and done as {part.get('type')}."
            draft.find("part_type_differs", Severity.ERROR, said, index)
        item.closed.add(number)
        self._compare(index, "response.content_part.done", item.texts.get(number), part.get("text"))

    def _add_arguments(self, index: int, place: str, item: _ResponsesItem, delta: object) -> None:
        if not item.has_pieces and item.added.get("arguments"):
            said = "An item is added with arguments that come again as deltas."
            self._draft.find("arguments_repeated", Severity.ERROR, said, index)
        item.has_pieces = True
        item.arguments += delta if isinstance(delta, str) else ""
        self._draft.add_call(place, "", delta)

    def _end_arguments(
        self, index: int, kind: str, place: str, item: _ResponsesItem, done: dict[str, Any]
    ) -> None:
        """Compare the arguments of a call with their pieces."""
        arguments = done.get("arguments")
        if not isinstance(arguments, str):
            return
        if item.has_pieces:
            if arguments != item.arguments:
                said = f"The arguments of {kind} differ from the deltas before it."
                self._draft.find("arguments_differ", Severity.ERROR, said, index)
            return
        # Not every server sends the arguments of a call in pieces first.
        item.has_pieces = True
        item.arguments = arguments
        self._draft.add_call(place, done.get("name"), arguments)

    def _end_item(self, index: int, place: str, item: _ResponsesItem, done: dict[str, Any]) -> None:
        draft = self._draft
        for name in ("type", "id", "call_id", "name"):
            first, last = item.added.get(name), done.get(name)
            if first and last and first != last:
                said = f"The {name} of item {place} changes from {first} to {last}."
                draft.find("item_changes", Severity.ERROR, said, index)
        if done.get("status") == "in_progress":
            said = "The item of response.output_item.done has the status in_progress."
            draft.find("item_status", Severity.ERROR, said, index)
        parts = [mapping(part) for part in items(done.get("content"))]
        if item.texts:
            text = "".join(str(part.get("text")) for part in parts)
            if text != item.text and (parts or done.get("type") == "message"):
                said = "The text of response.output_item.done differs from the deltas before it."
                draft.find("text_differs", Severity.ERROR, said, index)
        self._end_arguments(index, _ITEM_DONE, place, item, done)
        item.done = done

    def _compare(self, index: int, kind: str, texts: list[str] | None, text: object) -> None:
        if text != "".join(texts or ()):
            name = kind.removeprefix("response.")
            said = f"The text of {name} differs from the deltas before it."
            self._draft.find("text_differs", Severity.ERROR, said, index)


def _has_text(kind: str) -> bool:
    return kind.endswith(".delta") and kind.removesuffix(".delta") in _TEXTS


def _check_response(draft: Draft, index: int, response: dict[str, Any]) -> None:
    """Record statuses and ids of a finished response that contradict each other."""
    status = response.get("status")
    output = [mapping(item) for item in items(response.get("output"))]
    details = response.get("incomplete_details")
    if status == "completed" and details is not None:
        said = "The response is completed, but has incomplete_details."
        draft.find("response_status", Severity.ERROR, said, index)
    if status == "incomplete" and not mapping(details).get("reason") and draft.is_whole:
        said = "The response is incomplete, but incomplete_details does not say why."
        draft.find("response_status", Severity.ERROR, said, index)
    if status in ("in_progress", "queued") and draft.is_whole:
        said = f"The answer is whole, but its status is {status}."
        draft.find("response_status", Severity.ERROR, said, index)
    for item in output:
        is_open = item.get("status") == "in_progress" and status in ("completed", "incomplete")
        if is_open or (item.get("status") == "incomplete" and status == "completed"):
            said = f"The response is {status}, but an item of its output is {item['status']}."
            draft.find("item_status", Severity.ERROR, said, index)
    for name in ("id", "call_id"):
        ids = [item[name] for item in output if isinstance(item.get(name), str)]
        if len(set(ids)) < len(ids):
            said = f"Two items of the output have the same {name}."
            draft.find("item_id_repeated", Severity.ERROR, said, index)


def _responses_end(draft: Draft, index: int, response: dict[str, Any]) -> None:
    draft.model = response.get("model") or draft.model
    draft.answer_id = response.get("id")
    _check_response(draft, index, response)
    if isinstance(response.get("usage"), dict):
        draft.usage = _responses_usage(response["usage"])
    elif response.get("status") != "failed":
        draft.lacks_usage("The response has no usage.")
    _check_empty(draft, "output", response)
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
    if "eval_count" in value:
        draft.usage = usage(value, "prompt_eval_count", "eval_count")
    else:
        draft.lacks_usage("The last object has no token counts (eval_count).")
