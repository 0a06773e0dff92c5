"""What the window says of ends, guesses, texts and days."""

import re
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QLocale

from engine import AnswerContext, acceptance, escaped, figures, quoted, visible
from engine.stopping.record import Channel, StopInfo, StopKind
from engine.values.events import Finished, Speculation, Timing, Usage
from engine.values.verdict import position, verdict_text
from ui.inspector.shown_run import start_time_text
from ui.kit import icons
from ui.kit.dates import format_day, format_time
from ui.records.runs import Run
from ui.server.request_log import RequestColumn, cell
from ui.server.requests import RequestEntry
from ui.words import (
    Tone,
    draft_summary,
    needs_escapes,
    unescaped,
    verdict,
    with_control_pictures,
    word_differences,
)

USAGE = Usage(prompt_tokens=30, cached_tokens=12, output_tokens=143)
TIMING = Timing(first_token_s=0.38, decode_s=142 / 41, total_s=4)

OWN = AnswerContext(is_own=True)


def finished(stop: StopInfo, error: str | None = None) -> Finished:
    return Finished(stop, USAGE, TIMING, error)


STOPS = {
    StopKind.EOS: StopInfo(StopKind.EOS, token_id=2, token_text="<|im_end|>", token_index=142),
    StopKind.STOP_STRING: StopInfo(
        StopKind.STOP_STRING, value="\n\nUser:", text_offset=611, token_index=142
    ),
    StopKind.STOP_TOKEN: StopInfo(StopKind.STOP_TOKEN, value=21, token_text=" x", token_index=142),
    StopKind.MAX_TOKENS: StopInfo(StopKind.MAX_TOKENS),
    StopKind.CONTEXT_FULL: StopInfo(StopKind.CONTEXT_FULL),
    StopKind.MEMORY_FULL: StopInfo(StopKind.MEMORY_FULL),
    StopKind.TOOL_CALL: StopInfo(StopKind.TOOL_CALL, channel=Channel.TOOL),
    StopKind.CANCELLED: StopInfo(StopKind.CANCELLED),
    StopKind.ERROR: StopInfo(StopKind.ERROR),
}
SENTENCES = {
    StopKind.EOS: "The model finished its answer by itself.",
    StopKind.STOP_STRING: "Your stop sequence “⏎⏎User:” ended this answer.",
    StopKind.STOP_TOKEN: "The stop token 21 (“·x”) ended this answer.",
    StopKind.MAX_TOKENS: "The answer reached its limit of 143 tokens.",
    StopKind.CONTEXT_FULL: "The conversation fills the model’s context.",
    StopKind.MEMORY_FULL: "There is no memory for more of this answer.",
    StopKind.TOOL_CALL: "The model called a tool and waits for its result.",
    StopKind.CANCELLED: "You stopped this answer.",
    StopKind.ERROR: "This answer failed.",
}


@pytest.mark.parametrize("kind", StopKind)
def test_every_kind_has_one_plain_sentence(kind: StopKind) -> None:
    assert verdict(finished(STOPS[kind]), OWN).text.sentence == SENTENCES[kind]


@pytest.mark.parametrize("kind", StopKind)
def test_every_kind_has_an_icon_that_exists(kind: StopKind) -> None:
    assert verdict(finished(STOPS[kind]), OWN).icon in icons.names()


def test_kinds_differ_in_words_and_not_only_in_color() -> None:
    words = [verdict(finished(stop), OWN).text.label for stop in STOPS.values()]
    assert len(set(words)) == len(words)


def test_the_line_under_an_answer_reads_as_designed() -> None:
    end = finished(STOPS[StopKind.STOP_STRING])
    line = " · ".join((*figures(end), verdict_text(end).label))
    assert line == "41 tok/s · 0.38 s to first token · 143 tokens · Stopped by “⏎⏎User:”"


def test_the_detail_of_a_match_says_where_and_on_which_token() -> None:
    detail = verdict(finished(STOPS[StopKind.STOP_STRING]), AnswerContext(512)).text.detail
    expected = (
        "It began after 611 characters of the answer and was complete with token 143 of at most "
        "512."
    )
    assert detail == expected


def test_a_failure_names_its_cause() -> None:
    said = verdict(finished(STOPS[StopKind.ERROR], error="out of memory"), OWN)
    assert (said.text.detail, said.tone) == ("Out of memory.", Tone.FAULT)


def test_the_limit_of_the_request_is_named() -> None:
    assert (
        verdict(finished(STOPS[StopKind.MAX_TOKENS]), AnswerContext(5)).text.label
        == "Cut off at 5 tokens"
    )


def test_an_answer_without_a_token_says_so() -> None:
    end = Finished(StopInfo(StopKind.CANCELLED), Usage(), Timing())
    assert position(end, AnswerContext(12)) == "before the first token"


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
            cell(entry, RequestColumn.TIME),
            start_time_text(Run(started_at=moment)),
        )
    finally:
        QLocale.setDefault(before)
    plain = tuple(words.replace("\u202f", " ") for words in shown)
    assert plain == (day, time, exact, f"{day} {time}")


def parts(text: str, spans: list[tuple[int, int]]) -> list[str]:
    return [text[begin:end] for begin, end in spans]


@pytest.mark.parametrize(
    ("left", "right", "mine", "others"),
    [
        ("the same words", "the same words", [], []),
        ("a cat sat", "a dog sat", ["cat"], ["dog"]),
        ("1\n2\n3", "1\n2", ["3"], []),
        ("", "new", [], ["new"]),
        ("one two three four", "one 2 three 4", ["two", "four"], ["2", "4"]),
        ("Größe 😀 ja", "Größe 😀 nein", ["ja"], ["nein"]),
        ("a  b", "a b", [], []),
    ],
)
def test_the_words_that_only_one_text_has_are_found(
    left: str, right: str, mine: list[str], others: list[str]
) -> None:
    found, found_others = word_differences(left, right)
    assert parts(left, found) == mine
    assert parts(right, found_others) == others


def test_very_long_differences_are_marked_as_a_whole() -> None:
    left = "same " + " ".join(f"a{n}" for n in range(5000)) + " end"
    right = "same " + " ".join(f"b{n}" for n in range(5000)) + " end"
    found, _ = word_differences(left, right)
    assert parts(left, found) == [left.removeprefix("same ").removesuffix(" end")]


def test_an_answer_without_guesses_says_so() -> None:
    assert draft_summary(Speculation(), 40) == (
        "No tokens were guessed: each of them took a pass of its own."
    )


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            Speculation(passes=1, guessed=3, accepted=0),
            "Guesses were checked in 1 pass: the model confirmed 0 of 3 (0%).",
        ),
        (
            Speculation(passes=3, guessed=12, accepted=9),
            "Guesses were checked in 3 passes: the model confirmed 9 of 12 (75%). "
            "9 of 40 tokens took no pass of their own.",
        ),
        (
            Speculation(
                passes=9,
                guessed=40,
                accepted=33,
                lookup_accepted=12,
                draft_accepted=1,
                head_accepted=20,
            ),
            "Guesses were checked in 9 passes: the model confirmed 33 of 40 (82%). "
            "They came from repetition (12), the draft model (1) and the model’s own draft head "
            "(20). 33 of 40 tokens took no pass of their own.",
        ),
        (
            Speculation(passes=1, forced=1),
            "1 token was forced, because the schema or the call allowed no other. "
            "1 of 40 tokens took no pass of their own.",
        ),
        (
            Speculation(
                passes=2, guessed=5, accepted=3, prediction_accepted=3, prediction_rejected=2
            ),
            "Guesses were checked in 2 passes: the model confirmed 3 of 5 (60%). "
            "They came from the prediction (3). "
            "Of 5 tokens of the request’s prediction, 3 were confirmed. "
            "3 of 40 tokens took no pass of their own.",
        ),
    ],
)
def test_guesses_are_told_in_words_and_figures(found: Speculation, words: str) -> None:
    assert draft_summary(found, 40) == words


def test_acceptance_is_empty_where_nothing_was_guessed() -> None:
    assert acceptance(Speculation(passes=1, forced=4)) == ""
    assert (
        acceptance(Speculation(passes=400, guessed=1200, accepted=1100)) == "1,100 of 1,200 (92%)"
    )


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
