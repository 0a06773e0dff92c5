"""Checks of stop sequences: their positions, their spelling, lists of them, and long ones."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

from api.conformance.probe.checks.check import (
    NO_ANSWER,
    NO_TEXT,
    VARIES,
    CheckContext,
    Evaluation,
    Recorder,
    check,
    require_repeatable,
    require_stops,
    skipped,
    undecided,
    without_cost,
    working_case,
)
from api.conformance.probe.dialects import Driver
from api.conformance.probe.judgement import judge
from api.conformance.probe.plan import KINDS, NEVER, Baseline, StopCase, stop_case
from api.conformance.probe.references import reference
from api.conformance.probe.values import Exchange, Fault

_LONG_CHAT = "Count from 1 to {}, one number per line"
_LONG_PLAIN = f"{_LONG_CHAT}\n1\n2\n3\n"


async def _stop(kind: str, ctx: CheckContext) -> Evaluation:
    case, recorder = stop_case(kind, ctx.baselines), Recorder(ctx)
    if case is None:
        raise undecided(NO_TEXT)
    await recorder.judge_modes(case)
    return recorder.evaluation(", ".join(map(repr, case.stops)))


for _kind in KINDS:
    check(f"stop.{_kind}")(partial(_stop, _kind))


# Literal matching: stops that resemble a part of the answer and do not occur in it.

# The code and the sentence of the fault if such a stop fires, and the stop.
_Lookalike = tuple[str, str, str]
_PATTERN = "The stop {} was taken for a regular expression."


def _literal_lookalikes(given: Baseline) -> Iterator[Iterator[_Lookalike]]:
    text = given.text
    swapped = (match[0].swapcase() for match in re.finditer(r"\w+", text))
    yield (("case_ignored", "The stop {} matched text of another case.", one) for one in swapped)
    triples = re.finditer(r"(?=(\w)([\w ])(\w))", text)
    yield (("stop_is_pattern", _PATTERN, f"{one[1]}.{one[3]}") for one in triples)
    yield iter([("stop_is_pattern", _PATTERN, f"([{NEVER}")])
    sentence = "The stop {} was taken for several, separated by a comma."
    pairs = re.finditer(r"(\w)\W(\w)", text)
    yield (("stop_split", sentence, f"{one[1]},{one[2]}") for one in pairs)
    sentence = "The stop {}, a backslash and a letter, was taken for a line break."
    yield iter([("stop_unescaped", sentence, "\\n")] if "\n" in text else [])
    # More tokens than characters: hidden thinking may repeat the prompt.
    prompt = "" if (given.tokens or 0) > len(text) else given.ask.prompt
    sentence = "The stop {} occurs in the prompt only, but it ended the answer."
    yield (("prompt_stopped", sentence, one[0]) for one in re.finditer(r"\w{4,}", prompt))


def _code_point_lookalikes(given: Baseline) -> Iterator[Iterator[_Lookalike]]:
    sentence = "The stop {} matched text that is written with other code points."
    forms = (unicodedata.normalize(form, char) for char in given.text for form in ("NFD", "NFC"))
    yield (("stop_normalised", sentence, form) for form in forms)
    sentence = "The stop {} matched a line break of another form."
    breaks = re.finditer(r"(\S)\n(\S)", given.text)
    yield (("line_ends_changed", sentence, f"{one[1]}\r\n{one[2]}") for one in breaks)


async def _check_lookalikes(
    kinds_in: Callable[[Baseline], Iterator[Iterator[_Lookalike]]], ctx: CheckContext
) -> Evaluation:
    lookalikes = {given: kinds_in(given) for given in ctx.baselines if given.is_repeatable}
    if not lookalikes:
        raise undecided(VARIES)
    chosen: dict[int, tuple[Baseline, _Lookalike]] = {}
    for given, kinds in lookalikes.items():
        known = given.text + given.thinking
        for kind, found in enumerate(kinds):
            one = next((each for each in found if each[2] not in known), None)
            if one is not None and kind not in chosen:
                chosen[kind] = given, one
    if not chosen:
        raise undecided(NO_TEXT)
    recorder = Recorder(ctx)
    for given in lookalikes:
        own = [one for baseline, one in chosen.values() if baseline is given]
        # All are sent in one request; if something fires, each is sent separately.
        together = Recorder(ctx)
        if own:
            await _send_lookalikes(together, ctx, given, own)
        for one in own if together.faults else ():
            await _send_lookalikes(recorder, ctx, given, [one])
    codes = {fault.code for fault in recorder.faults}
    # Patterns contain escapes, too.
    implied = {"stop_unescaped"} if "stop_is_pattern" in codes else set()
    faults = {fault.code: fault for fault in recorder.faults if fault.code not in implied}
    recorder.faults = list(faults.values())
    return recorder.evaluation(", ".join(repr(one[2]) for _, one in chosen.values()))


check("stops.literal")(partial(_check_lookalikes, _literal_lookalikes))
check("stops.code_points")(partial(_check_lookalikes, _code_point_lookalikes))


async def _send_lookalikes(
    recorder: Recorder, ctx: CheckContext, given: Baseline, chosen: Sequence[_Lookalike]
) -> None:
    for body in ctx.bodies(given, tuple(stop for _, _, stop in chosen)):
        await recorder.ask(body, partial(_judge_lookalike, given, chosen[0]))


def _judge_lookalike(given: Baseline, chosen: _Lookalike, exchange: Exchange) -> Iterator[Fault]:
    got, (code, sentence, stop) = exchange.capture.text, chosen
    if got != given.text and given.text.startswith(got):
        yield Fault(code, sentence.format(repr(stop)), given.text, got, given.text)
    elif got != given.text:
        sentence = "No stop could fire, but the text differs."
        yield Fault("text_differs", sentence, given.text, got, given.text)


@check("stops.none")
async def _no_stops(ctx: CheckContext) -> Evaluation:
    require_repeatable(ctx)
    given, recorder = ctx.main, Recorder(ctx)
    values: tuple[list[str] | None, ...] = ([], None)
    for value, body in product(values, ctx.bodies(given)):
        judged = partial(_judge_same, given, f"{value!r} as stops changes the text.")
        sent = ctx.driver.with_stops(body, value)
        await recorder.ask(sent, judged, may_refuse=value is None)
    return recorder.evaluation("[] and null mean no stops")


def _judge_same(given: Baseline, sentence: str, exchange: Exchange) -> Iterator[Fault]:
    if exchange.capture.text != given.text:
        yield Fault("text_differs", sentence, given.text, exchange.capture.text, given.text)


@check("stops.string")
async def _string(ctx: CheckContext) -> Evaluation:
    driver, recorder = ctx.driver, Recorder(ctx)
    if not driver.takes_string:
        raise skipped("The dialect takes a list only.")
    case = next(filter(None, map(_string_case, ctx.baselines)), None)
    case = case or ctx.simple(*ctx.baselines)
    if case is None:
        raise undecided(NO_ANSWER)
    for body in ctx.bodies(case.baseline):
        judged = partial(_judge_string, case, driver)
        await recorder.ask(driver.with_stops(body, case.stops[0]), judged)
    return recorder.evaluation(repr(case.stops[0]))


def _string_case(given: Baseline) -> StopCase | None:
    """Return a stop of several characters, one of which occurs before it."""
    starts = (*given.offsets, *range(1, len(given.stable)))
    for at, stop in given.solid_stops(starts, (3, 2)) if given.is_repeatable else ():
        is_new = stop.isprintable() and stop not in given.thinking
        if is_new and any(char in given.stable[:at] for char in stop):
            return StopCase("string", given, (stop,), given.text[:at], stop)
    return None


def _judge_string(case: StopCase, driver: Driver, exchange: Exchange) -> list[Fault]:
    stop, got, full = case.stops[0], exchange.capture.text, case.baseline.text
    first = min(full.find(char) for char in stop)
    if len(stop) > 1 and got != case.text and got == full[:first]:
        sentence = f"The string {stop!r} was taken for a list of its characters."
        return [Fault("string_as_characters", sentence, case.text, got, full)]
    return without_cost(judge(case, exchange, driver))


@check("stops.empty")
async def _empty(ctx: CheckContext) -> Evaluation:
    recorder, given, sentence = Recorder(ctx), ctx.main, "ignored"
    for body in ctx.bodies(given):
        sent = ctx.driver.with_stops(body, [""])
        exchange = await recorder.ask(sent, partial(_judge_empty, given), may_refuse=True)
        if exchange.is_refusal:
            sentence = f"refused with status {exchange.status}"
    return recorder.evaluation(sentence)


def _judge_empty(given: Baseline, exchange: Exchange) -> Iterator[Fault]:
    full, got = given.text, exchange.capture.text
    if len(got) < len(given.stable) and full.startswith(got):
        yield Fault("empty_stop_fires", "An empty stop counts as a match.", full, got, full)


@check("stops.blank")
async def _blank(ctx: CheckContext) -> Evaluation:
    recorder, shown = Recorder(ctx), []
    for blank in ("\n", " "):
        given = next((one for one in ctx.baselines if one.stable.find(blank) > 0), None)
        if given is None:
            continue
        shown.append(repr(blank))
        text, is_thought = given.text[: given.stable.find(blank)], blank in given.thinking
        case = StopCase("blank", given, (blank,), text, blank, is_thought=is_thought)
        # The white space of a stream with another text may not be the answer's own.
        for is_streamed in given.modes:
            if not given.is_repeatable:
                await recorder.judge_modes(case, (is_streamed,))
                continue
            body = ctx.body(replace(given.ask, stops=case.stops, is_streamed=is_streamed))
            judged = partial(recorder.stop_faults, case)
            exchange = await recorder.ask(body, judged, may_refuse=not is_streamed)
            if exchange.is_refusal:
                return recorder.evaluation(f"refused with status {exchange.status}")
    if not shown:
        raise undecided("The answers contain no white space.")
    return recorder.evaluation(", ".join(shown))


@check("stops.token_ids")
async def _token_ids(ctx: CheckContext) -> Evaluation:
    """Stop token ids end the answer; if ids are not known, many of the most common are given."""
    given = ctx.main
    if ctx.driver.ids_path is None:
        raise skipped("The dialect has no token ids.")
    require_repeatable(ctx)
    middle = len(given.output_ids) // 3
    # The lowest ids of every common vocabulary are bytes, digits and line ends.
    ids = (given.output_ids[middle],) if middle else tuple(range(256))
    recorder = Recorder(ctx)
    for body in ctx.bodies(given, token_ids=ids):
        exchange = await recorder.ask(body, partial(_judge_ids, given), may_refuse=True)
        if exchange.is_refusal:
            raise skipped(f"Token ids are refused with status {exchange.status}.")
        if recorder.faults:
            break
    is_stated = reference(ctx.driver.dialect, "stop token ids") is not None
    if not is_stated and {fault.code for fault in recorder.faults} == {"ids_ignored"}:
        raise skipped("The server knows no token ids here, nor does the API's vendor.")
    shown = str(ids[0]) if len(ids) == 1 else f"{ids[0]} to {ids[-1]}"
    return recorder.evaluation(f"ids {shown} ended the answer")


def _judge_ids(given: Baseline, exchange: Exchange) -> Iterator[Fault]:
    got = exchange.capture.text
    if got == given.text:
        sentence = "stop_token_ids are ignored: the answer is the same."
        yield Fault("ids_ignored", sentence, "less", got)
    elif not given.text.startswith(got):
        yield Fault("text_differs", "With stop token ids, the text differs.", given.text, got)


@check("stops.many")
async def _many(ctx: CheckContext) -> Evaluation:
    case, recorder = working_case(ctx), Recorder(ctx)
    # Above the limits that vendors have.
    for size in (5, 8, 16):
        # One of the lists is streamed, unless streams have another text anyway.
        is_streamed = size == 8 and True in case.baseline.modes
        others = tuple(f"{NEVER}{number}" for number in range(1, size))
        ask = replace(case.baseline.ask, stops=(*others, *case.stops), is_streamed=is_streamed)
        judged = partial(_judge_many, case, ctx.driver, size)
        exchange = await recorder.ask(ctx.body(ask), judged, may_refuse=True)
        if exchange.is_refusal:
            return Evaluation(f"{size} stops are refused with status {exchange.status}")
        if recorder.faults:
            break
    return recorder.evaluation("the last of 5, 8, 16 stops")


def _judge_many(case: StopCase, driver: Driver, size: int, exchange: Exchange) -> Iterator[Fault]:
    sentence = f"The last of {size} stops was dropped without a word."
    for fault in judge(case, exchange, driver):
        is_ignored = fault.code == "stop_ignored"
        yield replace(fault, code="stops_dropped", sentence=sentence) if is_ignored else fault


@check("stops.long")
async def _long(ctx: CheckContext) -> Evaluation:
    require_stops(ctx)
    recorder = Recorder(ctx)
    given = await long_answer(ctx, 4 * ctx.main.ask.max_tokens, 100)
    if given is None:
        raise undecided("There is no long answer that could be compared.")
    start = len(given.text) // 8
    # More characters than the windows that servers keep.
    length = min(200, len(given.text) // 2)
    if length < 24:
        raise undecided("The answers are too short for a long stop.")
    stop = given.text[start : start + length]
    fires = StopCase("long", given, (stop,), given.text[: given.text.find(stop)], stop)
    never = StopCase("long", given, (stop + NEVER,), given.text, None)
    for case, is_streamed in product((fires, never), ctx.main.modes):
        ask = replace(given.ask, stops=case.stops, is_streamed=is_streamed)
        await recorder.ask(ctx.body(ask), partial(_judge_long, case, ctx.driver))
    return recorder.evaluation(f"a stop of {length} characters")


def _judge_long(case: StopCase, driver: Driver, exchange: Exchange) -> list[Fault]:
    faults = judge(case, exchange, driver)
    codes, length, got = {fault.code for fault in faults}, len(case.stops[0]), exchange.capture.text
    if "text_retracted" in codes:
        return faults
    if case.matched is None and faults and case.text.startswith(got) and got != case.text:
        sentence = f"A stop of {length} characters matched although only its beginning occurs."
        return [Fault("stop_cut_short", sentence, case.text, got, case.text)]
    # If the server's window of text is too short, a long part of the stop leaks.
    has_leaked = "prefix_leaked" in codes and len(got) - len(case.text) >= length // 4
    if "stop_ignored" in codes or has_leaked:
        sentence = f"A stop of {length} characters was forgotten before it was complete."
        return [Fault("long_stop_ignored", sentence, case.text, got, case.baseline.text)]
    return faults


async def long_answer(ctx: CheckContext, max_tokens: int, number: int) -> Baseline | None:
    """Return an answer that counts to a number, if the server repeats it; else the longest."""
    client = ctx.client
    baselines = [baseline for baseline in ctx.baselines if baseline.is_repeatable]
    if not baselines:
        return None
    usual = max(baselines, key=lambda baseline: len(baseline.text))
    prompt = _LONG_CHAT if ctx.driver.has_chat_template else _LONG_PLAIN
    ask = replace(usual.ask, prompt=prompt.format(number), max_tokens=max_tokens)
    is_comparable = True in ctx.main.modes
    streaming = replace(ask, is_streamed=is_comparable)
    first, again = await client.ask(ask), await client.ask(streaming)
    text, other = first.capture.text, again.capture.text
    is_usable = first.is_answer and text == other and "\ufffd" not in text
    if not is_usable or len(text) <= len(usual.text):
        return usual
    return Baseline.of(ask, first.capture, streamed_tokens=again.capture.output_tokens)
