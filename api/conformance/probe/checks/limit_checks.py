"""Checks of token limits and counts, and of clients that leave."""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Any

from api.conformance.captures.frames import count, items, mapping, parse_json
from api.conformance.captures.values import CapturedEnding, WireDialect
from api.conformance.probe.checks.check import (
    NO_ANSWER,
    VARIES,
    Check,
    CheckSetting,
    Findings,
    Seen,
    fault,
    skipped,
    undecided,
    without_premise,
    working_case,
)
from api.conformance.probe.client import at_the_same_time, one_after_the_other
from api.conformance.probe.dialects import Ask, Driver
from api.conformance.probe.judgement import STOP_ONLY_HIDDEN, Judgement, judge, no_answer
from api.conformance.probe.plan import NEVER, Baseline, StopCase, consecutive_cases, plan
from api.conformance.probe.values import Exchange, Fault

# Checks stops at the token limit: held-back text, and a stop that the last token completes.

_SMALL = 5
_FEW_TOKENS = 8
_HELD_CHARS = 2
_STEPS = 3


async def _plain(setting: CheckSetting, driver: Driver | None = None) -> Seen:
    """A limit ends the answer after that many tokens, and is named as the reason."""
    given, client = setting.main, setting.client
    driver = driver or client.driver
    limit = max(_SMALL, driver.least_tokens)
    if given.tokens is not None and given.tokens <= limit:
        return undecided("The answers are too short for a limit.")
    findings = Findings(setting)
    is_newer = driver is not client.driver
    # The smallest limits, too, each in one of the modes.
    smallest = driver.least_tokens
    limits = [(limit, False), (limit, True)]
    if smallest + 1 < limit and not is_newer:
        limits += [(smallest, False), (smallest + 1, True)]
    whole: Exchange | None = None
    for most, is_streamed in limits:
        ask = replace(given.ask, max_tokens=most, is_streamed=is_streamed)
        body = driver.body(ask, client.model)
        beside = whole if most == limit and given.streamed_text is None else None
        judged = partial(limited, given, most, driver.words, beside=beside)
        run = await findings.ask(body, judged, may_refuse=is_newer)
        whole = whole or run
        if run.is_refusal and is_newer:
            return skipped(f"{driver.limit_name} is refused with status {run.status}.")
        if findings.faults:
            break
    return findings.seen(f"{limit} tokens")


async def _newer(setting: CheckSetting) -> Seen:
    """The limit's newer name means the same."""
    driver = setting.client.driver
    if driver.dialect is not WireDialect.CHAT:
        return skipped("The dialect has one name for the limit.")
    if driver.limit_name:
        return skipped("Every request uses it: the server refuses max_tokens.")
    return await _plain(setting, replace(driver, limit_name="max_completion_tokens"))


def limited(
    given: Baseline,
    limit: int,
    words: Mapping[CapturedEnding, str],
    run: Exchange,
    beside: Exchange | None = None,
) -> list[Judgement]:
    """Judge an answer that a limit should end; ``beside`` is the whole one with that limit."""
    broken = no_answer(run)
    if broken is not None:
        return [broken]
    judgements = []
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
        judgements.append(Judgement("text_differs", "With a limit, the text differs.", full, got))
    # Where each token is a piece of the stream, the text of so many tokens is known.
    is_spelled = given.tokens == given.streamed_tokens == len(given.bounds) and not given.thinking
    if (
        is_spelled
        and tokens == limit
        and len(got) < given.bounds[limit - 1]
        and got == capture.text
    ):
        said = f"{limit} tokens are allowed and counted, but the text is that of fewer."
        wanted = full[: given.bounds[limit - 1]]
        judgements.append(Judgement("token_lost_to_limit", said, wanted, got))
    elif given.is_repeatable and beside is not None and beside.capture.text != capture.text:
        one, other = sorted((capture.text, beside.capture.text), key=len)
        if other.startswith(one) and got == capture.text:
            shorter = "stream" if one == capture.text else "whole answer"
            said = f"With the same limit the text of the {shorter} lacks {other[len(one) :]!r}."
            judgements.append(Judgement("token_lost_to_limit", said, other, one))
    if capture.ending is None:
        judgements.append(
            Judgement(
                "reason_missing",
                "The answer gives no reason for its end.",
                words[CapturedEnding.LIMIT],
            )
        )
    elif capture.ending is not CapturedEnding.LIMIT:
        judgements.append(
            Judgement(
                "wrong_reason",
                "The limit ended the answer, but the reason says otherwise.",
                words[CapturedEnding.LIMIT],
                str(capture.reason),
            )
        )
    if isinstance(capture.matched, str):
        judgements.append(
            Judgement(
                "wrong_sequence",
                "The answer names a stop that did not fire.",
                "no stop named",
                capture.matched,
            )
        )
    return judgements


async def _held(setting: CheckSetting) -> Seen:
    """Text that could have become a stop is part of an answer that the limit ends."""
    given, client = setting.main, setting.client
    if not given.is_repeatable:
        return undecided(VARIES)
    ask = replace(given.ask, max_tokens=_limit(given, client.driver.least_tokens))
    findings = Findings(setting)
    shown: list[str] = []
    for is_streamed in (False, True):
        body = setting.body(replace(ask, is_streamed=is_streamed))
        plain, again = await client.send(body), await client.send(body)
        text = plain.capture.text
        if not plain.is_answer or plain.capture.ending is not CapturedEnding.LIMIT:
            return undecided("The answer without stops is not said to end at the limit.")
        if text != again.capture.text:
            return undecided(VARIES)
        end = text[-_HELD_CHARS:]
        if len(end) < _HELD_CHARS or "\ufffd" in end:
            return undecided("The limited answer has no text that could be held.")
        stop = end + NEVER
        holding = replace(ask, is_streamed=is_streamed, stops=(stop,))
        await findings.ask(setting.body(holding), partial(_released, setting, text))
        shown.append(repr(stop))
    return findings.seen(", ".join(dict.fromkeys(shown)))


def _limit(given: Baseline, min_tokens: int) -> int:
    """Return a limit that cuts off the end of the answer, not of the thinking before it."""
    tokens = given.tokens or 0
    return max(_FEW_TOKENS, min_tokens, tokens - max(2, tokens // 4))


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
    case = working_case(setting)
    if isinstance(case, Seen):
        return case
    findings = Findings(setting)
    limit = await _completed(setting, case)
    if isinstance(limit, Seen):
        return limit
    await _at_limit(setting, findings, case, limit, _judge_last)
    return findings.seen(f"{case.stops[0]!r} with a limit of {limit} tokens")


async def _before_limit(setting: CheckSetting) -> Seen:
    """A stop that is complete a token before the last allowed one is a stop, not the limit."""
    case = working_case(setting)
    if isinstance(case, Seen):
        return case
    findings, shown = Findings(setting), []
    # A server makes several tokens a step. Of two stops at consecutive tokens one at least is
    # complete before the end of its step, however many tokens that has.
    pairs = chain.from_iterable(map(consecutive_cases, setting.baselines))
    others = (other for other in plan(setting.baselines) if _is_beside(other, case))
    for each in next(pairs, (case, *islice(others, 1))):
        limit = await _completed(setting, each)
        if isinstance(limit, Seen):
            findings.doubt(limit.sentence)
            continue
        await _at_limit(setting, findings, each, limit + 1, _judge_before)
        shown.append(f"{each.stops[0]!r} with a limit of {limit + 1} tokens")
    return findings.seen(", ".join(shown))


def _is_beside(other: StopCase, case: StopCase) -> bool:
    is_known = other.matched is not None and not other.is_thought and other.baseline.is_repeatable
    return is_known and len(other.stops) == 1 and other.text != case.text


async def _at_limit(
    setting: CheckSetting,
    findings: Findings,
    case: StopCase,
    limit: int,
    judged: Callable[[StopCase, Driver, Exchange], list[Judgement]],
) -> None:
    for is_streamed in (False, True):
        in_mode = case.in_mode(is_streamed=is_streamed)
        if in_mode is None:
            continue
        ask = replace(
            case.baseline.ask, stops=case.stops, max_tokens=limit, is_streamed=is_streamed
        )
        driver = setting.client.driver
        await findings.ask(setting.body(ask), partial(judged, in_mode, driver))


def _judge_before(case: StopCase, driver: Driver, run: Exchange) -> list[Judgement]:
    verdicts = [one for one in judge(case, run, driver) if one.code != STOP_ONLY_HIDDEN]
    if not verdicts or run.capture.ending is not CapturedEnding.LIMIT:
        return verdicts
    said = "The stop is complete a token before the limit, but the limit is named as the reason."
    wanted = driver.words[CapturedEnding.STOP]
    return [Judgement("stop_lost_to_limit", said, wanted, str(run.capture.reason))]


async def _own_end(setting: CheckSetting) -> Seen:
    """An answer that ends by itself at the limit is whole, and has no text behind its end."""
    ended = (CapturedEnding.NATURAL, CapturedEnding.NATURAL_OR_STOP)
    givens = [
        given
        for given in setting.baselines
        if given.ending in ended and given.is_repeatable and given.tokens and not given.thinking
    ]
    findings, shown = Findings(setting), []
    # One token less must cut the answer, or end it if the end itself counts as a token.
    for at, given in enumerate(givens[:2]):
        for more in (-1, 0, 1, 2) if at == 0 else (0, 1):
            limit = (given.tokens or 0) + more
            is_streamed = bool((more + at) % 2) and given.streamed_text is None
            if not setting.client.driver.least_tokens <= limit < given.ask.max_tokens:
                continue
            body = setting.body(replace(given.ask, max_tokens=limit, is_streamed=is_streamed))
            await findings.ask(body, partial(_judge_end, given, more))
            shown.append(str(limit))
    if not shown:
        return undecided("No answer ends by itself.")
    return findings.seen(f"limits of {', '.join(shown)} tokens")


def _judge_end(given: Baseline, more: int, run: Exchange) -> list[Judgement]:
    broken, got, capture = no_answer(run), run.capture.text, run.capture
    if broken is not None:
        return [broken]
    # What is shorter may have tokens that are not counted.
    if got != given.text and got.startswith(given.text):
        said = "The answer goes on behind its own end, because the limit is near."
        return [Judgement("text_after_end", said, given.text, got, given.text)]
    if capture.ending is None:
        said = "The answer gives no reason for its end."
        return [Judgement("reason_missing", said, "a reason", "none")]
    is_natural = capture.ending in (CapturedEnding.NATURAL, CapturedEnding.NATURAL_OR_STOP)
    if more < 0 and is_natural and got == given.text:
        said = f"The limit is one less than the {given.tokens} tokens counted, but did not end it."
        return [Judgement("limit_ignored", said, "the limit as the reason", str(capture.reason))]
    if more < 0 and is_natural:
        said = "The limit cut the answer, but the reason says otherwise."
        return [Judgement("wrong_reason", said, "the limit as the reason", str(capture.reason))]
    if more >= 0 and got != given.text and given.text.startswith(got):
        said = f"The limit allows the {given.tokens} tokens of the answer, but its text is cut."
        return [Judgement("limit_too_early", said, given.text, got)]
    if more > 0 and got == given.text and not is_natural:
        said = "The answer ended by itself before the limit, but the reason says otherwise."
        return [Judgement("wrong_reason", said, "a natural end", str(capture.reason))]
    return []


async def _completed(setting: CheckSetting, case: StopCase) -> int | Seen:
    """Return the limit whose last token completes a stop; else why it is not known."""
    known: dict[StopCase, int | Seen] = setting.shared.setdefault("completed", {})
    if case not in known:
        first = await setting.client.ask(replace(case.baseline.ask, stops=case.stops))
        usage = first.capture.usage
        guess = usage.output_tokens if usage is not None else None
        if not first.is_answer or guess is None:
            known[case] = undecided("The server does not count the tokens of an answer.")
        else:
            limit = await _completing(setting, case, guess)
            unknown = undecided("The token that completes the stop could not be found.")
            known[case] = unknown if limit is None else limit
    return known[case]


def _judge_last(case: StopCase, driver: Driver, run: Exchange) -> list[Judgement]:
    return [_as_lost(judgement, run) for judgement in judge(case, run, driver)]


def _as_lost(verdict: Judgement, run: Exchange) -> Judgement:
    if verdict.code != "wrong_reason" or run.capture.ending is not CapturedEnding.LIMIT:
        return verdict
    sentence = "The last allowed token completes the stop, but the limit is named as the reason."
    return replace(verdict, code="stop_lost_to_limit", sentence=sentence)


async def _completing(setting: CheckSetting, case: StopCase, guess: int) -> int | None:
    """Return the limit whose last token completes the stop, found in answers without stops."""
    min_tokens = setting.client.driver.least_tokens
    has_stop: dict[int, bool] = {}

    async def is_there(limit: int) -> bool:
        if limit not in has_stop:
            ask: Ask = replace(case.baseline.ask, max_tokens=limit)
            run = await setting.client.ask(ask)
            if setting.is_varying and not case.baseline.text.startswith(run.capture.text):
                run = await setting.client.ask(ask)
            has_stop[limit] = run.is_answer and case.stops[0] in run.capture.text
        return has_stop[limit]

    steps: Sequence[int] = range(guess, guess + _STEPS)
    if guess > min_tokens and await is_there(guess):
        steps = range(guess, max(min_tokens, guess - _STEPS), -1)
    for limit in steps:
        if limit > min_tokens and await is_there(limit) and not await is_there(limit - 1):
            return limit
    return None


LIMIT_CHECKS = (
    Check("limit", _plain),
    Check("limit.completion_tokens", _newer),
    Check("limit.held", _held),
    Check("limit.stop_on_last_token", _on_last_token),
    Check("limit.stop_before", _before_limit),
    Check("limit.own_end", _own_end),
)


# Checks the token counts: complete, without duplicates, and the same in streams.

_TOTALS = (("prompt_tokens", "completion_tokens"), ("input_tokens", "output_tokens"))
_STOP_CHARS = 16
_FEWEST_CHARS = 8


async def _counts(setting: CheckSetting) -> Seen:
    """The counts of every answer are possible, and add up."""
    faults: dict[str, Fault] = {}
    answers = [run for run in setting.client.exchanges if run.is_answer]
    for run in answers:
        for verdict in (*_impossible(run), *_beyond_limit(setting.client.driver, run)):
            faults.setdefault(verdict.code, fault(setting.client, run, verdict))
    return Seen(f"{len(answers)} answers were read", tuple(faults.values()))


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
    if usage.output_tokens == 0 and (run.capture.text or run.capture.tool_calls):
        noun = "text" if run.capture.text else "a call"
        yield Judgement(
            "usage_zero",
            f"The answer has {noun}, but 0 output tokens are counted.",
            "1 or more",
            "0",
        )
    if usage.input_tokens == 0 and not usage.cached_tokens and not _is_cached(run):
        said = "0 tokens are counted for the prompt."
        yield Judgement("usage_no_prompt", said, "1 or more", "0")
    yield from _wrong_total(run)


def _beyond_limit(driver: Driver, run: Exchange) -> Iterator[Judgement]:
    """Yield that more tokens are counted than the request allows for all of its choices."""
    limit = driver.limit_of(run.body) if isinstance(run.body, dict) else None
    usage = run.capture.usage
    tokens = usage.output_tokens if usage is not None else None
    if limit is None or tokens is None:
        return
    allowed = max(limit, driver.least_tokens) * (count(run.body.get("n")) or 1)
    if tokens > allowed:
        said = "The answer has more tokens than the limit allows."
        yield Judgement("limit_ignored", said, f"at most {allowed} tokens", f"{tokens} tokens")


def _is_cached(run: Exchange) -> bool:
    """Return whether an answer counts tokens of the prompt that are put into a cache."""
    return re.search(r'"cache_creation_input_tokens": ?[1-9]', run.text) is not None


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
    body = _object(raw)
    return mapping(body.get("usage")) or mapping(mapping(body.get("response")).get("usage"))


def _object(raw: str) -> dict[str, Any]:
    try:
        return mapping(parse_json(raw))
    except ValueError:
        return {}


async def _same_when_streamed(setting: CheckSetting) -> Seen:
    """The same answer has the same count, whole or streamed."""
    compared = [
        baseline
        for baseline in setting.baselines
        if baseline.is_repeatable and baseline.streamed_text is None and None not in _pair(baseline)
    ]
    if not compared:
        return undecided("There are no counts that could be compared.")
    for baseline in compared:
        whole, streamed = _pair(baseline)
        if whole != streamed:
            body = setting.client.driver.body(replace(baseline.ask, is_streamed=True), "")
            run = _sent(setting, body)
            verdict = Judgement(
                "usage_differs",
                "The same answer has another count of tokens when it is streamed.",
                f"{whole} tokens, as in the whole answer",
                f"{streamed} tokens",
            )
            return Seen(faults=(fault(setting.client, run, verdict),))
    return Seen(f"{len(compared)} answers were compared")


def _pair(baseline: Baseline) -> tuple[int | None, int | None]:
    return baseline.tokens, baseline.streamed_tokens


def _sent(setting: CheckSetting, body: dict[str, Any]) -> Exchange:
    """Return the first streamed exchange for a baseline's request."""
    wanted = {**body, "model": setting.client.model} if setting.client.model else body
    streamed = [run for run in setting.client.exchanges if run.is_streamed and run.is_answer]
    return next((run for run in streamed if run.body == wanted), streamed[0])


async def _chunk(setting: CheckSetting) -> Seen:
    """Streams have counts where they are asked for: once, in a chunk without choices."""
    driver, given = setting.client.driver, setting.main
    if driver.dialect not in (WireDialect.CHAT, WireDialect.COMPLETIONS):
        return skipped("The counts of this dialect's streams have no chunk of their own.")
    if given.tokens is None and given.streamed_tokens is None:
        return skipped("The server counts no tokens.")
    findings = Findings(setting)
    ask = replace(given.ask, max_tokens=max(_SMALL, driver.least_tokens), is_streamed=True)
    if "stream_options" not in driver.left_out:
        await findings.ask(setting.body(ask), partial(_misplaced_counts, True))
    # A stream without counts is otherwise the same: its stop, its text and its reason.
    case = None if setting.broken_by else setting.simple(given)
    if case is None or given.streamed_text is not None or setting.options.is_quick:
        plain = replace(ask, counts=False)
        await findings.ask(setting.body(plain), partial(_misplaced_counts, False))
        return findings.seen("counts where they were asked for, and nowhere else")
    for stops in ((), case.stops):
        plain = replace(given.ask, stops=stops, is_streamed=True, counts=False)
        await findings.ask(setting.body(plain), partial(_uncounted, case, driver))
    return findings.seen("counts where they were asked for, and nowhere else")


def _uncounted(case: StopCase, driver: Driver, run: Exchange) -> list[Judgement]:
    verdicts = _misplaced_counts(False, run)
    if not driver.has_stops(run.body):
        case = replace(case, stops=(NEVER,), text=case.baseline.text, matched=None)
    verdicts = verdicts or [one for one in judge(case, run, driver) if one.code != STOP_ONLY_HIDDEN]
    said = "Without counts asked for: "
    return [
        one if one.code.startswith("usage") else replace(one, sentence=said + one.sentence)
        for one in verdicts
    ]


def _misplaced_counts(is_asked: bool, run: Exchange) -> list[Judgement]:
    broken = no_answer(run)
    if broken is not None or not run.capture.is_streamed:
        return [broken] if broken is not None else []
    chunks = [_object(event.raw) for event in run.capture.events]
    counted = [chunk for chunk in chunks if isinstance(chunk.get("usage"), dict)]
    shown = f"usage in {len(counted)} of {len(chunks)} chunks"
    if not is_asked:
        said = "The stream has counts although include_usage was not sent."
        return [Judgement("usage_unasked", said, "no usage", shown)] if counted else []
    if not counted:
        said = "The stream has no counts although include_usage was sent."
        return [Judgement("usage_missing", said, "usage in the last chunk", "none")]
    if any(items(chunk.get("choices")) for chunk in counted):
        said = "The counts of a stream come in a chunk with choices."
        return [Judgement("usage_with_choices", said, "a chunk without choices", shown)]
    if any(items(chunk.get("choices")) for chunk in chunks[chunks.index(counted[0]) :]):
        said = "The counts of a stream come before its last choices."
        return [Judgement("usage_early", said, "usage in the last chunk", shown)]
    if len(counted) > 1:
        said = "The counts of a stream come more than once."
        return [Judgement("usage_repeated", said, "usage in one chunk", shown)]
    return []


async def _all_generated(setting: CheckSetting) -> Seen:
    """The tokens of a stop are counted even though its text is not shown."""
    if (broken := without_premise(setting)) is not None:
        return broken
    client, case = setting.client, setting.simple(*setting.baselines)
    given = case.baseline if case is not None else None
    start = len(given.stable) // 4 if given is not None else 0
    stop = given.stable[start : start + _STOP_CHARS] if given is not None else ""
    if given is None or len(stop) < _FEWEST_CHARS or stop in given.thinking:
        return undecided(NO_ANSWER)
    start = given.stable.find(stop)
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
    if not given.text.startswith(plain.capture.text.rstrip("\ufffd")):
        return undecided(VARIES)
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
    Check("usage.chunk", _chunk),
    Check("usage.stop", _all_generated),
)


# Checks that a server answers the next client after some clients have hung up.
#
# The only evidence from outside is how soon the next client is answered.

# At least one of these gets a long answer from any model.
_LONG_CHAT = (
    "Count from 1 to 1000, one number per line",
    "Count from 1 to 40 in words, one number per line.",
    "Write a long story about a fox.",
)
_LONG_PLAIN = ("1\n2\n3\n4\n5\n6\n", "Once upon a time", "The alphabet is A B C D E F")
_MAX_TOKENS = 1500
_WAIT_S = 0.3
_USUAL = 4


async def _hang_up(setting: CheckSetting, *, is_streamed: bool) -> Seen:
    client = setting.client
    prompts = _LONG_CHAT if client.driver.has_chat_template else _LONG_PLAIN
    asks = [Ask(text, max_tokens=_MAX_TOKENS, is_streamed=is_streamed) for text in prompts]
    wait_s = min(_WAIT_S, setting.main.total_s / 2)
    short = setting.body(_after_hang_up(setting))
    # The machine may have become slower since the first answers.
    before = await client.send(short)
    usual_s = max(setting.short_s, before.total_s if before.is_answer else 0.0)
    allowed_s = setting.options.patience_s + _USUAL * usual_s
    for attempt in range(2):
        left = await asyncio.gather(*(client.hang_up_on(ask, wait_s) for ask in asks))
        after = await client.send(short)
        if after.is_answer and after.total_s <= allowed_s:
            if not any(left):
                return undecided("The answers ended before a client could hang up.")
            is_comparable = setting.main.is_repeatable and not setting.is_varying
            verdicts = _unlike(before, after) if is_comparable else []
            if not verdicts:
                return Seen(f"the next request took {after.total_s:.2f} s")
            if attempt:
                leaving = [client.curl(setting.body(ask), is_cut=True) for ask in asks]
                shown = one_after_the_other(at_the_same_time(*leaving), client.curl(short))
                return Seen(faults=(fault(client, after, verdicts[0], shown),))
        if attempt == 0:
            # What still runs must not be blamed on the second attempt.
            await client.ask_shortly()
    why = after.problem or (
        f"the next request took {after.total_s:.1f} s"
        if after.is_answer
        else f"the next request got status {after.status}"
    )
    leaving = [client.curl(setting.body(ask), is_cut=True) for ask in asks]
    kept = Fault(
        "not_freed",
        f"After {len(asks)} clients hung up {why}.",
        # Streamed or not, the fault is the same: the server does not free the client's slot.
        expected=f"an answer within {allowed_s:.1f} s",
        got=why,
        curl=one_after_the_other(at_the_same_time(*leaving), client.curl(after.body)),
    )
    return Seen(faults=(kept,))


def _after_hang_up(setting: CheckSetting) -> Ask:
    """Return a short request with a stop, if stops work, whose answer is known."""
    case = None if setting.broken_by else setting.simple(setting.main)
    ask = replace(setting.main.ask, max_tokens=max(_FEW_TOKENS, setting.client.driver.least_tokens))
    if case is None or not case.text[:1].strip():
        return ask
    early = setting.main.stable[1:2]
    return replace(ask, stops=(early if early.strip() else case.stops[0],))


def _unlike(before: Exchange, after: Exchange) -> list[Judgement]:
    """Compare the answer to the next client with the one before others left."""
    one, other = before.capture, after.capture
    said = "After clients hung up, the answer to the next one has "
    if one.text != other.text:
        return [Judgement("text_differs", f"{said}another text.", one.text, other.text)]
    if (one.ending, one.matched) != (other.ending, other.matched):
        wanted, got = f"{one.reason}, {one.matched!r}", f"{other.reason}, {other.matched!r}"
        return [Judgement("wrong_reason", f"{said}another reason.", wanted, got)]
    counts = [_shown_tokens(run) for run in (before, after)]
    if counts[0] != counts[1]:
        return [Judgement("usage_differs", f"{said}other counts.", counts[0], counts[1])]
    return []


def _shown_tokens(run: Exchange) -> str:
    usage = run.capture.usage
    return "no counts" if usage is None else f"{usage.output_tokens} tokens"


HANG_UP_CHECKS = (
    Check("hang_up.streamed", partial(_hang_up, is_streamed=True)),
    Check("hang_up.whole", partial(_hang_up, is_streamed=False)),
)
