"""Checks that the chosen stops work, whole and streamed.

Runs on the loop of whoever probes.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from api.conformance.probe.asking.exchange import Exchange
from api.conformance.probe.checks.checking import (
    Check,
    CheckSetting,
    Seen,
    fault,
    skipped,
    undecided,
)
from api.conformance.probe.judging import Judgement, invariants, judge
from api.conformance.probe.planning.plan import StopCase, missing
from api.conformance.probe.values import Fault

_REPEATS = 2


def stop_checks(cases: Sequence[StopCase]) -> list[Check]:
    """Return a check for each case, and for each kind without a case one that says why."""
    checks = [Check(f"stop.{case.code}", _runner(case)) for case in cases]
    checks += [Check(f"stop.{code}", _nothing_to_choose) for code in missing(cases)]
    return checks


async def _nothing_to_choose(setting: CheckSetting) -> Seen:
    return skipped("The answers contain no text for such a stop.")


def _runner(case: StopCase) -> Callable[[CheckSetting], Awaitable[Seen]]:
    async def run(setting: CheckSetting) -> Seen:
        faults: list[Fault] = []
        doubts: list[str] = []
        for is_streamed in (False, True):
            found, doubt = await judged(setting, case, is_streamed=is_streamed)
            faults.extend(found)
            doubts.extend([doubt] if doubt else [])
        shown = ", ".join(map(repr, case.stops))
        if not faults and doubts:
            return undecided(f"{shown}: {doubts[0]}")
        return Seen(shown, tuple(faults))

    return run


async def judged(
    setting: CheckSetting, case: StopCase, *, is_streamed: bool
) -> tuple[list[Fault], str]:
    """Send a request, and again if the result is doubtful; return faults, and a doubt if any.

    Args:
        setting: What is known of the server.
        case: The stops and their expected effect.
        is_streamed: Whether a stream is asked for.

    Raises:
        LimitReached: The probe has reached a limit.
    """
    client = setting.client
    in_mode = case.in_mode(is_streamed=is_streamed)
    if in_mode is None:
        return [], "streams have another text, in which this stop says nothing."
    case = in_mode
    ask = replace(case.baseline.ask, stops=case.stops, is_streamed=is_streamed)
    run = await client.ask(ask)
    verdicts = _verdicts(setting, case, run)
    if not verdicts or run.problem:
        return _faults(setting, run, verdicts), ""
    if case.baseline.is_repeatable:
        again = await client.ask(ask)
        verdicts = _verdicts(setting, case, again)
        if not verdicts:
            return [], "it failed once and passed the second time."
        return _faults(setting, again, verdicts), ""
    for _ in range(_REPEATS):
        certain = invariants(case, run)
        if certain:
            return _faults(setting, run, certain), ""
        run = await client.ask(ask)
        if not _verdicts(setting, case, run):
            return [], ""
    return [], "the server answers differently each time, so the text cannot be compared."


def _verdicts(setting: CheckSetting, case: StopCase, run: Exchange) -> list[Judgement]:
    return judge(case, run, setting.client.driver)


def _faults(setting: CheckSetting, run: Exchange, verdicts: Sequence[Judgement]) -> list[Fault]:
    return [fault(setting.client, run, verdict) for verdict in verdicts]
