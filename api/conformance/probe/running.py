"""A whole probe: finds the server, measures it, runs every check, and reports.

The one module that others call. Runs on the loop of whoever probes; cancelling the task ends it.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from api.conformance.captures.harmless import on_one_line
from api.conformance.probe.asking.client import Budget, Client, LimitReached
from api.conformance.probe.asking.exchange import Exchange
from api.conformance.probe.asking.session import open_session
from api.conformance.probe.baseline import Baselines
from api.conformance.probe.checks.answer_checks import ANSWER_CHECKS
from api.conformance.probe.checks.checking import Check, CheckSetting, Seen, ServerGone, unjudged
from api.conformance.probe.checks.error_checks import ERROR_CHECKS
from api.conformance.probe.checks.form import FORM_CHECKS
from api.conformance.probe.checks.hang_up_checks import HANG_UP_CHECKS
from api.conformance.probe.checks.list_checks import LIST_CHECKS
from api.conformance.probe.checks.stop_checks import stop_checks
from api.conformance.probe.detection import Found, found_server
from api.conformance.probe.measuring import baselines
from api.conformance.probe.planning import plan
from api.conformance.probe.values import (
    CheckOutcome,
    CheckResult,
    OnProgress,
    ProbeFailed,
    ProbeOptions,
    Progress,
    Report,
)

_BEGINNING = "Asking without stops"
_SAME = "The same question twice, and streamed"


async def probe(options: ProbeOptions, on_progress: OnProgress | None = None) -> Report:
    """Probe a server and report what passed and what failed.

    Args:
        options: What to probe.
        on_progress: Told before and after each check, on the caller's loop.

    Raises:
        ProbeFailed: Nothing answers there, or nothing from which stops could be chosen.
    """
    began_s = time.monotonic()
    budget = Budget(options.max_requests, began_s + options.time_limit_s)
    async with open_session() as session:
        try:
            found = await found_server(session, options, budget)
            run = _Run(options, found.client, on_progress)
            results, is_deterministic = await run.all()
        except LimitReached as reached:
            raise ProbeFailed(f"before the first check {reached}") from reached
    return _report(options, found, results, is_deterministic, budget, began_s)


def _report(
    options: ProbeOptions,
    found: Found,
    results: Sequence[CheckResult],
    is_deterministic: bool,
    budget: Budget,
    began_s: float,
) -> Report:
    return Report(
        url=found.client.url,
        dialect=found.client.driver.dialect,
        model=found.client.model,
        server=found.server,
        is_deterministic=is_deterministic,
        results=tuple(results),
        requests=budget.requests,
        duration_s=time.monotonic() - began_s,
        other_dialects=found.others,
    )


@dataclass(slots=True)
class _Run:
    """The checks of one probe, one after the other."""

    options: ProbeOptions
    client: Client
    on_progress: OnProgress | None

    async def all(self) -> tuple[list[CheckResult], bool]:
        self._tell(0, 0, _BEGINNING)
        short = await self.client.ask_shortly()
        measured = await baselines(self.client)
        if not measured.usable:
            raise ProbeFailed(_too_little(measured))
        setting = CheckSetting(self.client, self.options, measured.usable, short.total_s)
        results = [_same(measured).result("baseline", _SAME)]
        checks = [
            *stop_checks(plan(measured.usable)),
            *ANSWER_CHECKS,
            *LIST_CHECKS,
            *HANG_UP_CHECKS,
        ]
        # Form is judged before the checks that some servers do not survive.
        checks += [*FORM_CHECKS, *ERROR_CHECKS]
        why_not = ""
        for number, check in enumerate(checks):
            self._tell(number, len(checks), check.title)
            if not why_not:
                seen, why_not = await _seen(check, setting)
            else:
                seen = Seen(why_not, outcome=CheckOutcome.SKIPPED)
            result = seen.result(check.code, check.title)
            results.append(result)
            self._tell(number + 1, len(checks), check.title, result)
        return results, measured.is_deterministic

    def _tell(self, done: int, total: int, title: str, result: CheckResult | None = None) -> None:
        if self.on_progress is not None:
            self.on_progress(Progress(done, total, title, result))


async def _seen(check: Check, setting: CheckSetting) -> tuple[Seen, str]:
    """Run a check; return what it saw, and why no other can follow, if none can."""
    try:
        return await check.run(setting), ""
    except LimitReached as reached:
        return unjudged(f"Left out: {reached}."), f"Left out: {reached}."
    except ServerGone as gone:
        [seen] = gone.args
        return seen, "The server no longer answers."


def _same(measured: Baselines) -> Seen:
    if measured.faults:
        return Seen(faults=measured.faults)
    if not measured.is_deterministic:
        return unjudged(
            "The server is not deterministic: at temperature 0 the same question got different "
            "answers. Texts are compared as far as they agree."
        )
    return Seen(f"{len(measured.usable)} prompts got the same answer each time")


def _too_little(measured: Baselines) -> str:
    failed = next((run for run in measured.runs if not run.is_answer), None)
    if failed is not None:
        return f"the server gives no answer to a plain question: {_said(failed)}"
    if not measured.is_deterministic:
        return "the answers to the same question share too little text to choose stops from"
    return "the answers are too short to choose stops from; try another model"


def _said(run: Exchange) -> str:
    return run.problem or f"status {run.status}, {on_one_line(run.text, 200)}"
