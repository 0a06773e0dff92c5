"""Checks all answers of a probe beside each other: what belongs to the same text is the same.

Sends no requests.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from api.conformance.captures.frames import count
from api.conformance.captures.values import CapturedEnding, WireDialect, first_occurrence
from api.conformance.probe.checks.check import (
    Check,
    CheckSetting,
    Seen,
    asked_in,
    fault,
    now_and_then,
    undecided,
)
from api.conformance.probe.judgement import (
    STOP_ONLY_HIDDEN,
    Judgement,
    invariants,
    is_among,
    judge,
    misprinted,
)
from api.conformance.probe.plan import Baseline, StopCase, bounds
from api.conformance.probe.values import Exchange, Fault

_ENDED = (CapturedEnding.NATURAL, CapturedEnding.NATURAL_OR_STOP, CapturedEnding.STOP)
_LEAST_CHARACTERS = 6
# Servers that make several tokens a step make some behind a stop.
_MOST_BEHIND = 3
# A text that more requests than these get is not that of one of them.
_MAX_MIXED = 3
# So many answers must say the same before another one is wrong.
_FEWEST = 3


@dataclass(frozen=True, slots=True)
class _Answer:
    """One answer, and what was asked for."""

    run: Exchange
    question: str
    words: str
    stops: tuple[str, ...]
    limit: int | None
    tokens: int | None
    input_tokens: int | None
    choices: int
    has_ids: bool
    traits: frozenset[str]

    @property
    def text(self) -> str:
        return self.run.capture.text

    @property
    def ending(self) -> CapturedEnding | None:
        return self.run.capture.ending

    @property
    def is_several(self) -> bool:
        return self.choices > 1

    @property
    def whole_key(self) -> tuple[Hashable, ...]:
        """What belongs to the same text."""
        capture = self.run.capture
        others = tuple(choice.text for choice in capture.choices)
        said = (self.text, capture.thinking, capture.tool_calls, others)
        # Another limit may end the same text after more tokens, which have none.
        limit = self.limit if self.ending is CapturedEnding.LIMIT else None
        return (self.question, said, self.stops, limit)


# -- the conditions, as a finding names them -----------------------------------------------------


def _traits(setting: CheckSetting, run: Exchange, stops: Any, limit: int | None) -> frozenset[str]:
    body, capture = run.body, run.capture
    raw = json.dumps(body, ensure_ascii=False)
    usage = capture.usage
    claims: dict[str, bool] = {
        "when streamed": run.is_streamed,
        "in whole answers": not run.is_streamed,
        "with a system message": bool({"system", "instructions"} & body.keys())
        or '"role": "system"' in raw,
        "with tools": "tools" in body,
        "with a call": bool(capture.tool_calls),
        "after the result of a tool": any(
            name in raw for name in ('"role": "tool"', '"tool_result"', '"function_call_output"')
        ),
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
        "in answers of more than 300 tokens": usage is not None
        and (usage.output_tokens or 0) > 300,
        "beyond ASCII": not capture.text.isascii(),
    }
    return frozenset(name for name, holds in claims.items() if holds)


def _where(wrong: Sequence[_Answer], right: Iterable[_Answer]) -> str:
    """Return what the wrong answers have in common, and no right one has."""
    common = frozenset.intersection(*(answer.traits for answer in wrong))
    others: Counter[str] = Counter()
    number = 0
    for answer in right:
        others.update(answer.traits)
        number += 1
    alone = sorted(name for name in common if not others[name])
    if alone:
        return f"Only {alone[0]}: "
    if len(wrong) > 1:
        rare = sorted(name for name in common if others[name] < number / 2)
        return f"{' and '.join(rare[:2]).capitalize()}: " if rare else ""
    return ""


# -- the answers ---------------------------------------------------------------------------------


def _answers(setting: CheckSetting) -> list[_Answer]:
    driver = setting.client.driver
    found = []
    for run in setting.client.exchanges:
        is_other = run.is_streamed is not run.capture.is_streamed
        if not run.is_answer or not isinstance(run.body, dict) or is_other:
            continue
        stops, limit = driver.stops_in(run.body), driver.limit_in(run.body)
        said: Any = run.body
        for name in driver.prompt_path:
            said = said.get(name) if isinstance(said, dict) else None
        usage = run.capture.usage
        found.append(
            _Answer(
                run,
                asked_in(driver, run.body),
                _words(said),
                driver.stops_of(run.body),
                limit if isinstance(limit, int) else None,
                usage.output_tokens if usage is not None else None,
                _prompt_tokens(driver.dialect, run),
                count(run.body.get("n")) or 1,
                "stop_token_ids" in json.dumps(run.body),
                _traits(setting, run, stops, limit if isinstance(limit, int) else None),
            )
        )
    return found


def _words(said: Any) -> str:
    """Return what the user says, however a request spells it."""
    if isinstance(said, list):
        said = said[-1] if said else ""
    if isinstance(said, dict):
        named = (said[name] for name in ("content", "text", "output") if name in said)
        return _words(next(named, ""))
    return str(said)


def _prompt_tokens(dialect: WireDialect, run: Exchange) -> int | None:
    """Return the tokens of the prompt, those in a cache included."""
    usage = run.capture.usage
    if usage is None or usage.input_tokens is None:
        return None
    if dialect is not WireDialect.MESSAGES:
        return usage.input_tokens
    created = re.search(r'"cache_creation_input_tokens": ?(\d+)', run.text)
    return usage.input_tokens + (usage.cached_tokens or 0) + int(created[1] if created else 0)


# -- the rules -----------------------------------------------------------------------------------

_Wrong = tuple[_Answer, Judgement]


def _uncounted(setting: CheckSetting, answers: Sequence[_Answer]) -> list[_Wrong]:
    """Judge whether all answers have counts where most of their mode have them."""
    found: list[_Wrong] = []
    is_asked = setting.client.driver.dialect in (WireDialect.CHAT, WireDialect.COMPLETIONS)
    # Elsewhere streams have counts as whole answers have.
    for modes in ((False,), (True,)) if is_asked else ((False, True),):
        alike = [
            answer
            for answer in answers
            if answer.run.is_streamed in modes
            and ("without counts asked for" not in answer.traits or not is_asked)
        ]
        counted = [answer for answer in alike if answer.tokens is not None]
        usages = [(answer, answer.run.capture.usage) for answer in counted]
        without_prompt = [
            answer for answer, usage in usages if usage is None or usage.input_tokens is None
        ]
        if len(without_prompt) < len(counted):
            said = "The tokens of the prompt are not counted, which other answers do."
            verdict = Judgement("prompt_uncounted", said, "counts of tokens", "none")
            found += [(answer, verdict) for answer in without_prompt]
        if len(counted) < _FEWEST or (is_asked and 2 * len(counted) <= len(alike)):
            continue
        said = "The answer has no counts, which others have."
        verdict = Judgement("usage_missing", said, "counts of tokens", "none")
        found += [(answer, verdict) for answer in alike if answer.tokens is None]
    return found


def _unlike(
    answers: Iterable[_Answer],
    key: Callable[[_Answer], Hashable],
    value: Callable[[_Answer], int | None],
) -> list[tuple[_Answer, int]]:
    """Return the answers whose count is not that of most answers with the same key."""
    groups: dict[Hashable, list[_Answer]] = {}
    for answer in answers:
        if value(answer) is not None:
            groups.setdefault(key(answer), []).append(answer)
    found = []
    for group in groups.values():
        counts = Counter(value(answer) for answer in group)
        usual, times = counts.most_common(1)[0]
        # Of two that differ, the stream is shown.
        if times * 2 == len(group) and len(counts) == 2:
            wholes = [value(answer) for answer in group if not answer.run.is_streamed]
            usual = wholes[0] if wholes else usual
        found += [(answer, usual or 0) for answer in group if value(answer) != usual]
    return found


def _prompts(setting: CheckSetting, answers: Sequence[_Answer]) -> list[_Wrong]:
    """Judge whether the same prompt has the same count of tokens."""
    found: list[_Wrong] = []
    for answer, usual in _unlike(
        answers,
        lambda answer: (answer.question, answer.choices),
        lambda answer: answer.input_tokens,
    ):
        # Some servers count only what is not in their cache.
        if (answer.input_tokens or 0) * 2 <= usual and answer.input_tokens:
            continue
        said = "The same prompt has another count of tokens in other answers."
        got = f"{answer.input_tokens} tokens"
        found.append((answer, Judgement("usage_prompt", said, f"{usual} tokens", got)))
    return found


def _counts(setting: CheckSetting, answers: Sequence[_Answer]) -> list[_Wrong]:
    """Judge whether the same text has the same count of tokens."""
    comparable = [answer for answer in answers if not answer.has_ids]
    found: list[_Wrong] = []
    for answer, usual in _unlike(
        comparable, lambda answer: answer.whole_key, lambda answer: answer.tokens
    ):
        said = "The same text has another count of tokens in other answers."
        verdict = Judgement("usage_differs", said, f"{usual} tokens", f"{answer.tokens} tokens")
        found.append((answer, verdict))
    return found


def _spelled(setting: CheckSetting, answers: Sequence[_Answer]) -> list[_Wrong]:
    """Judge the counts of answers that a stop ended by the pieces of a stream without stops.

    Where each token is a piece of the stream, a text has at least its own pieces. How much more is
    generated than the stop is the server's choice, within reason.
    """
    fulls, ends = _fulls(answers), {}
    for answer in answers:
        full, pieces = fulls.get(answer.question), bounds(answer.run.capture)
        if full is not None and answer.text == full.text and len(pieces) == answer.tokens:
            ends[answer.question] = pieces
    found: list[_Wrong] = []
    for answer in answers:
        pieces, full = ends.get(answer.question, ()), fulls.get(answer.question)
        tokens, thinking = answer.tokens, answer.run.capture.thinking
        is_known = pieces and full is not None and not answer.is_several and not answer.has_ids
        if not is_known or tokens is None or thinking or answer.ending not in _ENDED:
            continue
        occurrence = first_occurrence(full.text if full is not None else "", answer.stops)
        if occurrence is None or answer.text != full.text[: occurrence.start]:  # type: ignore[union-attr]
            continue
        # A stop takes a token, too.
        least = max(1, sum(end <= occurrence.start for end in pieces))
        most = sum(end < occurrence.end for end in pieces) + 1
        if least <= tokens <= 1.5 * most + _MOST_BEHIND:
            continue
        said = "The count of tokens does not fit the text before the stop."
        verdict = Judgement("usage_differs", said, f"{least} to {most} tokens", f"{tokens} tokens")
        found.append((answer, verdict))
    return found


def _limits(setting: CheckSetting, answers: Sequence[_Answer]) -> list[_Wrong]:
    """Judge whether answers that the limit is said to end have as many tokens as it allows."""
    known = [
        answer
        for answer in answers
        if answer.tokens is not None and answer.limit is not None and not answer.is_several
    ]
    limited = [answer for answer in known if answer.ending is CapturedEnding.LIMIT]
    exact = [answer for answer in limited if answer.tokens == answer.limit]
    # Where the context is full there is no room for more, whatever the limit allows.
    room = max((_total(answer) for answer in known), default=0)
    found: list[_Wrong] = []
    for answer in limited if len(exact) >= max(_FEWEST, len(limited) / 2) else ():
        tokens, limit = answer.tokens or 0, answer.limit or 0
        if tokens < limit and _total(answer) < room:
            said = "The limit is named as the reason, but fewer tokens are counted."
            wanted, got = f"{limit} tokens, or another reason", f"{tokens} tokens"
            found.append((answer, Judgement("limit_miscounted", said, wanted, got)))
    for answer in known:
        tokens, limit = answer.tokens or 0, answer.limit or 0
        if tokens > limit >= setting.client.driver.least_tokens:
            said = "The answer has more tokens than the limit allows."
            got = f"{tokens} tokens"
            found.append((answer, Judgement("limit_ignored", said, f"at most {limit}", got)))
    return found


def _total(answer: _Answer) -> int:
    return (answer.tokens or 0) + (answer.input_tokens or 0)


def _reasons(setting: CheckSetting, answers: Sequence[_Answer]) -> list[_Wrong]:
    """Judge whether answers have a reason, and one that fits the others."""
    words = setting.client.driver.words
    found: list[_Wrong] = []
    said_all = [answer for answer in answers if answer.ending is not None]
    if 2 * len(said_all) > len(answers):
        said = "The answer gives no reason for its end."
        missing = Judgement("reason_missing", said, words[CapturedEnding.NATURAL], "none")
        found += [(answer, missing) for answer in answers if answer.ending is None]
    fulls = _fulls(answers)
    for answer in said_all:
        capture = answer.run.capture
        if answer.ending is CapturedEnding.TOOL and not capture.tool_calls:
            said = "The reason is a call, but the answer has none."
            found.append((answer, Judgement("wrong_reason", said, "a call", str(capture.reason))))
        full = fulls.get(answer.question)
        if full is None or answer.is_several or answer.has_ids:
            continue
        is_cut = full.text.startswith(answer.text) and full.text != answer.text
        is_fired = first_occurrence(full.text, answer.stops) is not None
        # A model that varies may end earlier by itself.
        is_cut &= not setting.is_varying
        if is_cut and not is_fired and answer.ending in _ENDED and not capture.tool_calls:
            said = "The answer is cut, but the reason says otherwise."
            limit = words[CapturedEnding.LIMIT]
            found.append((answer, Judgement("wrong_reason", said, limit, str(capture.reason))))
        if (
            full.text == answer.text
            and full.ending in _ENDED
            and answer.ending is CapturedEnding.LIMIT
            and answer.tokens is not None
            and answer.tokens < (answer.limit or 0)
        ):
            said = "The answer ended by itself before the limit, which is named as the reason."
            natural = words[CapturedEnding.NATURAL]
            found.append((answer, Judgement("wrong_reason", said, natural, str(capture.reason))))
    return found


def _fulls(answers: Sequence[_Answer]) -> dict[str, _Answer]:
    """Return for each question an answer without stops that most others like it agree with."""
    groups: dict[str, list[_Answer]] = {}
    for answer in answers:
        is_plain = not answer.stops and not answer.has_ids and not answer.is_several
        if is_plain and answer.text and not answer.run.capture.tool_calls:
            groups.setdefault(answer.question, []).append(answer)
    found: dict[str, _Answer] = {}
    for question, group in groups.items():
        largest = max(answer.limit or 0 for answer in group)
        longest = [answer for answer in group if (answer.limit or 0) == largest]
        texts = Counter(answer.text for answer in longest)
        text, times = texts.most_common(1)[0]
        if times > 1 and 2 * times > len(longest):
            found[question] = next(answer for answer in longest if answer.text == text)
    return found


def _usual(answers: Sequence[_Answer]) -> dict[str, str]:
    """Return the most frequent answer to each prompt that was asked several times."""
    texts: dict[str, Counter[str]] = {}
    for answer in answers:
        if not answer.stops and not answer.has_ids:
            texts.setdefault(answer.words, Counter())[answer.text] += 1
    found = {words: counts.most_common(1)[0] for words, counts in texts.items()}
    return {words: text for words, (text, times) in found.items() if times >= _FEWEST}


def _texts(setting: CheckSetting, answers: Sequence[_Answer]) -> list[_Wrong]:
    """Judge texts by what no model does by chance."""
    driver, fulls = setting.client.driver, _fulls(answers)
    known: dict[str, set[str]] = {}
    for answer in answers:
        if answer.ending in _ENDED and len(answer.text.strip()) >= _LEAST_CHARACTERS:
            known.setdefault(answer.text, set()).add(answer.words)
    usual = _usual(answers) if setting.is_varying else {}
    found: list[_Wrong] = []
    for answer in answers:
        full = fulls.get(answer.question)
        if full is None or answer.is_several or answer.has_ids or answer.run.capture.tool_calls:
            continue
        if not setting.main.is_repeatable or (
            answer.run.is_streamed and setting.main.streamed_text is not None
        ):
            continue
        if full.run.capture.thinking and answer.stops:
            continue
        given = Baseline(
            setting.main.ask,
            full.text,
            full.text,
            tokens=full.tokens,
            streamed_tokens=full.tokens,
            ending=full.ending,
        )
        occurrence = first_occurrence(full.text, answer.stops)
        is_own = full.text.startswith(answer.text)
        if setting.is_varying and setting.is_variation(answer.run, is_text_wrong=False):
            continue
        others = known.get(answer.text, set()) - {answer.words}
        if setting.is_varying:
            # What several get now and then, and nobody usually, is no answer to another request.
            others = {words for words in others if usual.get(words) == answer.text}
            is_own |= len(known.get(answer.text, ())) > _MAX_MIXED
        if not is_own and others:
            said = "The answer is that of another request."
            found.append((answer, Judgement("mixed_up", said, full.text, answer.text)))
        elif answer.stops and answer.ending is not CapturedEnding.LIMIT:
            text = full.text if occurrence is None else full.text[: occurrence.start]
            stop = None if occurrence is None else occurrence.stop
            case = StopCase("any", given, answer.stops, text, stop)
            verdicts = [*judge(case, answer.run, driver), *invariants(case, answer.run)]
            found += [(answer, one) for one in verdicts if setting.is_certain(answer.run, one)]
        elif not answer.stops and answer.ending in _ENDED and full.ending in _ENDED:
            found += [(answer, one) for one in misprinted(full.text, full.tokens, answer.run)]
    return found


# Which kinds of fault a rule finds; if another check has found one of these, it has said so better.
_RULES: tuple[tuple[Callable[[CheckSetting, Sequence[_Answer]], list[_Wrong]], str], ...] = (
    (_texts, r"^(?!usage)"),
    (_reasons, r"^(?!usage)"),
    (_limits, r"limit|usage|tokens|lost|reason|stop_only"),
    (_counts, r"usage|limit|stop_only|text|lost"),
    (_spelled, r"usage|limit|stop_only|text|lost|hidden"),
    (_prompts, r"usage"),
    (_uncounted, r"usage|missing"),
)


def _now_and_then(setting: CheckSetting) -> Fault | None:
    """Return the fault of several answers to requests that were answered correctly, too.

    Another text is no fault, because models vary; one with the tokens of the right text is, if it
    is that text but for a part.
    """
    torn = [
        (run, verdict)
        for run, verdict, right in setting.odd
        if verdict.code not in _OF_LUCK and _is_torn(run, right)
    ]
    if len(torn) < 2 or any(run in setting.client.broken for run, _ in torn):
        return None
    run, verdict = torn[0]
    said = f"In {len(torn)} answers now and then: {verdict.sentence}"
    return now_and_then(fault(setting.client, run, replace(verdict, sentence=said)))


def _is_torn(run: Exchange, right: Exchange) -> bool:
    one, other = run.capture, right.capture
    if one.text == other.text or not (run.is_answer and right.is_answer):
        return True
    is_part = is_among(one.text, other.text) or is_among(other.text, one.text)
    return is_part and None is not _tokens(run) == _tokens(right)


def _tokens(run: Exchange) -> int | None:
    return run.capture.usage.output_tokens if run.capture.usage is not None else None


# What a model or a busy machine may do once.
_OF_LUCK = ("stream_differs", "another_stop_won", STOP_ONLY_HIDDEN, "no_answer", "server_error")


async def _agree(setting: CheckSetting) -> Seen:
    """The same text has the same reason and counts in all answers, whatever the request has."""
    answers = _answers(setting)
    if not answers:
        return undecided("There are no answers that could be compared.")
    faults: dict[str, Fault] = {}
    for rule, alike in _RULES:
        if any(re.search(alike, code) for code in setting.found):
            continue
        wrong: dict[str, list[_Wrong]] = {}
        for answer, verdict in rule(setting, answers):
            if verdict.code in setting.found:
                continue
            wrong.setdefault(verdict.code, []).append((answer, verdict))
        for code, cases in wrong.items():
            guilty = [answer for answer, _ in cases]
            places = {id(answer) for answer in guilty}
            right = [answer for answer in answers if id(answer) not in places]
            answer, verdict = cases[0]
            sentence = _where(guilty, right) + verdict.sentence
            found = fault(setting.client, answer.run, replace(verdict, sentence=sentence))
            if any(other.run.body == answer.run.body for other in right):
                found = now_and_then(found)
            faults.setdefault(code, found)
    if not faults and (torn := _now_and_then(setting)) is not None:
        faults[torn.code] = torn
    return Seen(f"{len(answers)} answers were compared", tuple(faults.values()))


AGREEMENT_CHECKS = (Check("answers.agree", _agree),)
