"""Checks of tool calls: their form, reason and limit, stops inside them, and tool_choice."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from api.conformance.captures.diagnosis import is_object
from api.conformance.captures.frames import parse_json, parse_object
from api.conformance.captures.values import CapturedCall, CapturedEnding
from api.conformance.probe.checks.check import (
    CheckContext,
    Evaluation,
    Inconclusive,
    Recorder,
    check,
    require_stops,
    skipped,
    undecided,
)
from api.conformance.probe.checks.request_checks import Situation, check_situation
from api.conformance.probe.dialects import (
    CHAT,
    MESSAGES,
    TOOL_PROMPT,
    Ask,
    Body,
    Driver,
    with_tool,
    with_tool_result,
)
from api.conformance.probe.values import Exchange, Fault

# Enough for a call or a structured answer.
CALL_TOKENS = 256
# The dialects whose reason names a tool call.
_TOOL_REASON = (CHAT, MESSAGES)


def tool_ask(ctx: CheckContext, *, is_streamed: bool = False) -> Ask:
    """Return the request for which a model calls the tool."""
    tokens = max(CALL_TOKENS, ctx.main.ask.max_tokens)
    is_thinking = ctx.main.ask.is_thinking
    return Ask(TOOL_PROMPT, (), tokens, is_streamed=is_streamed, is_thinking=is_thinking)


def tool_body(ctx: CheckContext, ask: Ask, *, is_forced: bool) -> Body | None:
    """Return a request with the tool; None if the dialect has no tools."""
    choice = "named" if is_forced else "auto"
    # Not every dialect can force a call.
    body = ctx.body(ask)
    return with_tool(ctx.driver.dialect, body, choice) or with_tool(ctx.driver.dialect, body)


async def first_call(ctx: CheckContext) -> tuple[Exchange, bool]:
    """Return an answer that calls the tool, and whether it had to."""
    if ctx.called is None:
        ctx.called = skipped("The model calls no tool.")
        for is_forced in (False, True):
            body = tool_body(ctx, tool_ask(ctx), is_forced=is_forced)
            if body is None:
                ctx.called = skipped("The probe knows no tools of this dialect.")
                break
            plain = await ctx.client.send(body)
            if plain.is_answer and plain.capture.tool_calls:
                ctx.called = plain, is_forced
                break
    if isinstance(ctx.called, Inconclusive):
        raise ctx.called
    return ctx.called


@check("tools.call")
async def _call(ctx: CheckContext) -> Evaluation:
    plain, is_forced = await first_call(ctx)
    recorder = Recorder(ctx)
    judged = partial(judge_call, ctx.driver, plain, is_forced)
    for is_streamed in (False, True):
        ask = tool_ask(ctx, is_streamed=is_streamed)
        await recorder.ask(tool_body(ctx, ask, is_forced=is_forced), judged)
    return recorder.evaluation(f"a call of {plain.capture.tool_calls[0].name}")


def judge_call(
    driver: Driver, plain: Exchange, is_forced: bool, exchange: Exchange
) -> Iterator[Fault]:
    """Judge an answer that has to call the tool as another one does."""
    capture, expected = exchange.capture, plain.capture.tool_calls[0]
    if not capture.tool_calls:
        sentence = "The call that another answer to the same request has is missing."
        yield Fault("call_missing", sentence, f"a call of {expected.name}", repr(capture.text))
        return
    call, codes = capture.tool_calls[0], {finding.code for finding in capture.findings}
    if "arguments_form" in codes:
        sentence = "The arguments of a call do not have the form of this dialect."
        yield Fault("arguments_form", sentence, "a JSON string, or an object", exchange.text)
    elif not is_object(call.arguments) and capture.ending is not CapturedEnding.LIMIT:
        sentence = "The arguments of a call are not a JSON object."
        yield Fault("arguments_broken", sentence, "a JSON object", call.arguments)
    elif exchange.is_streamed and is_object(expected.arguments):
        yield from _compare_calls(plain, exchange)
    if driver.dialect not in _TOOL_REASON:
        return
    name = driver.reason_names[CapturedEnding.TOOL]
    # The vendor itself gives "stop" where a request names the tool.
    is_stop = is_forced and capture.ending is CapturedEnding.NATURAL_OR_STOP
    if capture.ending is None:
        sentence = "The answer with a call gives no reason for its end."
        yield Fault("reason_missing", sentence, name, "none")
    elif capture.ending not in (CapturedEnding.TOOL, CapturedEnding.LIMIT) and not is_stop:
        sentence = "The answer has a call, but the reason says otherwise."
        yield Fault("wrong_reason", sentence, name, str(capture.reason))


def _compare_calls(plain: Exchange, exchange: Exchange) -> Iterator[Fault]:
    wholes, streamed = plain.capture.tool_calls, exchange.capture.tool_calls
    expected, got = ([read_call(call) for call in calls] for calls in (wholes, streamed))
    if expected != got and all(is_object(call.arguments) for call in (*wholes, *streamed)):
        sentence = "The call of the stream is not the one of the whole answer."
        yield Fault("call_differs", sentence, repr(expected), repr(got))


def read_call(call: CapturedCall) -> tuple[str, object]:
    """Return the name of a call and its arguments, read if they are an object."""
    arguments = call.arguments or "{}"
    return call.name, parse_json(arguments) if is_object(arguments) else arguments


@check("stops.result")
async def _result(ctx: CheckContext) -> Evaluation:
    require_stops(ctx)
    called, _ = await first_call(ctx)
    try:
        answer = parse_object(called.text)
        with_tool_result(ctx.driver.dialect, {}, "", answer)
    except (LookupError, TypeError) as error:
        # A finding of another check names the form of the call.
        raise undecided("The call has another form than this API's.") from error
    situation = Situation(
        "After the result of a tool",
        lambda ctx, ask: with_tool_result(ctx.driver.dialect, ctx.body(ask), ask.prompt, answer),
        may_be_refused=False,
    )
    return await check_situation(situation, ctx)


@check("tools.limit")
async def _cut(ctx: CheckContext) -> Evaluation:
    plain, is_forced = await first_call(ctx)
    recorder, tokens = Recorder(ctx), plain.capture.output_tokens
    # A call has more tokens.
    limit = max(6, ctx.driver.min_tokens)
    if tokens is not None:
        limit = max(limit, tokens - max(2, tokens // 4))
        if tokens <= limit:
            raise undecided("The call is too short for a limit.")
    judged = partial(_judge_cut, ctx.driver, plain.capture.tool_calls[0].arguments)
    for is_streamed in (False, True):
        ask = replace(tool_ask(ctx, is_streamed=is_streamed), max_tokens=limit)
        await recorder.ask(tool_body(ctx, ask, is_forced=is_forced), judged, may_refuse=True)
    return recorder.evaluation(f"{limit} tokens")


def _judge_cut(driver: Driver, arguments: str, exchange: Exchange) -> Iterator[Fault]:
    capture = exchange.capture
    is_whole = bool(capture.tool_calls) and capture.tool_calls[0].arguments == arguments
    is_right = is_whole or capture.ending in (CapturedEnding.LIMIT, None)
    if not is_right and driver.dialect in _TOOL_REASON:
        sentence = "The limit cut a call, but the reason does not say so."
        name = driver.reason_names[CapturedEnding.LIMIT]
        yield Fault("call_cut_by_limit", sentence, name, str(capture.reason))


@check("tools.stop")
async def _stop(ctx: CheckContext) -> Evaluation:
    plain, is_forced = await first_call(ctx)
    arguments = plain.capture.tool_calls[0].arguments
    found = [word for word in re.findall(r"[a-z]{4,}", arguments) if word != "text"]
    if not found:
        raise undecided("The arguments of the call have no word for a stop.")
    stop, recorder, whole = found[-1][1:3], Recorder(ctx), ""
    for is_streamed in (False, True):
        ask = replace(tool_ask(ctx, is_streamed=is_streamed), stops=(stop,))
        judged = partial(_judge_half_call, stop, arguments, whole)
        body = tool_body(ctx, ask, is_forced=is_forced)
        exchange = await recorder.ask(body, judged, may_refuse=True)
        if exchange.is_refusal:
            raise skipped("Stops beside tools are refused.")
        whole = exchange.capture.text
    return recorder.evaluation(f"{stop!r} in {arguments}")


def _judge_half_call(stop: str, arguments: str, whole: str, exchange: Exchange) -> Iterator[Fault]:
    capture = exchange.capture
    calls, codes = capture.tool_calls, {finding.code for finding in capture.findings}
    got = calls[0].arguments if calls else ""
    is_whole = is_object(got)
    if not calls and whole.strip() and not capture.text.strip():
        sentence = (
            "The text before the stop, which the whole answer has, is missing from the stream."
        )
        yield Fault("partial_call_dropped", sentence, whole, capture.text)
        return
    # The stop ended the answer, and no call is reported; or the check of a call has the fault.
    if (not calls and capture.ending is not CapturedEnding.TOOL) or (
        codes & {"arguments_form", "call_name_repeated"}
    ):
        return
    is_other = calls and not is_whole and not (got and arguments.startswith(got))
    if not is_other and not (is_whole and stop in got):
        sentence = f"The stop {stop!r} cut the arguments of a call, which is reported as a call."
        expected = f"{arguments}, or no call at all"
        yield Fault("call_cut_by_stop", sentence, expected, got or "a call without arguments")


@check("tools.choice")
async def _choice(ctx: CheckContext) -> Evaluation:
    await first_call(ctx)
    recorder, shown = Recorder(ctx), []
    tokens = max(CALL_TOKENS, ctx.main.ask.max_tokens)
    counting = replace(ctx.main.ask, max_tokens=tokens)
    calling = replace(counting, prompt=TOOL_PROMPT)
    for choice, ask in (
        ("none", calling),
        ("required", counting),
        ("named", counting),
    ):
        for is_streamed in (False, True):
            body = with_tool(
                ctx.driver.dialect, ctx.body(replace(ask, is_streamed=is_streamed)), choice
            )
            if body is None:
                raise skipped("The dialect has no such choice.")
            exchange = await recorder.ask(body, partial(_judge_choice, choice), may_refuse=True)
            shown += [] if exchange.is_refusal else [choice]
    if not shown:
        raise skipped("The server refuses tool_choice.")
    return recorder.evaluation(", ".join(dict.fromkeys(shown)))


def _judge_choice(choice: str, exchange: Exchange) -> Iterator[Fault]:
    names = ", ".join(call.name for call in exchange.capture.tool_calls)
    if choice == "none":
        if exchange.capture.tool_calls:
            sentence = "tool_choice rules calls out, but the answer has one."
            yield Fault("choice_ignored", sentence, "no call", names)
    elif exchange.capture.ending is CapturedEnding.LIMIT:
        return
    elif not exchange.capture.tool_calls:
        sentence = f"tool_choice wants a call ({choice}), but the answer has none."
        yield Fault("choice_ignored", sentence, "a call", exchange.capture.text)
