"""Checks the token counts: complete, without duplicates, and the same in streams.

Runs on the loop of whoever probes.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from api.conformance.captures.draft import count, mapping
from api.conformance.captures.json_text import parsed
from api.conformance.probe.asking.exchange import Exchange
from api.conformance.probe.baseline import Baseline
from api.conformance.probe.checks.checking import (
    NO_ANSWER,
    Check,
    CheckSetting,
    Seen,
    fault,
    undecided,
    without_premise,
)
from api.conformance.probe.judging import Judgement
from api.conformance.probe.planning.plan import simplest_case
from api.conformance.probe.values import Fault

_TOTALS = (("prompt_tokens", "completion_tokens"), ("input_tokens", "output_tokens"))
_STOP_CHARS = 16
_FEWEST_CHARS = 8


async def _counts(setting: CheckSetting) -> Seen:
    """The counts of every answer are possible, and add up."""
    found: dict[str, Fault] = {}
    answers = [run for run in setting.client.exchanges if run.is_answer]
    for run in answers:
        for verdict in _impossible(run):
            found.setdefault(verdict.code, fault(setting.client, run, verdict))
    return Seen(f"{len(answers)} answers were read", tuple(found.values()))


def _impossible(run: Exchange) -> Iterator[Judgement]:
    usage = run.capture.usage
    if usage is None:
        return
    counts = [usage.input_tokens, usage.output_tokens, usage.cached_tokens]
    negative = [count for count in counts if count is not None and count < 0]
    if negative:
        yield Judgement(
            "usage_negative", "A count of tokens is negative.", "0 or more", str(negative[0])
        )
    if usage.output_tokens == 0 and run.capture.text:
        yield Judgement(
            "usage_zero",
            "The answer has text, but 0 output tokens are counted.",
            "1 or more",
            "0",
        )
    yield from _wrong_total(run)


def _wrong_total(run: Exchange) -> Iterator[Judgement]:
    for raw in [run.text] if not run.capture.is_streamed else _last_raw(run):
        usage = _usage_in(raw)
        total = usage.get("total_tokens")
        for names in _TOTALS:
            parts = [part for name in names if (part := count(usage.get(name))) is not None]
            if len(parts) < len(names) or count(total) is None:
                continue
            if sum(parts) != total:
                sentence = "The total of the tokens is not the sum of its parts."
                shown = " + ".join(map(str, parts))
                yield Judgement("usage_total", sentence, f"{shown} = {sum(parts)}", str(total))


def _last_raw(run: Exchange) -> list[str]:
    return [event.raw for event in run.capture.events if '"total_tokens"' in event.raw][-1:]


def _usage_in(raw: str) -> dict[str, Any]:
    try:
        body = mapping(parsed(raw))
    except ValueError:
        return {}
    return mapping(body.get("usage")) or mapping(mapping(body.get("response")).get("usage"))


async def _same_when_streamed(setting: CheckSetting) -> Seen:
    """The same answer has the same count, whole or streamed."""
    compared = [
        one
        for one in setting.baselines
        if one.is_repeatable and one.streamed_text is None and None not in _pair(one)
    ]
    if not compared:
        return undecided("There are no counts that could be compared.")
    for one in compared:
        whole, streamed = _pair(one)
        if whole != streamed:
            body = setting.client.driver.body(replace(one.ask, is_streamed=True), "")
            run = _sent(setting, body)
            verdict = Judgement(
                "usage_differs",
                "The same answer has another count of tokens when it is streamed.",
                f"{whole} tokens, as in the whole answer",
                f"{streamed} tokens",
            )
            return Seen(faults=(fault(setting.client, run, verdict),))
    return Seen(f"{len(compared)} answers were compared")


def _pair(one: Baseline) -> tuple[int | None, int | None]:
    return one.tokens, one.streamed_tokens


def _sent(setting: CheckSetting, body: dict[str, Any]) -> Exchange:
    """Return the first streamed exchange for a baseline's request."""
    wanted = {**body, "model": setting.client.model} if setting.client.model else body
    streamed = [run for run in setting.client.exchanges if run.is_streamed and run.is_answer]
    return next((run for run in streamed if run.body == wanted), streamed[0])


async def _all_generated(setting: CheckSetting) -> Seen:
    """The tokens of a stop are counted even though its text is not shown."""
    if (broken := without_premise(setting)) is not None:
        return broken
    client, case = setting.client, simplest_case(setting.baselines)
    given = case.baseline if case is not None else None
    start = len(given.stable) // 4 if given is not None else 0
    stop = given.stable[start : start + _STOP_CHARS] if given is not None else ""
    if given is None or len(stop) < _FEWEST_CHARS or stop in given.thinking:
        return undecided(NO_ANSWER)
    run = await client.ask(replace(given.ask, stops=(stop,)))
    usage = run.capture.usage
    tokens = usage.output_tokens if usage is not None else None
    if not run.is_answer or run.capture.text != given.text[:start] or not tokens or tokens < 0:
        return undecided("The tokens of the answer that the stop ended are not known.")
    # This many tokens, and one more, must be enough to spell the stop.
    limit = max(tokens + 1, client.driver.least_tokens)
    plain = await client.ask(replace(given.ask, max_tokens=limit))
    if not plain.is_answer or stop in plain.capture.text:
        return Seen(f"{tokens} tokens with {stop!r}")
    verdict = Judgement(
        "usage_visible_only",
        f"The tokens of the stop {stop!r} were generated but are not counted.",
        f"more than {tokens} tokens: so many are not enough to complete the stop",
        f"{tokens} tokens",
    )
    return Seen(faults=(fault(client, run, verdict),))


USAGE_CHECKS = (
    Check("usage.counts", _counts),
    Check("usage.streamed", _same_when_streamed),
    Check("usage.stop", _all_generated),
)
