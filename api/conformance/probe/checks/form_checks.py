"""Checks the form of all answers, and that a stream says of itself what the whole answer does."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from api.conformance.captures.diagnosis import diagnose_choice, diagnose_usage
from api.conformance.captures.frames import items, mapping, parse_json
from api.conformance.captures.values import (
    Capture,
    CapturedChoice,
    Finding,
    Severity,
    WireDialect,
)
from api.conformance.probe.checks.check import (
    VARIES,
    Check,
    CheckSetting,
    Seen,
    fault,
    question_of,
    skipped,
    undecided,
)
from api.conformance.probe.checks.feature_checks import read_call
from api.conformance.probe.client import Client
from api.conformance.probe.judgement import Judgement
from api.conformance.probe.values import Exchange, Fault

# Reported by the checks of stops, calls and counts, each with its own evidence.
_JUDGED_ELSEWHERE = frozenset(
    {
        *("reason_missing", "empty", "arguments_broken"),
        *("usage_negative", "usage_zero", "usage_total"),
    }
)
# Each of these has a place of its own in an answer.
_OF_A_PLACE = ("field_form", "field_missing")
_MOST_PLACES = 5
# Of so many answers not all have the same id by chance.
_MANY_ANSWERS = 8


async def _form(setting: CheckSetting, *, is_streamed: bool) -> Seen:
    """Return each fault of form once, with the first answer that shows it."""
    client = setting.client
    answers = [run for run in client.exchanges if run.is_answer and run.is_streamed is is_streamed]
    if not answers:
        return skipped("There were no such answers.")
    faults: dict[str, Fault] = {}
    for run in answers:
        for finding in (*_findings_of(run.capture), *_too_many(run), *_disordered(run)):
            key = finding.code
            if key in _OF_A_PLACE and len(faults) < _MOST_PLACES:
                key = finding.sentence
            is_fault = finding.severity is Severity.ERROR
            if is_fault and finding.code not in _JUDGED_ELSEWHERE and key not in faults:
                got = finding.excerpt or finding.sentence
                verdict = Judgement(finding.code, finding.sentence, "the dialect's form", got)
                faults[key] = fault(client, run, verdict)
    ids = {run.capture.answer_id for run in answers}
    if len(answers) >= _MANY_ANSWERS and len(ids) == 1 and None not in ids:
        said = f"All {len(answers)} answers have the same id, by which clients tell them apart."
        verdict = Judgement("id_reused", said, "an id of its own", str(ids.pop()))
        faults["id_reused"] = fault(client, answers[-1], verdict)
    return Seen(f"{len(answers)} answers were read", tuple(faults.values()))


def _findings_of(capture: Capture) -> Iterator[Finding]:
    yield from capture.findings
    yield from diagnose_choice(capture)
    for choice in capture.choices:
        yield from diagnose_choice(capture.of_choice(choice))
    yield from diagnose_usage(capture)


def _too_many(run: Exchange) -> Iterator[Finding]:
    """Yield that an answer has more choices than its request asks for."""
    asked = run.body.get("n") if isinstance(run.body, dict) else None
    came = 1 + len(run.capture.choices)
    if run.capture.choices and came > (asked or 1):
        said = f"The answer has {came} choices, though {asked or 1} was asked for."
        yield Finding("choices_unasked", Severity.ERROR, said)


def _disordered(run: Exchange) -> Iterator[Finding]:
    """Yield that thinking comes behind the text, which it is there to prepare."""
    if run.capture.tool_calls:
        return  # models may think again between text and calls
    is_told = False
    for is_thinking, is_text in _parts(run):
        if is_thinking and is_told:
            said = "The order is wrong: the thinking comes behind the text, as clients show it."
            yield Finding("thinking_behind", Severity.ERROR, said)
            return
        is_told |= is_text


def _parts(run: Exchange) -> Iterator[tuple[bool, bool]]:
    """Yield of each part of an answer, in order, whether it has thinking, and text."""
    if run.capture.is_streamed:
        for event in run.capture.events:
            yield bool(event.thinking.strip()), bool(event.text.strip())
        return
    try:
        body = mapping(parse_json(run.text))
    except ValueError:
        return
    # The other dialects have a field for each, which have no order.
    ordered = {WireDialect.MESSAGES: "content", WireDialect.RESPONSES: "output"}
    for name in (name for dialect, name in ordered.items() if dialect is run.capture.dialect):
        for kind in (mapping(part).get("type") for part in items(body.get(name))):
            yield kind in ("thinking", "reasoning"), kind in ("text", "message")


# Compares streamed answers with whole ones to the same request.
#
# Sends no requests, unless an answer has to be asked for again.


async def _alike(setting: CheckSetting) -> Seen:
    """A stream says the same about its answer as the whole answer does."""
    if not setting.main.is_repeatable:
        return undecided(VARIES)
    client = setting.client
    faults: dict[str, Fault] = {}
    pairs = list(_pairs(client))
    for whole, streamed in pairs:
        # What another check has found it says with the answer that is right.
        told = faults.keys() | setting.found
        new = [verdict for verdict in _unlike(whole, streamed) if verdict.code not in told]
        if new:
            # Only what another look shows, too, is a fault.
            again = [await client.send(run.body) for run in (whole, streamed)]
            codes = {verdict.code for verdict in _unlike(*again)}
            kept = [verdict for verdict in new if verdict.code in codes]
            faults |= {verdict.code: fault(client, again[1], verdict) for verdict in kept}
    if not pairs:
        return skipped("No request was sent both whole and streamed.")
    return Seen(f"{len(pairs)} pairs of answers were compared", tuple(faults.values()))


def _pairs(client: Client) -> Iterator[tuple[Exchange, Exchange]]:
    """Yield a whole and a streamed answer to each request that got both."""
    runs: dict[str, dict[bool, Exchange]] = {}
    for run in client.exchanges:
        if run.is_answer and isinstance(run.body, dict) and not _is_random(run.body):
            key = question_of(run.body)
            runs.setdefault(key, {}).setdefault(run.capture.is_streamed, run)
    for modes in runs.values():
        if len(modes) == 2:
            yield modes[False], modes[True]


def _is_random(body: dict[str, Any]) -> bool:
    holders = (body, *(value for value in body.values() if isinstance(value, dict)))
    return any(holder.get("temperature") for holder in holders)


def _unlike(whole: Exchange, streamed: Exchange) -> Iterator[Judgement]:
    """Yield in what a stream differs from the whole answer with the same text."""
    first, other = whole.capture, streamed.capture
    if not (whole.is_answer and streamed.is_answer) or first.text != other.text:
        return
    if first.model and other.model and first.model != other.model:
        said = "The stream names another model than the whole answer."
        yield Judgement("model_differs", said, first.model, other.model)
    yield from _unlike_choices(first, other)
    for one, same in zip(first.choices, other.choices, strict=False):
        if one.text == same.text:
            yield from _unlike_choices(one, same)


def _unlike_choices(
    whole: Capture | CapturedChoice, streamed: Capture | CapturedChoice
) -> Iterator[Judgement]:
    if whole.reason is not None and streamed.reason is None:
        said = "The stream gives no reason for its end, which the whole answer gives."
        yield Judgement("reason_missing", said, whole.reason, "none")
    elif whole.reason != streamed.reason:
        said = "The stream gives another reason for its end than the whole answer."
        wanted = f"{whole.reason}, as the whole answer"
        yield Judgement("wrong_reason", said, wanted, str(streamed.reason))
    elif whole.reports_match and streamed.reports_match and whole.matched != streamed.matched:
        said = "The stream names another stop than the whole answer."
        yield Judgement("wrong_sequence", said, repr(whole.matched), repr(streamed.matched))
    if whole.thinking.strip() != streamed.thinking.strip():
        code = "thinking_differs" if streamed.thinking.strip() else "thinking_missing"
        said = "The thinking of the stream is not the one of the whole answer."
        yield Judgement(code, said, whole.thinking, streamed.thinking or "none")
    calls, others = (list(map(read_call, each.tool_calls)) for each in (whole, streamed))
    if calls != others and calls and others:
        said = "The calls of the stream are not those of the whole answer."
        yield Judgement("call_differs", said, repr(calls), repr(others))


FORM_CHECKS = (
    Check("form.streamed", partial(_form, is_streamed=True)),
    Check("form.whole", partial(_form, is_streamed=False)),
    Check("form.same", _alike),
)
