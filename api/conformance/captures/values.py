"""What a captured answer says, whoever sent it, and what is wrong with it.

Pure values; knows no web framework and no engine. Any thread.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus

# From what a capture keeps to what it says: of a large file it keeps a character for each byte.
Decode = Callable[[str], str]


def as_it_stands(text: str) -> str:
    """Return a piece of a text that is a text, and not the bytes of one."""
    return text


class WireDialect(StrEnum):
    """The dialects in which an answer can be read."""

    MESSAGES = "messages"
    CHAT = "chat"
    COMPLETIONS = "completions"
    RESPONSES = "responses"
    GENERATE = "generate"
    OLLAMA = "ollama"
    LLAMA_CPP = "llama.cpp"
    TGI = "tgi"
    GEMINI = "gemini"
    CONVERSE = "converse"


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
        total_tokens: All of them, where the dialect has such a sum.
        invalid: Names of counts that are not whole numbers.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    total_tokens: int | None = None
    invalid: tuple[str, ...] = ()


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
        source: Its data as it stands in the capture.
        text: What it added to the answer.
        thinking: What it added to the thinking.
        decode: Makes text of ``source``.
    """

    index: int
    name: str | None
    source: str
    text: str = ""
    thinking: str = ""
    decode: Decode = as_it_stands

    @property
    def raw(self) -> str:
        """Its data as it stood."""
        return self.decode(self.source)


@dataclass(frozen=True, slots=True)
class CapturedChoice:
    """One of several choices of an answer, beside the first one.

    Attributes:
        index: Its number, counted from 0.
        text: Its text.
        thinking: Its thinking.
        tool_calls: The tools that it calls.
        reason: Its reason, as the server spells it.
        ending: What that reason means.
        matched: The stop that the server says has matched.
        says_matched: Whether there is a place where that would stand.
        pieces: For each event that brought text, its place and how many characters it brought.
    """

    index: int
    text: str = ""
    thinking: str = ""
    tool_calls: tuple[CapturedCall, ...] = ()
    reason: str | None = None
    ending: CapturedEnding | None = None
    matched: str | int | None = None
    says_matched: bool = False
    pieces: tuple[tuple[int, int], ...] = ()


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
        asked_stops: The stops of the request, where it was captured with the answer.
        choices: The other choices, where there are several.
        is_cut: Whether a part of it was not read.
        label: What tells it from other answers of the same file, such as its address.
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
    choices: tuple[CapturedChoice, ...] = ()
    is_cut: bool = False
    label: str = ""
    findings: tuple[Finding, ...] = ()


_EXCERPT_CHARS = 120


def excerpt(text: str) -> str:
    """Return the text, its middle left out where it is long."""
    if len(text) <= _EXCERPT_CHARS:
        return text
    half = _EXCERPT_CHARS // 2
    return f"{text[:half]} … {text[-half:]}"


def status_in_words(status: int) -> str:
    """Return an HTTP status with its name, such as ``HTTP 429 Too Many Requests``."""
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"
