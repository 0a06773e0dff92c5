"""The differing parts of two texts."""

import pytest

from ui.differences import differences, without_spaces


@pytest.mark.parametrize(
    ("first", "second", "parts"),
    [
        ("a b\n", "a c\n", [("b", "c")]),
        ("a\n", "a\nb\n", [("", "b\n")]),
        ("<|end|>\nx", "<|eot|>\nx", [("<|end|>", "<|eot|>")]),
        ("same", "same", []),
        ("one two three four", "one 2 three 4", [("two", "2"), ("four", "4")]),
    ],
)
def test_differences_are_whole_words_and_special_tokens(
    first: str, second: str, parts: list[tuple[str, str]]
) -> None:
    pairs = differences(first, second)
    assert [(first[slice(*one)], second[slice(*other)]) for one, other in pairs] == parts


def test_differences_in_a_long_conversation_are_found_quickly() -> None:
    turns = (f"<|im_start|>user\nQuestion {n}\n" + "\nword\n" * 10 for n in range(400))
    first = "".join(turns)
    assert len(list(differences(first, first.replace("<|im_start|>", "[INST]")))) == 400


def test_white_space_alone_is_no_difference_of_words() -> None:
    assert without_spaces("a  b \nc", [(1, 3), (3, 7)]) == [(3, 7)]
    assert without_spaces("one, two", [(3, 8), (8, 8)]) == [(3, 8)]
