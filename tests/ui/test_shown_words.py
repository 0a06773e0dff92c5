"""What the window says of ends, guesses, texts and days."""

import re
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QLocale

from engine.wording import escaped, visible
from ui.inspector.shown_run import start_time_text
from ui.kit.dates import format_day, format_day_briefly, format_time
from ui.records.runs import Run
from ui.server.request_log import COLUMNS, RequestColumn
from ui.server.requests import RequestEntry
from ui.words import unescaped


@pytest.mark.parametrize(
    ("locale", "day", "time", "exact"),
    [
        ("de_DE", "04.11.23", "15:07", "15:07:09"),
        ("en_US", "11/4/23", "3:07 PM", "3:07:09 PM"),
        ("en_GB", "04/11/2023", "15:07", "15:07:09"),
    ],
)
def test_days_and_times_are_written_as_the_system_locale_says(
    locale: str, day: str, time: str, exact: str
) -> None:
    moment = datetime(2023, 11, 4, 15, 7, 9).timestamp()
    entry = RequestEntry("req_1", moment, "127.0.0.1", "", "POST", "/v1/messages")
    before = QLocale()
    QLocale.setDefault(QLocale(locale))
    try:
        shown = (
            format_day(moment),
            format_time(moment),
            COLUMNS[RequestColumn.TIME].text(entry),
            start_time_text(Run(started_at=moment)),
        )
    finally:
        QLocale.setDefault(before)
    plain = tuple(words.replace("\u202f", " ") for words in shown)
    assert plain == (day, time, exact, f"{day} {time}")


@pytest.mark.parametrize(("locale", "words"), [("en_GB", "4 Nov 2023"), ("en_US", "Nov 4, 2023")])
def test_brief_days_are_in_the_order_of_the_locale(locale: str, words: str) -> None:
    before = QLocale()
    QLocale.setDefault(QLocale(locale))
    try:
        assert format_day_briefly(datetime(2023, 11, 4).timestamp()) == words
        yesterday = datetime.now().replace(hour=12) - timedelta(days=1)
        assert format_day_briefly(yesterday.timestamp()) == "Yesterday"
    finally:
        QLocale.setDefault(before)


@given(st.text())
def test_escaping_and_unescaping_give_back_every_text(text: str) -> None:
    assert unescaped(escaped(text)) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a b", "a·b"), ("\tx", "⇥x"), ("\n\nUser:", "⏎⏎User:"), ("\x1b", "␛"), ("", "")],
)
def test_white_space_and_control_characters_are_shown_as_signs(text: str, shown: str) -> None:
    assert visible(text) == shown


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
