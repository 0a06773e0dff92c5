"""Checks of choices, logprobs, structured output, and of requests with optional fields."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from api.conformance.captures.diagnosis import is_object
from api.conformance.captures.frames import items, mapping, objects, parse_object
from api.conformance.captures.values import CapturedEnding
from api.conformance.probe.checks.check import (
    CheckContext,
    Evaluation,
    Judge,
    Recorder,
    check,
    require_stops,
    skipped,
    undecided,
    without_cost,
)
from api.conformance.probe.checks.request_checks import SYSTEM, Situation, check_situation
from api.conformance.probe.checks.thinking_checks import THINKING_TOKENS
from api.conformance.probe.checks.tool_checks import (
    CALL_TOKENS,
    first_call,
    judge_call,
    tool_ask,
    tool_body,
)
from api.conformance.probe.dialects import (
    COMPLETIONS,
    STRUCTURE_PROMPT,
    Ask,
    Body,
    with_choices,
    with_json,
    with_logprobs,
    with_nulls,
    with_parts,
    with_structure,
)
from api.conformance.probe.plan import Baseline, StopCase
from api.conformance.probe.values import Exchange, Fault

_CHOICES = 2
_TOPS = 2
_TEMPERATURE, _SEED = 0.7, 11


# Several choices.


def _choices_body(ctx: CheckContext, ask: Ask) -> Body | None:
    temperature: float = ctx.shared.get("choices_temperature", 0.0)
    body = ctx.body(replace(ask, temperature=temperature))
    return with_choices(ctx.dialect, body, _CHOICES)


async def _first_choices(ctx: CheckContext) -> Exchange:
    """Return an answer of several choices; some servers give several only where they sample."""
    if "choices" not in ctx.shared:
        for temperature in (0.0, _TEMPERATURE):
            ctx.shared["choices_temperature"] = temperature
            body = _choices_body(ctx, ctx.main.ask)
            if body is None:
                raise skipped("The dialect has one choice only.")
            run = await ctx.client.send(body)
            ctx.shared["choices"] = run
            if not run.is_refusal or "temperature" in ctx.driver.omitted:
                break
    several: Exchange = ctx.shared["choices"]
    if several.is_refusal:
        raise skipped(f"Several choices are refused with status {several.status}.")
    return several


@check("choices.count")
async def _count(ctx: CheckContext) -> Evaluation:
    """Each requested choice comes, with its own index, text and reason."""
    whole, recorder = await _first_choices(ctx), Recorder(ctx)
    judged = partial(_judge_count, ctx.main)
    await recorder.ask(whole.body, judged, first=whole)
    await recorder.ask(_choices_body(ctx, replace(ctx.main.ask, is_streamed=True)), judged)
    return recorder.evaluation(f"{_CHOICES} choices")


def _judge_count(main: Baseline, run: Exchange) -> Iterator[Fault]:
    choices, tokens = run.capture.all_choices, run.capture.output_tokens
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
    """Each of several choices ends at the stop, and at the limit."""
    whole = await _first_choices(ctx)
    if whole.is_answer and len(whole.capture.all_choices) < _CHOICES:
        raise skipped("The server gives one choice only.")
    situation = Situation("With several choices", _choices_body, ignored="choice_not_stopped")
    return await check_situation(situation, ctx)


# Logprobs.


@check("logprobs.stop")
async def _logprobs(ctx: CheckContext) -> Evaluation:
    """Logprobs are listed only for tokens of the text, and for all of them."""
    require_stops(ctx)
    body = with_logprobs(ctx.dialect, ctx.body(ctx.main.ask), _TOPS)
    if body is None:
        raise skipped("The probe knows no logprobs of this dialect.")
    run = await ctx.client.send(body)
    if run.is_refusal:
        raise skipped(f"Logprobs are refused with status {run.status}.")
    text, logged = run.capture.text, "".join(_logged_tokens(run))
    if run.is_answer and not logged:
        raise skipped("The answer has no logprobs with tokens in words.")
    if run.is_answer and text not in logged and logged not in text:
        raise undecided("The tokens of the logprobs do not spell the text.")
    wholes: dict[str, Exchange] = {}
    situation = Situation(
        "With logprobs",
        lambda ctx, ask: with_logprobs(ctx.dialect, ctx.body(ask), _TOPS),
        extra=partial(_judge_logprobs, wholes),
    )
    return await check_situation(situation, ctx)


def _judge_logprobs(wholes: dict[str, Exchange], run: Exchange) -> Iterator[Fault]:
    text, tokens, lists = run.capture.text, _logged_tokens(run), _logprob_lists(run)
    logged = "".join(tokens)
    # Reasoning may be listed before the text; a token may extend beyond a cut.
    begin = logged.rfind(text) if text else -1
    starts = [len("".join(tokens[:at])) for at in range(len(tokens))]
    end = begin + len(text)
    behind = [token for at, token in zip(starts, tokens, strict=True) if at >= end]
    as_chat = [listed for listed in lists if listed.get("content")]
    if begin >= 0 and "".join(behind):
        sentence = "The logprobs list tokens behind the end of the text."
        yield Fault("logprobs_of_dropped_tokens", sentence, text, logged)
    elif run.capture.dialect is COMPLETIONS and as_chat:
        sentence = (
            "The logprobs have the form of Chat Completions: they have content, but no tokens."
        )
        yield Fault("logprobs_form", sentence, "tokens, token_logprobs", ", ".join(as_chat[0]))
    elif not _has_text(text, logged):
        sentence = "The logprobs lack tokens of the text: some are missing."
        yield Fault("logprobs_missing", sentence, text, logged)
    elif not run.is_streamed:
        wholes[text] = run
    elif text in wholes:
        yield from _compare_logprobs(wholes[text], run)


def _compare_logprobs(whole: Exchange, run: Exchange) -> Iterator[Fault]:
    """Compare the logprobs of a stream with those of the whole answer with the same text."""
    tokens, other = _logged_tokens(whole), _logged_tokens(run)
    offsets, streamed = (
        [offset for listed in _logprob_lists(one) for offset in items(listed.get("text_offset"))]
        for one in (whole, run)
    )
    if tokens != other:
        return
    if _has_own_alternatives(whole) and not _has_own_alternatives(run):
        sentence = "The alternatives in the stream's logprobs are those of other tokens."
        yield Fault("tops_differ", sentence, "the token itself among them", "other tokens")
    elif offsets and streamed and offsets != streamed:
        sentence = "The offsets of the tokens, text_offset, are not those of the whole answer."
        yield Fault("offsets_differ", sentence, repr(offsets)[:200], repr(streamed)[:200])


def _has_text(text: str, logged: str) -> bool:
    # A stop may leave half a character of a token; the template's white space has no token.
    return text.rstrip("\ufffd").strip() in logged


def _has_own_alternatives(run: Exchange) -> bool:
    """Whether each token is among its alternatives, as the likeliest one always is."""
    entries = (one for listed in _logprob_lists(run) for one in objects(listed.get("content")))
    return all(
        entry.get("token") in [top.get("token") for top in objects(entry.get("top_logprobs"))]
        for entry in entries
    )


def _logprob_lists(run: Exchange) -> list[dict[str, Any]]:
    is_streamed = run.capture.is_streamed
    raws = [event.raw for event in run.capture.events] if is_streamed else [run.text]
    # Several choices may alternate in a stream.
    choices = (one for raw in raws for one in objects(parse_object(raw).get("choices")))
    return [mapping(choice.get("logprobs")) for choice in choices if not choice.get("index")]


def _logged_tokens(run: Exchange) -> list[str]:
    """Return the tokens that are listed with logprobs; [] if they are not listed as text."""
    tokens: list[Any] = []
    for listed in _logprob_lists(run):
        own = [one.get("token") for one in objects(listed.get("content"))]
        tokens += own or items(listed.get("tokens"))
    # Some servers list ids, or null, instead of the token's text.
    return tokens if all(isinstance(token, str) for token in tokens) else []


# Structured output.


@check("structured.stop")
async def _structure(ctx: CheckContext) -> Evaluation:
    """A stop ends an answer of a given structure like any other."""
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
    return with_structure(ctx.dialect, ctx.body(ask))


# Features beside each other.


def _variants(ctx: CheckContext, ask: Ask) -> Iterator[tuple[str, Ask]]:
    """Yield a request with other fields, each with the name of its situation, in one mode."""
    is_streamed = ctx.main.streamed_text is None
    if ctx.driver.can_think:
        yield "With thinking switched off", replace(ask, is_thinking=False)
        tokens = max(ask.max_tokens, THINKING_TOKENS)
        thinking = replace(ask, is_thinking=True, max_tokens=tokens)
        yield "With thinking", replace(thinking, is_streamed=is_streamed)
    if ctx.driver.has_chat_template:
        yield "With a system message", replace(ask, system=SYSTEM, is_streamed=is_streamed)


async def _check_variants(
    ctx: CheckContext, bodies: Mapping[str, Body | None], judged: Judge
) -> Evaluation:
    recorder, names = Recorder(ctx), []
    for name, body in bodies.items():
        if body is not None:
            recorder.situation = name
            run = await recorder.ask(body, judged, may_refuse=True)
            names += [] if run.is_refusal else [name]
    return recorder.evaluation("; ".join(names))


@check("structured.beside")
async def _structure_beside(ctx: CheckContext) -> Evaluation:
    """An answer for which JSON is requested is JSON, whatever else the request has."""
    tokens = max(CALL_TOKENS, ctx.main.ask.max_tokens)
    ask = replace(ctx.main.ask, prompt=STRUCTURE_PROMPT, max_tokens=tokens)
    plain = _structure_body(ctx, ask)
    if plain is None:
        raise skipped("The probe knows no structured output of this dialect.")
    first = ctx.client.answer_to(plain) or await ctx.client.send(plain)
    if not first.is_answer or not is_object(first.capture.text):
        raise skipped("The server gives no JSON.")
    bodies = {name: _structure_body(ctx, one) for name, one in _variants(ctx, ask)}
    bodies["With any JSON asked for"] = with_json(ctx.dialect, ctx.body(ask))
    if ctx.main.streamed_text is None:
        streamed = ctx.body(replace(ask, is_streamed=True))
        bodies["With any JSON asked for in a stream"] = with_json(ctx.dialect, streamed)
    return await _check_variants(ctx, bodies, _judge_format)


def _judge_format(run: Exchange) -> Iterator[Fault]:
    is_cut, text = run.capture.ending is CapturedEnding.LIMIT, run.capture.text.strip()
    if not is_object(text) and not (is_cut and text[:1] in ("{", "")):
        sentence = "The answer is not the JSON that its format asks for."
        yield Fault("format_ignored", sentence, "a JSON object", run.capture.text or "no text")


@check("logprobs.beside")
async def _logprobs_beside(ctx: CheckContext) -> Evaluation:
    """Logprobs are listed for the tokens of the text, whatever else the request has."""
    dialect, main = ctx.dialect, ctx.main
    plain = with_logprobs(dialect, ctx.body(main.ask), _TOPS)
    if plain is None:
        raise skipped("The probe knows no logprobs of this dialect.")
    first = ctx.client.answer_to(plain) or await ctx.client.send(plain)
    if not first.is_answer or not _logged_tokens(first):
        raise skipped("The answer has no logprobs with tokens in words.")
    bodies = {
        name: with_logprobs(dialect, ctx.body(ask), _TOPS) for name, ask in _variants(ctx, main.ask)
    }
    bodies["Without alternatives"] = with_logprobs(dialect, ctx.body(main.ask), 0)
    several = _choices_body(ctx, replace(main.ask, is_streamed=main.streamed_text is None))
    bodies["With several choices"] = several and with_logprobs(dialect, several, _TOPS)
    # Some servers spell tokens as their vocabulary does, with other characters for white space.
    is_spelled = _has_text(first.capture.text, "".join(_logged_tokens(first)))
    return await _check_variants(ctx, bodies, partial(_judge_listed, is_spelled))


def _judge_listed(is_spelled: bool, run: Exchange) -> Iterator[Fault]:
    text, logged = run.capture.text, "".join(_logged_tokens(run))
    has_any = any(one.get("content") or one.get("tokens") for one in _logprob_lists(run))
    is_foreign = has_any and not (is_spelled and logged)
    if text.strip() and not _has_text(text, logged) and not is_foreign:
        sentence = "The logprobs lack tokens of the text."
        yield Fault("logprobs_missing", sentence, text, logged or "none")


@check("tools.beside")
async def _tools_beside(ctx: CheckContext) -> Evaluation:
    """A call is the same whole and streamed, whatever else the request has."""
    _, is_forced = await first_call(ctx)
    if any(code.startswith(("call", "arguments")) for code in ctx.found):
        raise undecided("A call has a fault also where the request has nothing beside it.")
    recorder, names = Recorder(ctx), []
    for name, ask in _variants(ctx, tool_ask(ctx)):
        pair = (replace(ask, is_streamed=is_streamed) for is_streamed in (False, True))
        bodies = [tool_body(ctx, each, is_forced=is_forced) for each in pair]
        runs = [await ctx.client.send(body) for body in bodies]
        plain = next((run for run in runs if run.is_answer and run.capture.tool_calls), None)
        if plain is None or any(run.is_refusal for run in runs):
            continue
        names.append(name)
        recorder.situation = name
        judged = partial(judge_call, ctx.driver, plain, is_forced)
        for body, run in zip(bodies, runs, strict=True):
            await recorder.ask(body, judged, first=run)
    return recorder.evaluation("; ".join(names))


# Requests with defaults, or in another spelling.


@check("request.default")
async def _default(ctx: CheckContext) -> Evaluation:
    """A request that does not mention a stream gets the API's default."""
    driver, recorder = ctx.driver, Recorder(ctx)
    body = ctx.body(replace(ctx.main.ask, max_tokens=max(8, driver.min_tokens)))
    del body["stream"]
    run = await recorder.ask(body, partial(_judge_default, driver.streams_by_default))
    return recorder.evaluation("a stream" if run.capture.is_streamed else "a whole answer")


def _judge_default(is_due: bool, run: Exchange) -> Iterator[Fault]:
    is_events = run.headers.get("content-type", "").startswith("text/event-stream")
    if is_due is not (run.capture.is_streamed or is_events):
        got, due = ("a stream", "one JSON object")[:: -1 if is_due else 1]
        sentence = f"A request that does not say stream gets {got}, where {due} is the default."
        yield Fault("stream_default", sentence, due, run.text[:200])


@check("request.parts")
async def _parts(ctx: CheckContext) -> Evaluation:
    """A prompt in parts is the same prompt."""
    body = with_parts(ctx.dialect, ctx.body(ctx.main.ask), ctx.main.ask.prompt)
    if body is None:
        raise skipped("The prompts of this dialect have no parts.")
    return await _check_same(ctx, body, "With the prompt in parts")


@check("request.nulls")
async def _nulls(ctx: CheckContext) -> Evaluation:
    """Optional fields that are null are as if they were absent."""
    body = with_nulls(ctx.dialect, ctx.body(ctx.main.ask))
    if body is None:
        raise skipped("The dialect has no fields that may be null.")
    return await _check_same(ctx, body, "With null for the optional fields")


async def _check_same(ctx: CheckContext, body: Body, situation: str) -> Evaluation:
    """Send a request in another spelling, with a stop where stops work; the answer is the same."""
    recorder, case = Recorder(ctx, situation), None if ctx.broken_by else ctx.simple(ctx.main)
    if case is not None:
        body = ctx.driver.with_stops(body, list(case.stops))
    await recorder.ask(body, partial(_judge_same, ctx.main, recorder, case))
    return recorder.evaluation("the same answer")


def _judge_same(
    main: Baseline, recorder: Recorder, case: StopCase | None, run: Exchange
) -> Iterator[Fault]:
    if not main.is_repeatable:
        return
    if case is not None:
        yield from without_cost(recorder.stop_faults(case, run))
    elif run.capture.text != main.text:
        sentence = "The answer has another text."
        yield Fault("text_differs", sentence, main.text, run.capture.text, main.text)
