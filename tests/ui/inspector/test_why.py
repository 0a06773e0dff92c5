"""Why an answer ended, in steps."""

from tests.ui.inspector.conftest import Record
from tests.ui.inspector.reading import trace_of
from ui.inspector.inspector_window import why
from ui.inspector.tape import Tape


def test_why_a_stop_ended_the_answer_is_told_in_three_steps(record: Record) -> None:
    shown = record(["ab", "cE", "N", "D!"], "END")
    assert why(shown.run, Tape(trace_of(shown))) == [
        "“END” began after 3 characters of the answer, in token 2 “cE”.",
        "It was complete with token 4 “D!”.",
        "The answer keeps 3 characters; 4 characters cut off.",
    ]


def test_why_a_limit_ended_the_answer_says_what_was_released(record: Record) -> None:
    shown = record(["a", "E", "N"], "END", max_tokens=2)
    assert why(shown.run, Tape(trace_of(shown)))[0::2] == [
        "Its limit was 2 tokens.",
        "“E” was still held back, and was then released.",
    ]
