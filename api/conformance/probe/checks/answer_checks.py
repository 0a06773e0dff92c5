"""Checks the reason of a natural end, and thinking.

Runs on the loop of whoever probes.
"""

import re
from dataclasses import replace

from api.conformance.captures.values import CapturedEnding
from api.conformance.probe.asking.exchange import Exchange
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

_THINKING_TOKENS = 512
_TAGS = ("<think>", "</think>", "<thinking>", "<|channel|>")


async def _thinking_off(setting: CheckSetting) -> Seen:
    """With thinking switched off, the answer has no thinking and no thinking tag in its text."""
    driver, given = setting.client.driver, setting.main
    if not driver.can_think:
        return skipped("The dialect cannot switch thinking off.")
    run = await setting.client.ask(replace(given.ask, is_thinking=False))
    if run.is_refusal:
        return skipped(f"Switching thinking off is refused with status {run.status}.")
    broken = no_answer(run)
    tag = next((tag for tag in _TAGS if tag in run.capture.text), None)
    if broken is None and not tag and run.capture.thinking.strip() and given.thinking.strip():
        return skipped("The model always thinks.")
    if broken is None and (run.capture.thinking.strip() or tag):
        broken = Judgement(
            "thinking_shown",
            "Thinking is switched off, but the model thinks.",
            "none",
            run.capture.thinking or run.capture.text,
        )
    return Seen("no thinking", (fault(setting.client, run, broken),) if broken is not None else ())


async def _stop_in_thinking(setting: CheckSetting) -> Seen:
    """A stop that occurs only in the thinking must not end the answer."""
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


async def _natural_end(setting: CheckSetting) -> Seen:
    """An answer without stops is not ended by one."""
    client = setting.client
    found: dict[str, Fault] = {}
    runs = [
        run
        for run in client.exchanges
        if run.is_answer and isinstance(run.body, dict) and not client.driver.has_stops(run.body)
    ]
    natural = client.driver.words[CapturedEnding.NATURAL]
    for run in runs:
        capture = run.capture
        # Some servers report a template's end token as the stop that matched, so only the reason
        # counts.
        if capture.ending is CapturedEnding.STOP and f'"{capture.reason}"' not in natural:
            verdict = Judgement(
                "natural_end_misnamed",
                "The request has no stops, but the answer says that one ended it.",
                natural,
                f"{capture.reason}, {capture.matched!r}",
            )
            found.setdefault(run.mode, fault(client, run, verdict))
    return Seen(f"{len(runs)} answers were read", tuple(found.values()))


REASON_CHECKS = (Check("reason.natural", _natural_end),)
ANSWER_CHECKS = (
    Check("thinking.off", _thinking_off),
    Check("thinking.stop", _stop_in_thinking),
)
