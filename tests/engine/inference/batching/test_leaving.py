"""Rows that leave together: the rows that stay are copied only once."""

import pytest

from engine.values.request import LOCAL_OWNER
from tests.engine.inference.batching.stepped import SYSTEM, Stepped


def test_each_row_that_left_with_others_keeps_its_own_cache() -> None:
    stepped = Stepped("full")
    gone = [stepped.insert([*SYSTEM, 20 + n]) for n in range(3)]
    stepped.answer(*gone, tokens=3)
    stepped.leave(*gone)

    for row in gone:
        turn = [*stepped.prompts[row], *stepped.answers[row], 9]
        again = stepped.insert(turn)
        assert stepped.sequences[again].cached == len(turn) - 1
        stepped.answer(again, tokens=3)
        stepped.check(again)
        stepped.leave(again)


def test_tokens_that_a_row_has_beyond_its_answer_are_not_kept() -> None:
    stepped = Stepped("full")
    rows = [stepped.insert([*SYSTEM, 20 + n]) for n in range(2)]
    stepped.answer(*rows, tokens=4)
    stepped.batch.remove({rows[0]: 2, rows[1]: 0})

    turns = [[*stepped.prompts[row], *stepped.answers[row]] for row in rows]
    index = stepped.batch.prompt_cache
    assert [index.fetch(LOCAL_OWNER.name, [*turn, 9])[1] for turn in turns] == [
        len(turns[0]) - 2,
        len(turns[1]),
    ]


@pytest.mark.parametrize("kind", ["full", "windowed", "demo"])
@pytest.mark.parametrize("prompts", [([5], [6, 7]), ([5] * 20, [6]), ([5],)], ids=str)
@pytest.mark.parametrize("steps", [0, 1, 2])
def test_prompts_of_one_token_can_leave_before_their_first_step(
    kind: str, prompts: tuple[list[int], ...], steps: int
) -> None:
    stepped = Stepped(kind)
    rows = [stepped.insert(list(prompt)) for prompt in prompts]
    for _ in range(steps):
        stepped.batch.step()
    stepped.batch.remove(dict.fromkeys(rows, 0))

    again = stepped.insert([*SYSTEM, 9])
    stepped.answer(again, tokens=3)
    stepped.check(again)
