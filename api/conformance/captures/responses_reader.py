"""Reads answers of the Responses API, and checks the order of a stream's events on the way.

Pure; any thread.
"""

from typing import Any

from api.conformance.captures.draft import Draft, read_usage
from api.conformance.captures.frames import mapping, objects
from api.conformance.captures.values import CapturedEnding

_LAST = ("response.completed", "response.incomplete", "response.failed")
_TEXT_DELTA, _TEXT_DONE = "response.output_text.delta", "response.output_text.done"
_REASONING_DELTAS = ("response.reasoning_text.delta", "response.reasoning_summary_text.delta")
_ARGUMENTS_DELTA = "response.function_call_arguments.delta"
_ARGUMENTS_DONE = "response.function_call_arguments.done"
_PART_ADDED, _PART_DONE = "response.content_part.added", "response.content_part.done"
_ITEM_ADDED, _ITEM_DONE = "response.output_item.added", "response.output_item.done"
_TEXTS_DONE = (_TEXT_DONE, _PART_DONE, "response.reasoning_text.done")
_ITEM_EVENTS = (_TEXT_DELTA, _PART_ADDED, _PART_DONE, _ITEM_DONE)

# Custom tools take any text, not only JSON.
_CUSTOM_ARGUMENTS = "{}"


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
            case "custom_tool_call":
                draft.add_call(number, item.get("name"), _CUSTOM_ARGUMENTS)
            case _:
                pass
    _read_response(draft, 0, body)


class _Item:
    def __init__(self, added: dict[str, Any]) -> None:
        self.added = added
        self.done: dict[str, Any] | None = None
        self.arguments: str | None = None
        self.parts: set[str] = set()
        self.texts: dict[str, str] = {}

    def add_text(self, part: str, delta: object) -> None:
        self.texts[part] = self.texts.get(part, "") + str(delta or "")


class _ResponsesStream:
    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._number: int | None = None
        self._last: str | None = None
        self._begun: dict[str, Any] = {}
        self._items: dict[str, _Item] = {}
        self._kinds: set[str] = set()

    def read(self) -> None:
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
            self._kinds.add(kind)
            if kind in _LAST:
                self._last = kind
                self._end(index, kind, mapping(value.get("response")))
            elif kind == "error":
                draft.set_error(value.get("error") or value.get("message"))
            elif kind == "response.created":
                self._begun = mapping(value.get("response"))
                draft.model = self._begun.get("model")
            elif kind == _ITEM_ADDED:
                self._add_item(index, value)
            elif {"output_index", "item_id"} & value.keys() or kind in _ITEM_EVENTS:
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
        if not self._kinds and kind not in ("response.created", "error"):
            draft.report_order(index, f"{kind} comes before response.created.")
        if self._kinds and kind == "response.created":
            draft.report_order(index, "response.created comes twice.")
        number = value.get("sequence_number")
        if isinstance(number, int):
            if self._number is not None and number <= self._number:
                draft.report_order(index, f"sequence_number {number} follows {self._number}.")
            self._number = number

    def _add_item(self, index: int, value: dict[str, Any]) -> None:
        draft, added = self._draft, mapping(value.get("item"))
        key, expected = repr(value.get("output_index", len(self._items))), len(self._items)
        if draft.is_complete and key != repr(expected):
            draft.report_order(index, f"Item {key} is added where item {expected} is expected.")
        self._items[key] = _Item(added)
        if (kind := added.get("type")) in ("function_call", "custom_tool_call"):
            arguments = _CUSTOM_ARGUMENTS if kind == "custom_tool_call" else ""
            draft.add_call(key, added.get("name"), arguments)

    def _take(self, index: int, kind: str, value: dict[str, Any]) -> None:
        draft, key, part = self._draft, self._item_key(value), repr(value.get("content_index"))
        item = self._items.get(key)
        if item is None:
            item = self._items[key] = _Item({})
            if kind != _TEXT_DELTA:
                draft.report_order(index, f"{kind} is about item {key}, which was not added.")
        if item.done is not None:
            draft.report_order(index, f"{kind} is about item {key}, which is done.")
        if kind == _PART_ADDED:
            item.parts.add(part)
        elif kind == _TEXT_DELTA:
            if part not in item.parts:
                draft.report_order(index, "Text comes for a part that was not added.")
            draft.add_text(index, value.get("delta"))
            item.add_text(part, value.get("delta"))
        elif kind in _TEXTS_DONE:
            done = mapping(value.get("part")) if kind == _PART_DONE else value
            self._compare_text(index, kind, item.texts.get(part, ""), done.get("text"))
        elif kind in _REASONING_DELTAS:
            draft.add_thinking(index, value.get("delta"))
            if "content_index" in value:
                item.add_text(part, value.get("delta"))
        elif kind == _ARGUMENTS_DELTA:
            delta = value.get("delta")
            item.arguments = (item.arguments or "") + (delta if isinstance(delta, str) else "")
            draft.add_call(key, "", delta)
        elif kind == _ARGUMENTS_DONE:
            self._end_arguments(index, kind, key, value)
        elif kind == _ITEM_DONE:
            item.done = mapping(value.get("item"))
            if item.texts and item.done.get("type") == "message":
                self._compare_text(index, kind, "".join(item.texts.values()), _text_of(item.done))
            self._end_arguments(index, kind, key, item.done)

    def _item_key(self, value: dict[str, Any]) -> str:
        """Return the key of the item that an event is about, by its id if there is no index."""
        if "output_index" in value:
            return repr(value["output_index"])
        item_id = value.get("item_id") or mapping(value.get("item")).get("id")
        known = (key for key, item in self._items.items() if item_id == item.added.get("id"))
        return next(known, next(reversed(self._items), "0"))

    def _end_arguments(self, index: int, kind: str, key: str, done: dict[str, Any]) -> None:
        arguments, item = done.get("arguments"), self._items[key]
        if not isinstance(arguments, str):
            return
        if item.arguments is None:
            # Not every server sends the arguments of a call as deltas first.
            item.arguments = arguments
            self._draft.add_call(key, done.get("name"), arguments)
        elif arguments != item.arguments:
            message = f"The arguments of {kind} differ from the deltas before it."
            self._draft.find("arguments_differ", message, index)

    def _compare_text(self, index: int, kind: str, streamed: str, text: object) -> None:
        if text != streamed:
            name = kind.removeprefix("response.")
            message = f"The text of {name} differs from the deltas before it."
            self._draft.find("text_differs", message, index)

    def _end(self, index: int, kind: str, response: dict[str, Any]) -> None:
        draft, begun, status = self._draft, self._begun, response.get("status")
        _read_response(draft, index, response)
        if kind == "response.failed":
            return
        if status in ("completed", "incomplete") and kind != f"response.{status}":
            message = f"{kind} ends a response whose status is {status}."
            draft.find("event_name_differs", message, index)
        if begun.get("id") is not None and response.get("id") != begun["id"]:
            subject = "The events of one response have different ids"
            draft.report_change("id_changes", index, subject, begun["id"], response.get("id"))
        if begun.get("model") and response.get("model") not in (begun["model"], None):
            subject = "The model changes within an answer"
            draft.report_change("model_changes", index, subject, begun["model"], response["model"])
        output = objects(response.get("output"))
        answers = [one for one in self._items.values() if one.added.get("type") != "reasoning"]
        streamed = "".join(text for item in answers for text in item.texts.values())
        if streamed and streamed != "".join(map(_text_of, output)):
            message = (
                f"The output in {kind}, from which clients take the answer, has not the text that "
                "was streamed."
            )
            draft.find("text_differs", message, index)
        else:
            self._check_output(index, kind, output)
        self._check_done_events(index, kind)

    def _check_done_events(self, index: int, kind: str) -> None:
        """Record the events that end texts and calls, and were not sent."""
        due: set[str] = set()
        if _TEXT_DELTA in self._kinds:
            due |= {_TEXT_DONE, _PART_DONE, _ITEM_DONE}
        # A call that was cut is never done.
        if _ARGUMENTS_DELTA in self._kinds:
            due = due - {_ITEM_DONE} if kind == _LAST[1] else due | {_ARGUMENTS_DONE, _ITEM_DONE}
        for missing in sorted(due - self._kinds):
            noun = "arguments" if "arguments" in missing else "text"
            message = f"The stream has {noun}, but no {missing}, which some clients wait for."
            self._draft.find("event_missing", message, index)

    def _check_output(self, index: int, kind: str, output: list[dict[str, Any]]) -> None:
        draft, streamed = self._draft, list(self._items.values())
        if streamed and len(output) != len(streamed) and kind != "response.incomplete":
            message = f"{kind} has {len(output)} output items, but {len(streamed)} were streamed."
            draft.find("output_differs", message, index)
        for number, (item, last) in enumerate(zip(streamed, output, strict=False)):
            first = item.done or item.added
            for name in ("type", "id", "call_id", "name", "arguments"):
                value = first.get(name)
                if value is not None and last.get(name) is not None and value != last[name]:
                    message = (
                        f"output[{number}].{name} is {last[name]} in {kind}, but {value} in the "
                        "events before it."
                    )
                    draft.find("output_differs", message, index)


def _text_of(item: dict[str, Any]) -> str:
    parts = objects(item.get("content"))
    return "".join(str(part.get("text")) for part in parts if part.get("type") == "output_text")


def _read_response(draft: Draft, index: int, response: dict[str, Any]) -> None:
    draft.model = response.get("model") or draft.model
    draft.answer_id = response.get("id")
    status = response.get("status")
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
    stop = mapping(mapping(response.get("fullstop")).get("stop"))
    if stop:
        draft.set_matched(stop.get("value"))
    if status == "failed":
        draft.set_error(response.get("error"))
    elif status == "incomplete":
        reason = mapping(response.get("incomplete_details")).get("reason")
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
