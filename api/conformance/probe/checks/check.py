"""What every check is: a question, its plan and its judgement."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from api.conformance.captures.values import Severity, WireDialect
from api.conformance.probe.catalogue import case_of
from api.conformance.probe.client import Client
from api.conformance.probe.judgement import Judgement
from api.conformance.probe.plan import Baseline, StopCase, simplest_case
from api.conformance.probe.values import (
    Case,
    CheckOutcome,
    CheckResult,
    Exchange,
    Fault,
    ProbeOptions,
)

# What checks have in common: their knowledge of the server, and the form of their results.

# Why a check is undecided if the server answered none of its requests.
NO_ANSWER = "There is no answer to compare."


class ServerGone(Exception):
    """The server stopped answering during the probe."""

    def __init__(self, seen: "Seen") -> None:
        super().__init__("the server no longer answers")
        self.seen = seen


@dataclass(slots=True)
class CheckSetting:
    """What is known of the server while it is being checked."""

    client: Client
    options: ProbeOptions
    baselines: Sequence[Baseline]
    short_s: float
    broken_by: str = ""

    @property
    def main(self) -> Baseline:
        """The first baseline."""
        return self.baselines[0]


@dataclass(frozen=True, slots=True)
class Check:
    """One check: a case of the catalogue and how it is decided."""

    code: str
    run: Callable[[CheckSetting], Awaitable["Seen"]]


@dataclass(frozen=True, slots=True)
class Seen:
    """The result of a check."""

    sentence: str = ""
    faults: tuple[Fault, ...] = ()
    outcome: CheckOutcome | None = field(default=None)
    cause: str = ""

    def result(
        self, case: Case, dialect: WireDialect, exchanges: Sequence[Exchange] = ()
    ) -> CheckResult:
        """Return the row of the report."""
        outcome = self.outcome or (CheckOutcome.FAILED if self.faults else CheckOutcome.HELD)
        sentence = self.sentence
        if self.faults:
            sentences = dict.fromkeys(fault.sentence for fault in self.faults)
            sentence = " ".join(sentences)
        return CheckResult(
            code=case.code,
            title=case.title,
            outcome=outcome,
            sentence=sentence,
            faults=self.faults,
            level=case.level_in(dialect),
            rule=case.rule,
            reference=case.reference_in(dialect),
            cause=self.cause,
            exchanges=tuple(exchanges),
        )


# Reports are for people, so very long texts of a server are shortened.
_SHOWN_CHARS = 20_000


def faults_of(client: Client, run: Exchange, verdicts: Iterable[Judgement]) -> list[Fault]:
    """Return verdicts as faults with their evidence."""
    return [fault(client, run, verdict) for verdict in verdicts]


async def confirmed(
    client: Client, body: Any, judge: Callable[[Exchange], Sequence[Judgement]]
) -> tuple[Exchange, list[Fault]]:
    """Send a request, and again if the answer has faults; only a repeated fault counts."""
    run = await client.send(body)
    verdicts = judge(run)
    if verdicts and not run.problem and not run.is_refusal:
        run = await client.send(body)
        verdicts = judge(run)
    return run, faults_of(client, run, verdicts)


def fault(client: Client, run: Exchange, verdict: Judgement) -> Fault:
    """Return a verdict as a fault with its evidence."""
    return Fault(
        verdict.code,
        verdict.sentence,
        run.mode,
        verdict.expected[:_SHOWN_CHARS],
        verdict.got[:_SHOWN_CHARS],
        client.curl(run.body),
        verdict.baseline[:_SHOWN_CHARS],
        next((at for at, one in enumerate(client.exchanges) if one is run), None),
    )


def skipped(sentence: str) -> Seen:
    """Return the result of a check that does not apply."""
    return Seen(sentence, outcome=CheckOutcome.SKIPPED)


def undecided(sentence: str) -> Seen:
    """Return the result of a check that could not be decided."""
    return Seen(sentence, outcome=CheckOutcome.UNDECIDED)


def without_premise(setting: CheckSetting) -> Seen | None:
    """Return the result of a check that needs working stops, if stops are broken; else None."""
    if not setting.broken_by:
        return None
    return Seen(
        f"This needs stops that work: {case_of(setting.broken_by).title} failed.",
        outcome=CheckOutcome.UNDECIDED,
        cause=setting.broken_by,
    )


def working_case(setting: CheckSetting) -> StopCase | Seen:
    """Return the simplest stop that works on this server; else why nothing can be decided."""
    if (broken := without_premise(setting)) is not None:
        return broken
    return simplest_case(setting.baselines) or undecided(NO_ANSWER)


def not_asked(sentence: str) -> Seen:
    """Return the result of a check that was not run because the probe was cut short."""
    return Seen(sentence, outcome=CheckOutcome.NOT_ASKED)


async def make_sure_it_lives(setting: CheckSetting, cause: Exchange) -> Fault | None:
    """Return a fault if the server no longer answers after the last request."""
    timeout_s = min(setting.options.timeout_s, 4 * setting.short_s + 10)
    after = await setting.client.ask_shortly(timeout_s)
    if after.is_answer:
        return None
    why = after.problem or f"status {after.status}"
    return fault(
        setting.client,
        cause,
        Judgement("server_died", f"After this request the server no longer answers: {why}."),
    )


# Checks the form of all answers of a probe, streamed and whole ones separately.
#
# Sends no requests.

# Reported by the checks of stops, each with its own evidence.
_JUDGED_ELSEWHERE = frozenset({"reason_missing", "empty"})


def faults_of_form(client: Client, runs: Sequence[Exchange], *, is_streamed: bool) -> Seen:
    """Return each fault of form once, with the first answer that shows it."""
    answers = [run for run in runs if run.is_answer and run.is_streamed is is_streamed]
    if not answers:
        return skipped("There were no such answers.")
    found: dict[str, tuple[Exchange, Judgement]] = {}
    for run in answers:
        for verdict in _verdicts(run):
            found.setdefault(verdict.code, (run, verdict))
    faults = tuple(fault(client, run, verdict) for run, verdict in found.values())
    return Seen(f"{len(answers)} answers were read", faults)


def _verdicts(run: Exchange) -> list[Judgement]:
    capture = run.capture
    found = [
        Judgement(finding.code, finding.sentence, got=finding.excerpt)
        for finding in capture.findings
        if finding.severity is not Severity.NOTE and finding.code not in _JUDGED_ELSEWHERE
    ]
    is_uncounted = capture.usage is None or capture.usage.output_tokens is None
    if is_uncounted and all(verdict.code != "usage_missing" for verdict in found):
        found.append(Judgement("usage_missing", "The answer has no count of output tokens."))
    return found


async def _streamed(setting: CheckSetting) -> Seen:
    return faults_of_form(setting.client, setting.client.exchanges, is_streamed=True)


async def _whole(setting: CheckSetting) -> Seen:
    return faults_of_form(setting.client, setting.client.exchanges, is_streamed=False)


FORM_CHECKS = (
    Check("form.streamed", _streamed),
    Check("form.whole", _whole),
)
