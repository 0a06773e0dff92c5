"""Questions with answers that are known to the character, and the check of an answer.

Pure; knows the demo model and the probe's drivers, no server.
"""

from dataclasses import dataclass

from api.conformance.captures.values import CapturedEnding, WireDialect
from api.conformance.probe.dialects import Ask
from api.conformance.probe.values import Exchange

STOPPED = frozenset({CapturedEnding.STOP, CapturedEnding.NATURAL_OR_STOP})
ENDED = frozenset({CapturedEnding.NATURAL, CapturedEnding.NATURAL_OR_STOP})
LIMITED = frozenset({CapturedEnding.LIMIT})
RAW = frozenset({WireDialect.GENERATE, WireDialect.COMPLETIONS})
"""Dialects that put no template around the prompt."""


@dataclass(frozen=True, slots=True)
class Case:
    """A question and its one right answer."""

    prompt: str
    text: str
    endings: frozenset[CapturedEnding]
    stops: tuple[str, ...] = ()
    matched: str | None = None
    max_tokens: int = 400


_ALPHABET = "Output the whole alphabet from A to Z, without spaces, then immediately output END"
_COUNT = "Count from 1 to 10, one number per line"

CASES = (
    Case(_ALPHABET, "ABCDEFGHIJKLMNOPQRSTUVWXYZ", STOPPED, ("END",), "END"),
    Case(_ALPHABET, "ABCDEFGHIJKL", STOPPED, ("XYZ", "MNO", "NOPQ"), "MNO"),
    Case("List letters A through F, separated by spaces.", "A B C D E F", ENDED, ("STOP",)),
    Case("Repeat exactly: A B C STOP D E F", "A B C ", STOPPED, ("STOP",), "STOP"),
    Case(
        "Repeat exactly: 1 2 3 hello world 4 5", "1 2 3 ", STOPPED, ("hello world",), "hello world"
    ),
    Case(_COUNT, "1\n2\n3\n4\n5\n", STOPPED, ("6",), "6"),
    Case(_COUNT, "1\n2\n", STOPPED, ("3\n4",), "3\n4"),
    Case(_COUNT, "1\n2\n3", LIMITED, max_tokens=5),
    Case(_COUNT, "1\n2\n3\n4\n5\n6\n7\n8\n9\n10", ENDED),
)


def ask_of(case: Case, dialect: WireDialect, raw_prompt: str, *, is_streamed: bool) -> Ask:
    """Return the request that asks a case in a dialect, thinking off."""
    return Ask(
        raw_prompt if dialect in RAW else case.prompt,
        case.stops,
        case.max_tokens,
        is_streamed,
        is_thinking=None if dialect in RAW else False,
    )


def fault(case: Case, exchange: Exchange) -> str | None:
    """Return the fault of an answer; None if it is correct to the character."""
    capture = exchange.capture
    if not exchange.is_answer:
        return f"no answer: status {exchange.status}, {exchange.problem or exchange.text[:300]!r}"
    if capture.text != case.text:
        return f"the text is {capture.text!r}, not {case.text!r}"
    if capture.ending not in case.endings:
        return f"the reason is {capture.reason!r}, for {case.prompt!r} with stops {case.stops}"
    if capture.says_matched and capture.matched != case.matched:
        return f"the stop named is {capture.matched!r}, not {case.matched!r}"
    if capture.usage is None or not capture.usage.output_tokens:
        return "the usage is missing"
    return None
