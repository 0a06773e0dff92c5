"""The next turn of a conversation begins where the last one ended, whatever else is kept."""

import pytest

from tests.engine.inference.batching.stepped import SYSTEM, Stepped

pytestmark = pytest.mark.usefixtures("few_tokens_are_worth_it")


def test_the_next_turn_begins_at_the_end_of_the_last_users_turn(stepped: Stepped) -> None:
    """The header of an answer is not always repeated by the next turn's prompt."""
    turn = len(SYSTEM)
    first = stepped.insert([*SYSTEM, 61, 62, 63], turn_end=turn)
    stepped.answer(first)
    stepped.leave(first)
    second = stepped.insert([*SYSTEM, 61, 5, 6, 7, 8])
    # A cache that can be cut anywhere also has the first token of the header.
    assert stepped.sequences[second].cached in (turn, turn + 1)
    stepped.answer(second)
    stepped.check(second)


def test_the_next_turn_that_repeats_the_answer_begins_after_it(stepped: Stepped) -> None:
    first = stepped.insert(SYSTEM)
    stepped.answer(first, tokens=30)
    stepped.leave(first)
    answer = stepped.answers[first]
    second = stepped.insert([*SYSTEM, *answer, 5, 6])
    assert stepped.sequences[second].cached == len(SYSTEM) + 30
    stepped.answer(second)
    stepped.check(second)


def test_the_third_prompt_with_a_beginning_finds_it_whatever_the_kind_of_cache(
    stepped: Stepped,
) -> None:
    for number in range(3):
        row = stepped.insert([*SYSTEM, *[20 + number] * 6])
        stepped.answer(row)
        stepped.check(row)
        stepped.leave(row)
    assert stepped.sequences[row].cached == len(SYSTEM)
