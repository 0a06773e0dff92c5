from hypothesis import given
from hypothesis import strategies as st

from engine.wording import quoted


@given(st.text(max_size=12), st.text(max_size=12))
def test_two_different_texts_are_never_quoted_alike(one: str, other: str) -> None:
    assert (quoted(one) == quoted(other)) == (one == other)


@given(st.text())
def test_quoted_text_is_one_line_without_unseen_characters(text: str) -> None:
    assert quoted(text).isprintable()
