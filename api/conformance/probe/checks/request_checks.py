"""Checks of stops in requests of other kinds, and of what one request does to others."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from api.conformance.captures.values import first_occurrence
from api.conformance.probe.checks.check import (
    NO_ANSWER,
    NO_TEXT,
    VARIES,
    Check,
    CheckSetting,
    Findings,
    Seen,
    skipped,
    undecided,
    without_premise,
    working_case,
)
from api.conformance.probe.checks.stop_checks import long_answer
from api.conformance.probe.client import at_the_same_time, one_after_the_other
from api.conformance.probe.dialects import Ask, with_tool
from api.conformance.probe.judgement import Judgement, judge, no_answer
from api.conformance.probe.plan import Baseline, StopCase, is_solid
from api.conformance.probe.values import Exchange

# Checks a stop beside other parts of a request: each is asked without the stop, and with it.

_SYSTEM = "You are a helpful assistant."
_EARLIER = ("Say hello", "Hello! How can I help you?")
_SHORT = "Repeat exactly: red blue"
_SHORT_PLAIN = "<|im_start|>user\nRepeat exactly: red blue<|im_end|>\n<|im_start|>assistant\n"
_LATE_TOKENS = 300
_TEMPERATURE = 0.7


async def _answered(setting: CheckSetting, ask: Ask, least: int = 12) -> Baseline | Seen:
    """Return the answer to a request without stops; else why nothing can be decided."""
    client = setting.client
    first, again = await client.ask(ask), await client.ask(ask)
    if first.is_refusal:
        return skipped(f"Such requests are refused with status {first.status}.")
    if not (first.is_answer and again.is_answer):
        return undecided(NO_ANSWER)
    text, usage = first.capture.text, first.capture.usage
    if text != again.capture.text:
        return undecided(VARIES)
    if len(text.strip()) < least:
        return undecided("The answers are too short to choose stops from.")
    return Baseline(
        ask,
        text,
        text,
        thinking=first.capture.thinking,
        tokens=usage.output_tokens if usage is not None else None,
        ending=first.capture.ending,
        total_s=first.total_s,
        wait_s=setting.short_s,
    )


async def _beside(ask: Ask, setting: CheckSetting) -> Seen:
    """A stop works in a request that has something else than the ordinary ones."""
    if (broken := without_premise(setting)) is not None:
        return broken
    if not setting.client.driver.has_chat_template:
        return skipped("The dialect takes a prompt only.")
    main = setting.main.ask
    ask = replace(ask, prompt=main.prompt, max_tokens=main.max_tokens, is_thinking=main.is_thinking)
    given = await _answered(setting, ask)
    return given if isinstance(given, Seen) else await _judged(setting, setting.simple(given))


async def _judged(setting: CheckSetting, case: StopCase | None) -> Seen:
    if case is None:
        return undecided(NO_TEXT)
    findings = Findings(setting)
    for is_streamed in (False, True):
        if is_streamed and setting.main.streamed_text is not None:
            continue
        await findings.judge(case, is_streamed=is_streamed)
    return findings.seen(repr(case.stops[0]))


async def _short(setting: CheckSetting) -> Seen:
    """A stop works in an answer of a few characters."""
    if (broken := without_premise(setting)) is not None:
        return broken
    prompt = _SHORT if setting.client.driver.has_chat_template else _SHORT_PLAIN
    given = await _answered(setting, replace(setting.main.ask, prompt=prompt), least=4)
    if isinstance(given, Seen):
        return given
    middle = range(len(given.text) // 2, len(given.text) - 1)
    start = next((at for at in middle if is_solid(given, at, at + 2)), None)
    if start is None:
        return undecided(NO_TEXT)
    stop = given.text[start : start + 2]
    is_thought = stop in given.thinking
    case = StopCase("short", given, (stop,), given.text[:start], stop, is_thought=is_thought)
    return await _judged(setting, case)


async def _late(setting: CheckSetting) -> Seen:
    """A stop works after more tokens than servers keep in a small window."""
    if (broken := without_premise(setting)) is not None:
        return broken
    # As many numbers as it takes: those up to 99 have 3 characters with their line breaks.
    tokens, chars = setting.main.tokens or 0, len(setting.main.text)
    count = 150 if not tokens else max(150, 25 + int(1.3 * _LATE_TOKENS * chars / tokens / 4))
    # A small model may count to another number than the one it is asked for.
    for last in (min(count, 500), count + 25, 2 * count):
        given = await long_answer(setting, 3 * _LATE_TOKENS, last)
        if given is not None and (given.tokens or 0) > 1.1 * _LATE_TOKENS:
            break
    if given is None or not given.tokens or given.tokens <= 1.1 * _LATE_TOKENS:
        return undecided("There is no answer of so many tokens.")
    place = int(len(given.text) * max(0.85, 1.05 * _LATE_TOKENS / given.tokens))
    for length in (4, 8, 12):
        for start in range(place, len(given.text) - length):
            stop = given.text[start : start + length]
            if is_solid(given, start, start + length) and stop not in given.thinking:
                case = StopCase("late", given, (stop,), given.text[:start], stop)
                return await _judged(setting, case)
    return undecided(NO_TEXT)


async def _tools(setting: CheckSetting) -> Seen:
    """A stop works although tools are offered."""
    if (broken := without_premise(setting)) is not None:
        return broken
    client, ask = setting.client, setting.main.ask
    dialect = client.driver.dialect
    body = with_tool(dialect, setting.body(ask), is_forced=False)
    if body is None:
        return skipped("The probe knows no tools of this dialect.")
    plain, again = await client.send(body), await client.send(body)
    text = plain.capture.text
    if plain.is_refusal:
        return skipped(f"Tools are refused with status {plain.status}.")
    if not plain.is_answer or plain.capture.tool_calls or text != again.capture.text:
        return undecided("With tools there is no answer that repeats itself.")
    given = Baseline(ask, text, text, thinking=plain.capture.thinking, ending=plain.capture.ending)
    case = setting.simple(given)
    if case is None:
        return undecided(NO_TEXT)
    findings = Findings(setting)
    for is_streamed in (False, True):
        if is_streamed and setting.main.streamed_text is not None:
            continue
        asked = setting.body(replace(ask, stops=case.stops, is_streamed=is_streamed))
        body = with_tool(dialect, asked, is_forced=False)
        await findings.ask(body, partial(judge, case, driver=client.driver))
    return findings.seen(repr(case.stops[0]))


async def _temperature(setting: CheckSetting) -> Seen:
    """No answer at a temperature contains the stop."""
    case = working_case(setting)
    if isinstance(case, Seen):
        return case
    if "temperature" in setting.client.driver.left_out:
        return skipped("The server refuses a temperature.")
    findings = Findings(setting)
    ask = replace(case.baseline.ask, stops=case.stops, temperature=_TEMPERATURE)
    for is_streamed in (False, True):
        body = setting.body(replace(ask, is_streamed=is_streamed))
        run = await findings.ask(body, partial(_contains, case), may_refuse=True)
        if run.is_refusal:
            return skipped(f"A temperature is refused with status {run.status}.")
    return findings.seen(repr(case.stops[0]))


def _contains(case: StopCase, run: Exchange) -> list[Judgement]:
    broken = no_answer(run)
    if broken is not None:
        return [broken]
    got = run.capture.text
    if first_occurrence(got, case.stops) is None:
        return []
    sentence = f"The stop {case.stops[0]!r} was ignored: the answer contains it."
    return [Judgement("stop_ignored", sentence, "the text before the stop", got, is_certain=True)]


# Checks that the stops of one request do not affect other requests.

_DIFFERS = "The same question got another answer, which no stop explains."


async def _sticky(setting: CheckSetting) -> Seen:
    """A request without stops has none, whatever the request before it had."""
    case = working_case(setting)
    if isinstance(case, Seen):
        return case
    client, given = setting.client, case.baseline
    findings = Findings(setting)
    for is_streamed in (False, True):
        in_mode = case.in_mode(is_streamed=is_streamed)
        if in_mode is None:
            continue
        before = setting.body(replace(given.ask, stops=case.stops, is_streamed=is_streamed))
        after = setting.body(replace(given.ask, is_streamed=is_streamed))
        sentence = f"The stop {case.stops[0]!r} of one request ended the answer to the next."
        for attempt in range(2):
            await client.send(before)
            run = await client.send(after)
            verdicts = _cut(in_mode, run, "stop_sticks", sentence)
            if not verdicts:
                break
            if attempt:
                both = one_after_the_other(client.curl(before), client.curl(after))
                findings.note(run, verdicts, both)
        if verdicts is None:
            findings.doubt(_DIFFERS)
    return findings.seen(f"without {case.stops[0]!r} the answer is whole again")


async def _concurrent(setting: CheckSetting) -> Seen:
    """Requests at the same time each have their own stops."""
    case = working_case(setting)
    if isinstance(case, Seen):
        return case
    client, given = setting.client, case.baseline
    stopped, free = setting.body(replace(given.ask, stops=case.stops)), setting.body(given.ask)
    bodies = [stopped, free, stopped, free]
    runs = await asyncio.gather(*map(client.send, bodies))
    sentence = f"The stop {case.stops[0]!r} of one request ended another at the same time."
    findings = Findings(setting)
    together = at_the_same_time(*map(client.curl, bodies))
    # Answers computed at the same time may differ slightly, so only a cut right before the stop
    # counts.
    for run in runs[1::2]:
        verdicts = _cut(case, run, "stop_leaks", sentence)
        findings.note(run, verdicts or (), together)
        if verdicts is None:
            findings.doubt(_DIFFERS)
    for run in runs[::2]:
        findings.note(run, _kept(case, run), together)
    findings.faults = list({fault.code: fault for fault in reversed(findings.faults)}.values())
    return findings.seen(f"{len(bodies)} requests at the same time")


def _cut(case: StopCase, run: Exchange, code: str, sentence: str) -> list[Judgement] | None:
    """Judge an answer that no stop should have ended; None if it is a different answer."""
    broken = no_answer(run)
    if broken is not None:
        return [broken]
    got, full = run.capture.text, case.baseline.text
    if got == full:
        return []
    return [Judgement(code, sentence, full, got, full)] if got == case.text else None


def _kept(case: StopCase, run: Exchange) -> Sequence[Judgement]:
    broken = no_answer(run)
    if broken is not None:
        return [broken]
    if case.stops[0] not in run.capture.text:
        return []
    sentence = f"The stop {case.stops[0]!r} was lost beside requests without stops."
    full = case.baseline.text
    return [Judgement("stop_leaks", sentence, case.text, run.capture.text, full)]


ISOLATION_CHECKS = (
    Check("stops.sticky", _sticky),
    Check("stops.concurrent", _concurrent),
)
REQUEST_CHECKS = (
    Check("stops.system", partial(_beside, Ask("", system=_SYSTEM))),
    Check("stops.turn", partial(_beside, Ask("", earlier=_EARLIER))),
    Check("stops.tools", _tools),
    Check("stops.temperature", _temperature),
    Check("stops.short", _short),
)
LATE_CHECKS = (Check("stops.late", _late),)
