"""Checks of choices, logprobs, structured output, and of requests with optional fields."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from api.conformance.captures.diagnosis import is_object
from api.conformance.captures.frames import items, mapping, objects, parse_object
from api.conformance.probe.checks.check import (
    CheckContext,
    Evaluation,
    Recorder,
    check,
    require_stops,
    skipped,
    undecided,
)
from api.conformance.probe.checks.request_checks import TEMPERATURE, Situation, check_situation
from api.conformance.probe.checks.tool_checks import CALL_TOKENS
from api.conformance.probe.dialects import (
    STRUCTURE_PROMPT,
    Ask,
    Body,
    with_choices,
    with_logprobs,
    with_structure,
)
from api.conformance.probe.plan import Baseline
from api.conformance.probe.values import Exchange, Fault

_CHOICES = 2


def _choices_body(temperature: float, ctx: CheckContext, ask: Ask) -> Body | None:
    body = ctx.body(replace(ask, temperature=temperature))
    return with_choices(ctx.driver.dialect, body, _CHOICES)


async def _first_choices(ctx: CheckContext) -> tuple[Exchange, float]:
    """Return an answer of several choices, and its temperature: some servers have to sample."""
    if ctx.several is None:
        for temperature in (0.0, TEMPERATURE):
            body = _choices_body(temperature, ctx, ctx.main.ask)
            if body is None:
                raise skipped("The dialect has one choice only.")
            exchange = await ctx.client.send(body)
            ctx.several = exchange, temperature
            if not exchange.is_refusal or "temperature" in ctx.driver.omitted:
                break
    assert ctx.several is not None, "it was just filled"
    several, temperature = ctx.several
    if several.is_refusal:
        raise skipped(f"Several choices are refused with status {several.status}.")
    return several, temperature


@check("choices.count")
async def _count(ctx: CheckContext) -> Evaluation:
    (whole, temperature), recorder = await _first_choices(ctx), Recorder(ctx)
    judged = partial(_judge_count, ctx.main)
    await recorder.ask(whole.body, judged, first=whole)
    streamed = _choices_body(temperature, ctx, replace(ctx.main.ask, is_streamed=True))
    await recorder.ask(streamed, judged)
    return recorder.evaluation(f"{_CHOICES} choices")


def _judge_count(main: Baseline, exchange: Exchange) -> Iterator[Fault]:
    choices, tokens = exchange.capture.all_choices, exchange.capture.output_tokens
    expected = f"{_CHOICES} choices"
    silent = [at for at, one in enumerate(choices) if not one.text and not one.tool_calls]
    unended = [at for at, one in enumerate(choices) if one.reason is None]
    is_known = tokens is not None and main.tokens and {one.text for one in choices} == {main.text}
    if len(choices) < _CHOICES:
        sentence = f"{_CHOICES} choices were asked for, but {len(choices)} came."
        yield Fault("choices_missing", sentence, expected, str(len(choices)))
    elif silent:
        texts = repr([choice.text for choice in choices])
        yield Fault("choice_empty", f"Choice {silent[0]} has no text.", expected, texts)
    elif unended:
        sentence = f"Choice {unended[0]} gives no reason for its end."
        yield Fault("reason_missing", sentence, "a reason for each", "none")
    elif is_known and tokens != _CHOICES * (main.tokens or 0):
        sentence = f"The counts of {_CHOICES} choices are not those of {_CHOICES} such answers."
        expected = f"{_CHOICES} times {main.tokens} tokens"
        yield Fault("usage_choices", sentence, expected, f"{tokens} tokens")


@check("choices.stop")
async def _choices_stop(ctx: CheckContext) -> Evaluation:
    whole, temperature = await _first_choices(ctx)
    if whole.is_answer and len(whole.capture.all_choices) < _CHOICES:
        raise skipped("The server gives one choice only.")
    body = partial(_choices_body, temperature)
    situation = Situation("With several choices", body, ignored="choice_not_stopped")
    return await check_situation(situation, ctx)


@check("logprobs.stop")
async def _logprobs(ctx: CheckContext) -> Evaluation:
    require_stops(ctx)
    body = with_logprobs(ctx.driver.dialect, ctx.body(ctx.main.ask))
    if body is None:
        raise skipped("The probe knows no logprobs of this dialect.")
    exchange = await ctx.client.send(body)
    if exchange.is_refusal:
        raise skipped(f"Logprobs are refused with status {exchange.status}.")
    text, logged = exchange.capture.text, "".join(_logged_tokens(exchange))
    if exchange.is_answer and not logged:
        raise skipped("The answer has no logprobs with tokens in words.")
    if exchange.is_answer and text not in logged and logged not in text:
        raise undecided("The tokens of the logprobs do not spell the text.")
    situation = Situation(
        "With logprobs",
        lambda ctx, ask: with_logprobs(ctx.driver.dialect, ctx.body(ask)),
        extra=_judge_logprobs,
    )
    return await check_situation(situation, ctx)


def _judge_logprobs(exchange: Exchange) -> Iterator[Fault]:
    text, tokens = exchange.capture.text, _logged_tokens(exchange)
    logged = "".join(tokens)
    # Reasoning may be listed before the text; a token may extend beyond a cut.
    begin = logged.rfind(text) if text else -1
    starts = [len("".join(tokens[:at])) for at in range(len(tokens))]
    end = begin + len(text)
    behind = [token for at, token in zip(starts, tokens, strict=True) if at >= end]
    if begin >= 0 and "".join(behind):
        sentence = "The logprobs list tokens behind the end of the text."
        yield Fault("logprobs_of_dropped_tokens", sentence, text, logged)
    elif not _has_text(text, logged):
        sentence = "The logprobs lack tokens of the text: some are missing."
        yield Fault("logprobs_missing", sentence, text, logged)


def _has_text(text: str, logged: str) -> bool:
    # A stop may leave half a character of a token; the template's white space has no token.
    return text.rstrip("\ufffd").strip() in logged


def _logprob_lists(exchange: Exchange) -> list[dict[str, Any]]:
    is_streamed = exchange.capture.is_streamed
    raws = [event.raw for event in exchange.capture.events] if is_streamed else [exchange.text]
    # Several choices may alternate in a stream.
    choices = (one for raw in raws for one in objects(parse_object(raw).get("choices")))
    return [mapping(choice.get("logprobs")) for choice in choices if not choice.get("index")]


def _logged_tokens(exchange: Exchange) -> list[str]:
    """Return the tokens that are listed with logprobs; [] if they are not listed as text."""
    tokens: list[Any] = []
    for listed in _logprob_lists(exchange):
        own = [one.get("token") for one in objects(listed.get("content"))]
        tokens += own or items(listed.get("tokens"))
    # Some servers list ids, or null, instead of the token's text.
    return tokens if all(isinstance(token, str) for token in tokens) else []


@check("structured.stop")
async def _structure(ctx: CheckContext) -> Evaluation:
    tokens = max(CALL_TOKENS, ctx.main.ask.max_tokens)
    ask = Ask(STRUCTURE_PROMPT, max_tokens=tokens, is_thinking=ctx.main.ask.is_thinking)
    body = _structure_body(ctx, ask)
    if body is None:
        raise skipped("The probe knows no structured output of this dialect.")
    plain = await ctx.client.send(body)
    if plain.is_refusal or (plain.is_answer and not is_object(plain.capture.text)):
        raise skipped("The server gives no JSON.")
    situation = Situation("With JSON asked for", _structure_body, ignored="structured_stop_ignored")
    return await check_situation(situation, ctx, ask)


def _structure_body(ctx: CheckContext, ask: Ask) -> Body | None:
    return with_structure(ctx.driver.dialect, ctx.body(ask))


@check("request.default")
async def _default(ctx: CheckContext) -> Evaluation:
    driver, recorder = ctx.driver, Recorder(ctx)
    body = ctx.body(replace(ctx.main.ask, max_tokens=max(8, driver.min_tokens)))
    del body["stream"]
    exchange = await recorder.ask(body, partial(_judge_default, driver.streams_by_default))
    return recorder.evaluation("a stream" if exchange.capture.is_streamed else "a whole answer")


def _judge_default(is_due: bool, exchange: Exchange) -> Iterator[Fault]:
    is_events = exchange.headers.get("content-type", "").startswith("text/event-stream")
    if is_due is not (exchange.capture.is_streamed or is_events):
        got, due = ("a stream", "one JSON object")[:: -1 if is_due else 1]
        sentence = f"A request that does not say stream gets {got}, where {due} is the default."
        yield Fault("stream_default", sentence, due, exchange.text[:200])
