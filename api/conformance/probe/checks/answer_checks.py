"""Checks beside the stops: the token limit, and thinking.

Runs on the loop of whoever probes.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from api.conformance.captures.values import CapturedEnding
from api.conformance.probe.asking.exchange import Exchange
from api.conformance.probe.baseline import Baseline
from api.conformance.probe.checks.checking import (
    Check,
    CheckSetting,
    Seen,
    fault,
    skipped,
    undecided,
)
from api.conformance.probe.judging import Judgement, no_answer
from api.conformance.probe.values import Fault

_LIMIT = 5
_THINKING_TOKENS = 512
_TAGS = ("<think>", "</think>", "<thinking>", "<|channel|>")


async def _limit(setting: CheckSetting) -> Seen:
    """A limit ends the answer after so many tokens, and is named as the reason."""
    given = setting.main
    limit = max(_LIMIT, setting.client.driver.least_tokens)
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
    # What is left of a character whose bytes are cut apart is not judged.
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


async def _thinking_off(setting: CheckSetting) -> Seen:
    """With thinking switched off there is none, and no tag of it in the text."""
    driver, given = setting.client.driver, setting.main
    if not driver.can_think:
        return skipped("The dialect cannot switch thinking off.")
    run = await setting.client.ask(replace(given.ask, is_thinking=False))
    if run.is_refusal:
        return skipped(f"Switching thinking off is refused with status {run.status}.")
    broken = no_answer(run)
    tag = next((tag for tag in _TAGS if tag in run.capture.text), None)
    if broken is None and (run.capture.thinking.strip() or tag):
        broken = Judgement(
            "thinking_shown",
            "Thinking is switched off, but the model thinks.",
            "none",
            run.capture.thinking or run.capture.text,
        )
    return Seen("no thinking", (fault(setting.client, run, broken),) if broken is not None else ())


async def _stop_in_thinking(setting: CheckSetting) -> Seen:
    """A stop that occurs in the thinking alone must not take the answer away."""
    driver = setting.client.driver
    if not driver.can_think:
        return skipped("The dialect does not separate thinking from the answer.")
    ask = replace(setting.main.ask, is_thinking=True, max_tokens=_THINKING_TOKENS)
    plain = await setting.client.ask(ask)
    if not plain.is_answer:
        return skipped("Thinking cannot be switched on.")
    answer, thinking = plain.capture.text, plain.capture.thinking
    if not thinking.strip():
        return skipped("The model does not think.")
    stops = _only_thought(thinking, answer) if answer.strip() else []
    if not stops:
        return skipped("Every word of the thinking is in the answer too.")
    faults: list[Fault] = []
    for stop in stops:
        run = await setting.client.ask(replace(ask, stops=(stop,)))
        broken = _changed(stop, answer, run)
        if broken is not None and broken.code == "text_differs" and not setting.main.is_repeatable:
            return undecided("The server answers differently each time.")
        faults.extend([fault(setting.client, run, broken)] if broken is not None else [])
    return Seen(", ".join(map(repr, stops)), tuple(faults))


def _only_thought(thinking: str, answer: str) -> list[str]:
    """Return a word and a character that occur in the thinking and not in the answer."""
    words = (word for word in re.findall(r"\w{3,}", thinking) if word not in answer)
    characters = (char for char in thinking if char.isalnum() and char not in answer)
    chosen = (next(words, None), next(characters, None))
    return [stop for stop in chosen if stop is not None]


def _changed(stop: str, answer: str, run: Exchange) -> Judgement | None:
    broken = no_answer(run)
    if broken is not None or run.capture.text == answer:
        return broken
    if not run.capture.text.strip():
        return Judgement(
            "thinking_empties_answer",
            f"The stop {stop!r} occurs in the thinking only, but there is no answer.",
            answer,
            run.capture.text,
        )
    return Judgement(
        "text_differs",
        f"The stop {stop!r} occurs in the thinking only, but the answer changes.",
        answer,
        run.capture.text,
    )


ANSWER_CHECKS = (
    Check("limit", _limit),
    Check("thinking.off", _thinking_off),
    Check("thinking.stop", _stop_in_thinking),
)
