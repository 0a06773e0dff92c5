import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import escaped, quoted, visible
from ui.words import needs_escapes, unescaped, with_control_pictures


@given(st.text())
def test_escaping_and_unescaping_give_back_every_text(text: str) -> None:
    assert unescaped(escaped(text)) == text


@given(st.text())
def test_escaped_text_is_one_printable_line(text: str) -> None:
    assert escaped(text).isprintable()


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a b", "a·b"), ("\tx", "⇥x"), ("\n\nUser:", "⏎⏎User:"), ("\x1b", "␛"), ("", "")],
)
def test_white_space_and_control_characters_are_shown_as_signs(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_control_pictures_leave_line_feed_and_tab() -> None:
    assert with_control_pictures("a\n\tb\x00\x7f") == "a\n\tb␀␡"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (r"\n\nUser:", "\n\nUser:"),
        (r"\t", "\t"),
        (r"\\n", "\\n"),
        (r"\x41B\U0001F600", "AB😀"),
        (r"\"", '"'),
        ("6", "6"),
    ],
)
def test_escapes_mean_what_programmers_expect(typed: str, meant: str) -> None:
    assert unescaped(typed) == meant


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("\\", "ends with a single"),
        (r"\q", r"\q is not an escape sequence; write \\q"),
        (r"\x4", "2 hexadecimal digits"),
        (r"\ud800", "is not a character"),
        (r"\U00110000", "is not a character"),
    ],
)
def test_wrong_escapes_are_refused_with_the_remedy(typed: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        unescaped(typed)


def test_quoting_shortens_long_text() -> None:
    assert quoted("a" * 100, max_chars=10) == "“aaaaaaaaaa…”"


def test_a_line_cannot_show_a_line_break() -> None:
    assert needs_escapes("a\n")
    assert not needs_escapes("a \\n")
