"""Checks of the form of all answers, and of what a stream and a whole answer have in common."""

from collections.abc import Iterator
from itertools import dropwhile, islice

from api.conformance.captures.diagnosis import diagnose_choice, diagnose_usage
from api.conformance.captures.values import Capture, Finding, Severity
from api.conformance.probe.checks.check import (
    CheckContext,
    Evaluation,
    check,
    skipped,
)
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
        exchange
        for exchange in ctx.client.exchanges
        if exchange.is_answer and exchange.is_streamed is is_streamed
    ]
    if not answers:
        raise skipped("There were no such answers.")
    faults: dict[str, Fault] = {}
    for exchange in answers:
        for finding in (*_findings(exchange.capture), *_disorder(exchange)):
            # A report has a row for each of the first malformed fields.
            is_field = finding.code in ("field_form", "field_missing") and len(faults) < 5
            key = finding.sentence if is_field else finding.code
            is_fault = finding.severity is Severity.ERROR
            if is_fault and finding.code not in _JUDGED_ELSEWHERE and key not in faults:
                due = "the dialect's form" if finding.excerpt else ""
                fault = Fault(finding.code, finding.sentence, due, finding.excerpt)
                faults[key] = ctx.fault(exchange, fault)
    return Evaluation(f"{len(answers)} answers were read", tuple(faults.values()))


def _findings(capture: Capture) -> Iterator[Finding]:
    yield from capture.findings
    yield from diagnose_choice(capture)
    for choice in capture.choices:
        yield from diagnose_choice(capture.of_choice(choice))
    yield from diagnose_usage(capture)


def _disorder(exchange: Exchange) -> Iterator[Finding]:
    # Models may think again between text and calls.
    if not exchange.capture.is_streamed or exchange.capture.tool_calls:
        return
    events = dropwhile(lambda event: not event.text.strip(), exchange.capture.events)
    if any(event.thinking.strip() for event in islice(events, 1, None)):
        sentence = "The order is wrong: the thinking comes behind the text, as clients show it."
        yield Finding("thinking_behind", Severity.ERROR, sentence)
