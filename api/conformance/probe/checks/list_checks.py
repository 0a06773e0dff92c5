"""Checks the list of stops itself: absent, empty, blank, a bare string, token ids.

Runs on the loop of whoever probes.
"""

from dataclasses import replace
from typing import Any

from api.conformance.probe.asking.exchange import Exchange
from api.conformance.probe.baseline import Baseline
from api.conformance.probe.checks.checking import (
    NO_ANSWER,
    Check,
    CheckSetting,
    Seen,
    fault,
    make_sure_it_lives,
    skipped,
    undecided,
)
from api.conformance.probe.checks.stop_checks import judged
from api.conformance.probe.judging import Judgement, judge, no_answer
from api.conformance.probe.planning.plan import StopCase, simplest_case
from api.conformance.probe.values import Fault

# The lowest ids of every common vocabulary are bytes, digits and line ends, which an answer that
# counts needs.
_LOW_IDS = tuple(range(256))


async def _no_stops(setting: CheckSetting) -> Seen:
    """An empty list and null mean no stops."""
    given = setting.main
    if not given.is_repeatable:
        return undecided("The server answers differently each time.")
    faults: list[Fault] = []
    values: tuple[list[str] | None, ...] = ([], None)
    for value in values:
        run = await setting.client.send(_with_stop(setting, given, value))
        if run.is_refusal and value is None:
            continue
        broken = no_answer(run)
        if broken is None and run.capture.text != given.text:
            broken = Judgement(
                "text_differs",
                f"{value!r} as stops changes the text.",
                given.text,
                run.capture.text,
            )
        if broken is not None:
            faults.append(fault(setting.client, run, broken))
    return Seen("[] and null mean no stops", tuple(faults))


async def _bare_string(setting: CheckSetting) -> Seen:
    """A single stop may be given without a list, if the dialect allows it."""
    if not setting.client.driver.takes_string:
        return skipped("The dialect takes a list only.")
    case = simplest_case(setting.baselines)
    if case is None:
        return undecided(NO_ANSWER)
    run = await setting.client.send(_with_stop(setting, case.baseline, case.stops[0]))
    verdicts = judge(case, run, setting.client.driver)
    faults = [fault(setting.client, run, verdict) for verdict in verdicts]
    return Seen(repr(case.stops[0]), tuple(faults))


async def _empty_stop(setting: CheckSetting) -> Seen:
    """An empty stop is refused or ignored; it must not end the answer or crash the server."""
    faults: list[Fault] = []
    seen = "ignored"
    for is_streamed in (False, True):
        found, refused = await _empty_in_mode(setting, is_streamed=is_streamed)
        faults.extend(found)
        seen = refused or seen
    return Seen(seen, tuple(faults))


async def _empty_in_mode(setting: CheckSetting, *, is_streamed: bool) -> tuple[list[Fault], str]:
    given, client = setting.main, setting.client
    body = client.driver.body(replace(given.ask, is_streamed=is_streamed), client.model)
    run = await client.send(client.driver.with_stop(body, [""]))
    if run.is_refusal:
        died = await make_sure_it_lives(setting, run)
        return [died] if died else [], f"refused with status {run.status}"
    broken = no_answer(run)
    full = given.text_in(is_streamed=is_streamed)
    least = len(given.stable) if full == given.text else len(full)
    if broken is None and len(run.capture.text) < least:
        broken = Judgement(
            "empty_stop_fires",
            "An empty stop counts as a match.",
            full,
            run.capture.text,
            full,
        )
    faults = [fault(client, run, broken)] if broken is not None else []
    if broken is not None:
        died = await make_sure_it_lives(setting, run)
        faults.extend([died] if died else [])
    return faults, ""


async def _blank_stop(setting: CheckSetting) -> Seen:
    """A stop of white space is refused, or works like any other stop."""
    for given in setting.baselines:
        for blank in ("\n", " "):
            at = given.stable.find(blank)
            if at > 0:
                case = StopCase("blank", given, (blank,), given.text[:at], blank)
                return await _blank(setting, case)
    return skipped("The answers contain no white space.")


async def _blank(setting: CheckSetting, case: StopCase) -> Seen:
    run = await setting.client.ask(replace(case.baseline.ask, stops=case.stops))
    if run.is_refusal:
        return Seen(f"refused with status {run.status}")
    faults, doubt = await judged(setting, case, is_streamed=False)
    if doubt:
        return undecided(doubt)
    return Seen(repr(case.stops[0]), tuple(faults))


async def _token_ids(setting: CheckSetting) -> Seen:
    """Stop token ids end the answer; if ids are not known, many of the most common are given."""
    driver, given = setting.client.driver, setting.main
    if driver.ids_path is None:
        return skipped("The dialect has no token ids.")
    if not given.is_repeatable:
        return undecided("The server answers differently each time.")
    middle = len(given.output_ids) // 3
    ids = (given.output_ids[middle],) if middle else _LOW_IDS
    run = await setting.client.ask(replace(given.ask, token_ids=ids))
    if run.is_refusal:
        return skipped(f"Token ids are refused with status {run.status}.")
    broken = no_answer(run) or _by_ids(given, run)
    faults = (fault(setting.client, run, broken),) if broken is not None else ()
    shown = str(ids[0]) if len(ids) == 1 else f"{ids[0]} to {ids[-1]}"
    return Seen(f"ids {shown} ended the answer", faults)


def _by_ids(given: Baseline, run: Exchange) -> Judgement | None:
    got = run.capture.text
    if got == given.text:
        return Judgement(
            "ids_ignored", "stop_token_ids are ignored: the answer is the same.", "less", got
        )
    if not given.text.startswith(got):
        return Judgement("text_differs", "With stop token ids, the text differs.", given.text, got)
    return None


def _with_stop(setting: CheckSetting, given: Baseline, value: Any) -> Any:
    client = setting.client
    return client.driver.with_stop(client.driver.body(given.ask, client.model), value)


LIST_CHECKS = (
    Check("stops.none", _no_stops),
    Check("stops.string", _bare_string),
    Check("stops.empty", _empty_stop),
    Check("stops.blank", _blank_stop),
    Check("stops.token_ids", _token_ids),
)
