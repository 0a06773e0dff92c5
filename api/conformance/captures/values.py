"""Values of a saved answer: its content, events, ending, token counts and findings.

Pure; any thread.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from http import HTTPStatus


class WireDialect(StrEnum):
    """The dialects in which an answer can be read."""

    MESSAGES = "messages"
    CHAT = "chat"
    COMPLETIONS = "completions"
    RESPONSES = "responses"
    GENERATE = "generate"
    OLLAMA = "ollama"


class CapturedEnding(StrEnum):
    """The meaning of a server's reason, as precisely as its dialect expresses it."""

    NATURAL = "natural"
    STOP = "stop"
    NATURAL_OR_STOP = "natural or stop"
    LIMIT = "limit"
    TOOL = "tool"
    ERROR = "error"
    OTHER = "other"


class Severity(StrEnum):
    """A fault, something suspicious, or something worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault or remark about a saved answer."""

    code: str
    severity: Severity
    sentence: str
    event_index: int | None = None
    excerpt: str = ""


@dataclass(frozen=True, slots=True)
class CapturedUsage:
    """Token counts of the server; None for a count that it does not send."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    total_tokens: int | None = None
    reasoning_tokens: int | None = None
    invalid: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CapturedCall:
    """A tool call: the tool's name and its arguments as JSON text."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class CapturedEvent:
    """One event of a stream, or the whole body of an answer that was not streamed."""

    index: int
    name: str | None
    raw: str
    text: str = ""
    thinking: str = ""


@dataclass(frozen=True, slots=True)
class CapturedChoice:
    """A choice of an answer; ``pieces`` has the event and length of each text delta."""

    text: str = ""
    thinking: str = ""
    tool_calls: tuple[CapturedCall, ...] = ()
    reason: str | None = None
    ending: CapturedEnding | None = None
    matched: str | int | None = None
    reports_match: bool = False
    pieces: tuple[tuple[int, int], ...] = ()
    index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture(CapturedChoice):
    """An answer of some server; its own content is that of the first choice.

    ``verdict`` is why it ended, in the words of a server that reports that.
    """

    dialect: WireDialect | None
    is_streamed: bool = False
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    model: str | None = None
    output_ids: tuple[int, ...] = ()
    usage: CapturedUsage | None = None
    error: str | None = None
    events: tuple[CapturedEvent, ...] = ()
    request_stops: tuple[str, ...] = ()
    choices: tuple[CapturedChoice, ...] = ()
    is_truncated: bool = False
    label: str = ""
    findings: tuple[Finding, ...] = ()
    answer_id: str | None = None
    verdict: str | None = None

    @property
    def output_tokens(self) -> int | None:
        return None if self.usage is None else self.usage.output_tokens

    @property
    def is_answer(self) -> bool:
        """Whether it is an answer, even one of unknown format or a missing one."""
        codes = {finding.code for finding in self.findings}
        return self.dialect is not None or bool(codes - {"unknown_dialect"})

    @property
    def all_choices(self) -> "tuple[CapturedChoice, ...]":
        return (self, *self.choices)

    def of_choice(self, choice: CapturedChoice) -> "Capture":
        """Return this answer with a choice in place of the first one."""
        return replace(
            self, **{each.name: getattr(choice, each.name) for each in fields(CapturedChoice)}
        )


def excerpt(text: str, max_chars: int = 120) -> str:
    """Return the text; the middle of a long text is left out."""
    half = max_chars // 2
    return text if len(text) <= max_chars else f"{text[:half]} … {text[-half:]}"


def status_text(status: int) -> str:
    """Return an HTTP status with its name, such as ``HTTP 429 Too Many Requests``."""
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"


def first_occurrence(text: str, stops: Sequence[str]) -> tuple[int, str] | None:
    """Return the offset of the stop that is complete first, and that stop; the longest of several.

    Independent of the engine's matcher, so that it does not share the matcher's faults.
    """
    found = [(start, stop) for stop in stops if stop and (start := text.find(stop)) >= 0]
    return min(found, key=lambda one: (one[0] + len(one[1]), one[0]), default=None)


def unfinished_stop(text: str, stops: Sequence[str]) -> tuple[str, str] | None:
    """Return the longest end of the text that begins a stop, and that stop."""
    found = (
        (stop[:length], stop)
        for stop in stops
        for length in range(1, min(len(stop), len(text) + 1))
        if text.endswith(stop[:length])
    )
    return max(found, key=lambda pair: len(pair[0]), default=None)
