"""Runs a probe: finds out how a server is asked, measures it, runs the checks one by one."""

import asyncio
import time
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import Any

import aiohttp

from api.conformance.captures.values import WireDialect
from api.conformance.probe.baselines import baselines
from api.conformance.probe.catalogue import CASES, case_of
from api.conformance.probe.checks.agreement_checks import AGREEMENT_CHECKS
from api.conformance.probe.checks.answer_checks import (
    ANSWER_CHECKS,
    ERROR_CHECKS,
    FRAMING_CHECKS,
    PACE_CHECKS,
    REASON_CHECKS,
)
from api.conformance.probe.checks.check import (
    Check,
    CheckSetting,
    Seen,
    not_asked,
    skipped,
    undecided,
)
from api.conformance.probe.checks.feature_checks import FEATURE_CHECKS
from api.conformance.probe.checks.form_checks import FORM_CHECKS
from api.conformance.probe.checks.limit_checks import HANG_UP_CHECKS, LIMIT_CHECKS, USAGE_CHECKS
from api.conformance.probe.checks.parameter_checks import PARAMETER_CHECKS
from api.conformance.probe.checks.request_checks import (
    ISOLATION_CHECKS,
    LATE_CHECKS,
    REQUEST_CHECKS,
)
from api.conformance.probe.checks.stop_checks import (
    EMPTY_CHECKS,
    LIST_CHECKS,
    LITERAL_CHECKS,
    LONG_CHECKS,
    stop_checks,
)
from api.conformance.probe.client import (
    TIME_IS_UP,
    Budget,
    Client,
    LimitReached,
    one_after_the_other,
    open_session,
)
from api.conformance.probe.detection import Found, found_server
from api.conformance.probe.judgement import cause_of
from api.conformance.probe.plan import Baseline, Baselines, plan
from api.conformance.probe.values import (
    Access,
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

_BEGINNING = "Asking without stops"
_SIMPLEST = "stop.one_character"
_HEALTH = "server.answers"
# With these faults, the effect of a stop in special situations cannot be judged.
_BREAKING = frozenset(
    {
        "stop_ignored",
        "stop_cut_out",
        "stop_included",
        "text_after_stop",
        "text_differs",
        "no_answer",
        "server_error",
        "refused",
    }
)
_NO_STOPS = frozenset({"stop_ignored", "refused"})
_NEED_STOPS = (
    *("stop", "limit.held", "limit.stop", "choices.stop", "logprobs.stop", "tools.stop"),
    *("structured.", "thinking.answer", "thinking.stop", "thinking.both", "usage.stop"),
    "errors.stop",
)
_CANCELLED = "the probe was cancelled"
# How often a request may get no answer, and one when it is repeated, before that is a fault.
_MOST_SLIPS, _MOST_FAILURES = 2, 1
# How long a check takes, in ordinary answers; 1.2 for the others.
_ANSWERS: dict[str, float] = {
    "stops.late": 16.0,
    "stops.long": 10.0,
    "stops.many": 2.0,
    "stops.short": 0.5,
    "stops.system": 3.0,
    "stops.turn": 3.0,
    "stops.tools": 3.0,
    "limit": 0.3,
    "limit.completion_tokens": 0.3,
    "limit.held": 4.0,
    "limit.stop_on_last_token": 4.0,
    "limit.stop_before": 6.0,
    "limit.own_end": 4.0,
    "thinking.off": 4.0,
    "thinking.answer": 10.0,
    "thinking.both": 3.0,
    "thinking.streamed": 1.2,
    "thinking.stop": 6.0,
    "stream.pace": 3.0,
    "choices.count": 4.0,
    "tools.limit": 1.0,
    "structured.beside": 5.0,
    "logprobs.beside": 7.0,
    "tools.beside": 3.0,
    "request.default": 0.2,
    "request.parts": 0.5,
    "request.nulls": 0.5,
    "request.seed": 0.5,
    "usage.chunk": 0.3,
    "usage.counts": 0.0,
    "usage.streamed": 0.0,
    "form.streamed": 0.0,
    "form.whole": 0.0,
    "form.same": 0.0,
    "stream.framing": 0.0,
    "reason.natural": 0.0,
    "stop.very_first": 0.2,
    "hang_up.streamed": 1.0,
}
_SLOWEST_ERROR_S = 0.2


async def probe(options: ProbeOptions, on_progress: OnProgress | None = None) -> Report:
    """Probe a server in one dialect and report which checks passed and failed.

    Args:
        options: The options of the probe.
        on_progress: Called before and after each check, on the caller's loop.

    Raises:
        ProbeFailed: Nothing answers there, or the answers allow no choice of stops.
    """
    return await ProbeRun(options, on_progress).run()


def selected(code: str, options: ProbeOptions) -> bool:
    """Return whether the options select a case."""
    is_wanted = not options.only or any(fnmatchcase(code, pattern) for pattern in options.only)
    is_wanted &= not options.is_quick or bool(options.only) or case_of(code).is_quick
    return is_wanted and not any(fnmatchcase(code, pattern) for pattern in options.skip)


def all_checks(usable: Sequence[Baseline]) -> list[Check]:
    """Return the checks in the order in which they run, for the answers that a server gave."""
    return [
        *stop_checks(plan(usable)),
        *REASON_CHECKS,
        *ISOLATION_CHECKS,
        *REQUEST_CHECKS,
        *LIMIT_CHECKS,
        *ANSWER_CHECKS,
        *LIST_CHECKS,
        *LONG_CHECKS,
        *LITERAL_CHECKS,
        *FEATURE_CHECKS,
        *PARAMETER_CHECKS,
        *LATE_CHECKS,
        *USAGE_CHECKS,
        *PACE_CHECKS,
        *AGREEMENT_CHECKS,
        *FORM_CHECKS,
        *FRAMING_CHECKS,
        *EMPTY_CHECKS,
        *HANG_UP_CHECKS,
        *ERROR_CHECKS,
    ]


class _ServerGone(Exception):
    """The server stopped answering during the probe."""


class ProbeRun:
    """The probe of one dialect; its report is available at any time, even after it was cancelled.

    ``run`` asks everything. ``ask`` and ``ask_what_may_harm`` are its two parts.

    Args:
        options: The options of the probe.
        on_progress: Called before and after each check, on the caller's loop.

    Attributes:
        gone: What the server did not survive; empty while it answers.
    """

    def __init__(self, options: ProbeOptions, on_progress: OnProgress | None = None) -> None:
        self.gone = ""
        self._options = options
        self._on_progress = on_progress
        self._began_s = time.monotonic()
        self._took_s = 0.0
        self._began_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._budget = Budget(options.max_requests, self._began_s + options.time_limit_s)
        self._found: Found | None = None
        self._setting: CheckSetting | None = None
        self._is_deterministic = True
        self._results: dict[str, CheckResult] = {}
        self._harm: list[Fault] = []
        self._broken: list[Exchange] = []
        self._conclusions: tuple[str, ...] = ()
        self._cut_short = _CANCELLED
        self._lacks_stops = False
        self._codes = [case.code for case in CASES if selected(case.code, options)]

    async def run(self) -> Report:
        """Probe to the end, or to the limits.

        Raises:
            ProbeFailed: Nothing answers there, or the answers allow no choice of stops.
        """
        await self.ask()
        await self.ask_what_may_harm()
        report = self.report()
        assert report is not None
        return report

    async def ask(self) -> None:
        """Find the server, measure it, and run the checks that cannot harm it.

        Raises:
            ProbeFailed: Nothing answers there, or the answers allow no choice of stops.
        """
        await self._within_limits(may_harm=False)
        if self._found is None:
            raise ProbeFailed(f"before the first check {self._cut_short}")

    async def ask_what_may_harm(self, gone: str = "") -> None:
        """Run the checks on which some servers crash, unless the probe has been cut short.

        Args:
            gone: What the server did not survive in another dialect. A server that is still gone is
                asked nothing here, and no request of this dialect is blamed for it.
        """
        if self._setting is not None and not self._cut_short:
            await self._within_limits(may_harm=True, gone=gone)

    async def _within_limits(self, *, may_harm: bool, gone: str = "") -> None:
        # A running request is cancelled, too, because its own time limit may be much later.
        limit = asyncio.timeout(self._budget.ends_at_s - time.monotonic())
        self._cut_short = _CANCELLED
        began_s = time.monotonic()
        try:
            async with limit, _session(self._options) as session:
                if self._setting is None:
                    self._found = await found_server(session, self._options, self._budget)
                    self._setting = await self._measured(self._found)
                self._setting.client.session = session
                if gone and not (await self._setting.client.ask_shortly()).is_answer:
                    raise _ServerGone(gone)
                await self._check_all(self._setting, may_harm=may_harm)
                self._cut_short = ""
        except (LimitReached, _ServerGone) as reached:
            self._cut_short = str(reached)
            if isinstance(reached, _ServerGone):
                self.gone = str(reached)
        except TimeoutError:
            if not limit.expired():
                raise
            self._cut_short = TIME_IS_UP
        finally:
            self._took_s += time.monotonic() - began_s

    def report(self) -> Report | None:
        """Return the report so far; None before the server has answered."""
        found = self._found
        if found is None:
            return None
        self._note_health(found.client)
        return Report(
            url=found.client.url,
            dialect=found.client.driver.dialect,
            model=found.model,
            server=found.server,
            is_deterministic=self._is_deterministic,
            results=tuple(self._results.get(code) or self._left_out(code) for code in self._codes),
            requests=self._budget.requests,
            duration_s=self._took_s,
            other_dialects=found.others,
            tool=tool_name(),
            began_at=self._began_at,
            conclusions=(*found.conclusions, *self._conclusions),
            cut_short=self._cut_short,
            waits=self._budget.waits,
            waited_s=self._budget.waited_s,
            levels=self._options.levels,
        )

    async def _measured(self, found: Found) -> CheckSetting:
        """Ask without stops."""
        self._tell(0, 0, _BEGINNING)
        client = found.client
        client.repeats = True
        short = await client.ask_shortly()
        before, broken = len(client.exchanges), len(client.broken)
        measured = await baselines(client, self._options, short.total_s)
        self._broken += client.broken[broken:]
        if not measured.usable:
            await self._say_what_is_misshapen(client, measured, short.total_s)
            raise ProbeFailed(_too_little(measured))
        self._is_deterministic = measured.is_deterministic
        self._conclusions = measured.conclusions
        self._note("baseline", _same(measured), before)
        setting = CheckSetting(client, self._options, measured.usable, short.total_s)
        setting.found |= {fault.code for fault in measured.faults}
        setting.was_odd = bool(measured.odd)
        await self._learn_raised_limit(setting)
        return setting

    async def _learn_raised_limit(self, setting: CheckSetting) -> None:
        """Note whether the server raises limits that the vendor refuses to the vendor's least."""
        client, given = setting.client, setting.main
        least = client.driver.vendor_least_tokens
        if not client.driver.least_tokens < least < (given.tokens or 0):
            return
        run = await client.ask(replace(given.ask, max_tokens=least // 2))
        usage = run.capture.usage
        if run.is_answer and usage is not None and usage.output_tokens == least:
            client.driver = replace(client.driver, least_tokens=least)
            said = f"Every request allows {least} tokens or more: the server raises fewer to that."
            self._conclusions += (said,)

    async def _say_what_is_misshapen(
        self, client: Client, measured: Baselines, short_s: float
    ) -> None:
        """Note the faults of answers that have too little text for anything else.

        Raises:
            LimitReached: There are such faults, which a report then has.
        """
        setting = CheckSetting(client, self._options, (), short_s)
        if measured.faults:
            self._note("baseline", _same(measured), len(client.exchanges))
        for check in FORM_CHECKS:
            if check.code != "form.same" and check.code in self._codes:
                self._note(check.code, await check.run(setting), len(client.exchanges))
        if any(result.faults for result in self._results.values()):
            raise LimitReached(_too_little(measured))

    async def _check_all(self, setting: CheckSetting, *, may_harm: bool) -> None:
        checks = [known for known in all_checks(setting.baselines) if known.code in self._codes]
        done = sum(case_of(known.code).may_harm for known in checks) if may_harm else 0
        done = len(checks) - done if may_harm else 0
        for number, check in enumerate(checks):
            if case_of(check.code).may_harm is not may_harm:
                continue
            title = case_of(check.code).title
            self._tell(done, len(checks), title, left_s=_left_s(setting, checks[number:]))
            result = await self._result(check, setting)
            if check.code == _SIMPLEST and result is not None:
                self._learn_from_simplest(result, setting)
            done += 1
            self._tell(done, len(checks), title, result)

    def _learn_from_simplest(self, result: CheckResult, setting: CheckSetting) -> None:
        """Note whether stops work at all, and whether the server has them in this dialect."""
        setting.is_thinking_safe = result.outcome is CheckOutcome.HELD
        faults = [fault for fault in result.faults if not fault.is_intermittent]
        codes = {fault.code for fault in faults}
        driver = setting.client.driver
        # Streams that have another text anyway are not asked for.
        asked = {exchange.mode for exchange in result.exchanges}
        is_everywhere = {fault.mode for fault in faults} == asked
        if not driver.are_stops_standard and codes and codes <= _NO_STOPS and is_everywhere:
            self._lacks_stops = True
            seen = _no_stops_here()
            self._results[result.code] = seen.result(
                case_of(result.code), driver.dialect, result.exchanges
            )
            self._conclusions += ("The server has no stops in this API, nor has its vendor.",)
            setting.broken_by = result.code
        elif codes & _BREAKING:
            setting.broken_by = result.code

    async def _result(self, check: Check, setting: CheckSetting) -> CheckResult | None:
        """Run a check and record its result."""
        client = setting.client
        before, broken = len(client.exchanges), len(client.broken)
        if self._lacks_stops and check.code.startswith(_NEED_STOPS):
            return self._note(check.code, _no_stops_here(), before)
        seen = await check.run(setting)
        codes = {fault.code for fault in seen.faults}
        counts = case_of(check.code).level_in(client.driver.dialect, codes) in self._options.levels
        setting.found |= codes if counts else set()
        unanswered = client.broken[broken:]
        case = case_of(check.code)
        self._broken += () if case.may_harm else unanswered
        # A dead server may go on refusing; then no answer comes behind the request it died of.
        unanswered = unanswered or _refused_at_the_end(client.exchanges[before:])
        if unanswered or (case.may_harm and len(client.exchanges) > before):
            blamed = unanswered[0] if unanswered else client.exchanges[-1]
            harm = len(self._harm)
            lives = await self._lives(setting, blamed)
            if len(self._harm) > harm:
                # One finding says it: what this check saw follows from it.
                seen = undecided(f"The server stopped answering: {self._harm[-1].sentence}")
                seen = replace(seen, cause=_HEALTH)
            if not lives:
                self._note(check.code, seen, before)
                raise _ServerGone(f"the server no longer answers after {case.title!r}")
        return self._note(check.code, seen, before)

    async def _lives(self, setting: CheckSetting, blamed: Exchange) -> bool:
        """Return whether the server answers a plain question, if need be after some time."""
        client = setting.client
        timeout_s = min(self._options.timeout_s, 4 * setting.short_s + 10)
        began_s = time.monotonic()
        client.repeats, pause_s = False, 0.25
        try:
            first = after = await client.ask_shortly(timeout_s)
            while not after.is_answer:
                if time.monotonic() - began_s + pause_s > self._options.recovery_s:
                    break
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, 4.0)
                after = await client.ask_shortly(timeout_s)
            if not after.is_answer and "within" in after.problem:
                # A machine that others use may need longer than ever before.
                after = await client.ask_shortly(self._options.timeout_s)
        finally:
            client.repeats = True
        # A server that is slow, or busy for a while, has not crashed.
        if after.is_answer and (first.is_answer or first.status != 0 or "within" in first.problem):
            return True
        commands = one_after_the_other(client.curl(blamed.body), client.curl(after.body))
        code, sentence = _death(first if after.is_answer else after, is_back=after.is_answer)
        place = next(at for at, exchange in enumerate(client.exchanges) if exchange is blamed)
        harm = Fault(code, sentence, blamed.mode, "an answer", _said(after), commands)
        self._harm.append(replace(harm, exchange=place, got=_said(first)))
        return after.is_answer

    def _note_health(self, client: Client) -> None:
        """Record whether all requests were answered."""
        if _HEALTH not in self._codes:
            return
        faults, slips = [*self._harm, *self._unanswered(client)], client.slips
        failures = [slip for slip in slips if slip.status >= 500]
        asked = f"{self._budget.requests} requests"
        if not faults and (len(failures) > _MOST_FAILURES or len(slips) > _MOST_SLIPS):
            lost = slips[0]
            sentence = (
                f"{len(slips)} of {asked} got no answer at first ({_said(lost)}), and one when "
                "they were repeated."
            )
            place = next(at for at, exchange in enumerate(client.exchanges) if exchange is lost)
            curl = client.curl(lost.body)
            fault = Fault("answers_lost", sentence, lost.mode, "an answer", _said(lost), curl)
            faults.append(replace(fault, exchange=place, is_intermittent=True))
        seen = Seen(f"{asked} were answered", tuple(faults))
        if self._cut_short and not faults:
            return
        if slips and not faults:
            seen = _flaky(f"{len(slips)} of {asked} got an answer only when repeated.")
        self._note(_HEALTH, seen, len(client.exchanges))

    def _unanswered(self, client: Client) -> list[Fault]:
        """Return a fault for the first ordinary request that got no answer, unless a check says so.

        Requests that may harm a server are judged by their checks alone.
        """
        told = [
            result.exchanges[fault.exchange]
            for result in self._results.values()
            for fault in result.faults
            if fault.exchange is not None
        ]
        for run in self._broken:
            if run.status in (401, 403) or self._harm or any(run is other for other in told):
                continue
            sentence = f"A request got no answer, also when it was repeated: {_said(run)}."
            place = next(at for at, exchange in enumerate(client.exchanges) if exchange is run)
            code = "server_error" if run.status else "no_answer"
            curl = client.curl(run.body)
            return [Fault(code, sentence, run.mode, "an answer", _said(run), curl, exchange=place)]
        return []

    def _note(self, code: str, seen: Seen, before: int) -> CheckResult | None:
        """Keep a result with the exchanges since ``before``, and note broken stops."""
        found = self._found
        if code not in self._codes or found is None:
            return None
        asked = found.client.exchanges
        exchanges = [fault.exchange for fault in seen.faults if fault.exchange is not None]
        places = sorted({*range(before, len(asked)), *exchanges})
        new_place = {old: new for new, old in enumerate(places)}
        faults = tuple(
            fault if fault.exchange is None else replace(fault, exchange=new_place[fault.exchange])
            for fault in seen.faults
        )
        result = replace(seen, faults=faults).result(
            case_of(code), found.client.driver.dialect, [asked[at] for at in places]
        )
        if not result.cause:
            earlier = (self._results[known] for known in self._codes if known in self._results)
            result = replace(result, cause=cause_of(result, _before(earlier, code)))
        self._results[code] = result
        return result

    def _left_out(self, code: str) -> CheckResult:
        assert self._found is not None
        seen = not_asked(f"Not asked: {self._cut_short or 'the probe has not come to it'}.")
        return seen.result(case_of(code), self._found.client.driver.dialect)

    def _tell(
        self,
        done: int,
        total: int,
        title: str,
        result: CheckResult | None = None,
        left_s: float | None = None,
    ) -> None:
        if self._on_progress is not None:
            self._on_progress(Progress(done, total, title, result, left_s))


def _before(results: Iterator[CheckResult], code: str) -> Iterator[CheckResult]:
    """Yield the results of other checks; a failure is shown under one of these."""
    return (result for result in results if result.code != code)


def _refused_at_the_end(exchanges: Sequence[Exchange]) -> list[Exchange]:
    """Return the refused requests behind the last one that was not refused."""
    refused = list(takewhile(lambda exchange: exchange.is_refusal, reversed(exchanges)))
    return refused[::-1]


def _left_s(setting: CheckSetting, checks: Sequence[Check]) -> float:
    """Return how long checks will take, by the time that an ordinary answer took."""
    answer_s = setting.main.total_s
    errors = sum(check.code.startswith("errors.") for check in checks)
    answers = sum(
        _ANSWERS.get(check.code, 1.2) for check in checks if not check.code.startswith("errors.")
    )
    return answers * answer_s + errors * (_SLOWEST_ERROR_S + setting.short_s)


def _no_stops_here() -> Seen:
    return skipped("The server has no stops in this API, nor has its vendor.")


def _flaky(sentence: str) -> Seen:
    return Seen(sentence, outcome=CheckOutcome.FLAKY)


def _death(run: Exchange, *, is_back: bool) -> tuple[str, str]:
    """Return the code and the sentence of a server that answers a plain question no longer."""
    if is_back:
        return "server_restarted", "After this request the server was gone for a while."
    if run.status in (401, 403):
        return "key_refused", f"After this request the server refuses access: {_said(run)}."
    if run.status >= 500:
        return "server_broken", f"After this request the server only fails: {_said(run)}."
    return "server_died", f"After this request the server no longer answers: {_said(run)}."


def _session(access: Access) -> aiohttp.ClientSession:
    try:
        return open_session(access)
    except OSError as error:
        raise ProbeFailed(
            f"{access.ca_file} is not a file of certificates (PEM) that can be read"
        ) from error


def _same(measured: Baselines) -> Seen:
    if measured.faults:
        return Seen(faults=measured.faults)
    if not measured.is_deterministic:
        return undecided(
            "The server is not deterministic: at temperature 0 the same question got different "
            "answers. Texts are compared as far as they agree."
        )
    if measured.odd:
        return _flaky(f"At temperature 0 {'; '.join(dict.fromkeys(measured.odd))}.")
    return Seen(f"{len(measured.usable)} prompts got the same answer each time")


def _too_little(measured: Baselines) -> str:
    failed = next((run for run in measured.runs if not run.is_answer), None)
    if failed is not None:
        return f"the server gives no answer to a plain question: {_said(failed)}"
    if not measured.is_deterministic:
        return "the answers to the same question share too little text to choose stops from"
    return "the answers are too short to choose stops from; try another model, or --prompt TEXT"


def _said(run: Exchange) -> str:
    return run.problem or f"status {run.status}, {on_one_line(run.text, 200)}"


# Probes one dialect of a server, or all that it answers; what may harm it comes after all of them.


class Probing:
    """The runs of one call; its reports are available at any time."""

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
        """The reports so far, one for each dialect."""
        reports = [report for run in self._runs if (report := run.report()) is not None]
        if len(reports) + len(self.problems) > 1:
            # Dialects that a report lists as not probed have a report of their own now.
            reports[:1] = [replace(reports[0], other_dialects=())]
        return tuple(reports)

    async def run(self, *, is_all: bool) -> None:
        """Probe the first dialect, and all others that answered if requested."""
        await self._ask(self._options)
        reports = self.reports
        for dialect in reports[0].other_dialects if is_all and reports else ():
            left_s = self._ends_at_s - time.monotonic()
            if self.is_interrupted or left_s <= 0:
                why = "Ctrl-C" if self.is_interrupted else "the time limit was reached"
                self.problems.append((dialect, f"not asked: {why}"))
                continue
            await self._ask(replace(self._options, dialect=dialect, time_limit_s=left_s))
        for run in self._runs:
            if not self.is_interrupted:
                gone = next((other.gone for other in self._runs if other.gone), "")
                await self._guarded(run.ask_what_may_harm(gone))

    async def _ask(self, options: ProbeOptions) -> None:
        run = ProbeRun(options, self._told(options.dialect))
        self._runs.append(run)
        try:
            await self._guarded(run.ask())
        except ProbeFailed as failed:
            self._runs.remove(run)
            self.problem = str(failed)
            if options.dialect is not None and self._runs:
                self.problems.append((options.dialect, str(failed)))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except asyncio.CancelledError:
            # Ctrl-C: the results so far still make a report.
            self.is_interrupted = True

    def _told(self, dialect: WireDialect | None) -> OnProgress | None:
        tell = self._on_progress
        if tell is None or dialect is None:
            return tell
        return lambda progress: tell(replace(progress, title=f"{dialect}: {progress.title}"))
