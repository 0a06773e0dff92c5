"""Checks stops at the token limit: held-back text, and a stop that the last token completes.

Runs on the loop of whoever probes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from api.conformance.captures.values import CapturedEnding
from api.conformance.probe.asking.client import Client
from api.conformance.probe.asking.exchange import Exchange
from api.conformance.probe.baseline import Baseline
from api.conformance.probe.checks.checking import (
    Check,
    CheckSetting,
    Seen,
    confirmed,
    fault,
    undecided,
    working_case,
)
from api.conformance.probe.dialects.asks import Ask
from api.conformance.probe.judging import Judgement, judge, no_answer
from api.conformance.probe.planning.plan import NEVER, StopCase
from api.conformance.probe.values import Fault

_SMALL = 5
_FEW_TOKENS = 8
_HELD_CHARS = 2
_STEPS = 3


async def _plain(setting: CheckSetting) -> Seen:
    """A limit ends the answer after that many tokens, and is named as the reason."""
    given = setting.main
    limit = max(_SMALL, setting.client.driver.least_tokens)
    if given.tokens is not None and given.tokens <= limit:
        return undecided("The answers are too short for a limit.")
    faults: list[Fault] = []
    for is_streamed in (False, True):
        ask = replace(given.ask, max_tokens=limit, is_streamed=is_streamed)
        run = await setting.client.ask(ask)
        broken = no_answer(run)
        verdicts = (
            [broken]
            if broken is not None
            else _limited(given, run, limit, setting.client.driver.words)
        )
        faults.extend(fault(setting.client, run, verdict) for verdict in verdicts)
    return Seen(f"{limit} tokens", tuple(faults))


def _limited(
    given: Baseline, run: Exchange, limit: int, words: Mapping[CapturedEnding, str]
) -> list[Judgement]:
    found = []
    capture = run.capture
    usage = capture.usage
    tokens = usage.output_tokens if usage is not None else None
    # A character that is cut in the middle of its bytes is not judged.
    got = capture.text.rstrip("\ufffd")
    full = given.text_in(is_streamed=run.is_streamed)
    is_whole = len(got) >= len(given.stable) and got == full
    if is_whole or (tokens is not None and tokens > limit):
        said = "The limit was ignored: the answer is as long as without it."
        counted = "The answer has more tokens than the limit allows."
        is_counted = tokens is not None and tokens > limit
        return [
            Judgement(
                "limit_ignored",
                counted if is_counted else said,
                f"at most {limit} tokens" if is_counted else "the beginning of the answer",
                f"{tokens} tokens" if is_counted else got,
            )
        ]
    if given.is_repeatable and not full.startswith(got):
        found.append(Judgement("text_differs", "With a limit, the text differs.", full, got))
    if capture.ending is None:
        found.append(
            Judgement(
                "reason_missing",
                "The answer gives no reason for its end.",
                words[CapturedEnding.LIMIT],
            )
        )
    elif capture.ending is not CapturedEnding.LIMIT:
        found.append(
            Judgement(
                "wrong_reason",
                "The limit ended the answer, but the reason says otherwise.",
                words[CapturedEnding.LIMIT],
                str(capture.reason),
            )
        )
    if isinstance(capture.matched, str):
        found.append(
            Judgement(
                "wrong_sequence",
                "The answer names a stop that did not fire.",
                "no stop named",
                capture.matched,
            )
        )
    return found


async def _held(setting: CheckSetting) -> Seen:
    """Text that could have become a stop is part of an answer that the limit ends."""
    given, client = setting.main, setting.client
    if not given.is_repeatable:
        return undecided("The server answers differently each time.")
    ask = replace(given.ask, max_tokens=_limit(given, client.driver.least_tokens))
    faults: list[Fault] = []
    shown: list[str] = []
    for is_streamed in (False, True):
        plain = await client.ask(replace(ask, is_streamed=is_streamed))
        text = plain.capture.text
        if not plain.is_answer or plain.capture.ending is not CapturedEnding.LIMIT:
            return undecided("The answer without stops does not end at the limit.")
        end = text[-_HELD_CHARS:]
        if len(end) < _HELD_CHARS or "\ufffd" in end:
            return undecided("The limited answer has no text that could be held.")
        stop = end + NEVER
        holding = replace(ask, is_streamed=is_streamed, stops=(stop,))
        body = client.driver.body(holding, client.model)
        _, found = await confirmed(client, body, partial(_released, setting, text))
        shown.append(repr(stop))
        faults.extend(found)
    return Seen(", ".join(dict.fromkeys(shown)), tuple(faults))


def _limit(given: Baseline, least: int) -> int:
    """Return a limit that cuts off the end of the answer, not of the thinking before it."""
    tokens = given.tokens or 0
    return max(_FEW_TOKENS, least, tokens - max(2, tokens // 4))


def _released(setting: CheckSetting, text: str, run: Exchange) -> list[Judgement]:
    broken = no_answer(run)
    if broken is not None:
        return [broken]
    got, capture = run.capture.text, run.capture
    words = setting.client.driver.words[CapturedEnding.LIMIT]
    if text.startswith(got) and got != text:
        sentence = f"At the limit {text[len(got) :]!r} is missing, which could have become a stop."
        return [Judgement("held_text_lost", sentence, text, got, text)]
    if got != text:
        return [Judgement("text_differs", "With a limit, the text differs.", text, got, text)]
    if capture.ending is not CapturedEnding.LIMIT:
        sentence = "The limit ended the answer, but the reason says otherwise."
        return [Judgement("wrong_reason", sentence, words, str(capture.reason))]
    return []


async def _on_last_token(setting: CheckSetting) -> Seen:
    """A stop that the last allowed token completes is a stop, not the limit."""
    client = setting.client
    case = working_case(setting)
    if isinstance(case, Seen):
        return case
    first = await client.ask(replace(case.baseline.ask, stops=case.stops))
    usage = first.capture.usage
    guess = usage.output_tokens if usage is not None else None
    if not first.is_answer or guess is None:
        return undecided("The server does not count the tokens of an answer.")
    limit = await _completing(setting, case, guess)
    if limit is None:
        return undecided("The token that completes the stop could not be found.")
    faults: list[Fault] = []
    for is_streamed in (False, True):
        in_mode = case.in_mode(is_streamed=is_streamed)
        if in_mode is None:
            continue
        ask = replace(
            case.baseline.ask, stops=case.stops, max_tokens=limit, is_streamed=is_streamed
        )
        body = client.driver.body(ask, client.model)
        _, found = await confirmed(client, body, partial(_judge_last, in_mode, client))
        faults.extend(found)
    return Seen(f"{case.stops[0]!r} with a limit of {limit} tokens", tuple(faults))


def _judge_last(case: StopCase, client: Client, run: Exchange) -> list[Judgement]:
    return [_as_lost(one, run) for one in judge(case, run, client.driver)]


def _as_lost(verdict: Judgement, run: Exchange) -> Judgement:
    if verdict.code != "wrong_reason" or run.capture.ending is not CapturedEnding.LIMIT:
        return verdict
    sentence = "The last allowed token completes the stop, but the limit is named as the reason."
    return replace(verdict, code="stop_lost_to_limit", sentence=sentence)


async def _completing(setting: CheckSetting, case: StopCase, guess: int) -> int | None:
    """Return the limit whose last token completes the stop, found in answers without stops."""
    least = setting.client.driver.least_tokens
    has_stop: dict[int, bool] = {}

    async def is_there(limit: int) -> bool:
        if limit not in has_stop:
            ask: Ask = replace(case.baseline.ask, max_tokens=limit)
            run = await setting.client.ask(ask)
            has_stop[limit] = run.is_answer and case.stops[0] in run.capture.text
        return has_stop[limit]

    steps: Sequence[int] = range(guess, guess + _STEPS)
    if guess > least and await is_there(guess):
        steps = range(guess, max(least, guess - _STEPS), -1)
    for limit in steps:
        if limit > least and await is_there(limit) and not await is_there(limit - 1):
            return limit
    return None


LIMIT_CHECKS = (
    Check("limit", _plain),
    Check("limit.held", _held),
    Check("limit.stop_on_last_token", _on_last_token),
)
