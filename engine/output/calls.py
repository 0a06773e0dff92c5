"""Collects the text of tool calls while they are written and parses each when it is complete.

Pure; belongs to the thread that feeds it.
"""

from collections.abc import Callable
from uuid import uuid4

from engine.output.arguments import arguments_text
from engine.values.chat import ToolCall
from engine.values.events import ToolCallDelta

CallParser = Callable[[str, str | None], list[tuple[str, object]]]
"""From a call's raw text, and the name its tag gave, to (name, arguments): an object or its JSON
text. Raises ``ValueError`` for text that is not a call."""


class OpenCalls:
    """The tool calls of one answer.

    Attributes:
        count: Calls that are complete.
        is_fresh: Whether the last token completed one; the caller clears it.
        name: The name that the tag of the open call gave.
        unfinished: Raw text of a call that the end cut short.
    """

    __slots__ = ("_begun", "_parse", "_text", "count", "is_fresh", "name", "unfinished")

    def __init__(self, parse: CallParser) -> None:
        self._parse = parse
        self._text: list[str] = []
        self._begun = ""
        self.count = 0
        self.is_fresh = False
        self.name: str | None = None
        self.unfinished = ""

    def continue_call(self, begun: str, name: str | None) -> None:
        """Open a call whose first part is in the prompt; that part is parsed, but not sent."""
        self._begun = begun
        self.name = name

    @property
    def is_blank(self) -> bool:
        """Whether the open call has no text yet."""
        return not self._begun.strip() and not "".join(self._text).strip()

    def add(self, text: str) -> None:
        """Take more of the open call's text."""
        self._text.append(text)

    def close(self) -> tuple[list[ToolCallDelta], str]:
        """Parse what was collected; return its calls, or the text itself where it is not a call.

        Text whose arguments are not one JSON object is not a call, so that every surface can rely
        on arguments.
        """
        raw = self._taken()
        begun, self._begun = self._begun, ""
        try:
            found = self._parse(begun + raw, self.name)
            parsed = [(name, arguments_text(arguments)) for name, arguments in found]
        except ValueError:
            parsed = []
        if not parsed:
            return [], raw
        events = []
        for number, (name, arguments) in enumerate(parsed):
            call = ToolCall(uuid4().hex[:24], name, arguments)
            events.append(ToolCallDelta(self.count, call, "" if number else raw))
            self.count += 1
            self.is_fresh = True
        return events, ""

    def cut(self) -> None:
        """Keep what was collected as an unfinished call."""
        self.unfinished = self._taken()

    def _taken(self) -> str:
        raw = "".join(self._text)
        self._text.clear()
        return raw
