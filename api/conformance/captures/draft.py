"""Puts an answer together, piece by piece, as a reader of its format finds them.

Pure; any thread.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from api.conformance.captures.forms import form_of, misfits
from api.conformance.captures.frames import Frame, Framed
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

# One choice of an answer while it is being read: its text, thinking, calls, and reason.


class Find(Protocol):
    """Notes something that is wrong with an answer."""

    def __call__(
        self,
        code: str,
        severity: Severity,
        sentence: str,
        index: int | None = None,
        shown: str | None = None,
    ) -> None:
        """Record the finding."""


class ChoiceDraft:
    """Collects the content of one choice from the events of an answer."""

    def __init__(self, number: int, find: Find) -> None:
        self.find = find
        self.reason: str | None = None
        self.matched: str | int | None = None
        self.says_matched = False
        self._number = number
        self._ending: CapturedEnding | None = None
        self._texts: dict[int, list[str]] = {}
        # Some dialects compare the whole text with every event.
        self._text = ""
        self._unjoined: list[str] = []
        self._thoughts: dict[int, list[str]] = {}
        self._calls: dict[str, list[str]] = {}

    @property
    def text(self) -> str:
        """The answer so far."""
        if self._unjoined:
            self._text += "".join(self._unjoined)
            self._unjoined.clear()
        return self._text

    def add_text(self, index: int, text: object) -> None:
        """Append the text of event ``index`` to the answer."""
        if isinstance(text, str) and text:
            if self.reason is not None:
                self.find(
                    "text_after_reason",
                    Severity.ERROR,
                    "Text comes after the reason, where clients no longer expect any.",
                    index,
                    text,
                )
            self._texts.setdefault(index, []).append(text)
            self._unjoined.append(text)

    def add_thinking(self, index: int, text: object) -> None:
        """Append the text of event ``index`` to the thinking."""
        if isinstance(text, str) and text:
            if self.reason is not None:
                said = "Thinking comes after the reason, where clients no longer expect any."
                self.find("thinking_after_reason", Severity.ERROR, said, index, text)
            self._thoughts.setdefault(index, []).append(text)

    def add_call(self, key: object, name: object, arguments: object) -> None:
        """Set the name of the tool call with a key, or add a part of the arguments to it."""
        # Any value can serve as a key, also one that is not a number, and even a list or an object.
        call = self._calls.setdefault(repr(key), ["", ""])
        if self.reason is not None:
            said = "A part of a call comes after the reason, where clients no longer expect any."
            self.find("call_after_reason", Severity.ERROR, said)
        call[0] = (name if isinstance(name, str) else "") or call[0]
        call[1] += arguments if isinstance(arguments, str) else ""

    def as_string(self, index: int, arguments: object) -> object:
        """Return arguments that have to be JSON in a string; an object is a finding."""
        if not isinstance(arguments, dict | list):
            return arguments
        self.misshapes_arguments(index, "JSON in a string")
        return json.dumps(arguments, ensure_ascii=False)

    def misshapes_arguments(self, index: int, wanted: str) -> None:
        """Record that the arguments of a call have another form than clients read."""
        sentence = f"The arguments of a call are not {wanted}, which clients of this API read."
        self.find("arguments_form", Severity.ERROR, sentence, index)

    def set_reason(self, index: int, reason: str, ending: CapturedEnding) -> None:
        """Set the reason; a second reason is a finding."""
        if self.reason is not None:
            self.find(
                "reason_repeated",
                Severity.ERROR,
                f"The reason is given twice: {self.reason}, then {reason}.",
                index,
            )
        self.reason, self._ending = reason, ending

    def check_reason_kept(self, index: int, noun: str) -> None:
        """Record that a later event of a stream has no reason, where clients keep the last one."""
        if self.reason is not None:
            said = f"{noun} after the one with the reason has none, which erases it for clients."
            self.find("reason_erased", Severity.ERROR, said, index)

    def set_matched(self, value: object) -> None:
        """Set the stop that matched; None means that the answer has a field for it."""
        self.says_matched = True
        if isinstance(value, str | int) and not isinstance(value, bool):
            self.matched = value

    def calls(self) -> tuple[CapturedCall, ...]:
        """Return the tool calls so far."""
        return tuple(CapturedCall(*call) for call in self._calls.values())

    def thinking(self) -> str:
        """Return the thinking so far."""
        return "".join(part for parts in self._thoughts.values() for part in parts)

    def text_of(self, index: int) -> str:
        """Return what event ``index`` added to the text."""
        return "".join(self._texts.get(index, ()))

    def thinking_of(self, index: int) -> str:
        """Return what event ``index`` added to the thinking."""
        return "".join(self._thoughts.get(index, ()))

    def choice_finished(self) -> CapturedChoice:
        """Return the choice."""
        return CapturedChoice(
            index=self._number,
            text=self.text,
            thinking=self.thinking(),
            tool_calls=self.calls(),
            reason=self.reason,
            ending=self._ending,
            matched=self.matched,
            says_matched=self.says_matched,
            pieces=tuple((at, sum(map(len, parts))) for at, parts in sorted(self._texts.items())),
        )


def naming(number: int, find: Find) -> Find:
    """Return a ``find`` for a choice beside the first one: it names the choice."""

    def note(
        code: str,
        severity: Severity,
        sentence: str,
        index: int | None = None,
        shown: str | None = None,
    ) -> None:
        find(code, severity, f"Choice {number}: {sentence}", index, shown)

    return note


# A capture while it is being read; the dialects' readers write into it.
#
# Used for one reading only; knows no dialect's order of events.

_FINDINGS_PER_CODE = 3
# Marks with which templates of chats end a turn; they belong to no answer.
_TEMPLATE_MARK = re.compile(
    r"<(?:\|(?:im_end|eot_id|eom_id|end|endoftext|return|end_of_text)\||end_of_turn|turn\|)>\s*\Z"
)
_WITH_TEMPLATE = (
    *(WireDialect.MESSAGES, WireDialect.CHAT, WireDialect.RESPONSES, WireDialect.OLLAMA),
)
# So many tokens leave something to show.
_MANY_TOKENS = 8
# Beyond this number, findings are only counted.
_MOST_CHOICES = 128


class Draft(ChoiceDraft):
    """Collects the content of one answer from its events."""

    def __init__(
        self, dialect: WireDialect, framed: Framed, *, is_streamed: bool, is_whole: bool = False
    ) -> None:
        super().__init__(0, self._note)
        self.framed = framed
        self.is_streamed = is_streamed
        self.is_dump = framed.is_dump
        self.is_whole = is_whole
        self.model: str | None = None
        self.answer_id: object = None
        self.output_ids: list[int] = []
        self.usage: CapturedUsage | None = None
        self.error: str | None = None
        self.dialect = dialect
        self._others: dict[int, ChoiceDraft] = {}
        self._left_out = self._beside(_MOST_CHOICES)
        self._findings: list[Finding] = list(framed.notes)

    def choice(self, number: object) -> ChoiceDraft:
        """Return a choice by its index; the first one, 0, is the draft itself."""
        if not isinstance(number, int) or isinstance(number, bool) or number == 0:
            return self
        if number not in self._others and len(self._others) >= _MOST_CHOICES:
            return self._left_out
        return self._others.setdefault(number, self._beside(number))

    def _beside(self, number: int) -> ChoiceDraft:
        return ChoiceDraft(number, naming(number, self.find))

    def set_error(self, value: object) -> None:
        """Set the error, whatever its format."""
        message = value.get("message") if isinstance(value, dict) else value
        self.error = message if isinstance(message, str) else str(value)
        self._ending = CapturedEnding.ERROR

    def _note(
        self,
        code: str,
        severity: Severity,
        sentence: str,
        index: int | None = None,
        shown: str | None = None,
    ) -> None:
        # The same thing is noted a few times only.
        if sum(found.code == code for found in self._findings) >= _FINDINGS_PER_CODE:
            return
        if shown is None:
            shown = self.framed.frames[index].raw if index is not None else ""
        self._findings.append(Finding(code, severity, sentence, index, excerpt(shown)))

    def misplaced(self, index: int, sentence: str) -> None:
        """Record that an event is at the wrong place."""
        self.find("event_order", Severity.ERROR, sentence, index)

    def check_form(self, index: int, value: dict[str, Any]) -> None:
        """Record what an answer, or an event of a stream, lacks or has in another form."""
        form = None
        # What is no JSON at all is noted as that.
        if not self.is_dump and self.framed.frames[index].is_json:
            form = form_of(self.dialect, value, is_streamed=self.is_streamed)
        for misfit in misfits(value, form) if form is not None else ():
            # A person may have pasted a part, or left out what does not matter.
            if not misfit.is_absent:
                self.find("field_form", Severity.ERROR, misfit.sentence, index)
            elif self.is_whole:
                self.find("field_missing", Severity.ERROR, misfit.sentence, index)

    def values_until_done(
        self, frames: Iterable[Frame], noun: str
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the JSON objects of a stream that ends with ``data: [DONE]``, with their indexes.

        Errors in the stream, objects after its end and a missing end are recorded as findings.
        """
        is_done = False
        for index, frame in enumerate(frames):
            if frame.is_done_mark:
                is_done = True
                continue
            value = mapping(frame.value)
            if "error" in value:
                self.set_error(value["error"])
                continue
            if is_done and value:
                self.misplaced(index, f"{noun} comes after [DONE].")
            self.check_form(index, value)
            yield index, value
        if self.error is None and not is_done and not self.is_dump:
            self.lacks_end("The stream ends without data: [DONE].")

    def changes_id(self, index: int, noun: str, first: object, other: object) -> None:
        """Record that parts of one answer have different ids, by which clients join them."""
        if not self.is_dump:
            said = f"The {noun} have different ids: {first}, then {other}."
            self.find("id_changes", Severity.ERROR, said, index)

    def changes_model(self, index: int, first: object, other: object) -> None:
        """Record that parts of one answer name different models."""
        if not self.is_dump:
            said = f"The model changes within an answer: {first}, then {other}."
            self.find("model_changes", Severity.ERROR, said, index)

    def changes_created(self, index: int, first: object, other: object) -> None:
        """Record that parts of one answer are of different times, where the vendor has one."""
        if not self.is_dump:
            said = f"created changes within an answer: {first}, then {other}."
            self.find("created_changes", Severity.ERROR, said, index)

    def lacks_usage(self, sentence: str, severity: Severity = Severity.WARNING) -> None:
        """Record that the counts that clients read are missing."""
        self.find("usage_missing", severity, sentence)

    def check_content(self, name: str, holder: dict[str, Any]) -> None:
        """Record that an answer of many tokens has an empty array of what was generated."""
        made = self.usage.output_tokens if self.usage is not None else None
        if holder.get(name) == [] and (made or 0) > _MANY_TOKENS:
            said = f"{name} is an empty array, though {made} tokens are counted."
            self.find("content_empty", Severity.ERROR, said)

    def lacks_role(self, sentence: str) -> None:
        """Record that nothing says whose message it is."""
        # A person may have pasted a part, or left out what does not matter.
        if self.is_whole:
            self.find("role_missing", Severity.ERROR, sentence)

    def lacks_end(self, sentence: str) -> None:
        """Record that the stream lacks its last event."""
        self.find("end_marker_missing", Severity.ERROR, sentence)

    def finished(self) -> Capture:
        """Return the capture."""
        framed = self.framed
        if self.dialect in _WITH_TEMPLATE and (mark := _TEMPLATE_MARK.search(self.text[-40:])):
            sentence = f"The text ends with {mark[0].strip()}, a mark of the model's chat template."
            self.find("template_mark", Severity.ERROR, sentence)
        return Capture(
            dialect=self.dialect,
            is_streamed=self.is_streamed,
            status=framed.status,
            headers=framed.headers,
            model=self.model if isinstance(self.model, str) else None,
            text=self.text,
            thinking=self.thinking(),
            tool_calls=self.calls(),
            reason=self.reason,
            ending=self._ending,
            matched=self.matched,
            says_matched=self.says_matched,
            output_ids=tuple(self.output_ids),
            usage=self.usage,
            error=self.error,
            events=tuple(
                CapturedEvent(
                    index,
                    frame.name,
                    frame.raw,
                    self.text_of(index),
                    self.thinking_of(index),
                )
                for index, frame in enumerate(framed.frames)
            ),
            asked_stops=framed.stops,
            choices=tuple(other.choice_finished() for _, other in sorted(self._others.items())),
            is_cut=framed.is_cut,
            label=framed.label,
            findings=tuple(self._findings),
            answer_id=self.answer_id if isinstance(self.answer_id, str) else None,
        )


def mapping(value: Any) -> dict[str, Any]:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """Return the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def count(value: Any) -> int | None:
    """Return the value if it is a whole number."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def usage(
    value: Any,
    prompt: str,
    output: str,
    cached: tuple[str, ...] = (),
    total: str = "",
    reasoning: tuple[str, ...] = (),
) -> CapturedUsage:
    """Return the usage in an object; ``cached`` and ``reasoning`` are paths in it."""
    holder = mapping(value)
    named = {prompt: holder.get(prompt), output: holder.get(output), total: holder.get(total)}
    return CapturedUsage(
        count(holder.get(prompt)),
        count(holder.get(output)),
        _inside(holder, cached),
        count(holder.get(total)) if total else None,
        _inside(holder, reasoning),
        tuple(name for name, one in named.items() if one is not None and count(one) is None),
    )


def _inside(holder: Any, path: tuple[str, ...]) -> int | None:
    for name in path:
        holder = mapping(holder).get(name)
    return count(holder) if path else None
