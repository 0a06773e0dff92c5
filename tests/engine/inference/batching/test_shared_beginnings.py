"""Prompts that share a beginning read it once, and no answer differs from one read alone.

Real models, the caches of which are of all kinds; no test looks at a clock.
"""

import pytest

from engine.inference.cache.segments import Segment
from engine.values.request import CacheOwner
from tests.engine.inference.batching.stepped import SYSTEM, Stepped

pytestmark = pytest.mark.usefixtures("few_tokens_are_worth_it")


def test_prompts_that_arrive_together_read_what_they_share_once(stepped: Stepped) -> None:
    rows = [stepped.insert([*SYSTEM, 10 + n, 3, 4]) for n in range(6)]
    stepped.answer(*rows)
    # Rows that are read together are filled up to the longest.
    assert stepped.model.tokens <= len(SYSTEM) + 6 * 3
    assert [stepped.sequences[row].cached for row in rows] == [0] + [len(SYSTEM)] * 5
    for row in rows:
        stepped.check(row)
        stepped.leave(row)


def test_the_choices_of_one_request_read_their_prompt_once(stepped: Stepped) -> None:
    rows = [stepped.insert(SYSTEM) for _ in range(5)]
    stepped.answer(*rows)
    assert stepped.model.tokens <= len(SYSTEM)
    assert [stepped.sequences[row].cached for row in rows] == [0] + [len(SYSTEM) - 1] * 4
    for row in rows:
        stepped.check(row)


def test_shared_beginning_needs_no_memory_for_earlier_prompts() -> None:
    stepped = Stepped("full", cache_bytes=0)
    rows = [stepped.insert([*SYSTEM, 10 + n, 3, 4]) for n in range(6)]
    stepped.answer(*rows)
    assert [stepped.sequences[row].cached for row in rows] == [0] + [len(SYSTEM)] * 5
    assert stepped.batch.cached_bytes == 0


def test_shared_beginning_is_copied_once_for_all_that_waited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copied: list[int] = []

    def copy(segment: Segment) -> Segment:
        copied.append(segment.layers[0][0].shape[-2])
        return copied_segment(segment)

    copied_segment = Segment.copied
    monkeypatch.setattr(Segment, "copied", copy)
    stepped = Stepped("full", cache_bytes=0)
    rows = [stepped.insert([*SYSTEM, 10 + n, 3, 4]) for n in range(6)]
    stepped.answer(*rows)
    assert sum(copied) == len(SYSTEM)


def test_a_later_prompt_waits_only_for_the_rest_of_the_shared_beginning(stepped: Stepped) -> None:
    first = stepped.insert([*SYSTEM, 1, 2, 3, 4, 5])
    while stepped.read.get(first, 0) < 20:
        stepped.step()
    assert stepped.read[first] < len(SYSTEM)
    second = stepped.insert([*SYSTEM, 9, 8])
    stepped.answer(first, second)
    # Read side by side, the shorter rest is filled up.
    assert stepped.model.tokens <= len(SYSTEM) + 2 * 5
    assert stepped.sequences[second].cached == len(SYSTEM)
    stepped.check(first)
    stepped.check(second)


def test_prompt_waits_for_no_few_tokens_more_than_another_has_read() -> None:
    stepped = Stepped("full", cache_bytes=0)
    first = stepped.insert([*SYSTEM, 1])
    stepped.answer(first, tokens=1)
    stepped.insert([*SYSTEM, 5, 6, *range(20, 60)])
    third = stepped.insert([*SYSTEM, 5, 6, 7, 8])
    assert stepped.sequences[third].cached == len(SYSTEM)
    stepped.answer(third)
    stepped.check(third)


def test_when_the_reader_is_cancelled_the_next_one_reads_on(stepped: Stepped) -> None:
    rows = [stepped.insert([*SYSTEM, 10 + n, 3]) for n in range(4)]
    while stepped.read.get(rows[0], 0) < 20:
        stepped.step()
    stepped.leave(rows[0])
    stepped.answer(*rows[1:])
    assert stepped.model.tokens <= len(SYSTEM) + 4 * 2
    # It has begun where the first one ended.
    assert 20 <= stepped.sequences[rows[1]].cached < len(SYSTEM)
    assert [stepped.sequences[row].cached for row in rows[2:]] == [len(SYSTEM)] * 2
    for row in rows[1:]:
        stepped.check(row)


def test_when_a_step_fails_the_waiting_rows_continue(stepped: Stepped) -> None:
    rows = [stepped.insert([*SYSTEM, 10 + n]) for n in range(3)]
    stepped.step()
    stepped.model.fails = True
    with pytest.raises(RuntimeError):
        stepped.step()
    assert list(stepped.batch.reset()) == rows[1:]
    stepped.answer(*rows[1:])
    assert stepped.sequences[rows[2]].cached == len(SYSTEM)
    stepped.check(rows[1])
    stepped.check(rows[2])


def test_a_prompt_neither_waits_for_nor_takes_from_the_prompt_of_another_owner(
    stepped: Stepped,
) -> None:
    owners = [CacheOwner("one"), CacheOwner("other")]
    rows = [stepped.insert([*SYSTEM, 10, 3, 4], owner=one) for one in owners]
    stepped.answer(*rows)
    late = stepped.insert([*SYSTEM, 11, 3], owner=CacheOwner("a third"))
    stepped.answer(late)
    assert [stepped.sequences[row].cached for row in (*rows, late)] == [0, 0, 0]
    assert stepped.model.tokens >= 3 * len(SYSTEM)
    stepped.leave(rows[0])
    turn = [*stepped.prompts[rows[0]], *stepped.answers[rows[0]], 9]
    again = [stepped.insert(turn, owner=one) for one in (owners[0], CacheOwner("new"))]
    assert stepped.sequences[again[0]].cached > len(SYSTEM)
    assert stepped.sequences[again[1]].cached == 0
