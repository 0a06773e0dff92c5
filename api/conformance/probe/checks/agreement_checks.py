"""Compares all answers of a probe: the same text has the same reason and counts in each.

Sends no requests.
"""

import json
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from api.conformance.captures.frames import count
from api.conformance.captures.values import CapturedEnding
from api.conformance.probe.checks.check import (
    CheckContext,
    Evaluation,
    as_intermittent,
    check,
    question_of,
    undecided,
)
from api.conformance.probe.dialects import CHAT, COMPLETIONS, value_at
from api.conformance.probe.judgement import invariants, judge
from api.conformance.probe.plan import Baseline, make_case
from api.conformance.probe.values import Exchange, Fault

_ENDED = (CapturedEnding.NATURAL, CapturedEnding.NATURAL_OR_STOP, CapturedEnding.STOP)


@dataclass(frozen=True, slots=True, eq=False)
class _Answer:
    """One answer and its request."""

    run: Exchange
    question: str
    prompt: str
    stops: tuple[str, ...]
    limit: int | None
    choices: int
    has_ids: bool
    lacks_usage_option: bool

    @property
    def text(self) -> str:
        return self.run.capture.text

    @property
    def tokens(self) -> int | None:
        return self.run.capture.output_tokens

    @property
    def ending(self) -> CapturedEnding | None:
        return self.run.capture.ending

    @property
    def is_single(self) -> bool:
        """Whether it has one choice that no token id ended."""
        return self.choices == 1 and not self.has_ids

    @property
    def text_key(self) -> Hashable:
        """A key that answers of the same tokens share."""
        capture = self.run.capture
        others = tuple(choice.text for choice in capture.choices)
        # Another limit may end the same text after more tokens, which have none.
        limit = self.limit if self.ending is CapturedEnding.LIMIT else None
        content = (self.text, capture.thinking, capture.tool_calls, others)
        return (self.question, content, self.stops, limit)


def _answers(ctx: CheckContext) -> Iterator[_Answer]:
    driver = ctx.driver
    for run in ctx.client.exchanges:
        is_other_mode = run.is_streamed is not run.capture.is_streamed
        if not run.is_answer or not isinstance(run.body, dict) or is_other_mode:
            continue
        yield _Answer(
            run,
            question_of(driver, run.body),
            _prompt_text(value_at(run.body, driver.prompt_path)),
            driver.stops(run.body),
            driver.limit(run.body),
            count(run.body.get("n")) or 1,
            "stop_token_ids" in json.dumps(run.body),
            run.is_streamed and "stream_options" not in run.body,
        )


def _prompt_text(prompt: Any) -> str:
    """Return the user's message, however a request spells it."""
    if isinstance(prompt, list):
        prompt = prompt[-1] if prompt else ""
    if isinstance(prompt, dict):
        names = (name for name in ("content", "text", "output") if name in prompt)
        return _prompt_text(prompt.get(next(names, ""), ""))
    return str(prompt)


# Rules: each yields wrong answers and their faults.

_Wrong = Iterator[tuple[_Answer, Fault]]


def _missing_counts(ctx: CheckContext, answers: Sequence[_Answer]) -> _Wrong:
    """All answers have counts if most of their mode have them."""
    on_request = ctx.dialect in (CHAT, COMPLETIONS)
    # Elsewhere streams have counts as whole answers have.
    for modes in ((False,), (True,)) if on_request else ((False, True),):
        alike = [
            answer
            for answer in answers
            if answer.run.is_streamed in modes and not (on_request and answer.lacks_usage_option)
        ]
        counted = [answer for answer in alike if answer.tokens is not None]
        usages = ((answer, answer.run.capture.usage) for answer in counted)
        promptless = [one for one, usage in usages if usage and usage.input_tokens is None]
        if len(promptless) < len(counted):
            sentence = "The tokens of the prompt are not counted, which other answers do."
            fault = Fault("prompt_uncounted", sentence, "counts of tokens", "none")
            yield from ((answer, fault) for answer in promptless)
        is_usual = not on_request or 2 * len(counted) > len(alike)
        if len(counted) >= 3 and is_usual:
            sentence = "The answer has no counts, which others have."
            fault = Fault("usage_missing", sentence, "counts of tokens", "none")
            yield from ((answer, fault) for answer in alike if answer.tokens is None)


def _text_counts(ctx: CheckContext, answers: Sequence[_Answer]) -> _Wrong:
    """The same text has the same count of tokens."""
    groups: dict[Hashable, list[tuple[_Answer, int]]] = {}
    for answer in answers:
        if answer.tokens is not None and not answer.has_ids:
            groups.setdefault(answer.text_key, []).append((answer, answer.tokens))
    for group in groups.values():
        counts = Counter(tokens for _, tokens in group)
        usual, times = counts.most_common(1)[0]
        # Of two that differ, the stream is shown.
        if times * 2 == len(group) and len(counts) == 2:
            usual = next((tokens for one, tokens in group if not one.run.is_streamed), usual)
        for answer, tokens in group:
            if tokens != usual:
                sentence = "The same text has another count of tokens in other answers."
                yield (
                    answer,
                    Fault("usage_differs", sentence, f"{usual} tokens", f"{tokens} tokens"),
                )


def _missing_reasons(ctx: CheckContext, answers: Sequence[_Answer]) -> _Wrong:
    """All answers have a reason if most have one."""
    silent = [answer for answer in answers if answer.ending is None]
    if 2 * len(silent) < len(answers):
        due = ctx.driver.reason_names[CapturedEnding.NATURAL]
        fault = Fault("reason_missing", "The answer gives no reason for its end.", due, "none")
        yield from ((answer, fault) for answer in silent)


def _full_answers(answers: Sequence[_Answer]) -> dict[str, _Answer]:
    """Return the most common answer without stops to each question, if most have its text."""
    groups: dict[str, list[_Answer]] = {}
    for answer in answers:
        is_plain = not answer.stops and answer.is_single
        if is_plain and answer.text and not answer.run.capture.tool_calls:
            groups.setdefault(answer.question, []).append(answer)
    found: dict[str, _Answer] = {}
    for question, group in groups.items():
        largest = max(answer.limit or 0 for answer in group)
        longest = [answer for answer in group if (answer.limit or 0) == largest]
        text, times = Counter(answer.text for answer in longest).most_common(1)[0]
        if times > 1 and 2 * times > len(longest):
            found[question] = next(answer for answer in longest if answer.text == text)
    return found


def _texts(ctx: CheckContext, answers: Sequence[_Answer]) -> _Wrong:
    """Texts have no fault that no model makes by chance."""
    if not ctx.main.is_repeatable or ctx.is_varying:
        return
    fulls = _full_answers(answers)
    prompts: dict[str, set[str]] = {}
    for answer in answers:
        # A shorter text may be the answer to several prompts.
        if answer.ending in _ENDED and len(answer.text.strip()) >= 6:
            prompts.setdefault(answer.text, set()).add(answer.prompt)
    for answer in answers:
        full, run = fulls.get(answer.question), answer.run
        is_other_stream = run.is_streamed and ctx.main.streamed_text is not None
        if full is None or not answer.is_single or run.capture.tool_calls or is_other_stream:
            continue
        if full.run.capture.thinking and answer.stops:
            continue
        others = prompts.get(answer.text, set()) - {answer.prompt}
        if not full.text.startswith(answer.text) and others:
            sentence = "The answer is that of another request."
            yield answer, Fault("mixed_up", sentence, full.text, answer.text)
        elif answer.stops and answer.ending is not CapturedEnding.LIMIT:
            tokens = full.tokens
            given = Baseline(
                ctx.main.ask,
                full.text,
                full.text,
                tokens=tokens,
                streamed_tokens=tokens,
                ending=full.ending,
            )
            case = make_case("any", given, answer.stops)
            for fault in (*judge(case, run, ctx.driver), *invariants(case, run)):
                if fault.is_certain:
                    yield answer, fault


# Each rule with the codes of the faults with which another check has reported the same better.
_RULES = (
    (_texts, r"^(?!usage)"),
    (_missing_reasons, r"^(?!usage)"),
    (_text_counts, r"usage|limit|stop_only|text|lost"),
    (_missing_counts, r"usage|missing"),
)


@check("answers.agree")
async def _agree(ctx: CheckContext) -> Evaluation:
    """The same text has the same reason and counts in all answers, whatever the request has."""
    answers = list(_answers(ctx))
    if not answers:
        raise undecided("There are no answers that could be compared.")
    faults: dict[str, Fault] = {}
    for rule, alike in _RULES:
        if any(re.search(alike, code) for code in ctx.found):
            continue
        wrong: dict[str, list[tuple[_Answer, Fault]]] = {}
        for answer, fault in rule(ctx, answers):
            if fault.code not in ctx.found:
                wrong.setdefault(fault.code, []).append((answer, fault))
        for code, cases in wrong.items():
            guilty = [answer for answer, _ in cases]
            answer, fault = cases[0]
            found = ctx.fault(answer.run, fault)
            right = (other for other in answers if other not in guilty)
            if any(other.run.body == answer.run.body for other in right):
                found = as_intermittent(found)
            faults.setdefault(code, found)
    return Evaluation(f"{len(answers)} answers were compared", tuple(faults.values()))
