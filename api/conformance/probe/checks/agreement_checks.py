"""Checks of all answers of a probe together. Sends no requests."""

from collections.abc import Iterator, Sequence

from api.conformance.captures.values import CapturedEnding
from api.conformance.probe.checks.check import (
    CheckContext,
    Evaluation,
    check,
    fault_list,
    undecided,
)
from api.conformance.probe.dialects import CHAT, COMPLETIONS
from api.conformance.probe.values import Exchange, Fault

_Wrong = Iterator[tuple[Exchange, Fault]]


@check("answers.agree")
async def _agree(ctx: CheckContext) -> Evaluation:
    """All answers have a reason and counts if most have them, whatever the request has."""
    answers = [
        exchange
        for exchange in ctx.client.exchanges
        if exchange.is_answer and exchange.is_streamed is exchange.capture.is_streamed
    ]
    if not answers:
        raise undecided("There are no answers that could be compared.")
    # Another check has reported these better.
    has_reason_fault = any(not code.startswith("usage") for code in ctx.found)
    has_count_fault = any("usage" in code or "missing" in code for code in ctx.found)
    wrong = [
        *(() if has_reason_fault else _missing_reasons(ctx, answers)),
        *(() if has_count_fault else _missing_counts(ctx, answers)),
    ]
    return Evaluation(f"{len(answers)} answers were compared", fault_list(wrong, ctx))


def _missing_reasons(ctx: CheckContext, answers: Sequence[Exchange]) -> _Wrong:
    silent = [exchange for exchange in answers if exchange.capture.ending is None]
    if 2 * len(silent) < len(answers):
        due = ctx.driver.reason_names[CapturedEnding.NATURAL]
        fault = Fault("reason_missing", "The answer gives no reason for its end.", due, "none")
        yield from ((exchange, fault) for exchange in silent)


def _missing_counts(ctx: CheckContext, answers: Sequence[Exchange]) -> _Wrong:
    """Yield the answers without counts, if most of their mode have them."""
    on_request = ctx.driver.dialect in (CHAT, COMPLETIONS)
    # Elsewhere streams have counts as whole answers have.
    for modes in ((False,), (True,)) if on_request else ((False, True),):
        alike = [
            exchange
            for exchange in answers
            if exchange.is_streamed in modes
            and not (on_request and exchange.is_streamed and "stream_options" not in exchange.body)
        ]
        counted = [exchange for exchange in alike if exchange.capture.output_tokens is not None]
        usages = ((exchange, exchange.capture.usage) for exchange in counted)
        promptless = [
            exchange for exchange, usage in usages if usage and usage.input_tokens is None
        ]
        if len(promptless) < len(counted):
            sentence = "The tokens of the prompt are not counted, which other answers do."
            fault = Fault("prompt_uncounted", sentence, "counts of tokens", "none")
            yield from ((exchange, fault) for exchange in promptless)
        is_usual = not on_request or 2 * len(counted) > len(alike)
        if len(counted) >= 3 and is_usual:
            sentence = "The answer has no counts, which others have."
            fault = Fault("usage_missing", sentence, "counts of tokens", "none")
            yield from (
                (exchange, fault) for exchange in alike if exchange.capture.output_tokens is None
            )


@check("reason.natural")
async def _natural(ctx: CheckContext) -> Evaluation:
    client, faults = ctx.client, {}
    exchanges = [
        exchange
        for exchange in client.exchanges
        if exchange.is_answer
        and isinstance(exchange.body, dict)
        and ctx.driver.raw_stops(exchange.body) in (None, [], ())
    ]
    natural = ctx.driver.reason_names[CapturedEnding.NATURAL]
    for exchange in exchanges:
        capture, sentence = exchange.capture, ""
        got = str(capture.reason)
        # Some servers report a template's end token as the stop that matched, so only the reason
        # counts.
        if capture.ending is CapturedEnding.STOP and f'"{capture.reason}"' not in natural:
            sentence = "The request has no stops, but the answer says that one ended it."
            got += f", {capture.matched!r}"
        elif capture.ending is CapturedEnding.OTHER:
            sentence = f"The reason of a plain answer is {capture.reason}."
        if sentence and exchange.mode not in faults:
            faults[exchange.mode] = ctx.fault(
                exchange, Fault("natural_end_misnamed", sentence, natural, got)
            )
    return Evaluation(f"{len(exchanges)} answers were read", tuple(faults.values()))
