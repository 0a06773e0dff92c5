import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.wording import counted, figure, quoted, seconds


@pytest.mark.parametrize(
    ("value", "shown"), [(0.42, "0.42"), (4.21, "4.2"), (41.4, "41"), (1204, "1,204")]
)
def test_figures_have_only_the_digits_that_help(value: float, shown: str) -> None:
    assert figure(value) == shown


@pytest.mark.parametrize(
    ("duration_s", "shown"),
    [(0.008, "8 ms"), (0.38, "0.38 s"), (9.999, "10.0 s"), (12.44, "12.4 s"), (125, "2 min 5 s")],
)
def test_durations_are_readable(duration_s: float, shown: str) -> None:
    assert seconds(duration_s) == shown


def test_counts_have_their_nouns_form_and_separators() -> None:
    assert [counted(n, "token") for n in (0, 1, 2048)] == ["0 tokens", "1 token", "2,048 tokens"]


@given(st.text(max_size=12), st.text(max_size=12))
def test_two_different_texts_are_never_quoted_alike(one: str, other: str) -> None:
    assert (quoted(one) == quoted(other)) == (one == other)


@given(st.text())
def test_quoted_text_is_one_line_without_unseen_characters(text: str) -> None:
    assert quoted(text).isprintable()


def test_a_long_text_is_cut_where_asked() -> None:
    assert quoted("abcdef", max_chars=3) == "“abc…”"
