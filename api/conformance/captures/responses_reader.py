"""Reads answers of the Responses API, and checks the order of a stream's events on the way.

Pure; any thread.
"""

from typing import Any

from api.conformance.captures.draft import Draft, read_usage
from api.conformance.captures.frames import items, mapping, objects
from api.conformance.captures.values import CapturedEnding

_LAST = ("response.completed", "response.incomplete", "response.failed")
_STATUSES = ("completed", "incomplete", "failed", "cancelled", "in_progress", "queued")
_TEXT_DELTA, _TEXT_DONE = "response.output_text.delta", "response.output_text.done"
_REASONING_DELTAS = ("response.reasoning_text.delta", "response.reasoning_summary_text.delta")
_ARGUMENTS_DELTA = "response.function_call_arguments.delta"
_ARGUMENTS_DONE = "response.function_call_arguments.done"
_PART_ADDED, _PART_DONE = "response.content_part.added", "response.content_part.done"
_ITEM_ADDED, _ITEM_DONE = "response.output_item.added", "response.output_item.done"
_ITEM_EVENTS = (_TEXT_DELTA, _PART_ADDED, _PART_DONE, _ITEM_ADDED, _ITEM_DONE)


def read_responses(draft: Draft) -> None:
    """Read a response, or the events of a stream."""
    if draft.is_streamed:
        _ResponsesStream(draft).read()
        return
    body = mapping(draft.framed.frames[0].value)
    draft.check_form(0, body)
    for number, item in enumerate(objects(body.get("output"))):
        match item.get("type"):
            case "message":
                for part in objects(item.get("content")):
                    draft.add_text(0, part.get("text"))
            case "reasoning":
                for part in objects(item.get("content")) or objects(item.get("summary")):
                    draft.add_thinking(0, part.get("text"))
            case "function_call":
                arguments = draft.as_string(0, item.get("arguments"))
                draft.add_call(number, item.get("name"), arguments)
            case _:
                pass
    _read_response(draft, 0, body)


class _Item:
    """An item of a stream: its parts, texts and arguments so far."""

    def __init__(self, added: dict[str, Any]) -> None:
        self.added = added
        self.done: dict[str, Any] | None = None
        self.arguments: str | None = None
        self.parts: dict[str, dict[str, Any]] = {}
        self.texts: dict[str, str] = {}
        self.closed: set[str] = set()

    @property
    def text(self) -> str:
        """The text of all parts."""
        return "".join(self.texts.values())

    def add_text(self, part: str, delta: object) -> None:
        """Append a delta to the text of a part."""
        self.texts[part] = self.texts.get(part, "") + str(delta or "")


class _ResponsesStream:
    """The state of a stream: which events may follow."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._number: int | None = None
        self._has_started = False
        self._last: str | None = None
        self._begun: dict[str, Any] = {}
        self._items: dict[str, _Item] = {}
        self._kinds: set[str] = set()

    def read(self) -> None:
        """Read all events."""
        draft = self._draft
        for index, frame in enumerate(draft.framed.frames):
            value = mapping(frame.value)
            kind = value.get("type")
            kind = kind if isinstance(kind, str) and kind else frame.name
            if frame.is_done_mark or not isinstance(kind, str):
                continue
            draft.check_event_name(index, kind)
            draft.check_form(index, value)
            self._check_order(index, kind, value)
            if kind in _LAST:
                self._last = kind
                self._end(index, kind, mapping(value.get("response")))
            elif kind == "error":
                draft.set_error(value.get("error") or value.get("message"))
            else:
                self._kinds.add(kind)
                self._take(index, kind, value)
        if self._last is None and draft.error is None:
            draft.find(
                "end_marker_missing",
                "The stream ends without response.completed; clients then raise an error.",
            )

    def _check_order(self, index: int, kind: str, value: dict[str, Any]) -> None:
        draft = self._draft
        if self._last is not None:
            draft.report_order(index, f"{kind} comes after {self._last}.")
        if not self._has_started and kind not in ("response.created", "error"):
            draft.report_order(index, f"{kind} comes before response.created.")
        if self._has_started and kind == "response.created":
            draft.report_order(index, "response.created comes twice.")
        self._has_started = True
        number = value.get("sequence_number")
        if isinstance(number, int):
            if self._number is not None and number <= self._number:
                draft.report_order(index, f"sequence_number {number} follows {self._number}.")
            self._number = number

    def _end(self, index: int, kind: str, response: dict[str, Any]) -> None:
        """Compare the response of the last event with the events before it."""
        draft, status = self._draft, response.get("status")
        _read_response(draft, index, response)
        if kind == "response.failed":
            return
        if status in _STATUSES and kind != f"response.{status}":
            message = (
                f"{kind} ends a response whose status is {status}, for which response.{status} "
                "is due."
            )
            draft.find("event_name_differs", message, index)
        self._check_same_response(index, response)
        output = objects(response.get("output"))
        parts = [part for item in output for part in objects(item.get("content"))]
        text = "".join(str(one.get("text")) for one in parts if one.get("type") == "output_text")
        streamed = "".join(
            item.text for item in self._items.values() if item.added.get("type") != "reasoning"
        )
        if streamed and streamed != text:
            message = (
                f"The output in {kind}, from which clients take the answer, has not the text that "
                "was streamed."
            )
            draft.find("text_differs", message, index)
        else:
            self._check_output(index, kind, output)
        due: set[str] = set()
        if _ARGUMENTS_DELTA in self._kinds:
            # A call that was cut is never done.
            due = set() if kind == "response.incomplete" else {_ARGUMENTS_DONE, _ITEM_DONE}
        elif _TEXT_DELTA in self._kinds:
            due = {_PART_DONE, _ITEM_DONE}
        if _TEXT_DELTA in self._kinds:
            due.add(_TEXT_DONE)
        for missing in sorted(due - self._kinds):
            noun = "arguments" if "arguments" in missing else "text"
            message = f"The stream has {noun}, but no {missing}, which some clients wait for."
            draft.find("event_missing", message, index)
        if due <= self._kinds:
            self._check_closed(index)

    def _check_same_response(self, index: int, response: dict[str, Any]) -> None:
        """Compare the response of an event with that of response.created."""
        draft, begun = self._draft, self._begun
        if begun.get("id") is not None and response.get("id") != begun["id"]:
            subject = "The events of one response have different ids"
            draft.report_change("id_changes", index, subject, begun["id"], response.get("id"))
        if begun.get("model") and response.get("model") not in (begun["model"], None):
            subject = "The model changes within an answer"
            draft.report_change("model_changes", index, subject, begun["model"], response["model"])
        first, last = begun.get("created_at"), response.get("created_at")
        is_number = isinstance(first, int | float) and isinstance(last, int | float)
        if is_number and int(first) != int(last):  # type: ignore[arg-type]
            subject = "created_at changes within a response"
            draft.find("created_changes", f"{subject}: {first}, then {last}.", index)

    def _check_output(self, index: int, kind: str, output: list[dict[str, Any]]) -> None:
        """Compare the items of the last event with the streamed ones."""
        draft = self._draft
        streamed = list(self._items.values())
        if not streamed:
            return
        if len(output) != len(streamed):
            # An item that was cut may be left out.
            if kind != "response.incomplete":
                message = (
                    f"{kind} has {len(output)} output items, but {len(streamed)} were streamed."
                )
                draft.find("output_differs", message, index)
            return
        for number, (item, last) in enumerate(zip(streamed, output, strict=True)):
            first = item.done or item.added
            for name in ("type", "id", "call_id", "name", "arguments"):
                value = first.get(name)
                if value is not None and last.get(name) is not None and value != last[name]:
                    message = (
                        f"output[{number}].{name} is {last[name]} in {kind}, but {value} in the "
                        "events before it."
                    )
                    draft.find("output_differs", message, index)
            before, status = first.get("status"), last.get("status")
            if item.done is not None and None not in (before, status) and before != status:
                message = f"output[{number}].status is {status} in {kind}, but {before} before it."
                draft.find("item_status", message, index)

    def _check_closed(self, index: int) -> None:
        """Record items and parts that were begun, and never done."""
        for key, item in self._items.items():
            is_cut_call = self._last == "response.incomplete" and (
                item.added.get("type") == "function_call"
            )
            if item.done is None and not is_cut_call:
                message = f"Item {key} has no response.output_item.done."
                self._draft.find("event_missing", message, index)
            for part in item.parts.keys() - item.closed:
                message = f"Part {part} of item {key} has no response.content_part.done."
                self._draft.find("event_missing", message, index)

    def _take(self, index: int, kind: str, value: dict[str, Any]) -> None:
        draft = self._draft
        key, part = self._item_key(kind, value), repr(value.get("content_index"))
        if kind in ("response.created", "response.in_progress"):
            self._begin(index, kind, mapping(value.get("response")))
            return
        if kind == _ITEM_ADDED:
            self._add_item(index, key, mapping(value.get("item")))
            return
        if not {"output_index", "item_id"} & value.keys() and kind not in _ITEM_EVENTS:
            return
        item = self._items.get(key)
        if item is None:
            item = self._items[key] = _Item({})
            if kind == _PART_ADDED:
                draft.report_order(index, "A part is added to an item that was not added.")
            elif kind in (_ARGUMENTS_DELTA, _ARGUMENTS_DONE, _ITEM_DONE):
                draft.report_order(index, f"{kind} is about item {key}, which was not added.")
        if item.done is not None:
            draft.report_order(index, f"{kind} is about item {key}, which is done.")
        item_id, given = item.added.get("id"), value.get("item_id")
        if item_id and given and item_id != given:
            message = f"{kind} says item_id {given}, but item {key} has the id {item_id}."
            draft.find("item_id_differs", message, index)
        if kind == _PART_ADDED:
            item.parts[part] = mapping(value.get("part"))
        elif kind == _PART_DONE:
            self._end_part(index, item, part, mapping(value.get("part")))
        elif kind == _TEXT_DELTA:
            if part not in item.parts:
                draft.report_order(index, "Text comes for a part that was not added.")
            elif part not in item.texts and item.parts[part].get("text"):
                message = "A part is added with text, to which the text of deltas is added."
                draft.find("text_repeated", message, index)
            draft.add_text(index, value.get("delta"))
            item.add_text(part, value.get("delta"))
        elif kind in (_TEXT_DONE, "response.reasoning_text.done"):
            self._compare_text(index, kind, item.texts.get(part), value.get("text"))
        elif kind in _REASONING_DELTAS:
            draft.add_thinking(index, value.get("delta"))
            if "content_index" in value:
                item.add_text(part, value.get("delta"))
        elif kind == _ARGUMENTS_DELTA:
            if item.arguments is None and item.added.get("arguments"):
                message = "An item is added with arguments that come again as deltas."
                draft.find("arguments_repeated", message, index)
            delta = value.get("delta")
            item.arguments = (item.arguments or "") + (delta if isinstance(delta, str) else "")
            draft.add_call(key, "", delta)
        elif kind == _ARGUMENTS_DONE:
            self._end_arguments(index, kind, key, item, value)
        elif kind == _ITEM_DONE:
            self._end_item(index, key, item, mapping(value.get("item")))

    def _item_key(self, kind: str, value: dict[str, Any]) -> str:
        """Return the key of the item that an event is about, by its id if there is no index."""
        if "output_index" in value:
            return repr(value["output_index"])
        if kind == _ITEM_ADDED:
            return repr(len(self._items))
        item_id = value.get("item_id") or mapping(value.get("item")).get("id")
        for key, item in self._items.items():
            if item_id and item.added.get("id") == item_id:
                return key
        return next(reversed(self._items), "0")

    def _begin(self, index: int, kind: str, response: dict[str, Any]) -> None:
        draft, status = self._draft, response.get("status")
        if isinstance(status, str) and status not in ("in_progress", "queued"):
            message = f"The response of {kind} has the status {status}, where in_progress is due."
            draft.find("response_status", message, index)
        if kind == "response.in_progress":
            self._check_same_response(index, response)
            return
        draft.model = response.get("model")
        self._begun = response
        if items(response.get("output")):
            message = "response.created has output already, which clients then have twice."
            draft.find("output_early", message, index)

    def _add_item(self, index: int, key: str, added: dict[str, Any]) -> None:
        draft = self._draft
        if key in self._items:
            draft.report_order(index, f"Item {key} is added twice.")
        elif draft.is_complete and key != repr(len(self._items)):
            expected = len(self._items)
            draft.report_order(index, f"Item {key} is added where item {expected} is expected.")
        item_id, status = added.get("id"), added.get("status")
        if item_id and any(one.added.get("id") == item_id for one in self._items.values()):
            message = f"Two items of the output have the id {item_id}."
            draft.find("item_id_repeated", message, index)
        is_known = added.get("type") in ("message", "function_call")
        if status in ("completed", "incomplete") and is_known:
            message = f"An item is added with the status {status}, where in_progress is due."
            draft.find("item_status", message, index)
        self._items[key] = _Item(added)
        if added.get("type") == "function_call":
            draft.add_call(key, added.get("name"), "")

    def _end_part(self, index: int, item: _Item, number: str, part: dict[str, Any]) -> None:
        draft, begun = self._draft, item.parts.get(number)
        if begun is None:
            draft.report_order(index, "A part is done that was not added.")
        elif number in item.closed:
            draft.report_order(index, f"Part {number} is done twice.")
        elif begun.get("type") and begun["type"] != part.get("type"):
            message = f"A part is added as {begun.get('type')} and done as {part.get('type')}."
            draft.find("part_type_differs", message, index)
        item.closed.add(number)
        self._compare_text(index, _PART_DONE, item.texts.get(number), part.get("text"))

    def _end_arguments(
        self, index: int, kind: str, key: str, item: _Item, done: dict[str, Any]
    ) -> None:
        """Compare the arguments of a call with their deltas."""
        arguments = done.get("arguments")
        if not isinstance(arguments, str):
            return
        if item.arguments is None:
            # Not every server sends the arguments of a call as deltas first.
            item.arguments = arguments
            self._draft.add_call(key, done.get("name"), arguments)
        elif arguments != item.arguments:
            message = f"The arguments of {kind} differ from the deltas before it."
            self._draft.find("arguments_differ", message, index)

    def _end_item(self, index: int, key: str, item: _Item, done: dict[str, Any]) -> None:
        draft = self._draft
        for name in ("type", "id", "call_id", "name"):
            first, last = item.added.get(name), done.get(name)
            if first and last and first != last:
                message = f"The {name} of item {key} changes from {first} to {last}."
                draft.find("item_changes", message, index)
        if done.get("status") == "in_progress":
            message = "The item of response.output_item.done has the status in_progress."
            draft.find("item_status", message, index)
        parts = objects(done.get("content"))
        if item.texts and (parts or done.get("type") == "message"):
            text = "".join(str(part.get("text")) for part in parts)
            self._compare_text(index, "response.output_item.done", item.text, text)
        self._end_arguments(index, _ITEM_DONE, key, item, done)
        item.done = done

    def _compare_text(self, index: int, kind: str, streamed: str | None, text: object) -> None:
        if text != (streamed or ""):
            name = kind.removeprefix("response.")
            message = f"The text of {name} differs from the deltas before it."
            self._draft.find("text_differs", message, index)


def _read_response(draft: Draft, index: int, response: dict[str, Any]) -> None:
    """Read the fields at the end of a response: its model, counts, stop and status."""
    draft.model = response.get("model") or draft.model
    draft.answer_id = response.get("id")
    status, details = response.get("status"), response.get("incomplete_details")
    _check_status(draft, index, response)
    if isinstance(response.get("usage"), dict):
        draft.usage = read_usage(
            response["usage"],
            "input_tokens",
            "output_tokens",
            "input_tokens_details.cached_tokens",
            "total_tokens",
            "output_tokens_details.reasoning_tokens",
        )
    elif status != "failed":
        draft.report_missing_usage("The response has no usage.")
    draft.check_content("output", response)
    stop = mapping(mapping(response.get("fullstop")).get("stop"))
    if stop:
        draft.set_matched(stop.get("value"))
    if status == "failed":
        draft.set_error(response.get("error"))
    elif status == "incomplete":
        reason = mapping(details).get("reason")
        is_limit = reason == "max_output_tokens"
        ending = CapturedEnding.LIMIT if is_limit else CapturedEnding.OTHER
        draft.set_reason(index, f"incomplete: {reason}", ending)
        cut = (objects(response.get("output")) or [{}])[-1]
        if is_limit and cut.get("type") == "message" and cut.get("status") == "completed":
            message = "The response is incomplete, but the item in which it was cut says completed."
            draft.find("item_status", message, index)
    elif status == "completed":
        is_named = draft.matched is not None
        ending = CapturedEnding.STOP if is_named else CapturedEnding.NATURAL_OR_STOP
        draft.set_reason(index, status, ending)
    elif isinstance(status, str):
        draft.set_reason(index, status, CapturedEnding.OTHER)


def _check_status(draft: Draft, index: int, response: dict[str, Any]) -> None:
    """Record statuses and ids of a finished response that contradict each other."""
    status, details = response.get("status"), response.get("incomplete_details")
    faults = {
        "The response is completed, but has incomplete_details.": (
            status == "completed" and details is not None
        ),
        "The response is completed, but has an error.": (
            status == "completed" and response.get("error") is not None
        ),
        "The response is incomplete, but incomplete_details does not say why.": (
            status == "incomplete" and not mapping(details).get("reason") and draft.is_complete
        ),
        f"The answer is whole, but its status is {status}.": (
            status in ("in_progress", "queued") and draft.is_complete
        ),
    }
    for message, is_wrong in faults.items():
        if is_wrong:
            draft.find("response_status", message, index)
    output = objects(response.get("output"))
    for item in output:
        is_open = item.get("status") == "in_progress" and status in ("completed", "incomplete")
        if is_open or (item.get("status") == "incomplete" and status == "completed"):
            message = f"The response is {status}, but an item of its output is {item['status']}."
            draft.find("item_status", message, index)
    for name in ("id", "call_id"):
        ids = [item[name] for item in output if isinstance(item.get(name), str)]
        if len(set(ids)) < len(ids):
            message = f"Two items of the output have the same {name}."
            draft.find("item_id_repeated", message, index)
