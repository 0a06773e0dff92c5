"""Compares all answers of a probe: the same text has the same reason and counts in each.

Sends no requests.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from api.conformance.captures.frames import count
from api.conformance.captures.values import CapturedEnding, first_occurrence
from api.conformance.probe.checks.check import (
    CheckContext,
    Evaluation,
    as_intermittent,
    check,
    question_of,
    undecided,
)
from api.conformance.probe.dialects import CHAT, COMPLETIONS, MESSAGES, value_at
from api.conformance.probe.judgement import (
    STOP_ONLY_HIDDEN,
    compare_texts,
    invariants,
    is_among,
    judge,
)
from api.conformance.probe.plan import Baseline, StopCase, bounds
from api.conformance.probe.values import Exchange, Fault

_ENDED = (CapturedEnding.NATURAL, CapturedEnding.NATURAL_OR_STOP, CapturedEnding.STOP)
# A shorter text may be the answer to several prompts.
_MIN_MIXED_CHARS = 6
# Servers that make several tokens a step make some behind a stop.
_MAX_TOKENS_BEHIND = 3
# So many answers must agree before another one is wrong.
_MIN_AGREEING = 3
# A model or a busy machine may do so once.
_CHANCE = ("stream_differs", "another_stop_won", STOP_ONLY_HIDDEN, "no_answer", "server_error")
_TOOL_RESULTS = ('"role": "tool"', '"tool_result"', '"function_call_output"')


@dataclass(frozen=True, slots=True, eq=False)
class _Answer:
    """One answer and its request."""

    run: Exchange
    question: str
    prompt: str
    stops: tuple[str, ...]
    limit: int | None
    input_tokens: int | None
    choices: int
    has_ids: bool
    traits: frozenset[str]

    @property
    def text(self) -> str:
        return self.run.capture.text

    @property
    def tokens(self) -> int | None:
        return self.run.capture.output_tokens

    @property
    def total(self) -> int:
        return (self.tokens or 0) + (self.input_tokens or 0)

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
        limit = driver.limit(run.body)
        yield _Answer(
            run,
            question_of(driver, run.body),
            _prompt_text(value_at(run.body, driver.prompt_path)),
            driver.stops(run.body),
            limit,
            _input_tokens(run),
            count(run.body.get("n")) or 1,
            "stop_token_ids" in json.dumps(run.body),
            _traits(run, driver.raw_stops(run.body), limit),
        )


def _prompt_text(prompt: Any) -> str:
    """Return the user's message, however a request spells it."""
    if isinstance(prompt, list):
        prompt = prompt[-1] if prompt else ""
    if isinstance(prompt, dict):
        names = (name for name in ("content", "text", "output") if name in prompt)
        return _prompt_text(prompt.get(next(names, ""), ""))
    return str(prompt)


def _input_tokens(run: Exchange) -> int | None:
    """Return the tokens of the prompt, cached ones included."""
    usage = run.capture.usage
    if usage is None or usage.input_tokens is None or run.capture.dialect is not MESSAGES:
        return None if usage is None else usage.input_tokens
    created = re.search(r'"cache_creation_input_tokens": ?(\d+)', run.text)
    return usage.input_tokens + (usage.cached_tokens or 0) + int(created[1] if created else 0)


# Conditions, as a fault names them.


def _traits(run: Exchange, stops: Any, limit: int | None) -> frozenset[str]:
    body, capture = run.body, run.capture
    raw = json.dumps(body, ensure_ascii=False)
    has_system = bool({"system", "instructions"} & body.keys()) or '"role": "system"' in raw
    traits = {
        "when streamed": run.is_streamed,
        "in whole answers": not run.is_streamed,
        "with a system message": has_system,
        "with tools": "tools" in body,
        "with a call": bool(capture.tool_calls),
        "after the result of a tool": any(name in raw for name in _TOOL_RESULTS),
        "in a second turn": '"role": "assistant"' in raw,
        "with thinking": bool(capture.thinking),
        "with logprobs": bool(body.get("logprobs")),
        "with several choices": body.get("n", 1) != 1,
        "at a temperature": re.search(r'"temperature": (?:0\.\d*[1-9]|[1-9])', raw) is not None,
        "with a seed": '"seed": ' in raw,
        "with JSON asked for": '"json_schema"' in raw or "format" in body,
        "with a stop": bool(stops),
        "without stops": not stops,
        "with a stop as a string": isinstance(stops, str),
        "with several stops": isinstance(stops, list) and len(stops) > 1,
        "with a limit of 1 or 2": limit is not None and limit <= 2,
        "where the limit ends the answer": capture.ending is CapturedEnding.LIMIT,
        "where a stop ends the answer": bool(stops) and capture.ending in _ENDED,
        "with counts asked for": "stream_options" in body,
        "without counts asked for": run.is_streamed and "stream_options" not in body,
        "in answers of more than 300 tokens": (capture.output_tokens or 0) > 300,
        "beyond ASCII": not capture.text.isascii(),
    }
    return frozenset(name for name, holds in traits.items() if holds)


def _where(wrong: Sequence[_Answer], right: Sequence[_Answer]) -> str:
    """Return the conditions that all wrong answers share, and no right one."""
    common = frozenset.intersection(*(answer.traits for answer in wrong))
    others = Counter(trait for answer in right for trait in answer.traits)
    alone = sorted(name for name in common if not others[name])
    if alone:
        return f"Only {alone[0]}: "
    rare = sorted(name for name in common if others[name] < len(right) / 2)
    return f"{' and '.join(rare[:2]).capitalize()}: " if rare and len(wrong) > 1 else ""


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
            if answer.run.is_streamed in modes
            and not (on_request and "without counts asked for" in answer.traits)
        ]
        counted = [answer for answer in alike if answer.tokens is not None]
        promptless = [answer for answer in counted if answer.input_tokens is None]
        if len(promptless) < len(counted):
            sentence = "The tokens of the prompt are not counted, which other answers do."
            fault = Fault("prompt_uncounted", sentence, "counts of tokens", "none")
            yield from ((answer, fault) for answer in promptless)
        is_usual = not on_request or 2 * len(counted) > len(alike)
        if len(counted) >= _MIN_AGREEING and is_usual:
            sentence = "The answer has no counts, which others have."
            fault = Fault("usage_missing", sentence, "counts of tokens", "none")
            yield from ((answer, fault) for answer in alike if answer.tokens is None)


def _outliers(
    answers: Iterable[_Answer], keyed: Iterable[tuple[Hashable, int | None]]
) -> Iterator[tuple[_Answer, int, int]]:
    """Yield the answers whose count is not the most common one of their key, and that count."""
    groups: dict[Hashable, list[tuple[_Answer, int]]] = {}
    for answer, (key, value) in zip(answers, keyed, strict=True):
        if value is not None:
            groups.setdefault(key, []).append((answer, value))
    for group in groups.values():
        counts = Counter(value for _, value in group)
        usual, times = counts.most_common(1)[0]
        # Of two that differ, the stream is shown.
        if times * 2 == len(group) and len(counts) == 2:
            usual = next((value for one, value in group if not one.run.is_streamed), usual)
        yield from ((answer, value, usual) for answer, value in group if value != usual)


def _prompt_counts(ctx: CheckContext, answers: Sequence[_Answer]) -> _Wrong:
    """The same prompt has the same count of tokens."""
    keyed = (((answer.question, answer.choices), answer.input_tokens) for answer in answers)
    for answer, tokens, usual in _outliers(answers, keyed):
        # Some servers count only the tokens that are not in their cache.
        if not 0 < tokens * 2 <= usual:
            sentence = "The same prompt has another count of tokens in other answers."
            yield answer, Fault("usage_prompt", sentence, f"{usual} tokens", f"{tokens} tokens")


def _text_counts(ctx: CheckContext, answers: Sequence[_Answer]) -> _Wrong:
    """The same text has the same count of tokens."""
    comparable = [answer for answer in answers if not answer.has_ids]
    keyed = ((answer.text_key, answer.tokens) for answer in comparable)
    for answer, tokens, usual in _outliers(comparable, keyed):
        sentence = "The same text has another count of tokens in other answers."
        yield answer, Fault("usage_differs", sentence, f"{usual} tokens", f"{tokens} tokens")


def _stop_counts(ctx: CheckContext, answers: Sequence[_Answer]) -> _Wrong:
    """An answer that a stop ended has the tokens of its text, as the pieces of a stream show it.

    How much more is generated than the stop is the server's choice, within reason.
    """
    fulls, ends = _full_answers(answers), {}
    for answer in answers:
        full, pieces = fulls.get(answer.question), bounds(answer.run.capture)
        if full is not None and answer.text == full.text and len(pieces) == answer.tokens:
            ends[answer.question] = pieces
    for answer in answers:
        full, pieces = fulls.get(answer.question), ends.get(answer.question, ())
        tokens = answer.tokens
        is_comparable = answer.is_single and answer.ending in _ENDED
        if full is None or not pieces or tokens is None or not is_comparable:
            continue
        found = first_occurrence(full.text, answer.stops)
        if answer.run.capture.thinking or found is None or answer.text != full.text[: found.start]:
            continue
        # A stop takes a token, too.
        fewest = max(1, sum(end <= found.start for end in pieces))
        largest = sum(end < found.end for end in pieces) + 1
        if not fewest <= tokens <= 1.5 * largest + _MAX_TOKENS_BEHIND:
            sentence = "The count of tokens does not fit the text before the stop."
            expected = f"{fewest} to {largest} tokens"
            yield answer, Fault("usage_differs", sentence, expected, f"{tokens} tokens")


def _limits(ctx: CheckContext, answers: Sequence[_Answer]) -> _Wrong:
    """An answer that the limit is said to end has as many tokens as it allows."""
    known = [
        (answer, answer.tokens, answer.limit)
        for answer in answers
        if answer.tokens is not None and answer.limit is not None and answer.choices == 1
    ]
    limited = [each for each in known if each[0].ending is CapturedEnding.LIMIT]
    exact = sum(tokens == limit for _, tokens, limit in limited)
    # Where the context is full there is no space for more, whatever the limit allows.
    largest = max((answer.total for answer, _, _ in known), default=0)
    is_usual = exact >= max(_MIN_AGREEING, len(limited) / 2)
    for answer, tokens, limit in limited if is_usual else ():
        if tokens < limit and answer.total < largest:
            sentence = "The limit is named as the reason, but fewer tokens are counted."
            expected = f"{limit} tokens, or another reason"
            yield answer, Fault("limit_miscounted", sentence, expected, f"{tokens} tokens")
    for answer, tokens, limit in known:
        if tokens > limit >= ctx.driver.min_tokens:
            sentence = "The answer has more tokens than the limit allows."
            yield answer, Fault("limit_ignored", sentence, f"at most {limit}", f"{tokens} tokens")


def _reasons(ctx: CheckContext, answers: Sequence[_Answer]) -> _Wrong:
    """Answers have a reason that fits the others."""
    names, fulls = ctx.driver.reason_names, _full_answers(answers)
    given = [answer for answer in answers if answer.ending is not None]
    if 2 * len(given) > len(answers):
        sentence = "The answer gives no reason for its end."
        missing = Fault("reason_missing", sentence, names[CapturedEnding.NATURAL], "none")
        yield from ((answer, missing) for answer in answers if answer.ending is None)
    for answer in given:
        capture, full = answer.run.capture, fulls.get(answer.question)
        got, has_call = str(capture.reason), bool(capture.tool_calls)
        if answer.ending is CapturedEnding.TOOL and not has_call:
            sentence = "The reason is a call, but the answer has none."
            yield answer, Fault("wrong_reason", sentence, "a call", got)
        if full is None or not answer.is_single:
            continue
        is_cut = full.text.startswith(answer.text) and full.text != answer.text
        is_fired = first_occurrence(full.text, answer.stops) is not None
        # A model that varies may end earlier by itself.
        is_comparable = not ctx.is_varying and not is_fired and not has_call
        if is_cut and is_comparable and answer.ending in _ENDED:
            sentence = "The answer is cut, but the reason says otherwise."
            yield answer, Fault("wrong_reason", sentence, names[CapturedEnding.LIMIT], got)
        is_limit = answer.ending is CapturedEnding.LIMIT and full.ending in _ENDED
        is_below = answer.tokens is not None and answer.tokens < (answer.limit or 0)
        if full.text == answer.text and is_limit and is_below:
            sentence = "The answer ended by itself before the limit, which is named as the reason."
            yield answer, Fault("wrong_reason", sentence, names[CapturedEnding.NATURAL], got)


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
        if answer.ending in _ENDED and len(answer.text.strip()) >= _MIN_MIXED_CHARS:
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
            found = first_occurrence(full.text, answer.stops)
            text = full.text if found is None else full.text[: found.start]
            stop = None if found is None else found.stop
            case = StopCase("any", given, answer.stops, text, stop)
            for fault in (*judge(case, run, ctx.driver), *invariants(case, run)):
                if fault.is_certain:
                    yield answer, fault
        elif not answer.stops and answer.ending in _ENDED and full.ending in _ENDED:
            yield from ((answer, one) for one in compare_texts(full.text, full.tokens, run))


# Each rule with the codes of the faults with which another check has reported the same better.
_RULES: tuple[tuple[Callable[[CheckContext, Sequence[_Answer]], _Wrong], str], ...] = (
    (_texts, r"^(?!usage)"),
    (_reasons, r"^(?!usage)"),
    (_limits, r"limit|usage|tokens|lost|reason|stop_only"),
    (_text_counts, r"usage|limit|stop_only|text|lost"),
    (_stop_counts, r"usage|limit|stop_only|text|lost|hidden"),
    (_prompt_counts, r"usage"),
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
            right = [answer for answer in answers if answer not in guilty]
            answer, fault = cases[0]
            sentence = _where(guilty, right) + fault.sentence
            found = ctx.fault(answer.run, replace(fault, sentence=sentence))
            if any(other.run.body == answer.run.body for other in right):
                found = as_intermittent(found)
            faults.setdefault(code, found)
    if not faults and (torn := _intermittent(ctx)) is not None:
        faults[torn.code] = torn
    return Evaluation(f"{len(answers)} answers were compared", tuple(faults.values()))


def _intermittent(ctx: CheckContext) -> Fault | None:
    """Return the fault of several answers to requests that were answered correctly, too.

    Another text is no fault, because models vary; one with the tokens of the right text is, if it
    is that text but for a part.
    """
    torn = [
        (run, fault)
        for run, fault, right in ctx.intermittent
        if fault.code not in _CHANCE and _is_torn(run, right)
    ]
    if len(torn) < 2 or any(run in ctx.client.broken for run, _ in torn):
        return None
    run, fault = torn[0]
    sentence = f"In {len(torn)} answers now and then: {fault.sentence}"
    return as_intermittent(ctx.fault(run, replace(fault, sentence=sentence)))


def _is_torn(run: Exchange, right: Exchange) -> bool:
    one, other = run.capture, right.capture
    if one.text == other.text or not (run.is_answer and right.is_answer):
        return True
    is_part = is_among(one.text, other.text) or is_among(other.text, one.text)
    return is_part and None is not one.output_tokens == other.output_tokens
