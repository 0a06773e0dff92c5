"""What a captured answer says, whoever sent it, and what is wrong with it.

Pure values; knows no web framework and no engine. Any thread.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class WireDialect(StrEnum):
    """The dialects in which an answer can be read."""

    MESSAGES = "messages"
    CHAT = "chat"
    COMPLETIONS = "completions"
    RESPONSES = "responses"
    GENERATE = "generate"
    OLLAMA = "ollama"


class CapturedEnding(StrEnum):
    """What a server's reason says, as far as its dialect can tell the cases apart."""

    NATURAL = "natural"
    STOP = "stop"
    NATURAL_OR_STOP = "natural or stop"
    LIMIT = "limit"
    TOOL = "tool"
    ERROR = "error"
    OTHER = "other"


class Severity(StrEnum):
    """How bad a finding is: a fault, something suspicious, or something worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or worth knowing, in a captured answer.

    Attributes:
        code: A stable word for programs.
        severity: How bad it is.
        sentence: What is wrong, for a person.
        event_index: The event in which it shows; None where it is no single one.
        excerpt: The text or the event that shows it, shortened.
    """

    code: str
    severity: Severity
    sentence: str
    event_index: int | None = None
    excerpt: str = ""


@dataclass(frozen=True, slots=True)
class CapturedUsage:
    """Tokens as the server counts them; None where it does not say.

    Attributes:
        input_tokens: Tokens of the prompt, as the dialect counts them.
        output_tokens: Tokens generated.
        cached_tokens: Tokens of the prompt that were not computed anew.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class CapturedCall:
    """A tool call: the tool's name and its arguments as JSON text."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class CapturedEvent:
    """One event of a stream, or the whole body where the answer was not streamed.

    Attributes:
        index: Its place, counted from 0.
        name: The name on its ``event:`` line, where it had one.
        raw: Its data as it stood.
        text: What it added to the answer.
        thinking: What it added to the thinking.
    """

    index: int
    name: str | None
    raw: str
    text: str = ""
    thinking: str = ""


@dataclass(frozen=True, slots=True)
class Capture:
    """An answer of some server.

    Attributes:
        dialect: Whose words it is in; None where nothing could be recognised.
        is_streamed: Whether it came as a stream.
        status: The HTTP status, where it was captured.
        headers: The HTTP headers, names in lower case, where they were captured.
        model: The model's name.
        text: The answer's text (of its first choice).
        thinking: The thinking, where the server tells it apart.
        tool_calls: The tools called.
        reason: The reason as the server spells it.
        ending: What that reason means.
        matched: The stop that the server says has matched: a string, or a token's id.
        says_matched: Whether the answer has a place where the matched stop would stand.
        output_ids: The ids of the answer's tokens, where the dialect has them.
        usage: Tokens; None where the server says nothing.
        error: The server's error message.
        events: The events in order.
        asked_stops: The stops of the request, where a curl line was captured with the answer.
        findings: What is wrong with the form; ``diagnose`` adds what is wrong with the stopping.
    """

    dialect: WireDialect | None
    is_streamed: bool = False
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    model: str | None = None
    text: str = ""
    thinking: str = ""
    tool_calls: tuple[CapturedCall, ...] = ()
    reason: str | None = None
    ending: CapturedEnding | None = None
    matched: str | int | None = None
    says_matched: bool = False
    output_ids: tuple[int, ...] = ()
    usage: CapturedUsage | None = None
    error: str | None = None
    events: tuple[CapturedEvent, ...] = ()
    asked_stops: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


_EXCERPT_CHARS = 120


def excerpt(text: str) -> str:
    """Return the text, its middle left out where it is long."""
    if len(text) <= _EXCERPT_CHARS:
        return text
    half = _EXCERPT_CHARS // 2
    return f"{text[:half]} … {text[-half:]}"
