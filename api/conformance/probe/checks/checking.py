"""What checks have in common: what they know of the server, and how they say what they saw.

Runs on the loop of whoever probes.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from api.conformance.captures.values import WireDialect
from api.conformance.probe.asking.client import Client
from api.conformance.probe.asking.exchange import Exchange
from api.conformance.probe.baseline import Baseline
from api.conformance.probe.cases import Case
from api.conformance.probe.catalogue.every_case import case_of
from api.conformance.probe.judging import Judgement
from api.conformance.probe.planning.plan import StopCase, simplest_case
from api.conformance.probe.values import CheckOutcome, CheckResult, Fault, ProbeOptions

# Why a check is undecided where the server answered none of its requests.
NO_ANSWER = "There is no answer to compare."


class ServerGone(Exception):
    """The server no longer answers what it answered before.

    Attributes:
        seen: What the check saw that noticed it.
    """

    def __init__(self, seen: "Seen") -> None:
        super().__init__("the server no longer answers")
        self.seen = seen


@dataclass(slots=True)
class CheckSetting:
    """What is known of the server while it is being checked.

    Attributes:
        client: Asks it.
        options: What the probe was asked to do.
        baselines: Its answers without stops.
        short_s: How long it needs for one token.
        broken_by: The check that showed that not even simple stops work; empty where they do.
    """

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
    """One check: a case of the catalogue and how it is decided.

    Attributes:
        code: The id of the case.
        run: Asks and judges; raises ``ServerGone`` when nothing answers any longer.
    """

    code: str
    run: Callable[[CheckSetting], Awaitable["Seen"]]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a check saw.

    Attributes:
        sentence: What was seen, for a person.
        faults: What was wrong.
        outcome: None lets the faults decide.
        cause: The check whose failure allowed nothing else to be seen.
    """

    sentence: str = ""
    faults: tuple[Fault, ...] = ()
    outcome: CheckOutcome | None = field(default=None)
    cause: str = ""

    def result(
        self, case: Case, dialect: WireDialect, exchanges: Sequence[Exchange] = ()
    ) -> CheckResult:
        """Return the row of the report.

        Args:
            case: What was checked.
            dialect: In whose words.
            exchanges: What was asked for it.
        """
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


# Reports are for reading: what a server says without end is cut.
_SHOWN_CHARS = 20_000


def faults_of(client: Client, run: Exchange, verdicts: Iterable[Judgement]) -> list[Fault]:
    """Return verdicts as faults, with what shows them.

    Args:
        client: Asked the server; knows what was asked before.
        run: The request and its answer, which show the faults.
        verdicts: What is wrong with the answer.
    """
    return [fault(client, run, verdict) for verdict in verdicts]


async def confirmed(
    client: Client, body: Any, judge: Callable[[Exchange], Sequence[Judgement]]
) -> tuple[Exchange, list[Fault]]:
    """Ask, and again where something is wrong: what does not show twice is not a fault.

    Args:
        client: Asks.
        body: The request.
        judge: Says what is wrong with an answer.

    Returns:
        The last answer, and its faults.

    Raises:
        LimitReached: The probe may ask no more.
    """
    run = await client.send(body)
    verdicts = judge(run)
    if verdicts and not run.problem and not run.is_refusal:
        run = await client.send(body)
        verdicts = judge(run)
    return run, faults_of(client, run, verdicts)


def fault(client: Client, run: Exchange, verdict: Judgement) -> Fault:
    """Return a verdict as a fault, with what shows it.

    Args:
        client: Asked the server; knows what was asked before.
        run: The request and its answer, which show the fault.
        verdict: What is wrong with the answer.
    """
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
    """Return that a check does not apply."""
    return Seen(sentence, outcome=CheckOutcome.SKIPPED)


def undecided(sentence: str) -> Seen:
    """Return that a check could not be decided."""
    return Seen(sentence, outcome=CheckOutcome.UNDECIDED)


def without_premise(setting: CheckSetting) -> Seen | None:
    """Return why a check that needs working stops cannot be decided; None where it can."""
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
    """Return that a check was left out because the probe was cut short."""
    return Seen(sentence, outcome=CheckOutcome.NOT_ASKED)


async def make_sure_it_lives(setting: CheckSetting, cause: Exchange) -> Fault | None:
    """Return a fault if the server no longer answers after what it was just sent."""
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
