"""Checks of stops in requests of other kinds, and of what one request does to others."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from api.conformance.probe.checks.check import (
    NO_TEXT,
    Check,
    CheckSetting,
    Findings,
    Seen,
    skipped,
    undecided,
    without_premise,
    working_case,
)
from api.conformance.probe.checks.limit_checks import limited
from api.conformance.probe.checks.stop_checks import long_answer
from api.conformance.probe.client import (
    Client,
    at_the_same_time,
    kept_connection,
    one_after_the_other,
)
from api.conformance.probe.dialects import Ask, Body, Driver, with_tool
from api.conformance.probe.judgement import (
    Judgement,
    invariants,
    judge,
    misprinted,
    no_answer,
    stream_differs,
)
from api.conformance.probe.plan import LEAST_CHARACTERS, Baseline, StopCase, bounds, is_solid
from api.conformance.probe.values import Exchange

# Checks stops and limits beside other parts of a request: each is asked without them, and with.

_SYSTEM = "You are a helpful assistant."
_EARLIER = ("Say hello", "Hello! How can I help you?")
_SHORT = "Repeat exactly: red blue"
_SHORT_PLAIN = "<|im_start|>user\nRepeat exactly: red blue<|im_end|>\n<|im_start|>assistant\n"
_LATE_TOKENS = 300
_TEMPERATURE, _SEED = 0.7, 7

Views = Callable[[Exchange], Sequence[Exchange]]
Extra = Callable[[Exchange], list[Judgement]]


def _as_it_is(run: Exchange) -> Sequence[Exchange]:
    return (run,)


@dataclass(frozen=True, slots=True)
class Situation:
    """What some requests have beside a prompt, stops and a limit.

    Attributes:
        words: How a finding names it.
        body: Makes a request of it; None if the dialect cannot.
        may_be_refused: Whether a server may lack it.
        views: The answers within an answer, if it may have several.
        extra: What else is judged in each answer.
        ignored: The code of a fault where a stop is ignored.
    """

    words: str
    body: Callable[[CheckSetting, Ask], Body | None]
    may_be_refused: bool = True
    views: Views = _as_it_is
    extra: Extra = lambda run: []
    ignored: str = "stop_ignored"


async def judged_in(
    situation: Situation, setting: CheckSetting, ask: Ask | None = None, least: int = 0
) -> Seen:
    """Ask in a situation without stops, with one, and with a small limit; each whole and streamed.

    Args:
        situation: What the requests have.
        setting: What is known of the server.
        ask: The request; None for the ordinary one.
        least: How many characters an answer must have; 0 for as many as stops need.
    """
    if (broken := without_premise(setting)) is not None:
        return broken
    ask = ask or setting.main.ask
    if situation.body(setting, ask) is None:
        return skipped("The probe knows no such request of this dialect.")
    findings = Findings(setting, situation.words)
    given = await _without_stops(situation, setting, findings, ask)
    if isinstance(given, Seen):
        return given
    if len(given.text.strip()) < (least or LEAST_CHARACTERS) and not findings.faults:
        return undecided("The answers are too short to choose stops from.")
    if findings.faults:
        return findings.seen("")
    case = setting.simple(given) if given.is_repeatable else setting.simple(*setting.baselines)
    if case is None:
        return undecided(NO_TEXT)
    client, both = setting.client, modes(setting)
    for is_streamed in both:
        body = situation.body(setting, replace(ask, stops=case.stops, is_streamed=is_streamed))
        run = await client.send(body)
        plain = situation.body(setting, replace(ask, is_streamed=is_streamed))
        case = await findings.in_this_minute(case, run, plain)
        judged = partial(_stopped_in, situation, findings, case, given.is_repeatable)
        run = await findings.ask(body, judged, first=run)
        if run.is_refusal:
            break
    for is_streamed in both if not findings.faults else ():
        # The smallest limits, too, each in one of the modes.
        limit = max(client.driver.least_tokens, _LIMITS[is_streamed])
        # The end of a turn may count as a token, too.
        if (given.tokens or len(given.text) // _TOKEN_CHARACTERS) < limit + 3:
            continue
        body = situation.body(setting, replace(ask, max_tokens=limit, is_streamed=is_streamed))
        known = len(findings.faults)
        await findings.ask(body, partial(_limited_in, situation, given, limit, client.driver))
        if len(findings.faults) > known:
            # What a limit does elsewhere, too, is not a fault of the situation.
            plain = setting.body(
                replace(setting.main.ask, max_tokens=limit, is_streamed=is_streamed)
            )
            run = sent_before(client, plain) or await client.send(plain)
            codes = {
                verdict.code for verdict in limited(setting.main, limit, client.driver.words, run)
            }
            findings.faults[known:] = [
                each for each in findings.faults[known:] if each.code not in codes
            ]
    return findings.seen(repr(case.stops[0]))


_LIMITS = {False: 5, True: 2}
# A token has no more characters than these, in most texts.
_TOKEN_CHARACTERS = 6


def modes(setting: CheckSetting) -> tuple[bool, ...]:
    """Return in which modes answers are compared: not in streams that have another text anyway."""
    return (False,) if setting.main.streamed_text is not None else (False, True)


async def _without_stops(
    situation: Situation, setting: CheckSetting, findings: Findings, ask: Ask
) -> Baseline | Seen:
    """Return the answer without stops; else why nothing can be decided."""
    client = setting.client
    bodies = [
        situation.body(setting, replace(ask, is_streamed=is_streamed))
        for is_streamed in modes(setting)
    ]
    runs = [sent_before(client, body) or await client.send(body) for body in bodies]
    if situation.may_be_refused and all(run.is_refusal for run in runs):
        return skipped(f"Such requests are refused with status {runs[0].status}.")
    for run in runs:
        broken = no_answer(run)
        findings.note(run, [broken] if broken is not None else [])
    if findings.faults:
        return findings.seen("")
    if any(view.capture.tool_calls for run in runs for view in situation.views(run)):
        return undecided("The model calls a tool where nobody asks for it.")
    texts = [_texts(situation, run) for run in runs]
    is_repeatable = setting.main.is_repeatable
    if len(runs) == 1 or texts[0] != texts[1] or setting.is_varying:
        again = [await client.send(body) for body in bodies]
        is_repeatable &= texts == [_texts(situation, run) for run in again]
        if is_repeatable and setting.is_varying:
            third = [_texts(situation, await client.send(body)) for body in bodies]
            is_repeatable = texts == third
        if is_repeatable and len(runs) == 2 and texts[0] != texts[1]:
            streamed = runs[1]
            wanted, got = (repr(text) if len(text) > 1 else text[0] for text in texts)
            findings.note(streamed, [stream_differs(wanted, got)])
            return findings.seen("")
        setting.shared.setdefault("varying", {})[situation.words] = [
            *texts, *(_texts(situation, run) for run in again)
        ]  # fmt: skip
    first = situation.views(runs[0])[0]
    stream = situation.views(runs[-1])[0]
    capture = first.capture
    is_repeatable &= len(set(_texts(situation, runs[0]))) == 1
    given = Baseline(
        ask=ask,
        text=capture.text,
        stable=capture.text,
        thinking=capture.thinking,
        tokens=_tokens(first),
        ending=capture.ending,
        is_repeatable=is_repeatable,
        total_s=first.total_s,
        wait_s=setting.short_s,
        streamed_tokens=_tokens(stream),
        bounds=bounds(stream.capture) if stream.is_streamed else (),
    )
    for run in runs:
        found = [
            verdict
            for view in situation.views(run)
            for verdict in (*_emptied(setting.main, view), *situation.extra(view))
        ]
        for view in _counted_each(situation, run) if ask == setting.main.ask else ():
            main = setting.main
            found += misprinted(main.text, main.tokens, view) if main.is_repeatable else []
        findings.note(run, found)
    return given


def _counted_each(situation: Situation, run: Exchange) -> list[Exchange]:
    """Return the answers within an answer, each with its part of the counts."""
    views, usage = situation.views(run), run.capture.usage
    if usage is None or usage.output_tokens is None:
        return []
    own = replace(usage, output_tokens=usage.output_tokens // len(views))
    return [replace(view, capture=replace(view.capture, usage=own)) for view in views]


def sent_before(client: Client, body: Body | None) -> Exchange | None:
    """Return the last answer to a request that was sent already."""
    answers = (run for run in reversed(client.exchanges) if run.is_answer and run.body == body)
    return next(answers, None)


def _tokens(run: Exchange) -> int | None:
    return run.capture.usage.output_tokens if run.capture.usage is not None else None


def _texts(situation: Situation, run: Exchange) -> tuple[str, ...]:
    return tuple(view.capture.text for view in situation.views(run))


def _emptied(main: Baseline, run: Exchange) -> list[Judgement]:
    """Judge an answer without text whose tokens are those of a text."""
    capture, tokens = run.capture, _tokens(run)
    # A small model may end its turn at once.
    if capture.text.strip() or capture.thinking.strip() or (tokens is not None and tokens <= 2):
        return []
    said = "The answer has no text."
    return [Judgement("empty", said, f"text, as in {main.text!r}", repr(capture.text))]


def _stopped_in(
    situation: Situation, findings: Findings, case: StopCase, is_repeatable: bool, run: Exchange
) -> list[Judgement]:
    broken = no_answer(run)
    if broken is not None:
        return [broken]
    views, verdicts = situation.views(run), []
    for at, view in enumerate(views):
        judged = findings.verdicts(case, view) if is_repeatable else invariants(case, view)
        judged = [
            replace(one, code=situation.ignored) if one.code == "stop_ignored" else one
            for one in judged or situation.extra(view)
        ]
        verdicts += [_in_choice(at, verdict) for verdict in judged] if len(views) > 1 else judged
    return verdicts


def _in_choice(number: int, verdict: Judgement) -> Judgement:
    return replace(verdict, sentence=f"Choice {number}: {verdict.sentence}")


def _limited_in(
    situation: Situation, given: Baseline, limit: int, driver: Driver, run: Exchange
) -> list[Judgement]:
    views = situation.views(run)
    return [
        _in_choice(at, verdict) if len(views) > 1 else verdict
        for at, view in enumerate(views)
        for verdict in limited(given, limit, driver.words, view)
    ]


# The situations.


def _beside(ask: Ask, setting: CheckSetting, plain: Ask) -> Body | None:
    if not setting.client.driver.has_chat_template:
        return None
    return setting.body(replace(plain, system=ask.system, earlier=ask.earlier))


def _offering(setting: CheckSetting, ask: Ask) -> Body | None:
    return with_tool(setting.client.driver.dialect, setting.body(ask))


def _sampled(setting: CheckSetting, ask: Ask) -> Body | None:
    if "temperature" in setting.client.driver.left_out:
        return None
    return setting.body(replace(ask, temperature=_TEMPERATURE, seed=_SEED))


_SITUATIONS = {
    "stops.system": Situation("With a system message", partial(_beside, Ask("", system=_SYSTEM))),
    "stops.turn": Situation(
        "In a second turn", partial(_beside, Ask("", earlier=_EARLIER)), may_be_refused=False
    ),
    "stops.tools": Situation("With tools that are not called", _offering),
    "stops.temperature": Situation("At a temperature", _sampled),
}


async def _short(setting: CheckSetting) -> Seen:
    """A stop works in an answer of a few characters."""
    prompt = _SHORT if setting.client.driver.has_chat_template else _SHORT_PLAIN
    ask = replace(setting.main.ask, prompt=prompt)
    situation = Situation("In a short answer", lambda setting, ask: setting.body(ask))
    return await judged_in(situation, setting, ask, least=4)


async def _late(setting: CheckSetting) -> Seen:
    """A stop works after more tokens than servers keep in a small window."""
    if (broken := without_premise(setting)) is not None:
        return broken
    findings = Findings(setting)
    # As many numbers as it takes: those up to 99 have 3 characters with their line breaks.
    tokens, chars = setting.main.tokens or 0, len(setting.main.text)
    count = 150 if not tokens else max(150, 25 + int(1.3 * _LATE_TOKENS * chars / tokens / 4))
    # A small model may count to another number than the one it is asked for.
    for last in (min(count, 500), count + 25, 2 * count):
        given = await long_answer(setting, findings, 3 * _LATE_TOKENS, last)
        if findings.faults:
            return findings.seen("")
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
                findings.situation = f"After more than {_LATE_TOKENS} tokens"
                for is_streamed in modes(setting):
                    await findings.judge(case, is_streamed=is_streamed)
                return findings.seen(repr(stop))
    return undecided(NO_TEXT)


# Checks that the stops of one request do not affect other requests.

_DIFFERS = "The same question got another answer, which no stop explains."


async def _sticky(setting: CheckSetting) -> Seen:
    """A request without stops has none, whatever the request before it had."""
    case = working_case(setting)
    if isinstance(case, Seen):
        return case
    client, given = setting.client, case.baseline
    findings = Findings(setting)
    # All other requests have connections of their own.
    async with kept_connection(client):
        for is_streamed in (False, True):
            in_mode = case.in_mode(is_streamed=is_streamed)
            if in_mode is None:
                continue
            before = setting.body(replace(given.ask, stops=case.stops, is_streamed=is_streamed))
            after = setting.body(replace(given.ask, is_streamed=is_streamed))
            sentence = f"The stop {case.stops[0]!r} of one request ended the answer to the next."
            for attempt in range(2):
                first = await client.send(before)
                run = await client.send(after)
                verdicts = _cut(in_mode, run, "stop_sticks", sentence)
                wrong = judge(in_mode, first, client.driver)
                if not verdicts and verdicts is not None and not wrong:
                    break
                if attempt:
                    both = one_after_the_other(client.curl(before), client.curl(after))
                    findings.note(run, verdicts or (), both)
                    said = "On a connection that is used again: "
                    wrong = [replace(one, sentence=said + one.sentence) for one in wrong]
                    findings.note(first, () if await setting.is_explained(first, wrong) else wrong)
            if verdicts is None:
                findings.doubt(_DIFFERS)
    return findings.seen(f"without {case.stops[0]!r} the answer is whole again")


async def _concurrent(setting: CheckSetting) -> Seen:
    """Requests at the same time each have their own stops, and get their own answers."""
    case = working_case(setting)
    if isinstance(case, Seen):
        return case
    client, given = setting.client, case.baseline
    others = (one for one in setting.baselines if one.is_repeatable and one.text != given.text)
    other = next(others, given)
    stopped, is_comparable = replace(given.ask, stops=case.stops), given.streamed_text is None
    bodies = [
        setting.body(given.ask),
        setting.body(stopped),
        setting.body(other.ask),
        setting.body(replace(stopped, is_streamed=is_comparable)),
    ]
    runs = await asyncio.gather(*map(client.send, bodies))
    sentence = f"The stop {case.stops[0]!r} of one request ended another at the same time."
    findings = Findings(setting, "At the same time" if other is not given else "")
    together = at_the_same_time(*map(client.curl, bodies))
    # Answers computed at the same time may differ slightly, so only a cut right before the stop
    # counts, or what no model does.
    for run, baseline in zip(runs[::2], (given, other), strict=True):
        full = replace(case, baseline=baseline, text=case.text if baseline is given else "")
        verdicts = _cut(full, run, "stop_leaks", sentence)
        if verdicts is None:
            verdicts = misprinted(baseline.text, baseline.tokens, run)
            mixed_up = _mixed_up(run, (given.text, case.text, other.text), baseline.text)
            verdicts += [] if mixed_up and await setting.is_explained(run) else mixed_up
        if not verdicts and run.capture.text != baseline.text:
            findings.doubt(_DIFFERS)
        findings.note(run, verdicts, together)
    for run in runs[1::2]:
        mixed_up = _mixed_up(run, (other.text, given.text), case.text)
        mixed_up = [] if mixed_up and await setting.is_explained(run) else mixed_up
        verdicts = [*_kept(case, run), *mixed_up]
        verdicts = verdicts or [one for one in judge(case, run, client.driver) if one.is_certain]
        findings.note(run, verdicts, together)
    findings.faults = list(
        {(fault.code, fault.mode): fault for fault in reversed(findings.faults)}.values()
    )
    return findings.seen(f"{len(bodies)} requests at the same time")


def _mixed_up(run: Exchange, others: Sequence[str], own: str) -> list[Judgement]:
    got = run.capture.text
    if got == own or got not in others:
        return []
    said = "The answer is that of another request."
    return [Judgement("mixed_up", said, own, got, is_certain=True)]


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
    *(Check(code, partial(judged_in, situation)) for code, situation in _SITUATIONS.items()),
    Check("stops.short", _short),
)
LATE_CHECKS = (Check("stops.late", _late),)
