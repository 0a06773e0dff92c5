"""What a probe is asked to do and what it found. Pure values; any thread."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from api.conformance.captures.values import WireDialect


class ProbeFailed(Exception):
    """The probe could not begin: nothing answers, or not as an API; the message says what to do."""


class CheckOutcome(StrEnum):
    """What became of one check."""

    PASSED = "passed"
    FAILED = "failed"
    UNJUDGED = "unjudged"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """What to probe, and how far to go.

    Attributes:
        url: The server's address; the path of an endpoint may be part of it.
        dialect: Whose words to use; None tries what answers.
        model: The model's name; None takes the first that the server lists.
        api_key: The key that the server wants, or None.
        timeout_s: How long one answer may take.
        time_limit_s: How long the whole probe may take.
        max_requests: How many requests it may send.
        patience_s: How much longer than usual the next answer may take after a client hung up.
    """

    url: str
    dialect: WireDialect | None = None
    model: str | None = None
    api_key: str | None = None
    timeout_s: float = 60.0
    time_limit_s: float = 900.0
    max_requests: int = 200
    patience_s: float = 2.0


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that a server did wrong in one check.

    Attributes:
        code: A stable word for programs.
        sentence: What it did, for a person.
        mode: ``streamed`` or ``whole``.
        expected: The text, or the fact, that was expected.
        got: What came instead.
        curl: A command that shows it.
    """

    code: str
    sentence: str
    mode: str = ""
    expected: str = ""
    got: str = ""
    curl: str = ""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One row of the report.

    Attributes:
        code: A stable word for programs, such as ``stop.one_character``.
        title: What is checked.
        outcome: What became of it.
        sentence: What was seen.
        faults: Where it failed: how.
    """

    code: str
    title: str
    outcome: CheckOutcome
    sentence: str = ""
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """What a probe found.

    Attributes:
        url: The address probed.
        dialect: Whose words were used.
        model: The model asked for.
        server: What the server calls itself, where it says.
        is_deterministic: Whether the same request got the same answer.
        results: One for each check, in order.
        requests: How many requests were sent.
        duration_s: How long it took.
        other_dialects: Dialects that answer too and were not probed.
    """

    url: str
    dialect: WireDialect
    model: str
    server: str
    is_deterministic: bool
    results: tuple[CheckResult, ...]
    requests: int
    duration_s: float
    other_dialects: tuple[WireDialect, ...] = ()

    @property
    def has_passed(self) -> bool:
        """Whether no check failed."""
        return not self.failed

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        """The checks that failed."""
        return tuple(one for one in self.results if one.outcome is CheckOutcome.FAILED)

    @property
    def fault_codes(self) -> frozenset[str]:
        """The codes of all faults."""
        return frozenset(fault.code for result in self.results for fault in result.faults)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a probe has come.

    Attributes:
        done: Checks that are finished.
        total: All checks, as far as is known.
        title: What is being checked now.
        result: The result that has just come, if one has.
    """

    done: int
    total: int
    title: str
    result: CheckResult | None = field(default=None)


OnProgress = Callable[[Progress], None]
