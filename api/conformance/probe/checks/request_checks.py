"""Checks of stops in requests with other fields, and across requests."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from api.conformance.probe.checks.check import (
    NO_TEXT,
    CheckContext,
    Evaluation,
    Inconclusive,
    Recorder,
    check,
    require_stops,
    skipped,
    undecided,
    working_case,
)
from api.conformance.probe.checks.stop_checks import long_answer
from api.conformance.probe.client import in_parallel, in_sequence
from api.conformance.probe.dialects import Ask, Body, with_tool
from api.conformance.probe.judgement import (
    invariants,
    judge,
    no_answer,
)
from api.conformance.probe.plan import CHATML, MIN_CHARS, Baseline, StopCase
from api.conformance.probe.values import Exchange, Fault

SYSTEM = "You are a helpful assistant."
_EARLIER = ("Say hello", "Hello! How can I help you?")
_SHORT_CHAT = "Repeat exactly: red blue"
_SHORT_PLAIN = CHATML.format(_SHORT_CHAT)
# More tokens than servers keep in a window for stops.
_LATE_TOKENS = 300
TEMPERATURE = 0.7
_DIFFERS = "The same question got another answer, which no stop explains."


@dataclass(frozen=True, slots=True)
class Situation:
    """A property of requests beside a prompt, stops and a limit."""

    name: str
    body: Callable[[CheckContext, Ask], Body | None]
    may_be_refused: bool = True
    extra: Callable[[Exchange], Iterable[Fault]] = lambda exchange: ()
    ignored: str = "stop_ignored"


def _views(exchange: Exchange) -> list[Exchange]:
    """Return an answer as one answer for each of its choices; the counts are those of all."""
    if not exchange.capture.choices:
        return [exchange]
    captures = map(exchange.capture.of_choice, exchange.capture.all_choices)
    return [replace(exchange, capture=replace(one, usage=None, choices=())) for one in captures]


def _texts(exchange: Exchange) -> list[str]:
    return [choice.text for choice in exchange.capture.all_choices]


async def check_situation(
    situation: Situation, ctx: CheckContext, ask: Ask | None = None, min_chars: int = MIN_CHARS
) -> Evaluation:
    """Send requests without stops and with one, in all modes."""
    require_stops(ctx)
    ask = ask or ctx.main.ask
    if situation.body(ctx, ask) is None:
        raise skipped("The probe knows no such request of this dialect.")
    recorder = Recorder(ctx, situation.name)
    given = await _without_stops(situation, ctx, recorder, ask)
    if recorder.faults:
        return recorder.evaluation()
    if len(given.text.strip()) < min_chars:
        raise undecided("The answers are too short to choose stops from.")
    case = ctx.simple(given) if given.is_repeatable else ctx.simple(*ctx.baselines)
    if case is None:
        raise undecided(NO_TEXT)
    for is_streamed in ctx.main.modes:
        body = situation.body(ctx, replace(ask, stops=case.stops, is_streamed=is_streamed))
        judged = partial(_judge_stop, situation, recorder, case, given.is_repeatable)
        exchange = await recorder.ask(body, judged)
        if exchange.is_refusal:
            break
    return recorder.evaluation(repr(case.stops[0]))


def _judge_stop(
    situation: Situation,
    recorder: Recorder,
    case: StopCase,
    is_repeatable: bool,
    exchange: Exchange,
) -> Iterator[Fault]:
    views = _views(exchange)
    for number, view in enumerate(views):
        where = f"Choice {number}: " if len(views) > 1 else ""
        faults = recorder.stop_faults(case, view) if is_repeatable else invariants(case, view)
        for fault in faults or situation.extra(view):
            code = situation.ignored if fault.code == "stop_ignored" else fault.code
            yield replace(fault, code=code, sentence=where + fault.sentence)


async def _without_stops(
    situation: Situation, ctx: CheckContext, recorder: Recorder, ask: Ask
) -> Baseline:
    client, main = ctx.client, ctx.main
    bodies = [situation.body(ctx, replace(ask, is_streamed=mode)) for mode in main.modes]
    exchanges = [client.answer_to(body) or await client.send(body) for body in bodies]
    if situation.may_be_refused and all(exchange.is_refusal for exchange in exchanges):
        raise skipped(f"Such requests are refused with status {exchanges[0].status}.")
    for exchange in exchanges:
        broken = no_answer(exchange)
        recorder.note(exchange, [broken] if broken is not None else [])
    if recorder.faults:
        raise Inconclusive(recorder.evaluation())
    if any(view.capture.tool_calls for exchange in exchanges for view in _views(exchange)):
        raise undecided("The model calls a tool where nobody asks for it.")
    texts = [_texts(exchange) for exchange in exchanges]
    is_repeatable = main.is_repeatable and len(set(texts[0])) == 1
    if len(exchanges) == 1 or texts[0] != texts[1] or ctx.is_varying:
        again = [_texts(await client.send(body)) for body in bodies]
        is_same = texts == again
        if is_same and ctx.is_varying:
            is_same = texts == [_texts(await client.send(body)) for body in bodies]
        is_repeatable &= is_same
    capture, stream = (_views(exchange)[0].capture for exchange in (exchanges[0], exchanges[-1]))
    for exchange in exchanges:
        recorder.note(
            exchange, [fault for view in _views(exchange) for fault in situation.extra(view)]
        )
    tokens = stream.output_tokens
    return Baseline.of(ask, capture, is_repeatable=is_repeatable, streamed_tokens=tokens)


def _beside(ask: Ask, ctx: CheckContext, plain: Ask) -> Body | None:
    if not ctx.driver.has_chat_template:
        return None
    return ctx.body(replace(plain, system=ask.system, earlier=ask.earlier))


def _sampled(ctx: CheckContext, ask: Ask) -> Body | None:
    if "temperature" in ctx.driver.omitted:
        return None
    return ctx.body(replace(ask, temperature=TEMPERATURE, seed=7))


for _check_id, _situation in {
    "stops.system": Situation("With a system message", partial(_beside, Ask("", system=SYSTEM))),
    "stops.turn": Situation(
        "In a second turn", partial(_beside, Ask("", earlier=_EARLIER)), may_be_refused=False
    ),
    "stops.tools": Situation(
        "With tools that are not called",
        lambda ctx, ask: with_tool(ctx.driver.dialect, ctx.body(ask)),
    ),
    "stops.temperature": Situation("At a temperature", _sampled),
}.items():
    check(_check_id)(partial(check_situation, _situation))


@check("stops.short")
async def _short(ctx: CheckContext) -> Evaluation:
    prompt = _SHORT_CHAT if ctx.driver.has_chat_template else _SHORT_PLAIN
    situation = Situation("In a short answer", CheckContext.body)
    ask = replace(ctx.main.ask, prompt=prompt)
    return await check_situation(situation, ctx, ask, min_chars=4)


@check("stops.late")
async def _late(ctx: CheckContext) -> Evaluation:
    require_stops(ctx)
    # Numbers have four characters with their line breaks.
    tokens, chars = ctx.main.tokens or 1, len(ctx.main.text)
    number = max(150, 25 + int(1.3 * _LATE_TOKENS * chars / tokens / 4))
    # A small model may count to another number than the requested one.
    for last in (min(number, 500), number + 25, 2 * number):
        given = await long_answer(ctx, 3 * _LATE_TOKENS, last)
        if given is not None and (given.tokens or 0) > 1.1 * _LATE_TOKENS:
            break
    if given is None or not given.tokens or given.tokens <= 1.1 * _LATE_TOKENS:
        raise undecided("There is no answer of so many tokens.")
    begin = int(len(given.text) * max(0.85, 1.05 * _LATE_TOKENS / given.tokens))
    stops = given.solid_stops(range(begin, len(given.text)), (4, 8, 12))
    found = next((one for one in stops if one[1] not in given.thinking), None)
    if found is None:
        raise undecided(NO_TEXT)
    start, stop = found
    recorder = Recorder(ctx, f"After more than {_LATE_TOKENS} tokens")
    case = StopCase("late", given, (stop,), given.text[:start], stop)
    await recorder.judge_modes(case, ctx.main.modes)
    return recorder.evaluation(repr(stop))


# The stops of one request do not affect other requests.


@check("stops.sticky")
async def _sticky(ctx: CheckContext) -> Evaluation:
    case, client, recorder = working_case(ctx), ctx.client, Recorder(ctx)
    sentence = f"The stop {case.stops[0]!r} of one request ended the answer to the next."
    for before in ctx.bodies(case.baseline, case.stops):
        is_streamed = client.driver.requests_stream(before)
        after = ctx.body(replace(case.baseline.ask, is_streamed=is_streamed))
        for is_last in (False, True):
            await client.send(before)
            exchange = await client.send(after)
            faults = _judge_plain(case, exchange, "stop_sticks", sentence)
            if faults == []:
                break
            if is_last:
                commands = in_sequence(client.curl(before), client.curl(after))
                recorder.note(exchange, faults or (), commands)
        if faults is None:
            recorder.doubt(_DIFFERS)
    return recorder.evaluation(f"without {case.stops[0]!r} the answer is whole again")


@check("stops.concurrent")
async def _concurrent(ctx: CheckContext) -> Evaluation:
    case, client = working_case(ctx), ctx.client
    given = case.baseline
    others = (one for one in ctx.baselines if one.is_repeatable and one.text != given.text)
    other = next(others, given)
    stopped, is_comparable = replace(given.ask, stops=case.stops), True in given.modes
    requests = (given.ask, stopped, other.ask, replace(stopped, is_streamed=is_comparable))
    bodies = list(map(ctx.body, requests))
    exchanges = await asyncio.gather(*map(client.send, bodies))
    sentence = f"The stop {case.stops[0]!r} of one request ended another at the same time."
    recorder = Recorder(ctx, "At the same time" if other is not given else "")
    commands = in_parallel(*map(client.curl, bodies))
    # Answers computed at the same time may differ slightly, so only a cut right before the stop
    # counts, or a text that no model makes.
    for exchange, baseline in zip(exchanges[::2], (given, other), strict=True):
        full = replace(case, baseline=baseline, text=case.text if baseline is given else "")
        faults = _judge_plain(full, exchange, "stop_leaks", sentence)
        if faults is None:
            faults = _judge_mix(ctx, exchange, (given.text, case.text, other.text), baseline.text)
            recorder.doubt(_DIFFERS)
        recorder.note(exchange, faults, commands)
    for exchange in exchanges[1::2]:
        broken = no_answer(exchange)
        faults = [broken] if broken is not None else []
        if broken is None and case.stops[0] in exchange.capture.text:
            lost = f"The stop {case.stops[0]!r} was lost beside requests without stops."
            faults = [Fault("stop_leaks", lost, case.text, exchange.capture.text, given.text)]
        faults += _judge_mix(ctx, exchange, (other.text, given.text), case.text)
        certain = [one for one in judge(case, exchange, ctx.driver) if one.is_certain]
        recorder.note(exchange, faults or certain, commands)
    recorder.faults = list(
        {(fault.code, fault.mode): fault for fault in reversed(recorder.faults)}.values()
    )
    return recorder.evaluation(f"{len(bodies)} requests at the same time")


def _judge_mix(
    ctx: CheckContext, exchange: Exchange, others: Sequence[str], own: str
) -> list[Fault]:
    got = exchange.capture.text
    if got == own or got not in others or ctx.is_varying:
        return []
    sentence = "The answer is that of another request."
    return [Fault("mixed_up", sentence, own, got, is_certain=True)]


def _judge_plain(
    case: StopCase, exchange: Exchange, code: str, sentence: str
) -> list[Fault] | None:
    """Judge an answer that no stop should have ended; None if it is a different answer."""
    broken = no_answer(exchange)
    if broken is not None:
        return [broken]
    got, full = exchange.capture.text, case.baseline.text
    if got == full:
        return []
    return [Fault(code, sentence, full, got, full)] if got == case.text else None
