"""Runs a probe: detects the server, measures it, and runs the checks one by one."""

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import Any

from api.conformance.captures.values import WireDialect
from api.conformance.probe.baselines import Baselines, measure_baselines
from api.conformance.probe.catalogue import CASES, Case, case_of
from api.conformance.probe.checks import (  # noqa: F401
    agreement_checks,
    error_checks,
    feature_checks,
    form_checks,
    limit_checks,
    request_checks,
    stop_checks,
    stream_checks,
    thinking_checks,
    tool_checks,
    usage_checks,
)
from api.conformance.probe.checks.check import CHECKS, CheckContext, Evaluation, evaluate
from api.conformance.probe.client import (
    TIME_IS_UP,
    Budget,
    Client,
    LimitReached,
    in_sequence,
    open_session,
)
from api.conformance.probe.detection import DetectedServer, detect_server
from api.conformance.probe.judgement import cause_of
from api.conformance.probe.values import (
    CheckOutcome,
    CheckResult,
    Exchange,
    Fault,
    OnProgress,
    ProbeFailed,
    ProbeOptions,
    Progress,
    Report,
    tool_name,
)
from api.terminal_text import on_one_line

_SIMPLEST = "stop.one_character"
_HEALTH = "server.answers"
# With these faults, the effect of a stop in special situations cannot be judged.
_BREAKING = frozenset(
    {
        *("stop_ignored", "stop_cut_out", "stop_included", "text_after_stop", "text_differs"),
        *("no_answer", "server_error", "refused"),
    }
)
_NO_STOPS = frozenset({"stop_ignored", "refused"})
_NO_STOPS_SENTENCE = "The server has no stops in this API, nor has its vendor."
_NEED_STOPS = (
    *("stop", "limit.held", "limit.stop", "choices.stop", "logprobs.stop", "tools.stop"),
    *("structured.", "thinking.answer", "thinking.stop", "thinking.both", "usage.stop"),
    "errors.stop",
)
_CANCELLED = "the probe was cancelled"


async def probe(options: ProbeOptions, on_progress: OnProgress | None = None) -> Report:
    """Probe a server in one dialect and report which checks passed and failed.

    Raises:
        ProbeFailed: The server does not answer, or its answers allow no choice of stops.
    """
    run = ProbeRun(options, on_progress)
    await run.check()
    await run.check_harm()
    report = run.report()
    assert report is not None
    return report


def is_selected(check_id: str, options: ProbeOptions) -> bool:
    """Whether the options select a case."""
    is_named = not options.only or any(fnmatchcase(check_id, pattern) for pattern in options.only)
    is_named &= not options.is_quick or bool(options.only) or case_of(check_id).is_quick
    return is_named and not any(fnmatchcase(check_id, pattern) for pattern in options.skip)


class ProbeRun:
    """The probe of one dialect; its report is available at any time."""

    def __init__(self, options: ProbeOptions, on_progress: OnProgress | None = None) -> None:
        self.death = ""
        self._options = options
        self._on_progress = on_progress
        self._took_s = 0.0
        self._began_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._budget = Budget(options.max_requests, time.monotonic() + options.time_limit_s)
        self._server: DetectedServer | None = None
        self._ctx: CheckContext | None = None
        self._is_deterministic = True
        self._results: dict[str, CheckResult] = {}
        self._deaths: list[Fault] = []
        self._conclusions: tuple[str, ...] = ()
        self._cut_short = _CANCELLED
        self._lacks_stops = False
        self._check_ids = [case.check_id for case in CASES if is_selected(case.check_id, options)]

    async def check(self) -> None:
        """Detect the server, measure it, and run the checks that cannot harm it."""
        await self._within_limits(may_harm=False)
        if self._server is None:
            raise ProbeFailed(f"before the first check {self._cut_short}")

    async def check_harm(self, death: str = "") -> None:
        """Run the checks on which some servers crash, unless the probe has been cut short.

        A server that died in another dialect, and still is dead, gets no request of this one.
        """
        if self._ctx is not None and not self._cut_short:
            await self._within_limits(may_harm=True, death=death)

    async def _within_limits(self, *, may_harm: bool, death: str = "") -> None:
        # A running request is cancelled, too, because its own time limit may be much later.
        limit = asyncio.timeout(self._budget.ends_at_s - time.monotonic())
        self._cut_short = _CANCELLED
        began_s = time.monotonic()
        try:
            async with limit, open_session(self._options) as session:
                if self._ctx is None:
                    self._server = await detect_server(session, self._options, self._budget)
                    self._ctx = await self._measure(self._server)
                self._ctx.client.session = session
                if death and not (await self._ctx.client.send_short()).is_answer:
                    self.death = death
                    raise LimitReached(death)
                await self._check_all(self._ctx, may_harm=may_harm)
                self._cut_short = ""
        except LimitReached as reached:
            self._cut_short = str(reached)
        except TimeoutError:
            if not limit.expired():
                raise
            self._cut_short = TIME_IS_UP
        finally:
            self._took_s += time.monotonic() - began_s

    def report(self) -> Report | None:
        server = self._server
        if server is None:
            return None
        # Not kept, because the harmful checks may still follow.
        results = self._results | {_HEALTH: self._health(server.client)}
        sentence = f"Not asked: {self._cut_short or 'the probe has not come to it'}."
        omitted = Evaluation(sentence, outcome=CheckOutcome.NOT_RUN)
        dialect = server.client.driver.dialect
        return Report(
            url=server.client.url,
            dialect=dialect,
            model=server.model,
            server=server.server,
            is_deterministic=self._is_deterministic,
            results=tuple(
                results.get(check_id) or omitted.result(case_of(check_id), dialect)
                for check_id in self._check_ids
            ),
            requests=self._budget.requests,
            duration_s=self._took_s,
            other_dialects=server.others,
            tool=tool_name(),
            began_at=self._began_at,
            conclusions=(*server.conclusions, *self._conclusions),
            cut_short=self._cut_short,
            waits=self._budget.waits,
            waited_s=self._budget.waited_s,
            levels=self._options.levels,
        )

    async def _measure(self, server: DetectedServer) -> CheckContext:
        self._publish(Progress(0, 0, "Asking without stops"))
        client = server.client
        client.repeats = True
        short = await client.send_short()
        before = len(client.exchanges)
        measured = await measure_baselines(client, self._options)
        ctx = CheckContext(client, self._options, measured.usable, short.total_s)
        if not measured.usable:
            await self._check_form_alone(ctx, measured)
            raise ProbeFailed(_too_little_text(measured))
        self._is_deterministic = measured.is_deterministic
        self._conclusions = measured.conclusions
        self._record("baseline", _baseline_evaluation(measured), before)
        ctx.found |= {fault.code for fault in measured.faults}
        ctx.is_varying = bool(measured.variations)
        # A server may raise limits that the vendor refuses to the vendor's minimum.
        minimum, main = client.driver.vendor_min_tokens, ctx.main
        if client.driver.min_tokens < minimum < (main.tokens or 0):
            exchange = await client.ask(replace(main.ask, max_tokens=minimum // 2))
            if exchange.is_answer and exchange.capture.output_tokens == minimum:
                client.driver = replace(client.driver, min_tokens=minimum)
                conclusion = f"Every request allows {minimum} tokens or more: "
                self._conclusions += (conclusion + "the server raises fewer to that.",)
        return ctx

    async def _check_form_alone(self, ctx: CheckContext, measured: Baselines) -> None:
        """Record the faults of answers that have too little text for other checks."""
        if measured.faults:
            self._record("baseline", _baseline_evaluation(measured), len(ctx.client.exchanges))
        for check_id in ("form.streamed", "form.whole"):
            self._record(check_id, await evaluate(check_id, ctx), len(ctx.client.exchanges))
        if any(result.faults for result in self._results.values()):
            raise LimitReached(_too_little_text(measured))

    async def _check_all(self, ctx: CheckContext, *, may_harm: bool) -> None:
        # In the order of the catalogue; the cases of health and baseline have no check.
        cases = [case_of(check_id) for check_id in self._check_ids if check_id in CHECKS]
        begin = sum(not case.may_harm for case in cases) if may_harm else 0
        total = len(self._check_ids)
        answered = total - len(cases)  # by the measurement: health and baseline
        began_s, done = time.monotonic(), begin
        for case in cases:
            if case.may_harm is not may_harm:
                continue
            remaining_s: float | None = None
            if done > begin:
                pace_s = (time.monotonic() - began_s) / (done - begin)
                remaining_s = pace_s * (len(cases) - done)
            self._publish(Progress(answered + done, total, case.title, remaining_s=remaining_s))
            result = await self._check_one(case, ctx)
            if case.check_id == _SIMPLEST and result is not None:
                self._learn_from_simplest(result, ctx)
            done += 1
            self._publish(Progress(answered + done, total, case.title, result))

    def _learn_from_simplest(self, result: CheckResult, ctx: CheckContext) -> None:
        """Note whether stops work at all, and whether the server has them in this dialect."""
        ctx.is_thinking_safe = result.outcome is CheckOutcome.HELD
        faults = [fault for fault in result.faults if not fault.is_intermittent]
        codes = {fault.code for fault in faults}
        # Streams that have another text anyway are not requested.
        is_everywhere = {one.mode for one in faults} == {one.mode for one in result.exchanges}
        if not ctx.driver.are_stops_standard and codes and codes <= _NO_STOPS and is_everywhere:
            self._lacks_stops = True
            evaluation = Evaluation(_NO_STOPS_SENTENCE, outcome=CheckOutcome.SKIPPED)
            case = case_of(result.check_id)
            self._results[case.check_id] = evaluation.result(
                case, ctx.driver.dialect, result.exchanges
            )
            self._conclusions += (_NO_STOPS_SENTENCE,)
            ctx.broken_by = result.check_id
        elif codes & _BREAKING:
            ctx.broken_by = result.check_id

    async def _check_one(self, case: Case, ctx: CheckContext) -> CheckResult | None:
        client = ctx.client
        before, broken = len(client.exchanges), len(client.broken)
        if self._lacks_stops and case.check_id.startswith(_NEED_STOPS):
            evaluation = Evaluation(_NO_STOPS_SENTENCE, outcome=CheckOutcome.SKIPPED)
            return self._record(case.check_id, evaluation, before)
        evaluation = await evaluate(case.check_id, ctx)
        codes = {fault.code for fault in evaluation.faults}
        if case.level_in(ctx.driver.dialect, codes) in self._options.levels:
            ctx.found |= codes
        unanswered = client.broken[broken:]
        new = client.exchanges[before:]
        # A dead server may go on refusing; then no answer follows the request that killed it.
        refused = list(takewhile(lambda exchange: exchange.is_refusal, reversed(new)))
        unanswered = unanswered or refused[::-1]
        if unanswered or (case.may_harm and new):
            deaths = len(self._deaths)
            is_alive = await self._is_alive(ctx, unanswered[0] if unanswered else new[-1])
            if len(self._deaths) > deaths:
                # One finding reports it: the faults of this check follow from it.
                sentence = f"The server stopped answering: {self._deaths[-1].sentence}"
                evaluation = Evaluation(sentence, (), CheckOutcome.UNDECIDED, _HEALTH)
            if not is_alive:
                self._record(case.check_id, evaluation, before)
                self.death = f"the server no longer answers after {case.title!r}"
                raise LimitReached(self.death)
        return self._record(case.check_id, evaluation, before)

    async def _is_alive(self, ctx: CheckContext, blamed: Exchange) -> bool:
        """Whether the server answers a plain question, if need be after some time."""
        client = ctx.client
        timeout_s = min(self._options.timeout_s, 4 * ctx.short_s + 10)
        began_s = time.monotonic()
        client.repeats, pause_s = False, 0.25
        try:
            first = after = await client.send_short(timeout_s)
            while not after.is_answer:
                if time.monotonic() - began_s + pause_s > self._options.recovery_s:
                    break
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, 4.0)
                after = await client.send_short(timeout_s)
            if after.is_timeout:
                # A machine that others use may need longer than ever before.
                after = await client.send_short(self._options.timeout_s)
        finally:
            client.repeats = True
        # A server that is slow, or busy for a while, has not crashed.
        is_slow = first.is_answer or first.status != 0 or first.is_timeout
        if after.is_answer and is_slow:
            return True
        code, sentence = _death(first if after.is_answer else after, is_back=after.is_answer)
        commands = in_sequence(client.curl(blamed.body), client.curl(after.body))
        fault = Fault(code, sentence, "an answer", _shown(first), mode=blamed.mode, curl=commands)
        self._deaths.append(replace(fault, exchange=client.index_of(blamed)))
        return after.is_answer

    def _health(self, client: Client) -> CheckResult | None:
        """Return whether all requests were answered; None if nothing shows it."""
        faults, lost = [*self._deaths], client.lost
        failures = sum(exchange.status >= 500 for exchange in lost)
        requests = f"{self._budget.requests} requests"
        # A busy server may lose an answer or two, and fail once.
        if not faults and (failures > 1 or len(lost) > 2):
            sentence = (
                f"{len(lost)} of {requests} got no answer at first ({_shown(lost[0])}), and one "
                "when they were repeated."
            )
            curl, index = client.curl(lost[0].body), client.index_of(lost[0])
            fault = Fault("answers_lost", sentence, "an answer", _shown(lost[0]), curl=curl)
            faults.append(replace(fault, mode=lost[0].mode, exchange=index, is_intermittent=True))
        evaluation = Evaluation(f"{requests} were answered", tuple(faults))
        if lost and not faults:
            sentence = f"{len(lost)} of {requests} got an answer only when repeated."
            evaluation = Evaluation(sentence, outcome=CheckOutcome.FLAKY)
        if self._cut_short and not faults:
            return None
        return self._result(_HEALTH, evaluation, len(client.exchanges))

    def _record(self, check_id: str, evaluation: Evaluation, before: int) -> CheckResult | None:
        """Keep a result with the exchanges since ``before``."""
        if (result := self._result(check_id, evaluation, before)) is not None:
            self._results[check_id] = result
        return result

    def _result(self, check_id: str, evaluation: Evaluation, before: int) -> CheckResult | None:
        server = self._server
        if check_id not in self._check_ids or server is None:
            return None
        exchanges = server.client.exchanges
        shown = [fault.exchange for fault in evaluation.faults if fault.exchange is not None]
        indexes = sorted({*range(before, len(exchanges)), *shown})
        faults = tuple(
            fault
            if fault.exchange is None
            else replace(fault, exchange=indexes.index(fault.exchange))
            for fault in evaluation.faults
        )
        dialect = server.client.driver.dialect
        own = [exchanges[index] for index in indexes]
        result = replace(evaluation, faults=faults).result(case_of(check_id), dialect, own)
        if not result.cause:
            others = (
                name for name in self._check_ids if name in self._results and name != check_id
            )
            result = replace(result, cause=cause_of(result, map(self._results.__getitem__, others)))
        return result

    def _publish(self, progress: Progress) -> None:
        if self._on_progress is not None:
            self._on_progress(progress)


def _death(exchange: Exchange, *, is_back: bool) -> tuple[str, str]:
    """Return the code and the sentence of a server that no longer answers a plain question."""
    if is_back:
        return "server_restarted", "After this request the server was gone for a while."
    if exchange.status in (401, 403):
        return "key_refused", f"After this request the server refuses access: {_shown(exchange)}."
    if exchange.status >= 500:
        return "server_broken", f"After this request the server only fails: {_shown(exchange)}."
    return "server_died", f"After this request the server no longer answers: {_shown(exchange)}."


def _baseline_evaluation(measured: Baselines) -> Evaluation:
    if measured.faults:
        return Evaluation(faults=tuple(measured.faults))
    if not measured.is_deterministic:
        return Evaluation(
            "The server is not deterministic: at temperature 0 the same question got different "
            "answers. Texts are compared as far as they agree.",
            outcome=CheckOutcome.UNDECIDED,
        )
    if measured.variations:
        sentence = f"At temperature 0 {'; '.join(dict.fromkeys(measured.variations))}."
        return Evaluation(sentence, outcome=CheckOutcome.FLAKY)
    return Evaluation(f"{len(measured.usable)} prompts got the same answer each time")


def _too_little_text(measured: Baselines) -> str:
    failed = next((exchange for exchange in measured.exchanges if not exchange.is_answer), None)
    if failed is not None:
        return f"the server gives no answer to a plain question: {_shown(failed)}"
    if not measured.is_deterministic:
        return "the answers to the same question share too little text to choose stops from"
    return "the answers are too short to choose stops from; try another model or question"


def _shown(exchange: Exchange) -> str:
    return exchange.problem or f"status {exchange.status}, {on_one_line(exchange.text, 200)}"


class Probing:
    """The runs of one call: the first dialect, or all; its reports are available at any time."""

    def __init__(self, options: ProbeOptions, on_progress: OnProgress | None = None) -> None:
        self.problems: list[tuple[str, str]] = []
        self.problem = ""
        self.is_interrupted = False
        self._options = options
        self._on_progress = on_progress
        self._ends_at_s = time.monotonic() + options.time_limit_s
        self._runs: list[ProbeRun] = []

    @property
    def reports(self) -> tuple[Report, ...]:
        reports = [report for run in self._runs if (report := run.report()) is not None]
        if len(reports) + len(self.problems) > 1:
            # The other dialects have a report of their own.
            reports[:1] = [replace(reports[0], other_dialects=())]
        return tuple(reports)

    async def run(self, *, is_all: bool) -> None:
        """Probe the first dialect, and all others that answered if requested."""
        await self._check(self._options)
        reports = self.reports
        for dialect in reports[0].other_dialects if is_all and reports else ():
            remaining_s = self._ends_at_s - time.monotonic()
            if self.is_interrupted or remaining_s <= 0:
                cause = "Ctrl-C" if self.is_interrupted else "the time limit was reached"
                self.problems.append((dialect, f"not asked: {cause}"))
                continue
            await self._check(replace(self._options, dialect=dialect, time_limit_s=remaining_s))
        for run in self._runs:
            if not self.is_interrupted:
                death = next((other.death for other in self._runs if other.death), "")
                await self._guard(run.check_harm(death))

    async def _check(self, options: ProbeOptions) -> None:
        run = ProbeRun(options, self._progress_of(options.dialect))
        self._runs.append(run)
        try:
            await self._guard(run.check())
        except ProbeFailed as failed:
            self._runs.remove(run)
            self.problem = str(failed)
            if options.dialect is not None and self._runs:
                self.problems.append((options.dialect, str(failed)))

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except asyncio.CancelledError:
            # Ctrl-C: the results so far make a report.
            self.is_interrupted = True

    def _progress_of(self, dialect: WireDialect | None) -> OnProgress | None:
        publish = self._on_progress
        if publish is None or dialect is None:
            return publish
        return lambda progress: publish(replace(progress, title=f"{dialect}: {progress.title}"))
