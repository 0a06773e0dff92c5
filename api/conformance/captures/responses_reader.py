"""Reads answers of the Responses API, and checks the order of a stream's events on the way.

Pure; any thread.
"""

from typing import Any

from api.conformance.captures.draft import Draft, items, mapping, usage
from api.conformance.captures.frames import Frame
from api.conformance.captures.values import CapturedEnding, CapturedUsage, Severity

_LAST = ("response.completed", "response.incomplete", "response.failed")
_STATUSES = ("completed", "incomplete", "failed", "cancelled", "in_progress", "queued")
_TEXT = "response.output_text"
_CALL = "function_call"
_CUT_CALL = ("response.incomplete", _CALL)
_ARGUMENTS = "response.function_call_arguments"
_ITEM_ADDED = "response.output_item.added"
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
        # What is no status at all is noted as that.
        if status in _STATUSES and kind != f"response.{status}":
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
        ended = {f"{_TEXT}.done"} if f"{_TEXT}.delta" in self._kinds else set()
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
        undone = [at for at, item in enumerate(self._items.values()) if item.done is None]
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
            is_known = None not in (first, status) and number not in undone
            if is_known and first != status:
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
        place, number = self._place_of(kind, value), repr(value.get("content_index"))
        item = self._items.get(place)
        match kind:
            case "response.created" | "response.in_progress":
                self._begin(index, kind, mapping(value.get("response")))
                return
            case _ if kind == _ITEM_ADDED:
                self._add_item(index, place, mapping(value.get("item")))
                return
            case _ if not ({"output_index", "item_id"} & value.keys() or _is_of_item(kind)):
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

    def _place_of(self, kind: str, value: dict[str, Any]) -> str:
        """Return the place of the item that an event is about, from its id if no index says it."""
        if "output_index" in value:
            return repr(value["output_index"])
        if kind == _ITEM_ADDED:
            return repr(len(self._items))
        own_id = value.get("item_id") or mapping(value.get("item")).get("id")
        for place, item in self._items.items():
            if own_id and item.added.get("id") == own_id:
                return place
        return next(reversed(self._items), "0")

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
    return kind == f"{_TEXT}.delta"


def _is_of_item(kind: str) -> bool:
    return _has_text(kind) or kind.startswith(("response.output_item.", "response.content_part."))


def _check_response(draft: Draft, index: int, response: dict[str, Any]) -> None:
    """Record statuses and ids of a finished response that contradict each other."""
    status = response.get("status")
    output = [mapping(item) for item in items(response.get("output"))]
    details = response.get("incomplete_details")
    if status == "completed" and details is not None:
        said = "The response is completed, but has incomplete_details."
        draft.find("response_status", Severity.ERROR, said, index)
    if status == "completed" and response.get("error") is not None:
        said = "The response is completed, but has an error."
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
    draft.check_content("output", response)
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
    cached = ("input_tokens_details", "cached_tokens")
    reasoning = ("output_tokens_details", "reasoning_tokens")
    return usage(value, "input_tokens", "output_tokens", cached, "total_tokens", reasoning)
