"""How much memory a text takes is known before it is decoded."""

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.files import json_items
from engine.files.json_items import text_memory

# Characters of every width.
TEXTS = st.text(
    st.sampled_from(["a", "é", "ÿ", "Ā", "—", "中", "\uffff", "👋", "\U0010ffff", "\n"])
)


def taken(text: str) -> int:
    """Return the memory that the characters of a text take."""
    # Not of the text itself: one character is an object that others share and may have encoded.
    return sys.getsizeof(text * 3) - sys.getsizeof(text * 2)


@given(TEXTS)
def test_the_memory_of_a_text_is_that_of_its_characters(text: str) -> None:
    assert text_memory(text.encode()).size_bytes == taken(text)


@given(st.binary().filter(lambda raw: b"\\u" not in raw))
def test_bytes_that_are_not_utf_8_count_as_their_replacement(raw: bytes) -> None:
    assert text_memory(raw).size_bytes == taken(raw.decode("utf-8", "replace"))


def test_characters_are_counted_across_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_items, "_PIECE_BYTES", 3)
    text = "aé—👋" * 20 + "中"
    assert text_memory(text.encode()).size_bytes == taken(text)


@given(TEXTS)
def test_escapes_in_json_are_never_underestimated(text: str) -> None:
    assert text_memory(json.dumps(text).encode()).size_bytes >= taken(text)


def test_too_much_memory_is_explained_in_words() -> None:
    assert text_memory(b"a" * 100).excess(100) is None
    why = text_memory("👋".encode() + b"a" * 99).excess(100)
    assert why is not None
    assert "it has 100 characters" in why
    assert "each takes 4 bytes" in why
    assert "at most 25 such characters" in why
