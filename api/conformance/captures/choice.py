"""One choice of an answer while it is being read: its text, thinking, calls, and reason.

Knows no dialect. Pure but for its own state; any thread.
"""

from typing import Protocol

from api.conformance.captures.values import (
    CapturedCall,
    CapturedChoice,
    CapturedEnding,
    Severity,
)


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
        """Note it.

        Args:
            code: A stable word for programs.
            severity: How bad it is.
            sentence: What it is.
            index: The event in which it shows.
            shown: The text that shows it; None for the event.
        """


class ChoiceDraft:
    """Collects what the events of an answer add up to in one of its choices.

    Args:
        number: Its number, counted from 0.
        find: Notes what is wrong with it.

    Attributes:
        find: As above.
        reason: The reason so far.
        matched: The stop that has matched, as the server says.
        says_matched: Whether there is a place for it.
    """

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
        """Append to the answer what event ``index`` says."""
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
        """Append to the thinking what event ``index`` says."""
        if isinstance(text, str) and text:
            self._thoughts.setdefault(index, []).append(text)

    def add_call(self, key: object, name: object, arguments: object) -> None:
        """Add to the tool call known by ``key`` its name or a part of its arguments.

        Args:
            key: Tells the answer's calls apart; any JSON value.
            name: The function's name, if this event has it; what is not a string is left out.
            arguments: The next part of the arguments' JSON; what is not a string is left out.
        """
        # A key that is no number is as good as another, but it may be anything at all.
        call = self._calls.setdefault(repr(key), ["", ""])
        call[0] = call[0] or (name if isinstance(name, str) else "")
        call[1] += arguments if isinstance(arguments, str) else ""

    def set_reason(self, index: int, reason: str, ending: CapturedEnding) -> None:
        """Take the reason; a second one is a finding.

        Args:
            index: The event that gives it.
            reason: The reason, as it stands on the wire.
            ending: What the reason means.
        """
        if self.reason is not None:
            self.find(
                "reason_repeated",
                Severity.ERROR,
                f"The reason is given twice: {self.reason}, then {reason}.",
                index,
            )
        self.reason, self._ending = reason, ending

    def set_matched(self, value: object) -> None:
        """Take what the server says has matched; a call with None says that it has a place."""
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
