"""What a run of the probe is made of: its questions, its exchanges with a server, its findings.

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
from api.conformance.probe.references import Reference, Topic, reference

# The name of the probing program in reports.

# Installed as a part of the application, or by itself.
_DISTRIBUTIONS = ("fullstop-chat", "fullstop-probe")


def tool_name() -> str:
    """Return the name and the version of this probe."""
    for distribution in _DISTRIBUTIONS:
        try:
            return f"fullstop probe {version(distribution)}"
        except PackageNotFoundError:
            continue
    return "fullstop probe"


# The catalogue's values: what a case checks, how binding it is, and its reference.


class Level(StrEnum):
    """How binding a case is.

    A specification is in the reference of the dialect's vendor. An extension is in common use but
    in no vendor's reference. An opinion is what users expect, without any reference.
    """

    SPECIFICATION = "specification"
    EXTENSION = "extension"
    OPINION = "opinion"


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that a probe checks."""

    code: str
    title: str
    rule: str
    topic: Topic
    level: Level = Level.SPECIFICATION
    weaker_in: frozenset[WireDialect] = frozenset()

    def reference_in(self, dialect: WireDialect) -> Reference | None:
        """Return the reference of the dialect's vendor, or None."""
        return reference(dialect, self.topic)

    def level_in(self, dialect: WireDialect) -> Level:
        """Return the level in a dialect; a rule that its vendor does not state is an extension."""
        if dialect in self.weaker_in:
            return Level.OPINION
        if self.level is Level.SPECIFICATION and self.reference_in(dialect) is None:
            return Level.EXTENSION
        return self.level


# How a server is reached: its key, headers, certificates and time limits.


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What every request to a server needs in addition to its dialect.

    Attributes:
        api_key: The key that the server requires, or None.
        headers: Headers in addition to those of the dialect.
        base_path: Replaces ``/v1`` in every path; None keeps the paths.
        timeout_s: How long one answer may take.
        longest_wait_s: The longest single wait for a busy server.
        grace_s: How long a connection may stay open after the end of its stream.
        is_insecure: Whether untrusted certificates are accepted.
        ca_file: Certificates to trust, in a PEM file; None for those of the system.
    """

    api_key: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    base_path: str | None = None
    timeout_s: float = 60.0
    longest_wait_s: float = 60.0
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


# One request of a probe and its answer.


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer."""

    body: Any
    status: int
    text: str
    capture: Capture
    problem: str = ""
    total_s: float = 0.0
    first_s: float | None = None
    is_streamed: bool = False
    is_left_open: bool = False
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def mode(self) -> str:
        """How the answer was requested, as reports show it."""
        return "streamed" if self.is_streamed else "whole"

    @property
    def is_answer(self) -> bool:
        """Whether this is a complete answer of the model."""
        return self.status == 200 and not self.problem and self.capture.error is None

    @property
    def is_refusal(self) -> bool:
        """Whether the server says that the request is at fault."""
        return 400 <= self.status < 500 and not self.problem


# The options of a probe and its results.


class ProbeFailed(Exception):
    """The probe could not begin: no API answers; the message says what to do."""


class CheckOutcome(StrEnum):
    """The outcome of one check.

    "Undecided" ran but allowed no judgement. "Not asked" was left out because the probe was cut
    short. "Skipped" does not apply to the server or its dialect.
    """

    HELD = "held"
    FAILED = "failed"
    SKIPPED = "skipped"
    UNDECIDED = "undecided"
    NOT_ASKED = "not asked"


class ProbeVerdict(StrEnum):
    """The verdict of a whole probe."""

    HELD = "held"
    FAILED = "failed"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True)
class ProbeOptions(Access):
    """What to probe, how to reach it, and within which limits.

    Attributes:
        url: The server's address; the path of an endpoint may be part of it.
        dialect: The dialect to use; None detects it.
        model: The model's name; None for the first that the server lists.
        time_limit_s: How long the whole probe may take.
        max_requests: How many requests it may send.
        patience_s: How much longer than usual the next answer may take after a client hung up.
        max_tokens: The limit of ordinary answers; None lets the probe choose.
        only: Patterns of the cases to run, as in ``stop.*``; empty runs all.
        skip: Patterns of the cases to leave out.
        levels: The levels whose failures count.
    """

    url: str
    dialect: WireDialect | None = None
    model: str | None = None
    time_limit_s: float = 900.0
    max_requests: int = 300
    patience_s: float = 2.0
    max_tokens: int | None = None
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    levels: frozenset[Level] = frozenset({Level.SPECIFICATION})


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that a server did wrong in one check."""

    code: str
    sentence: str
    mode: str = ""
    expected: str = ""
    got: str = ""
    curl: str = ""
    baseline: str = ""
    exchange: int | None = None


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One row of the report.

    Attributes:
        code: A stable id for programs, such as ``stop.one_character``.
        title: What is checked.
        outcome: Its outcome.
        sentence: The result, for a person.
        faults: The faults, if it failed.
        level: How binding it is in this dialect.
        rule: What a server must do, in our words.
        reference: Where the dialect's vendor states it; None if it does not.
        cause: The id of the check whose failure caused this one; empty if it is independent.
        exchanges: The raw requests and answers.
    """

    code: str
    title: str
    outcome: CheckOutcome
    sentence: str = ""
    faults: tuple[Fault, ...] = ()
    level: Level = Level.SPECIFICATION
    rule: str = ""
    reference: Reference | None = None
    cause: str = ""
    exchanges: tuple[Exchange, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The report of a probe.

    Attributes:
        url: The address probed.
        dialect: The dialect of the requests.
        model: The requested model; empty if none is named.
        server: The server's name, if it sends one.
        is_deterministic: Whether the same request got the same answer.
        results: One for each check, in order.
        requests: How many requests were sent.
        duration_s: How long it took.
        other_dialects: Other dialects that the server answers and that were not probed.
        tool: The probing program, with its version.
        began_at: When it began, in UTC, as ISO 8601.
        conclusions: Conclusions about the server before the checks, as sentences.
        cut_short: Why it ended early; empty if it did not.
        waits: How often the probe waited for a busy server.
        waited_s: How long it waited in all.
        levels: The levels whose failures count.
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
    levels: frozenset[Level] = frozenset({Level.SPECIFICATION})

    @property
    def has_passed(self) -> bool:
        """Whether no check failed that counts, and the probe is complete."""
        return self.verdict is ProbeVerdict.HELD

    @property
    def is_complete(self) -> bool:
        """Whether all checks ran and more than half could be decided."""
        decided = sum(one.outcome in _DECIDED for one in self.results)
        undecided = sum(
            one.outcome is CheckOutcome.UNDECIDED and not one.cause for one in self.results
        )
        return not self.not_asked and not self.cut_short and decided > undecided

    @property
    def verdict(self) -> ProbeVerdict:
        """The verdict."""
        if self.failed:
            return ProbeVerdict.FAILED
        return ProbeVerdict.HELD if self.is_complete else ProbeVerdict.INCOMPLETE

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        """The failures that count, without consequences of others."""
        return tuple(one for one in self._own_failures() if one.level in self.levels)

    @property
    def remarks(self) -> tuple[CheckResult, ...]:
        """The failures of levels that do not count, without consequences of others."""
        return tuple(one for one in self._own_failures() if one.level not in self.levels)

    @property
    def not_asked(self) -> tuple[CheckResult, ...]:
        """The checks that were left out because the probe was cut short."""
        return tuple(one for one in self.results if one.outcome is CheckOutcome.NOT_ASKED)

    @property
    def fault_codes(self) -> frozenset[str]:
        """The codes of all faults of all levels, without consequences of others."""
        return frozenset(fault.code for result in self._own_failures() for fault in result.faults)

    def consequences_of(self, code: str) -> tuple[CheckResult, ...]:
        """Return the results that another check's failure caused."""
        return tuple(one for one in self.results if one.cause == code)

    def _own_failures(self) -> tuple[CheckResult, ...]:
        return tuple(
            one for one in self.results if one.outcome is CheckOutcome.FAILED and not one.cause
        )


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a probe.

    Attributes:
        done: Checks that are finished.
        total: All checks, as far as known.
        title: The title of the current check.
        result: The latest result, if there is one.
    """

    done: int
    total: int
    title: str
    result: CheckResult | None = field(default=None)


_DECIDED = (CheckOutcome.HELD, CheckOutcome.FAILED)
OnProgress = Callable[[Progress], None]
