"""The places in which two texts differ."""

import pytest

from ui.words import differences


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
    found, found_others = differences(left, right)
    assert parts(left, found) == mine
    assert parts(right, found_others) == others


def test_very_long_differences_are_marked_as_a_whole() -> None:
    left = "same " + " ".join(f"a{n}" for n in range(5000)) + " end"
    right = "same " + " ".join(f"b{n}" for n in range(5000)) + " end"
    found, _ = differences(left, right)
    assert parts(left, found) == [left.removeprefix("same ").removesuffix(" end")]
