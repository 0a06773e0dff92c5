"""What the inspector needs from the application: API views of a run, captures, the probe.

The application provides it; the user interface knows no API. Plain values and protocols.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from ui.inspector.run.shown_run import ShownRun

Severity = Literal["error", "warning", "note"]
CheckOutcome = Literal["held", "failed", "undecided", "skipped", "not asked"]


@dataclass(frozen=True, slots=True)
class WireView:
    """A run as one API sends it, byte for byte.

    Attributes:
        name: The API's name.
        path: Its route.
        request: The request's body.
        whole: The answer as one response, with its status line and headers.
        stream: The answer as a stream.
        curl: A curl command that sends the same request.
        python: A Python program that sends it with the vendor's own package.
    """

    name: str
    path: str
    request: str
    whole: str
    stream: str
    curl: str
    python: str


@dataclass(frozen=True, slots=True)
class CaptureFinding:
    """One thing that is wrong, or worth knowing, in a captured answer."""

    severity: Severity
    sentence: str
    excerpt: str = ""
    event_index: int | None = None


@dataclass(frozen=True, slots=True)
class CaptureView:
    """A captured answer, read.

    Attributes:
        title: What the answer is, in one line; if nothing was recognised, why.
        is_answer: Whether anything could be recognised.
        facts: Names and values.
        thinking: The reasoning.
        text: The answer's text.
        matched: The stop that the server names, if it is a string.
        findings: Its faults, worst first.
        events: Name and data of each event.
        report: All of it as text.
    """

    title: str
    is_answer: bool
    facts: tuple[tuple[str, str], ...] = ()
    thinking: str = ""
    text: str = ""
    matched: str | None = None
    findings: tuple[CaptureFinding, ...] = ()
    events: tuple[tuple[str, str], ...] = ()
    report: str = ""


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """Which server to probe, and how.

    Attributes:
        url: Its address.
        dialect: The name of the API; empty detects it.
        model: The model's name; empty takes the first that the server lists.
        api_key: Its key; empty for none. It is never saved.
    """

    url: str
    dialect: str = ""
    model: str = ""
    api_key: str = ""


@dataclass(frozen=True, slots=True)
class ProbeFault:
    """What a check found wrong.

    Attributes:
        sentence: What is wrong.
        evidence: What was expected, what the server sent, and the request as a command; by lines.
    """

    sentence: str
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class ProbeRow:
    """One check and its result."""

    title: str
    outcome: CheckOutcome
    sentence: str
    faults: tuple[ProbeFault, ...] = ()


@dataclass(frozen=True, slots=True)
class ProbeProgress:
    """How far a probe has come."""

    done: int
    total: int
    title: str
    row: ProbeRow | None = None


@dataclass(frozen=True, slots=True)
class ProbeOutcome:
    """A finished probe.

    Attributes:
        summary: The result in a sentence.
        has_passed: Whether no check failed.
        rows: The checks.
        markdown: A report for a bug tracker.
        html: The same as a page.
        json: The same for programs.
    """

    summary: str
    has_passed: bool
    rows: tuple[ProbeRow, ...]
    markdown: str
    html: str
    json: str


class ProbeProblem(Exception):
    """The probe could not begin; the message gives the reason and the remedy."""


class InspectorTools(Protocol):
    """What the application provides to the inspector. Everything runs on the window's loop."""

    @property
    def probe_dialects(self) -> Sequence[str]:
        """The dialects that can be probed."""

    async def wire_views(self, shown: ShownRun) -> Sequence[WireView]:
        """Return what each API would send for a run.

        Raises:
            ValueError: The run cannot be rendered; the message says why.
        """

    def capture_text(self, content: bytes) -> str:
        """Return the text of a file with captured answers; a compressed file is decompressed.

        Raises:
            ValueError: It cannot be read; the message is the end of a sentence.
        """

    def read_capture(self, text: str, stops: Sequence[str] = ()) -> CaptureView:
        """Read a captured answer; never raises."""

    async def probe(
        self, target: ProbeTarget, on_progress: Callable[[ProbeProgress], None]
    ) -> ProbeOutcome:
        """Probe a server; cancelling the task ends it.

        Raises:
            ProbeProblem: It could not begin.
        """
