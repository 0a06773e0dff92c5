"""A capture while it is being read: what the dialects' readers write into.

Belongs to one reading; knows no dialect's order of events. Pure but for its own state; any thread.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from api.conformance.captures.framing import Frame, Framed
from api.conformance.captures.values import (
    Capture,
    CapturedCall,
    CapturedEnding,
    CapturedEvent,
    CapturedUsage,
    Finding,
    Severity,
    WireDialect,
    excerpt,
)

_FINDINGS_PER_CODE = 3


class Draft:
    """Collects what the events of one answer add up to.

    Attributes:
        framed: What is being read.
        is_streamed: Whether it is a stream.
        reason: The reason so far.
        model: The model's name.
        matched: The stop that has matched, as the server says.
        says_matched: Whether there is a place for it.
        output_ids: Ids of the answer's tokens.
        usage: Tokens.
        error: The server's error message.
    """

    def __init__(self, dialect: WireDialect, framed: Framed, *, is_streamed: bool) -> None:
        self.framed = framed
        self.is_streamed = is_streamed
        self.reason: str | None = None
        self.model: str | None = None
        self.matched: str | int | None = None
        self.says_matched = False
        self.output_ids: tuple[int, ...] = ()
        self.usage: CapturedUsage | None = None
        self.error: str | None = None
        self._dialect = dialect
        self._ending: CapturedEnding | None = None
        self._texts: dict[int, list[str]] = {}
        # Some dialects compare the whole text with every event.
        self._text = ""
        self._unjoined: list[str] = []
        self._thoughts: dict[int, list[str]] = {}
        self._calls: dict[str, list[str]] = {}
        self._findings: list[Finding] = []

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
        """Add to the tool call known by ``key`` its name or a part of its arguments."""
        # A key that is no number is as good as another, but it may be anything at all.
        call = self._calls.setdefault(repr(key), ["", ""])
        call[0] = call[0] or (name if isinstance(name, str) else "")
        call[1] += arguments if isinstance(arguments, str) else ""

    def set_reason(self, index: int, reason: str, ending: CapturedEnding) -> None:
        """Take the reason; a second one is a finding."""
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

    def set_error(self, value: object) -> None:
        """Take an error, in whichever envelope it comes."""
        message = value.get("message") if isinstance(value, dict) else value
        self.error = message if isinstance(message, str) else str(value)
        self._ending = CapturedEnding.ERROR

    def find(
        self,
        code: str,
        severity: Severity,
        sentence: str,
        index: int | None = None,
        shown: str | None = None,
    ) -> None:
        """Note something; the same thing is noted a few times only."""
        if sum(found.code == code for found in self._findings) >= _FINDINGS_PER_CODE:
            return
        if shown is None:
            shown = self.framed.frames[index].raw if index is not None else ""
        self._findings.append(Finding(code, severity, sentence, index, excerpt(shown)))

    def misplaced(self, index: int, sentence: str) -> None:
        """Note that an event stands where it must not."""
        self.find("event_order", Severity.ERROR, sentence, index)

    def values_until_done(
        self, frames: Iterable[Frame], noun: str
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the JSON objects of a stream that ``data: [DONE]`` ends, with their places.

        Errors in the stream, objects after its end and a missing end are noted on the way.

        Args:
            frames: The frames of the stream.
            noun: What a frame of this API is called, with its article.
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
            yield index, value
        if self.error is None and not is_done:
            self.lacks_end("The stream ends without data: [DONE].")

    def lacks_usage(self, sentence: str, severity: Severity = Severity.WARNING) -> None:
        """Note that tokens are not counted where clients read them."""
        self.find("usage_missing", severity, sentence)

    def lacks_end(self, sentence: str) -> None:
        """Note that the stream lacks its last event."""
        self.find("end_marker_missing", Severity.ERROR, sentence)

    def finished(self) -> Capture:
        """Return the capture."""
        framed = self.framed
        return Capture(
            dialect=self._dialect,
            is_streamed=self.is_streamed,
            status=framed.status,
            headers=framed.headers,
            model=self.model if isinstance(self.model, str) else None,
            text=self.text,
            thinking="".join(part for parts in self._thoughts.values() for part in parts),
            tool_calls=tuple(CapturedCall(*call) for call in self._calls.values()),
            reason=self.reason,
            ending=self._ending,
            matched=self.matched,
            says_matched=self.says_matched,
            output_ids=self.output_ids,
            usage=self.usage,
            error=self.error,
            events=tuple(
                CapturedEvent(
                    index,
                    frame.name,
                    frame.raw,
                    "".join(self._texts.get(index, ())),
                    "".join(self._thoughts.get(index, ())),
                )
                for index, frame in enumerate(framed.frames)
            ),
            asked_stops=framed.stops,
            findings=tuple(self._findings),
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


def usage(value: Any, prompt: str, output: str, cached: tuple[str, ...] = ()) -> CapturedUsage:
    """Return the usage that an object holds under these names; ``cached`` is a path."""
    holder = mapping(value)
    inner: Any = holder
    for name in cached:
        inner = mapping(inner).get(name)
    return CapturedUsage(
        count(holder.get(prompt)), count(holder.get(output)), count(inner) if cached else None
    )
