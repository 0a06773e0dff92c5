"""Judges answers against what was expected, and arranges failures of one kind.

Pure; any thread.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from api.conformance.captures.values import CapturedEnding, first_occurrence
from api.conformance.probe.dialects import Driver
from api.conformance.probe.plan import StopCase
from api.conformance.probe.values import CheckOutcome, CheckResult, Exchange, Level

# Judges an answer by comparing it with the answer to the same prompt without stops.

# How much of an answer must come after a stop, so that its cost shows whether it was generated.
_LEAST_CUT = 0.35
_LEAST_TOKENS = 8
_LEAST_S = 1.0
# A longer part of a text is not repeated in a sentence.
_SHOWN_CHARS = 60
STOP_ONLY_HIDDEN = "stop_only_hidden"
_ANSWER = "an answer"
_STOPPED = (CapturedEnding.STOP, CapturedEnding.NATURAL_OR_STOP)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A fault without its context.

    A certain one needs no second look: no correct server ever answers so, also not one whose
    answers differ from time to time.
    """

    code: str
    sentence: str
    expected: str = ""
    got: str = ""
    baseline: str = ""
    is_certain: bool = False


def judge(case: StopCase, run: Exchange, driver: Driver) -> list[Judgement]:
    """Return the problems of an answer; [] if it is correct."""
    broken = no_answer(run)
    if broken is not None:
        return [broken]
    text_fault = _text(case, run)
    if text_fault is not None and text_fault.code in ("stop_ignored", "stop_cut_out"):
        # A wrong reason or cost would only follow from this fault.
        return [text_fault]
    said = (_reason(case, run, driver), _matched(case, run, driver))
    if text_fault is not None:
        return [one for one in (text_fault, *said) if one is not None]
    # Where the text is right, no luck of the model explains another reason.
    certain = [replace(one, is_certain=True) for one in said if one is not None]
    cost = _cost(case, run)
    return certain if cost is None else [*certain, cost]


def no_answer(run: Exchange) -> Judgement | None:
    """Return the problem of a request without an answer."""
    if run.problem:
        return Judgement("no_answer", f"There was no answer: {run.problem}.", _ANSWER, run.problem)
    if run.status >= 500:
        sentence = f"The server failed with status {run.status}."
        return Judgement("server_error", sentence, _ANSWER, run.text[:200])
    if run.status != 200:
        sentence = f"The request was refused with status {run.status}."
        return Judgement("refused", sentence, _ANSWER, run.text[:200])
    if run.capture.error is not None:
        sentence = "The answer broke off with an error."
        return Judgement("server_error", sentence, _ANSWER, run.capture.error[:200])
    if run.is_streamed and _is_error_alone(run):
        sentence = "The request was refused by an event of its stream, but with status 200."
        expected = "the status of an error"
        return Judgement("error_as_answer", sentence, expected, run.capture.events[0].raw[:200])
    if run.capture.ending is CapturedEnding.ERROR:
        sentence = "The request got status 200 and an answer whose reason is an error."
        return Judgement(
            "error_as_answer",
            sentence,
            "an answer, or the status of an error",
            str(run.capture.reason),
        )
    return None


def _is_error_alone(run: Exchange) -> bool:
    events = run.capture.events
    try:
        value = json.loads(events[0].raw) if len(events) == 1 else None
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and list(value) == ["error"]


def misprinted(text: str, tokens: int | None, run: Exchange) -> list[Judgement]:
    """Judge a text beside another of as many tokens: none of it may be lost, and nothing added."""
    got, usage = run.capture.text, run.capture.usage
    if tokens is None or usage is None or usage.output_tokens != tokens or tokens < _LEAST_TOKENS:
        return []
    if got.strip() == text.strip() or max(len(got), len(text)) > 5_000:
        return []
    if is_among(got, text):
        said = f"The answer has its {tokens} tokens, but a part of its text is missing."
        return [Judgement("text_lost", said, text, got, is_certain=True)]
    if is_among(text, got):
        said = f"The answer has its {tokens} tokens, but more text than these."
        return [Judgement("text_added", said, text, got, is_certain=True)]
    return []


def is_among(part: str, text: str) -> bool:
    """Return whether the characters of a text are in another one, in their order."""
    characters = iter(text)
    return all(char in characters for char in part)


def invariants(case: StopCase, run: Exchange) -> list[Judgement]:
    """Return the problems of an answer that do not depend on its expected text."""
    broken = no_answer(run)
    if broken is not None:
        return [broken]
    capture, judgements = run.capture, []
    inside = first_occurrence(capture.text, case.stops)
    if inside is not None:
        judgements.append(
            Judgement(
                "stop_ignored",
                f"The answer contains the stop {inside.stop!r}.",
                "the text before the stop",
                capture.text,
                is_certain=True,
            )
        )
    if isinstance(capture.matched, str) and capture.matched not in case.stops:
        judgements.append(_wrong_sequence("one of the stops", capture.matched, is_certain=True))
    return judgements


def _text(case: StopCase, run: Exchange) -> Judgement | None:
    got, expected, full = run.capture.text, case.text, case.baseline.text
    # Text of white space alone may be left out: some APIs allow none.
    if got == expected or not (got.strip() or expected.strip()):
        return None
    is_named = run.capture.matched == case.matched
    if got == expected + (case.matched or "") and (is_named or _has_fewer_tokens(case, run)):
        # At the very end, only the named stop or the tokens tell whether it was shown or ignored.
        sentence = f"The answer ends with the stop {case.matched!r}."
        return Judgement("stop_included", sentence, expected, got, full, is_certain=True)
    tail = got.removeprefix(expected)
    if any(found.code == "text_retracted" for found in run.capture.findings) and tail != got:
        sentence = f"The stream shows {tail!r}, the beginning of the stop, and takes it back."
        return Judgement("text_retracted", sentence, expected, got, full, is_certain=True)
    if (spilled := thinking_in_text(case.baseline.thinking, expected, run)) is not None:
        return spilled
    code, sentence = _difference(case, got, expected, full, run.capture.matched)
    is_certain = first_occurrence(got, case.stops) is not None or code in _STRUCTURAL
    return Judgement(code, sentence, expected, got, full, is_certain)


# No model answers so by chance: the text is the right one, but for what stops do to a text.
_STRUCTURAL = ("prefix_leaked", "half_character", "stop_cut_out")


def thinking_in_text(thinking: str, expected: str, run: Exchange) -> Judgement | None:
    """Return that the end of the thinking is in the text before what is expected there."""
    got = run.capture.text
    head = got[: len(got) - len(expected)] if got.endswith(expected) else ""
    parted = "".join((run.capture.thinking + head).split())
    if not head.strip() or parted != "".join(thinking.split()):
        return None
    said = f"The text begins with a part of the thinking: {head!r}."
    return Judgement("thinking_in_text", said, expected, got, is_certain=True)


def _has_fewer_tokens(case: StopCase, run: Exchange) -> bool:
    full_tokens = case.baseline.tokens_in(is_streamed=run.is_streamed)
    tokens = run.capture.usage.output_tokens if run.capture.usage is not None else None
    return tokens is not None and full_tokens is not None and tokens < full_tokens


def _difference(
    case: StopCase, got: str, expected: str, full: str, named: object
) -> tuple[str, str]:
    stop = case.matched
    if stop is None:
        if expected.startswith(got):
            lost = expected[len(got) :]
            is_held = any(known.startswith(lost) for known in case.stops)
            code = "held_text_lost" if is_held else "text_lost"
            return code, f"{_count(expected, got)} missing from the answer."
        return "text_differs", "No stop could fire, but the text differs."
    if got != expected and got.rstrip("\ufffd") == expected.rstrip("\ufffd"):
        return "half_character", f"Before the stop {stop!r} half a character is left as U+FFFD."
    if got == full and case.end == len(full):
        return "stop_ignored", f"The answer ends with the stop {stop!r}: ignored, or shown."
    if got == full:
        return "stop_ignored", f"The stop {stop!r} was ignored."
    cut_out = "stop_cut_out", f"The stop {stop!r} was cut out, but the text continues after it."
    if got in _without(full, case.stops):
        return cut_out
    if got != expected and got == expected.rstrip():
        return "space_trimmed", "The white space before the stop is missing."
    tail = got[len(expected) :] if got.startswith(expected) else None
    if tail == stop:
        return "stop_included", f"The answer ends with the stop {stop!r}."
    if tail is not None and tail.startswith(stop):
        return "text_after_stop", "The answer contains the stop and text after it."
    is_leaked = bool(tail) and any(known.startswith(tail or "") for known in case.stops)
    for other in case.stops if named != stop or not is_leaked else ():
        at = full.find(other)
        if at >= 0 and other != stop and got == full[:at]:
            why = f": {case.why}."
            if named != other and tail and stop.startswith(tail):
                why = f", or the beginning of {stop!r} was shown."
            return "another_stop_won", f"{other!r} fired instead of {stop!r}{why}"
    if is_leaked:
        return "prefix_leaked", f"The answer ends with {tail!r}, the beginning of a stop."
    if tail and full[case.end :].startswith(tail):
        return cut_out
    if expected.startswith(got):
        return "text_lost", f"{_count(expected, got)} missing before the stop."
    if first_occurrence(got, (stop,)) is not None:
        return "stop_ignored", f"The stop {stop!r} was ignored: the answer contains it."
    if tail:
        return "text_differs", "The answer goes on with other text where the stop ends it."
    return "text_differs", "The text before the stop differs from the answer without it."


def stream_differs(whole: str, streamed: str, noun: str = "The streamed answer") -> Judgement:
    """Return that a stream always has another text than the whole answer, and where."""
    said = f"{noun} differs from the whole one, each time."
    begin, shorter = 0, min(len(whole), len(streamed))
    while begin < shorter and whole[begin] == streamed[begin]:
        begin += 1
    end = 0
    while end < shorter - begin and whole[-1 - end] == streamed[-1 - end]:
        end += 1
    lost, added = whole[begin : len(whole) - end], streamed[begin : len(streamed) - end]
    place = "at its beginning" if not begin else f"after {whole[:begin][-12:]!r}"
    if not (whole.strip() and streamed.strip()):
        empty, other = ("streamed", "whole") if whole.strip() else ("whole", "streamed")
        said = f"The {empty} answer is empty: it has no text, which the {other} one has, each time."
    elif added[:1] == "\ufffd" and lost:
        said = f"{said[:-1]}: U+FFFD stands in it for the character {lost[0]!r}."
    elif not added and len(lost) <= _SHOWN_CHARS:
        said = f"{said[:-1]}: {lost!r} is missing {place}."
    elif not lost and len(added) <= _SHOWN_CHARS:
        said = f"{said[:-1]}: {added!r} is added {place}."
    return Judgement("stream_differs", said, whole, streamed, whole)


def _count(expected: str, got: str) -> str:
    lost = len(expected) - len(got)
    return "1 character is" if lost == 1 else f"{lost} characters are"


def _without(text: str, stops: Sequence[str]) -> tuple[str, ...]:
    """Return the text with its stops cut out: everywhere, and the first one only."""
    once = first_occurrence(text, stops)
    everywhere = text
    occurrence = once
    kept = ""
    while occurrence is not None:
        kept += everywhere[: occurrence.start]
        everywhere = everywhere[occurrence.end :]
        occurrence = first_occurrence(everywhere, stops)
    first = text if once is None else text[: once.start] + text[once.end :]
    return (kept + everywhere, first)


def _reason(case: StopCase, run: Exchange, driver: Driver) -> Judgement | None:
    ending, reason = run.capture.ending, run.capture.reason
    wanted = CapturedEnding.STOP if case.matched is not None else case.baseline.ending
    words = driver.words.get(wanted, str(wanted)) if wanted is not None else "a reason"
    if ending is None:
        return Judgement("reason_missing", "The answer gives no reason for its end.", words, "none")
    if case.matched is None:
        if ending is wanted or {ending, wanted} <= {
            CapturedEnding.NATURAL,
            CapturedEnding.NATURAL_OR_STOP,
        }:
            return None
        return Judgement(
            "wrong_reason", "No stop fired, but the reason has changed.", words, str(reason)
        )
    if ending in _STOPPED:
        return None
    return Judgement(
        "wrong_reason", "A stop fired, but the reason says otherwise.", words, str(reason)
    )


def _matched(case: StopCase, run: Exchange, driver: Driver) -> Judgement | None:
    capture = run.capture
    if case.matched is not None and capture.ending not in _STOPPED:
        return None  # the wrong or missing reason is the fault; the named stop follows from it
    if case.matched is None:
        if isinstance(capture.matched, str):
            return _wrong_sequence("no stop named", capture.matched)
        return None
    if not (driver.names_stop or capture.reports_match) or capture.matched == case.matched:
        return None
    if capture.matched is None:
        return Judgement(
            "sequence_null", "The answer does not name the stop that fired.", case.matched, "null"
        )
    return _wrong_sequence(case.matched, capture.matched)


def _wrong_sequence(expected: str, got: object, *, is_certain: bool = False) -> Judgement:
    sentence = "The answer names a stop that did not fire."
    return Judgement("wrong_sequence", sentence, expected, str(got), is_certain=is_certain)


def _cost(case: StopCase, run: Exchange) -> Judgement | None:
    """Judge by tokens whether generation ended with the text."""
    if not _is_cut_early(case):
        return None
    usage = run.capture.usage
    tokens = usage.output_tokens if usage is not None else None
    full_tokens = case.baseline.tokens_in(is_streamed=run.is_streamed)
    if tokens is not None and full_tokens is not None and tokens >= full_tokens >= _LEAST_TOKENS:
        return Judgement(
            STOP_ONLY_HIDDEN,
            "The text is cut, but as many tokens were generated as without the stop.",
            f"fewer than {full_tokens} tokens",
            f"{tokens} tokens",
        )
    return None


def took_as_long(case: StopCase, run: Exchange) -> list[Judgement]:
    """Judge by time whether generation ended with the text.

    The answer without stops has to be of the same minute: a machine that others use becomes slower
    and faster.
    """
    full = case.baseline
    if not _is_cut_early(case) or _tokens_are_few(case, run):
        return []
    # A queue before the first token says nothing about the generation.
    full_s, own_s = full.total_s - full.wait_s, run.total_s - full.wait_s
    if full_s < _LEAST_S or own_s < full_s * 0.9:
        return []
    return [
        Judgement(
            STOP_ONLY_HIDDEN,
            "The text is cut, but the answer took as long as without the stop.",
            f"much less than {full.total_s:.1f} s",
            f"{run.total_s:.1f} s",
        )
    ]


def _is_cut_early(case: StopCase) -> bool:
    return case.matched is not None and case.end <= len(case.baseline.text) * (1 - _LEAST_CUT)


def _tokens_are_few(case: StopCase, run: Exchange) -> bool:
    """Whether more tokens are counted than the text has, yet fewer than without the stop.

    Who counts the tokens of the stop, which nobody sees, and no more, has generated no more.
    """
    full, usage = case.baseline, run.capture.usage
    tokens = usage.output_tokens if usage is not None else None
    full_tokens = full.tokens_in(is_streamed=run.is_streamed)
    if tokens is None or full_tokens is None:
        return False
    seen_tokens = full_tokens * len(case.text) / len(full.text)
    return tokens > max(1.2 * seen_tokens, seen_tokens + 4)


# Arranges failures: a failure of the same kind as one before it is shown under that one.

# A stop that affects later requests cuts all their answers.
_HIDING = ("stop_sticks",)
# Cases that are not judged by the text of one answer.
_UNHIDDEN = ("errors.", "form.", "stream.", "hang_up.", "server.")
_BINDING = tuple(Level)


def cause_of(result: CheckResult, earlier: Iterable[CheckResult]) -> str:
    """Return the id of the first check that failed in the same way; empty if none did.

    Checks are ordered from simple to special. A fault that a simple check shows in all modes needs
    no second place in a report, unless it is more binding there.
    """
    if result.outcome is not CheckOutcome.FAILED:
        return ""
    ways = _ways(result)
    for other in earlier:
        if _hides(other) and not result.code.startswith(_UNHIDDEN):
            return other.code
        if other.cause or _BINDING.index(other.level) > _BINDING.index(result.level):
            continue
        if other.outcome is CheckOutcome.FAILED and ways <= _ways(other):
            return other.code
    return ""


def _hides(result: CheckResult) -> bool:
    """Return whether a fault makes later answers useless as evidence."""
    return not result.cause and any(fault.code in _HIDING for fault in result.faults)


def _ways(result: CheckResult) -> set[tuple[str, str]]:
    return {(fault.code, fault.mode) for fault in result.faults}
