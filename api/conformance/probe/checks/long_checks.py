"""Checks long lists of stops, and long stops.

Runs on the loop of whoever probes.
"""

from dataclasses import replace
from functools import partial

from api.conformance.probe.asking.client import Client
from api.conformance.probe.asking.exchange import Exchange
from api.conformance.probe.baseline import Baseline
from api.conformance.probe.checks.checking import (
    Check,
    CheckSetting,
    Seen,
    confirmed,
    skipped,
    undecided,
    without_premise,
    working_case,
)
from api.conformance.probe.judging import Judgement, judge
from api.conformance.probe.planning.plan import NEVER, StopCase
from api.conformance.probe.values import Fault

_COUNTS = (5, 8, 16)
_LONG_CHAT = "Count from 1 to 100, one number per line"
_LONG_PLAIN = f"{_LONG_CHAT}\n1\n2\n3\n"
_MOST_CHARS = 200
_FEWEST_CHARS = 24


async def _many(setting: CheckSetting) -> Seen:
    """Every stop of a long list counts, or the list is refused."""
    client, case = setting.client, working_case(setting)
    if isinstance(case, Seen):
        return case
    for count in _COUNTS:
        others = tuple(f"{NEVER}{number}" for number in range(1, count))
        ask = replace(case.baseline.ask, stops=(*others, *case.stops))
        body = client.driver.body(ask, client.model)
        run, faults = await confirmed(client, body, partial(_judge_many, case, client, count))
        if run.is_refusal:
            return Seen(f"{count} stops are refused with status {run.status}")
        if faults:
            return Seen(faults=tuple(faults))
    return Seen(f"the last of {', '.join(map(str, _COUNTS))} stops")


def _judge_many(case: StopCase, client: Client, count: int, run: Exchange) -> list[Judgement]:
    sentence = f"The last of {count} stops was dropped without a word."
    return [
        replace(one, code="stops_dropped", sentence=sentence) if one.code == "stop_ignored" else one
        for one in judge(case, run, client.driver)
    ]


async def _long(setting: CheckSetting) -> Seen:
    """A long stop is compared to its end: it is neither shortened nor forgotten."""
    if (broken := without_premise(setting)) is not None:
        return broken
    client = setting.client
    given = await _long_answer(setting)
    if given is None:
        return undecided("There is no long answer that could be compared.")
    start = len(given.text) // 8
    length = min(_MOST_CHARS, len(given.text) // 2)
    if length < _FEWEST_CHARS:
        return skipped("The answers are too short for a long stop.")
    stop = given.text[start : start + length]
    fires = StopCase("long", given, (stop,), given.text[:start], stop)
    never = StopCase("long", given, (stop + NEVER,), given.text, None)
    faults: list[Fault] = []
    for case in (fires, never):
        for is_streamed in (False, True):
            if is_streamed and setting.main.streamed_text is not None:
                continue
            ask = replace(given.ask, stops=case.stops, is_streamed=is_streamed)
            body = client.driver.body(ask, client.model)
            _, found = await confirmed(client, body, partial(_judge_long, case, client))
            faults.extend(found)
    return Seen(f"a stop of {length} characters", tuple(faults))


def _judge_long(case: StopCase, client: Client, run: Exchange) -> list[Judgement]:
    verdicts = judge(case, run, client.driver)
    length = len(case.stops[0])
    got = run.capture.text
    if case.matched is None and verdicts and case.text.startswith(got) and got != case.text:
        sentence = f"A stop of {length} characters matched although only its beginning occurs."
        return [Judgement("stop_cut_short", sentence, case.text, got, case.text)]
    # If the server's window of text is too short, a long part of the stop leaks.
    has_leaked = len(got) - len(case.text) >= length // 4
    codes = {one.code for one in verdicts}
    if "stop_ignored" in codes or ("prefix_leaked" in codes and has_leaked):
        sentence = f"A stop of {length} characters was forgotten before it was complete."
        return [Judgement("long_stop_ignored", sentence, case.text, got, case.baseline.text)]
    return verdicts


async def _long_answer(setting: CheckSetting) -> Baseline | None:
    """Return an answer longer than the others, if the server gives one; else the longest."""
    repeatable = [one for one in setting.baselines if one.is_repeatable]
    if not repeatable:
        return None
    usual = max(repeatable, key=lambda one: len(one.text))
    has_template = setting.client.driver.has_chat_template
    prompt = _LONG_CHAT if has_template else _LONG_PLAIN
    ask = replace(usual.ask, prompt=prompt, max_tokens=4 * usual.ask.max_tokens)
    first, again = await setting.client.ask(ask), await setting.client.ask(ask)
    text = first.capture.text
    is_usable = first.is_answer and text == again.capture.text and "\ufffd" not in text
    if not is_usable or len(text) <= len(usual.text):
        return usual
    return Baseline(
        ask=ask,
        text=text,
        stable=text,
        thinking=first.capture.thinking,
        ending=first.capture.ending,
    )


LONG_CHECKS = (
    Check("stops.many", _many),
    Check("stops.long", _long),
)
