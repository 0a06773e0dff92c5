"""Checks of the form of all answers, and of what a stream and a whole answer have in common."""

from collections.abc import Iterator
from itertools import dropwhile, islice
from typing import Any

from api.conformance.captures.diagnosis import diagnose_choice, diagnose_usage
from api.conformance.captures.values import Capture, CapturedChoice, Finding, Severity
from api.conformance.probe.checks.check import (
    CheckContext,
    Evaluation,
    check,
    request_key,
    require_repeatable,
    skipped,
)
from api.conformance.probe.checks.tool_checks import read_call
from api.conformance.probe.client import Client
from api.conformance.probe.values import Exchange, Fault

# Reported by the checks of stops, calls and counts, each with its own evidence.
_JUDGED_ELSEWHERE = frozenset(
    {
        *("reason_missing", "empty", "arguments_broken"),
        *("usage_negative", "usage_zero", "usage_total"),
    }
)


@check("form.streamed")
async def _form_of_streams(ctx: CheckContext) -> Evaluation:
    return await _form(ctx, is_streamed=True)


@check("form.whole")
async def _form_of_whole_answers(ctx: CheckContext) -> Evaluation:
    return await _form(ctx, is_streamed=False)


async def _form(ctx: CheckContext, *, is_streamed: bool) -> Evaluation:
    """Return each fault of form once, with the first answer that shows it."""
    answers = [
        run for run in ctx.client.exchanges if run.is_answer and run.is_streamed is is_streamed
    ]
    if not answers:
        raise skipped("There were no such answers.")
    faults: dict[str, Fault] = {}
    for run in answers:
        for finding in (*_findings(run.capture), *_disorder(run)):
            # A report has a row for each of the first malformed fields.
            is_field = finding.code in ("field_form", "field_missing") and len(faults) < 5
            key = finding.sentence if is_field else finding.code
            is_fault = finding.severity is Severity.ERROR
            if is_fault and finding.code not in _JUDGED_ELSEWHERE and key not in faults:
                got = finding.excerpt or finding.sentence
                fault = Fault(finding.code, finding.sentence, "the dialect's form", got)
                faults[key] = ctx.fault(run, fault)
    return Evaluation(f"{len(answers)} answers were read", tuple(faults.values()))


def _findings(capture: Capture) -> Iterator[Finding]:
    yield from capture.findings
    yield from diagnose_choice(capture)
    for choice in capture.choices:
        yield from diagnose_choice(capture.of_choice(choice))
    yield from diagnose_usage(capture)


def _disorder(run: Exchange) -> Iterator[Finding]:
    """Yield that thinking is streamed behind the text that it prepares."""
    # Models may think again between text and calls.
    if not run.capture.is_streamed or run.capture.tool_calls:
        return
    events = dropwhile(lambda event: not event.text.strip(), run.capture.events)
    if any(event.thinking.strip() for event in islice(events, 1, None)):
        sentence = "The order is wrong: the thinking comes behind the text, as clients show it."
        yield Finding("thinking_behind", Severity.ERROR, sentence)


@check("form.same")
async def _same(ctx: CheckContext) -> Evaluation:
    """A stream has the reason, calls and thinking of the whole answer."""
    require_repeatable(ctx)
    client = ctx.client
    faults: dict[str, Fault] = {}
    pairs = list(_pairs(client))
    for whole, streamed in pairs:
        # Another check has reported its fault with the answer that is right.
        known = faults.keys() | ctx.found
        new = [fault for fault in _compare(whole, streamed) if fault.code not in known]
        if new:
            # A fault counts only if it is repeated.
            again = [await client.send(run.body) for run in (whole, streamed)]
            codes = {fault.code for fault in _compare(*again)}
            for fault in new:
                if fault.code in codes:
                    faults[fault.code] = ctx.fault(again[1], fault)
    if not pairs:
        raise skipped("No request was sent both whole and streamed.")
    return Evaluation(f"{len(pairs)} pairs of answers were compared", tuple(faults.values()))


def _pairs(client: Client) -> Iterator[tuple[Exchange, Exchange]]:
    """Yield a whole and a streamed answer to each request that got both."""
    runs: dict[str, dict[bool, Exchange]] = {}
    for run in client.exchanges:
        if run.is_answer and isinstance(run.body, dict) and not _is_random(run.body):
            modes = runs.setdefault(request_key(run.body), {})
            modes.setdefault(run.capture.is_streamed, run)
    for modes in runs.values():
        if len(modes) == 2:
            yield modes[False], modes[True]


def _is_random(body: dict[str, Any]) -> bool:
    holders = (body, *(value for value in body.values() if isinstance(value, dict)))
    return any(holder.get("temperature") for holder in holders)


def _compare(whole: Exchange, streamed: Exchange) -> Iterator[Fault]:
    """Yield the differences of a stream from the whole answer with the same text."""
    first, other = whole.capture, streamed.capture
    if not (whole.is_answer and streamed.is_answer) or first.text != other.text:
        return
    pairs = zip(first.all_choices, other.all_choices, strict=False)
    for one, same in pairs:
        if one.text == same.text:
            yield from _compare_choices(one, same)


def _compare_choices(whole: CapturedChoice, streamed: CapturedChoice) -> Iterator[Fault]:
    if whole.reason is not None and streamed.reason is None:
        sentence = "The stream gives no reason for its end, which the whole answer gives."
        yield Fault("reason_missing", sentence, whole.reason, "none")
    elif whole.reason != streamed.reason:
        sentence = "The stream gives another reason for its end than the whole answer."
        expected = f"{whole.reason}, as the whole answer"
        yield Fault("wrong_reason", sentence, expected, str(streamed.reason))
    elif whole.reports_match and streamed.reports_match and whole.matched != streamed.matched:
        sentence = "The stream names another stop than the whole answer."
        yield Fault("wrong_sequence", sentence, repr(whole.matched), repr(streamed.matched))
    if whole.thinking.strip() != streamed.thinking.strip():
        code = "thinking_differs" if streamed.thinking.strip() else "thinking_missing"
        sentence = "The thinking of the stream is not the one of the whole answer."
        yield Fault(code, sentence, whole.thinking, streamed.thinking or "none")
    calls, others = (list(map(read_call, each.tool_calls)) for each in (whole, streamed))
    if calls != others and calls and others:
        sentence = "The calls of the stream are not those of the whole answer."
        yield Fault("call_differs", sentence, repr(calls), repr(others))
