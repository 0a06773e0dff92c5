"""Judges answers by the answer to the same prompt without stops: the test oracle of the probe.

Pure; any thread.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace

from api.conformance.captures.values import CapturedEnding, first_occurrence
from api.conformance.probe.catalogue import Level
from api.conformance.probe.dialects import Driver
from api.conformance.probe.plan import StopCase
from api.conformance.probe.values import CheckOutcome, CheckResult, Exchange, Fault

STOP_ONLY_HIDDEN = "stop_only_hidden"
NATURAL_ENDINGS = (CapturedEnding.NATURAL, CapturedEnding.NATURAL_OR_STOP)
_ANSWER = "an answer"
_STOPPED = (CapturedEnding.STOP, CapturedEnding.NATURAL_OR_STOP)
# No model answers so by chance: the text is right but for the effect of a stop.
_STRUCTURAL = ("prefix_leaked", "half_character", "stop_cut_out")
# Not judged by the text of one answer.
_INDEPENDENT = ("errors.", "form.", "stream.", "hang_up.", "server.")
_LEVELS = tuple(Level)


def judge(case: StopCase, exchange: Exchange, driver: Driver) -> list[Fault]:
    """Return the faults of an answer; [] if it is correct."""
    broken = no_answer(exchange)
    if broken is not None:
        return [broken]
    text_fault = _judge_text(case, exchange)
    if text_fault is not None and text_fault.code in ("stop_ignored", "stop_cut_out"):
        # A wrong reason or cost would only follow from this fault.
        return [text_fault]
    reasons = (_judge_reason(case, exchange, driver), _judge_matched(case, exchange, driver))
    if text_fault is not None:
        return [fault for fault in (text_fault, *reasons) if fault is not None]
    # A model that varies may end by itself right there; no luck explains another reason or stop.
    is_own_end = exchange.capture.ending in NATURAL_ENDINGS
    certain = [
        replace(one, is_certain=not is_own_end or one.code == "wrong_sequence")
        for one in reasons
        if one is not None
    ]
    cost = _judge_cost(case, exchange)
    return certain if cost is None else [*certain, cost]


def no_answer(exchange: Exchange) -> Fault | None:
    """Return the fault of a request without an answer."""
    if exchange.problem:
        return Fault(
            "no_answer", f"There was no answer: {exchange.problem}.", _ANSWER, exchange.problem
        )
    if exchange.status >= 500:
        sentence = f"The server failed with status {exchange.status}."
        return Fault("server_error", sentence, _ANSWER, exchange.text[:200])
    if exchange.status != 200:
        sentence = f"The request was refused with status {exchange.status}."
        return Fault("refused", sentence, _ANSWER, exchange.text[:200])
    if exchange.capture.error is not None:
        sentence = "The answer broke off with an error."
        return Fault("server_error", sentence, _ANSWER, exchange.capture.error[:200])
    if exchange.is_streamed and _is_error_alone(exchange):
        sentence = "The request was refused by an event of its stream, but with status 200."
        shown = exchange.capture.events[0].raw[:200]
        return Fault("error_as_answer", sentence, "the status of an error", shown)
    return None


def _is_error_alone(exchange: Exchange) -> bool:
    events = exchange.capture.events
    try:
        value = json.loads(events[0].raw) if len(events) == 1 else None
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and list(value) == ["error"]


def invariants(case: StopCase, exchange: Exchange) -> list[Fault]:
    """Return the faults of an answer that do not depend on its expected text."""
    broken = no_answer(exchange)
    if broken is not None:
        return [broken]
    capture, faults = exchange.capture, []
    inside = first_occurrence(capture.text, case.stops)
    if inside is not None:
        sentence = f"The answer contains the stop {inside[1]!r}."
        expected = "the text before the stop"
        faults.append(Fault("stop_ignored", sentence, expected, capture.text, is_certain=True))
    if isinstance(capture.matched, str) and capture.matched not in case.stops:
        wrong = _wrong_sequence("one of the stops", capture.matched)
        faults.append(replace(wrong, is_certain=True))
    return faults


def _judge_text(case: StopCase, exchange: Exchange) -> Fault | None:
    got, expected, full = exchange.capture.text, case.text, case.baseline.text
    # Text of white space alone may be left out: some APIs allow none.
    if got == expected or not (got.strip() or expected.strip()):
        return None
    is_named = exchange.capture.matched == case.matched
    if got == expected + (case.matched or "") and (is_named or _has_fewer_tokens(case, exchange)):
        # At the very end, only the named stop or the tokens show whether it was shown or ignored.
        sentence = f"The answer ends with the stop {case.matched!r}."
        return Fault("stop_included", sentence, expected, got, full, is_certain=True)
    tail = got.removeprefix(expected)
    if any(found.code == "text_retracted" for found in exchange.capture.findings) and tail != got:
        sentence = f"The stream shows {tail!r}, the beginning of the stop, and takes it back."
        return Fault("text_retracted", sentence, expected, got, full, is_certain=True)
    if (spilled := thinking_in_text(case.baseline.thinking, expected, exchange)) is not None:
        return spilled
    code, sentence = _difference(case, got, expected, full, exchange.capture.matched)
    is_certain = first_occurrence(got, case.stops) is not None or code in _STRUCTURAL
    return Fault(code, sentence, expected, got, full, is_certain)


def thinking_in_text(thinking: str, expected: str, exchange: Exchange) -> Fault | None:
    """Return the fault of a text that begins with the end of the thinking."""
    got = exchange.capture.text
    head = got[: len(got) - len(expected)] if got.endswith(expected) else ""
    parted = "".join((exchange.capture.thinking + head).split())
    if not head.strip() or parted != "".join(thinking.split()):
        return None
    sentence = f"The text begins with a part of the thinking: {head!r}."
    return Fault("thinking_in_text", sentence, expected, got, is_certain=True)


def _has_fewer_tokens(case: StopCase, exchange: Exchange) -> bool:
    full, tokens = (
        case.baseline.tokens_in(is_streamed=exchange.is_streamed),
        exchange.capture.output_tokens,
    )
    return tokens is not None and full is not None and tokens < full


def _difference(
    case: StopCase, got: str, expected: str, full: str, named: object
) -> tuple[str, str]:
    stop = case.matched
    if stop is None:
        if expected.startswith(got):
            lost = expected[len(got) :]
            is_held = any(known.startswith(lost) for known in case.stops)
            code = "held_text_lost" if is_held else "text_lost"
            return code, f"{_count(lost)} missing from the answer."
        return "text_differs", "No stop could fire, but the text differs."
    if got.rstrip("\ufffd") == expected.rstrip("\ufffd"):
        return "half_character", f"Before the stop {stop!r} half a character is left as U+FFFD."
    if got == full and case.end == len(full):
        return "stop_ignored", f"The answer ends with the stop {stop!r}: ignored, or shown."
    if got == full:
        return "stop_ignored", f"The stop {stop!r} was ignored."
    cut_out = "stop_cut_out", f"The stop {stop!r} was cut out, but the text continues after it."
    if got in _without_stops(full, case.stops):
        return cut_out
    if got == expected.rstrip():
        return "space_trimmed", "The white space before the stop is missing."
    tail = got[len(expected) :] if got.startswith(expected) else ""
    if tail == stop:
        return "stop_included", f"The answer ends with the stop {stop!r}."
    if tail.startswith(stop):
        return "text_after_stop", "The answer contains the stop and text after it."
    is_leaked = bool(tail) and any(known.startswith(tail) for known in case.stops)
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
        return "text_lost", f"{_count(expected[len(got) :])} missing before the stop."
    if stop in got:
        return "stop_ignored", f"The stop {stop!r} was ignored: the answer contains it."
    if tail:
        return "text_differs", "The answer goes on with other text where the stop ends it."
    return "text_differs", "The text before the stop differs from the answer without it."


def _count(lost: str) -> str:
    return "1 character is" if len(lost) == 1 else f"{len(lost)} characters are"


def _without_stops(text: str, stops: Sequence[str]) -> tuple[str, str]:
    """Return the text with its stops cut out: everywhere, and the first one only."""
    kept, tail, once = "", text, ""
    while (found := first_occurrence(tail, stops)) is not None:
        start, stop = found
        kept += tail[:start]
        tail = tail[start + len(stop) :]
        once = once or kept + tail
    return kept + tail, once


def stream_differs(whole: str, streamed: str) -> Fault:
    """Return the fault of a stream that always has another text than the whole answer."""
    sentence = "The streamed answer differs from the whole one, each time."
    begin, shorter = 0, min(len(whole), len(streamed))
    while begin < shorter and whole[begin] == streamed[begin]:
        begin += 1
    end = 0
    while end < shorter - begin and whole[-1 - end] == streamed[-1 - end]:
        end += 1
    lost, added = whole[begin : len(whole) - end], streamed[begin : len(streamed) - end]
    where = "at its beginning" if not begin else f"after {whole[:begin][-12:]!r}"
    if not (whole.strip() and streamed.strip()):
        empty, other = ("streamed", "whole") if whole.strip() else ("whole", "streamed")
        sentence = f"The {empty} answer is empty: it has no text, which the {other} one has, "
        sentence += "each time."
    elif added[:1] == "\ufffd" and lost:
        sentence = f"{sentence[:-1]}: U+FFFD stands in it for the character {lost[0]!r}."
    elif not added and len(lost) <= 60:
        sentence = f"{sentence[:-1]}: {lost!r} is missing {where}."
    elif not lost and len(added) <= 60:
        sentence = f"{sentence[:-1]}: {added!r} is added {where}."
    return Fault("stream_differs", sentence, whole, streamed, whole)


def _judge_reason(case: StopCase, exchange: Exchange, driver: Driver) -> Fault | None:
    ending, reason = exchange.capture.ending, str(exchange.capture.reason)
    due = CapturedEnding.STOP if case.matched is not None else case.baseline.ending
    name = driver.reason_names.get(due, str(due)) if due is not None else "a reason"
    if ending is None:
        return Fault("reason_missing", "The answer gives no reason for its end.", name, "none")
    if case.matched is None:
        if ending is due or (ending in NATURAL_ENDINGS and due in NATURAL_ENDINGS):
            return None
        return Fault("wrong_reason", "No stop fired, but the reason has changed.", name, reason)
    if ending in _STOPPED:
        return None
    return Fault("wrong_reason", "A stop fired, but the reason says otherwise.", name, reason)


def _judge_matched(case: StopCase, exchange: Exchange, driver: Driver) -> Fault | None:
    capture = exchange.capture
    if case.matched is None:
        is_named = isinstance(capture.matched, str)
        return _wrong_sequence("no stop named", capture.matched) if is_named else None
    # A wrong or missing reason is the fault; the named stop follows from it.
    if capture.ending not in _STOPPED or capture.matched == case.matched:
        return None
    if not (driver.names_stop or capture.reports_match):
        return None
    if capture.matched is None:
        sentence = "The answer does not name the stop that fired."
        return Fault("sequence_null", sentence, case.matched, "null")
    return _wrong_sequence(case.matched, capture.matched)


def _wrong_sequence(expected: str, got: object) -> Fault:
    sentence = "The answer names a stop that did not fire."
    return Fault("wrong_sequence", sentence, expected, str(got))


def _judge_cost(case: StopCase, exchange: Exchange) -> Fault | None:
    """Judge by tokens whether generation ended with the text."""
    full, tokens = (
        case.baseline.tokens_in(is_streamed=exchange.is_streamed),
        exchange.capture.output_tokens,
    )
    # A stop's cost shows only if enough of the answer comes after it.
    is_late = case.matched is None or case.end > len(case.baseline.text) * 0.65
    if is_late or tokens is None or full is None or not tokens >= full >= 8:
        return None
    sentence = "The text is cut, but as many tokens were generated as without the stop."
    return Fault(STOP_ONLY_HIDDEN, sentence, f"fewer than {full} tokens", f"{tokens} tokens")


def cause_of(result: CheckResult, earlier: Iterable[CheckResult]) -> str:
    """Return the id of the first check that failed in the same way; empty if none did.

    Checks are ordered from simple to special. A fault that a simple check shows in all modes needs
    no second section in a report, unless it is more binding there.
    """
    if result.outcome is not CheckOutcome.FAILED:
        return ""
    kinds = {(fault.code, fault.mode) for fault in result.faults}
    for other in earlier:
        other_kinds = {(fault.code, fault.mode) for fault in other.faults}
        # A stop that affects later requests cuts all their answers.
        is_sticky = any(code == "stop_sticks" for code, _ in other_kinds) and not other.cause
        if is_sticky and not result.check_id.startswith(_INDEPENDENT):
            return other.check_id
        is_more_binding = _LEVELS.index(other.level) > _LEVELS.index(result.level)
        if other.cause or is_more_binding or other.outcome is not CheckOutcome.FAILED:
            continue
        if kinds <= other_kinds:
            return other.check_id
    return ""
