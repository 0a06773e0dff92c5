"""Collects the content of an answer while a reader of its dialect goes through its frames.

Pure; any thread.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from api.conformance.captures.frames import Framed, count, mapping, objects
from api.conformance.captures.kinds import mismatches
from api.conformance.captures.schema import schema_of
from api.conformance.captures.values import (
    Capture,
    CapturedCall,
    CapturedChoice,
    CapturedEnding,
    CapturedEvent,
    CapturedUsage,
    Finding,
    Severity,
    WireDialect,
    excerpt,
)

# Marks with which chat templates end a turn; they belong to no answer.
_TEMPLATE_MARK = re.compile(
    r"<(?:\|(?:im_end|eot_id|eom_id|end|endoftext|return|end_of_text)\||end_of_turn|turn\|)>\s*\Z"
)
_TEMPLATE_DIALECTS = (
    WireDialect.MESSAGES,
    WireDialect.CHAT,
    WireDialect.RESPONSES,
    WireDialect.OLLAMA,
)


class ChoiceDraft:
    """One choice of an answer: its text, thinking, calls and reason by event."""

    def __init__(self, number: int, draft: "Draft | None" = None) -> None:
        self.number = number
        self.reason: str | None = None
        self.ending: CapturedEnding | None = None
        self.matched: str | int | None = None
        self.reports_match = False
        self.texts: dict[int, str] = {}
        self.thoughts: dict[int, str] = {}
        self._draft = draft
        self._calls: dict[str, list[str]] = {}

    def find(
        self,
        code: str,
        sentence: str,
        index: int | None = None,
        shown: str | None = None,
        severity: Severity = Severity.ERROR,
    ) -> None:
        assert self._draft is not None
        self._draft.find(code, f"Choice {self.number}: {sentence}", index, shown, severity)

    def add_text(self, index: int, text: object) -> None:
        if isinstance(text, str) and text:
            self._check_open("text_after_reason", "Text", index, text)
            self.texts[index] = self.texts.get(index, "") + text

    def add_thinking(self, index: int, text: object) -> None:
        if isinstance(text, str) and text:
            self._check_open("thinking_after_reason", "Thinking", index, text)
            self.thoughts[index] = self.thoughts.get(index, "") + text

    def add_call(self, key: object, name: object, arguments: object) -> None:
        """Set the name of the tool call with a key, or add a part of the arguments to it."""
        # Servers send keys of any type.
        call = self._calls.setdefault(repr(key), ["", ""])
        self._check_open("call_after_reason", "A part of a call")
        call[0] = (name if isinstance(name, str) else "") or call[0]
        call[1] += arguments if isinstance(arguments, str) else ""

    def _check_open(
        self, code: str, noun: str, index: int | None = None, shown: str | None = None
    ) -> None:
        if self.reason is not None:
            message = f"{noun} comes after the reason, where clients no longer expect any."
            self.find(code, message, index, shown)

    def as_string(self, index: int, arguments: object) -> object:
        """Return arguments that have to be JSON in a string; an object is a finding."""
        if not isinstance(arguments, dict | list):
            return arguments
        self.report_arguments_form(index, "JSON in a string")
        return json.dumps(arguments, ensure_ascii=False)

    def report_arguments_form(self, index: int, form: str) -> None:
        message = f"The arguments of a call are not {form}, which clients of this API read."
        self.find("arguments_form", message, index)

    def set_reason(self, index: int, reason: str, ending: CapturedEnding) -> None:
        """Set the reason; a second reason is a finding."""
        if self.reason is not None:
            message = f"The reason is given twice: {self.reason}, then {reason}."
            self.find("reason_repeated", message, index)
        self.reason, self.ending = reason, ending

    def check_reason_kept(self, index: int, noun: str) -> None:
        """Record that a later event of a stream has no reason, where clients keep the last one."""
        if self.reason is not None:
            message = f"{noun} after the one with the reason has none, which erases it for clients."
            self.find("reason_erased", message, index)

    def set_matched(self, value: object) -> None:
        """Set the stop that matched; None means that the answer has a field for it."""
        self.reports_match = True
        if isinstance(value, str | int) and not isinstance(value, bool):
            self.matched = value

    @property
    def text(self) -> str:
        return "".join(self.texts.values())

    @property
    def calls(self) -> tuple[CapturedCall, ...]:
        return tuple(CapturedCall(*call) for call in self._calls.values())

    @property
    def thinking(self) -> str:
        return "".join(self.thoughts.values())

    def finish_choice(self) -> CapturedChoice:
        return CapturedChoice(
            self.text,
            self.thinking,
            self.calls,
            self.reason,
            self.ending,
            self.matched,
            self.reports_match,
            tuple((at, len(text)) for at, text in sorted(self.texts.items())),
            self.number,
        )


class Draft(ChoiceDraft):
    """An answer while it is being read; ``is_complete`` if nothing was left out by its user."""

    def __init__(
        self, dialect: WireDialect, framed: Framed, *, is_streamed: bool, is_complete: bool = False
    ) -> None:
        super().__init__(0)
        self.framed = framed
        self.is_streamed = is_streamed
        self.is_dump = framed.is_dump
        self.is_complete = is_complete
        self.model: object = None
        self.answer_id: object = None
        self.output_ids: list[int] = []
        self.usage: CapturedUsage | None = None
        self.error: str | None = None
        self.dialect = dialect
        self._choices: dict[int, ChoiceDraft] = {}
        self._findings: list[Finding] = list(framed.notes)

    def choice(self, number: object) -> ChoiceDraft:
        if not isinstance(number, int) or isinstance(number, bool) or number == 0:
            return self
        return self._choices.setdefault(number, ChoiceDraft(number, self))

    def find(
        self,
        code: str,
        sentence: str,
        index: int | None = None,
        shown: str | None = None,
        severity: Severity = Severity.ERROR,
    ) -> None:
        """Record a finding; of each code only the first ones are kept."""
        # A report repeats a fault at most this often.
        if sum(found.code == code for found in self._findings) < 3:
            if shown is None:
                shown = self.framed.frames[index].raw if index is not None else ""
            self._findings.append(Finding(code, severity, sentence, index, excerpt(shown)))

    def set_error(self, value: object) -> None:
        message = value.get("message") if isinstance(value, dict) else value
        self.error = message if isinstance(message, str) else str(value)
        self.ending = CapturedEnding.ERROR

    def report_order(self, index: int, sentence: str) -> None:
        """Record that an event is at the wrong position."""
        self.find("event_order", sentence, index)

    def report_missing_usage(self, sentence: str, severity: Severity = Severity.WARNING) -> None:
        self.find("usage_missing", sentence, severity=severity)

    def report_missing_role(self, sentence: str) -> None:
        """Record that no role is sent; a pasted part may lack it."""
        if self.is_complete:
            self.find("role_missing", sentence)

    def report_change(
        self, code: str, index: int, subject: str, first: object, other: object
    ) -> None:
        """Record that a value that is the same in all parts of an answer changes."""
        if not self.is_dump:
            self.find(code, f"{subject}: {first}, then {other}.", index)

    def check_event_name(self, index: int, kind: object) -> None:
        """Record that the name of an event and the type in its data differ."""
        name = self.framed.frames[index].name
        if name is not None and name != kind and not self.is_dump:
            message = f"The event: line says {name}, the data says {kind}."
            self.find("event_name_differs", message, index)

    def check_form(self, index: int, value: dict[str, Any]) -> None:
        """Record fields of an answer, or of an event of a stream, that are missing or malformed."""
        if self.is_dump or not self.framed.frames[index].is_json:
            return
        schema = schema_of(self.dialect, value, is_streamed=self.is_streamed)
        for sentence, is_absent in mismatches(value, schema) if schema is not None else ():
            if not is_absent:
                self.find("field_form", sentence, index)
            elif self.is_complete:
                self.find("field_missing", sentence, index)

    def values(self, noun: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the JSON objects of a body, or of a stream that ends with ``data: [DONE]``.

        Errors in the stream, objects after its end and a missing end are recorded as findings.
        """
        is_done = False
        for index, frame in enumerate(self.framed.frames):
            if frame.is_done_mark:
                is_done = True
                continue
            value = mapping(frame.value)
            if self.is_streamed and "error" in value:
                self.set_error(value["error"])
                continue
            if is_done and value:
                self.report_order(index, f"{noun} comes after [DONE].")
            self.check_form(index, value)
            yield index, value
        if self.is_streamed and self.error is None and not is_done and not self.is_dump:
            self.find("end_marker_missing", "The stream ends without data: [DONE].")

    def finish(self) -> Capture:
        framed = self.framed
        mark = _TEMPLATE_MARK.search(self.text[-40:])
        if mark is not None and self.dialect in _TEMPLATE_DIALECTS:
            message = f"The text ends with {mark[0].strip()}, a mark of the model's chat template."
            self.find("template_mark", message)
        capture = Capture(
            dialect=self.dialect,
            is_streamed=self.is_streamed,
            status=framed.status,
            headers=framed.headers,
            model=self.model if isinstance(self.model, str) else None,
            output_ids=tuple(self.output_ids),
            usage=self.usage,
            error=self.error,
            events=tuple(
                CapturedEvent(
                    index,
                    frame.name,
                    frame.raw,
                    self.texts.get(index, ""),
                    self.thoughts.get(index, ""),
                )
                for index, frame in enumerate(framed.frames)
            ),
            request_stops=framed.stops,
            choices=tuple(other.finish_choice() for _, other in sorted(self._choices.items())),
            is_truncated=framed.is_truncated,
            label=framed.label,
            findings=tuple(self._findings),
            answer_id=self.answer_id if isinstance(self.answer_id, str) else None,
            verdict=self._verdict(),
        )
        return capture.of_choice(self.finish_choice())

    def _verdict(self) -> str | None:
        for frame in reversed(self.framed.frames):
            value = mapping(frame.value)
            choices = [one for one in objects(value.get("choices")) if not one.get("index")]
            for holder in (value, mapping(value.get("response")), *choices):
                verdict = mapping(holder.get("fullstop")).get("verdict")
                if isinstance(verdict, str):
                    return verdict
        return None


def read_usage(
    value: Any,
    prompt: str,
    output: str,
    cached: str = "",
    total: str = "",
    reasoning: str = "",
) -> CapturedUsage:
    """Return the usage in an object; ``cached`` and ``reasoning`` are dotted paths in it."""
    holder = mapping(value)
    invalid = (name for name in (prompt, output, total) if holder.get(name) is not None)
    return CapturedUsage(
        count(holder.get(prompt)),
        count(holder.get(output)),
        _at_path(holder, cached),
        count(holder.get(total)),
        _at_path(holder, reasoning),
        tuple(name for name in invalid if count(holder[name]) is None),
    )


def _at_path(holder: Any, path: str) -> int | None:
    for name in path.split("."):
        holder = mapping(holder).get(name)
    return count(holder)
