"""One choice of an answer while it is being read: its text, thinking, calls, and reason.

Knows no dialect. Pure except for its own state; any thread.
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
        """Record the finding.

        Args:
            code: A stable code for programs.
            severity: How bad it is.
            sentence: What is wrong, for a person.
            index: The event in which it appears.
            shown: The text that shows it; None for the whole event.
        """


class ChoiceDraft:
    """Collects the content of one choice from the events of an answer.

    Args:
        number: Its number, counted from 0.
        find: Notes what is wrong with it.

    Attributes:
        find: As above.
        reason: The reason so far.
        matched: The stop that matched, according to the server.
        says_matched: Whether the answer has a field for it.
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
            self._thoughts.setdefault(index, []).append(text)

    def add_call(self, key: object, name: object, arguments: object) -> None:
        """Add a name or a part of the arguments to the tool call with a key.

        Args:
            key: Tells the answer's calls apart; any JSON value.
            name: The function's name, if this event has it; anything but a string is ignored.
            arguments: The next part of the arguments' JSON; anything but a string is ignored.
        """
        # Any value can serve as a key, also one that is not a number, and even a list or an object.
        call = self._calls.setdefault(repr(key), ["", ""])
        call[0] = call[0] or (name if isinstance(name, str) else "")
        call[1] += arguments if isinstance(arguments, str) else ""

    def set_reason(self, index: int, reason: str, ending: CapturedEnding) -> None:
        """Set the reason; a second reason is a finding.

        Args:
            index: The event that gives it.
            reason: The reason as the server spells it.
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
