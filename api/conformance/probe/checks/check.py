"""The context of a check, its requests, and the recording of faults."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from api.conformance.captures.values import WireDialect
from api.conformance.probe.catalogue import Case, case_of
from api.conformance.probe.client import Client, repeat_command
from api.conformance.probe.dialects import Ask, Body, Driver
from api.conformance.probe.judgement import (
    STOP_ONLY_HIDDEN,
    invariants,
    judge,
    no_answer,
)
from api.conformance.probe.plan import Baseline, StopCase, simple_case
from api.conformance.probe.values import CheckOutcome, CheckResult, Exchange, Fault, ProbeOptions

NO_ANSWER = "There is no answer to compare."
NO_TEXT = "The answers contain no text for such a stop."
VARIES = "The server answers differently each time."
# Reports show no longer texts of a server.
_MAX_SHOWN_CHARS = 20_000

Judge = Callable[[Exchange], Iterable[Fault]]
CheckFunction = Callable[["CheckContext"], Awaitable["Evaluation"]]
# The checks by the ids of their cases; each module of this folder adds its own.
CHECKS: dict[str, CheckFunction] = {}


@dataclass(slots=True)
class CheckContext:
    """The server and its measurements while it is being checked.

    Checks run in the order of the catalogue, and later ones depend on earlier ones through:

    =================  ====================================  ====================================
    field              set by                                read by
    =================  ====================================  ====================================
    broken_by          run.py, after ``stop.one_character``  ``require_stops``
    is_thinking_safe   run.py, after ``stop.one_character``  ``simple``
    found              run.py, after each check              ``answers.agree``
    is_varying         run.py; ``Recorder.ask``              ``Recorder``; stops.*; limit.*
    thought            the first of thinking_checks          thinking_checks
    called             the first of tool_checks              tool_checks
    several            the first of choices.*                choices.*
    completing         the first of limit.stop_*             limit.stop_*
    =================  ====================================  ====================================

    Attributes:
        short_s: How long an answer of one token takes.
        broken_by: The check that showed that stops do not work at all.
        is_thinking_safe: Whether a stop that occurs in the thinking, too, ends the answer alone.
        found: The codes of the faults that checks have found.
        is_varying: Whether the same request has had several answers.
        thought: An answer with thinking; if requesting it is inconclusive, each reader is.
        called: An answer that calls a tool, and whether the call is forced; likewise.
        several: An answer with several choices, and its temperature.
        completing: The limits whose last token completes a stop, or why there is none.
    """

    client: Client
    options: ProbeOptions
    baselines: Sequence[Baseline]
    short_s: float
    broken_by: str = ""
    is_thinking_safe: bool = False
    found: set[str] = field(default_factory=set)
    is_varying: bool = False
    thought: "Baseline | Inconclusive | None" = None
    called: "tuple[Exchange, bool] | Inconclusive | None" = None
    several: tuple[Exchange, float] | None = None
    completing: dict[StopCase, int | str] = field(default_factory=dict)

    @property
    def main(self) -> Baseline:
        return self.baselines[0]

    @property
    def driver(self) -> Driver:
        return self.client.driver

    def simple(self, *baselines: Baseline) -> StopCase | None:
        """Return the simplest case of the first answer that has one."""
        safe = self.is_thinking_safe
        cases = (simple_case(baseline, is_thinking_safe=safe) for baseline in baselines)
        return next(filter(None, cases), None)

    def body(self, ask: Ask) -> Body:
        return self.driver.body(ask, self.client.model)

    def bodies(self, given: Baseline, stops: tuple[str, ...] = (), **changes: Any) -> list[Body]:
        """Return a request in each mode."""
        ask = replace(given.ask, stops=stops, **changes)
        return [self.body(replace(ask, is_streamed=mode)) for mode in given.modes]

    def fault(self, exchange: Exchange, fault: Fault, curl: str = "") -> Fault:
        return replace(
            fault,
            sentence=self.driver.with_reason_named(fault.sentence),
            expected=fault.expected[:_MAX_SHOWN_CHARS],
            got=fault.got[:_MAX_SHOWN_CHARS],
            baseline=fault.baseline[:_MAX_SHOWN_CHARS],
            mode=exchange.mode,
            curl=curl or self.client.curl(exchange.body),
            exchange=self.client.index_of(exchange),
        )


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of a check."""

    sentence: str = ""
    faults: tuple[Fault, ...] = ()
    outcome: CheckOutcome | None = None
    cause: str = ""

    def result(
        self, case: Case, dialect: WireDialect, exchanges: Sequence[Exchange] = ()
    ) -> CheckResult:
        sentences = dict.fromkeys(fault.sentence for fault in self.faults)
        return CheckResult(
            check_id=case.check_id,
            title=case.title,
            outcome=self.outcome or (CheckOutcome.FAILED if self.faults else CheckOutcome.HELD),
            sentence=" ".join(sentences) or self.sentence,
            faults=self.faults,
            level=case.level_in(dialect, [fault.code for fault in self.faults]),
            rule=case.rule,
            reference=case.reference_in(dialect),
            cause=self.cause,
            exchanges=tuple(exchanges),
        )


class Inconclusive(Exception):
    """A check ends without a judgement; carries its evaluation."""

    def __init__(self, evaluation: Evaluation) -> None:
        super().__init__(evaluation.sentence)
        self.evaluation = evaluation


def check(check_id: str) -> Callable[[CheckFunction], CheckFunction]:
    """Register the function of a case of the catalogue."""

    def register(function: CheckFunction) -> CheckFunction:
        CHECKS[check_id] = function
        return function

    return register


async def evaluate(check_id: str, ctx: CheckContext) -> Evaluation:
    """Run a check."""
    try:
        return await CHECKS[check_id](ctx)
    except Inconclusive as ended:
        return ended.evaluation


def skipped(sentence: str) -> Inconclusive:
    """Return the end of a check that does not apply."""
    return Inconclusive(Evaluation(sentence, outcome=CheckOutcome.SKIPPED))


def undecided(sentence: str) -> Inconclusive:
    """Return the end of a check that could not be decided."""
    return Inconclusive(Evaluation(sentence, outcome=CheckOutcome.UNDECIDED))


def require_stops(ctx: CheckContext) -> None:
    """End a check that needs working stops, if stops are broken."""
    if ctx.broken_by:
        sentence = f"This needs stops that work: {case_of(ctx.broken_by).title} failed."
        raise Inconclusive(
            Evaluation(sentence, outcome=CheckOutcome.UNDECIDED, cause=ctx.broken_by)
        )


def require_repeatable(ctx: CheckContext) -> None:
    """End a check that compares texts, if the server's answers vary."""
    if not ctx.main.is_repeatable:
        raise undecided(VARIES)


def working_case(ctx: CheckContext) -> StopCase:
    """Return the simplest stop that works on this server."""
    require_stops(ctx)
    case = ctx.simple(*ctx.baselines)
    if case is None:
        raise undecided(NO_ANSWER)
    return case


def fault_list(found: Iterable[tuple[Exchange, Fault]], ctx: CheckContext) -> tuple[Fault, ...]:
    """Return the first fault of each code with its evidence."""
    faults: dict[str, Fault] = {}
    for exchange, fault in found:
        if fault.code not in faults:
            faults[fault.code] = ctx.fault(exchange, fault)
    return tuple(faults.values())


class Recorder:
    """Sends a check's requests and records the faults of the answers.

    A faulty answer is requested again, and only a fault that both answers show counts; of a
    single one only a certain one.
    """

    def __init__(self, ctx: CheckContext, situation: str = "") -> None:
        self.faults: list[Fault] = []
        self.situation = situation
        self._ctx = ctx
        self._doubts: list[str] = []
        self._failed_once = ""

    def note(self, exchange: Exchange, faults: Iterable[Fault], curl: str = "") -> None:
        where = f"{self.situation}: " if self.situation else ""
        for fault in faults:
            fault = replace(fault, sentence=where + fault.sentence)
            self.faults.append(self._ctx.fault(exchange, fault, curl))

    def doubt(self, sentence: str) -> None:
        self._doubts.append(sentence)

    async def ask(
        self, body: Any, judged: Judge, *, may_refuse: bool = False, first: Exchange | None = None
    ) -> Exchange:
        """Send a request, and again if the answer has faults; record the repeated ones."""
        ctx, client = self._ctx, self._ctx.client
        exchange = first or await client.send(body)
        if may_refuse and exchange.is_refusal:
            return exchange
        faults = _judge(exchange, judged)
        if not faults or exchange.problem or exchange.is_refusal:
            self.note(exchange, faults)
            return exchange
        again = await client.send(body)
        if ctx.is_varying and _judge(again, judged):
            again = await client.send(body)
        same = _judge(again, judged)
        certain = [fault for fault in faults if fault.is_certain]
        if same:
            self.note(again, same)
        elif certain:
            begin = len(self.faults)
            self.note(exchange, certain, repeat_command(client.curl(body)))
            for index, fault in enumerate(self.faults[begin:], begin):
                sentence = f"{fault.sentence} The same request was also answered correctly."
                self.faults[index] = replace(fault, sentence=sentence, is_intermittent=True)
        elif any(fault.code != STOP_ONLY_HIDDEN for fault in faults):
            ctx.is_varying = True
            self._failed_once = self._failed_once or faults[0].sentence
        return again

    async def judge_modes(self, case: StopCase, modes: Sequence[bool] = (False, True)) -> None:
        """Send the stops of a case in each mode and judge the answers."""
        for is_streamed in modes:
            if is_streamed in case.baseline.modes:
                await self._judge_mode(case, is_streamed=is_streamed)

    async def _judge_mode(self, case: StopCase, *, is_streamed: bool) -> None:
        ask = replace(case.baseline.ask, stops=case.stops, is_streamed=is_streamed)
        body = self._ctx.body(ask)
        if case.baseline.is_repeatable:
            await self.ask(body, partial(self.stop_faults, case))
            return
        for _ in range(3):
            exchange = await self._ctx.client.send(body)
            if not self.stop_faults(case, exchange):
                return
            if certain := invariants(case, exchange):
                self.note(exchange, certain)
                return
        self.doubt("The server answers differently each time, so the text cannot be compared.")

    def stop_faults(self, case: StopCase, exchange: Exchange) -> list[Fault]:
        """Return the faults of an answer, unless its thinking may explain them."""
        faults = judge(case, exchange, self._ctx.driver)
        thought, given = exchange.capture.thinking.strip(), case.baseline.thinking.strip()
        if faults and case.is_thought and len(thought) < len(given):
            self.doubt("The stop occurs in the thinking, too, and this server stops there.")
            return []
        return faults

    def evaluation(self, sentence: str = "") -> Evaluation:
        """Return the result; ``sentence`` describes what held."""
        if self.faults:
            return Evaluation(sentence, tuple(self.faults))
        if self._failed_once:
            sentence = f"One of two answers was wrong: {self._failed_once}"
            return Evaluation(sentence, outcome=CheckOutcome.FLAKY)
        if self._doubts:
            return Evaluation(self._doubts[0], outcome=CheckOutcome.UNDECIDED)
        return Evaluation(sentence)


def _judge(exchange: Exchange, judged: Judge) -> list[Fault]:
    broken = no_answer(exchange)
    return list(judged(exchange)) if broken is None else [broken]


def without_cost(faults: Iterable[Fault]) -> list[Fault]:
    """Return the faults but for the cost of a stop."""
    return [fault for fault in faults if fault.code != STOP_ONLY_HIDDEN]
