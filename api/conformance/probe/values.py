"""Values of a probe: its options, exchanges with a server, faults, results and reports.

Pure; any thread.
"""

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from api.conformance.captures.values import Capture, WireDialect
from api.conformance.probe.catalogue import Level
from api.conformance.probe.references import Reference

# Levels whose failures count by default.
COUNTING = frozenset({Level.SPECIFICATION, Level.EXTENSION})
# The probe is installed as a part of the application, or by itself.
_DISTRIBUTIONS = ("fullstop-chat", "fullstop-probe")
TOOL = "fullstop probe"


def tool_name() -> str:
    """Return the name and the version of this probe."""
    for distribution in _DISTRIBUTIONS:
        try:
            return f"{TOOL} {version(distribution)}"
        except PackageNotFoundError:
            continue
    return TOOL


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The key, headers, certificates and time limits of the requests to a server."""

    api_key: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    base_path: str | None = None
    timeout_s: float = 60.0
    max_wait_s: float = 60.0
    grace_s: float = 5.0
    is_insecure: bool = False
    ca_file: Path | None = None

    def tls(self) -> ssl.SSLContext | bool:
        """Return the TLS settings with the trusted certificates; True for the system's.

        Raises:
            OSError: The file of certificates cannot be read, or is not one.
        """
        if self.ca_file is not None:
            return ssl.create_default_context(cafile=str(self.ca_file))
        return not self.is_insecure


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer."""

    body: Any
    status: int
    text: str
    capture: Capture
    problem: str = ""
    is_timeout: bool = False
    total_s: float = 0.0
    first_s: float | None = None
    is_streamed: bool = False
    is_open: bool = False
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def mode(self) -> str:
        return "streamed" if self.is_streamed else "whole"

    @property
    def is_answer(self) -> bool:
        return self.status == 200 and not self.problem and self.capture.error is None

    @property
    def is_refusal(self) -> bool:
        """Whether the server says that the request is at fault."""
        return 400 <= self.status < 500 and not self.problem


class ProbeFailed(Exception):
    """The probe could not begin: no API answers; the message says what to do."""


class CheckOutcome(StrEnum):
    """The outcome of one check.

    "Flaky" failed once and held when it was repeated. "Undecided" ran but allowed no judgement.
    "Not asked" was left out because the probe was cut short. "Skipped" does not apply to the
    server or its dialect.
    """

    HELD = "held"
    FAILED = "failed"
    FLAKY = "flaky"
    SKIPPED = "skipped"
    UNDECIDED = "undecided"
    NOT_RUN = "not asked"


class Verdict(StrEnum):
    """The verdict of a probe of one dialect, or of all reports of a call."""

    HELD = "held"
    FAILED = "failed"
    INCOMPLETE = "incomplete"
    NOT_JUDGED = "not judged"
    UNREACHABLE = "unreachable"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class ProbeOptions(Access):
    """The server to probe and the limits of the probe."""

    url: str
    dialect: WireDialect | None = None
    model: str | None = None
    time_limit_s: float = 900.0
    max_requests: int = 400
    # How much longer than usual the next answer may take after a client hung up.
    patience_s: float = 2.0
    # How long a server that no longer answers may take to answer again.
    recovery_s: float = 30.0
    max_tokens: int | None = None
    prompts: tuple[str, ...] = ()
    is_quick: bool = False
    # Patterns of case ids; none runs all.
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    levels: frozenset[Level] = COUNTING


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server on this computer, and the models that it lists."""

    url: str
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a server in one check."""

    code: str
    sentence: str
    expected: str = ""
    got: str = ""
    baseline: str = ""
    # Whether no correct server ever answers so, even if its answers vary.
    is_certain: bool = False
    mode: str = ""
    curl: str = ""
    # The index among the exchanges of its result.
    exchange: int | None = None
    # Whether the same request was answered correctly, too.
    is_intermittent: bool = False


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One row of the report."""

    check_id: str
    title: str
    outcome: CheckOutcome
    sentence: str = ""
    faults: tuple[Fault, ...] = ()
    level: Level = Level.SPECIFICATION
    rule: str = ""
    reference: Reference | None = None
    cause: str = ""
    exchanges: tuple[Exchange, ...] = ()

    @property
    def is_decided(self) -> bool:
        return self.outcome in (CheckOutcome.HELD, CheckOutcome.FAILED)

    @property
    def is_of_stops(self) -> bool:
        return self.check_id.startswith(("stop.", "stops."))


@dataclass(frozen=True, slots=True)
class Report:
    """The report of a probe.

    Every failure counts by its own level. ``cause`` only says where a report shows it.
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
    tool: str = ""
    began_at: str = ""
    conclusions: tuple[str, ...] = ()
    cut_short: str = ""
    waits: int = 0
    waited_s: float = 0.0
    levels: frozenset[Level] = COUNTING

    @property
    def has_passed(self) -> bool:
        """Whether no check failed that counts, and the probe is complete and says enough."""
        return self.verdict is Verdict.HELD

    @property
    def is_complete(self) -> bool:
        return not self.not_run and not self.cut_short

    @property
    def unjudged(self) -> tuple[CheckResult, ...]:
        """The checks that said nothing, if these are most of those of stops, or most of all."""
        for results in ([result for result in self.results if result.is_of_stops], self.results):
            silent = tuple(result for result in results if not result.is_decided)
            if 2 * len(silent) > len(results):
                return silent
        return ()

    @property
    def verdict(self) -> Verdict:
        if self.failed:
            return Verdict.FAILED
        return self.verdict_without_failures

    @property
    def verdict_without_failures(self) -> Verdict:
        """The verdict if every failure were expected."""
        if not self.is_complete:
            return Verdict.INCOMPLETE
        return Verdict.NOT_JUDGED if self.unjudged or not self.results else Verdict.HELD

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        return tuple(failure for failure in self._failures() if failure.level in self.levels)

    @property
    def remarks(self) -> tuple[CheckResult, ...]:
        """The failures of levels that do not count."""
        return tuple(failure for failure in self._failures() if failure.level not in self.levels)

    @property
    def not_run(self) -> tuple[CheckResult, ...]:
        return tuple(result for result in self.results if result.outcome is CheckOutcome.NOT_RUN)

    def _failures(self) -> tuple[CheckResult, ...]:
        return tuple(result for result in self.results if result.outcome is CheckOutcome.FAILED)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a probe."""

    done: int
    total: int
    title: str
    result: CheckResult | None = field(default=None)
    remaining_s: float | None = None


OnProgress = Callable[[Progress], None]
