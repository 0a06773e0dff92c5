"""Sequences of like length share a cache: no answer changes, and little is padded."""

from itertools import cycle

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.inference.decoding_groups import DecodingGroups
from engine.library.length_groups import StepReads
from engine.library.memory_need import CacheSize
from tests.engine.inference.batching.stepped import Stepped
from tests.support.models.guessing import Eager, Foreseen
from tests.support.models.tiny_models import KINDS

APART = StepReads(0, CacheSize(1))
"""Any padding costs more than another pass."""
TOGETHER = StepReads(1 << 40, CacheSize(1))


def prompt(length: int, first: int = 1) -> list[int]:
    return [first, *(n * 7 % 61 + 1 for n in range(length - 1))]


def grouped(kind: str, reads: StepReads | None = APART, width: int = 0) -> Stepped:
    return Stepped(kind, chunk=256, reads=reads, costs=Eager(width) if width else None)


@pytest.mark.parametrize("kind", [*sorted(KINDS), "demo"])
@given(
    st.sampled_from([APART, TOGETHER, StepReads(300, CacheSize(1))]),
    st.lists(
        st.one_of(
            st.tuples(st.just("join"), st.sampled_from([1, 2, 9, 200, 250, 255, 270, 530, 1030])),
            st.tuples(st.just("step"), st.integers(1, 30)),
            st.tuples(st.just("leave"), st.integers(0, 9)),
        ),
        max_size=14,
    ),
)
@settings(max_examples=8, deadline=None)
def test_answers_in_groups_are_those_alone(
    kind: str, reads: StepReads, acts: list[tuple[str, int]]
) -> None:
    stepped = grouped(kind, reads)
    rows: list[int] = []
    for act, number in [*acts, ("step", 12)]:
        if act == "join" and len(rows) < 6:
            rows.append(stepped.insert(prompt(number, first=len(stepped.prompts) % 60 + 1)))
        elif act == "leave" and rows:
            stepped.leave(rows.pop(number % len(rows)))
        for _ in range(number if act == "step" else 0):
            decoding = {row for group in stepped.groups for row in group}
            before = {row: len(stepped.answers[row]) for row in decoding}
            stepped.step()
            # No sequence waits for the turn of its group.
            assert {row: len(stepped.answers[row]) - 1 for row in decoding} == before
    for row in stepped.prompts:
        stepped.check(row)
    stepped.batch.close()


def test_long_sequence_leaves_short_ones_unpadded() -> None:
    stepped = grouped("full", StepReads(1000, CacheSize(1)))
    short = [stepped.insert(prompt(9 + n, first=n + 1)) for n in range(8)]
    long = stepped.insert(prompt(1500, first=60))
    stepped.answer(*short, long)
    assert sorted(map(len, stepped.groups)) == [1, 8]
    assert stepped.padding < 8 * 9
    # mlx-lm allocates up to 256 positions more; padded to the long one there would be 13,824.
    positions = sum(part.keys.shape[0] * part.keys.shape[2] for part in caches(stepped))
    assert positions <= 1536 + 8 * 256 + 9 * 256
    for row in (*short, long):
        stepped.check(row)
    stepped.leave(long)
    assert len(stepped.groups) == 1


def caches(stepped: Stepped) -> list[mx.array]:
    return [group.prompt_cache[0] for group in stepped._decoding]


def test_groups_join_where_weights_cost_more_than_padding() -> None:
    stepped = grouped("full", StepReads(1300, CacheSize(1)))
    rows = [stepped.insert(prompt(length, first=length % 60 + 1)) for length in (1200, 20)]
    stepped.answer(*rows)
    assert len(stepped.groups) == 1
    third = stepped.insert(prompt(30))
    stepped.answer(third)
    assert sorted(map(len, stepped.groups)) == [1, 2]
    stepped.leave(rows[1])
    assert len(stepped.groups) == 1
    for row in (*rows, third):
        stepped.check(row)


def test_prompt_with_long_cached_beginning_is_read_apart() -> None:
    stepped = grouped("full", StepReads(1000, CacheSize(1)))
    first = stepped.insert(prompt(1500))
    stepped.answer(first)
    stepped.leave(first)
    rows = [stepped.insert([*prompt(1500), 5, 6])]
    rows += [stepped.insert(prompt(9, first=n + 2)) for n in range(4)]
    assert stepped.sequences[rows[0]].cached >= 1500
    sizes: set[int] = set()
    while min(len(stepped.answers[row]) for row in rows) < 2:
        stepped.step()
        sizes |= {
            group.prompt_cache[0].size() * len(group) for group in stepped.batch._batch.groups
        }
    assert max(sizes, default=0) < 2 * 1500
    for row in rows:
        stepped.check(row)


@pytest.fixture
def scattered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let groups change every few steps, whatever their lengths."""
    calls = cycle(range(9))
    monkeypatch.setattr(DecodingGroups, "split", lambda _, lengths: [n // 8 % 3 for n in lengths])
    due = property(lambda _: 1 if next(calls) == 0 else 1 << 30, lambda *_: None)
    monkeypatch.setattr(DecodingGroups, "_due_at", due, raising=False)


def alone(kind: str, asked: list[int], tokens: int) -> list[int]:
    stepped = grouped(kind)
    row = stepped.insert(asked)
    stepped.answer(row, tokens=tokens)
    stepped.batch.close()
    return stepped.answers[row][:tokens]


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("wrong", [(), (3, 4, 11, 20)], ids=str)
def test_drafts_are_verified_in_every_group(kind: str, wrong: tuple[int, ...]) -> None:
    prompts = [prompt(600), prompt(20, first=2), prompt(31, first=3)]
    answers = [alone(kind, asked, 40) for asked in prompts]
    stepped = grouped(kind, width=4)
    rows = [
        stepped.insert(asked, sources=[Foreseen([*answer, 0], wrong)])
        for asked, answer in zip(prompts, answers, strict=True)
    ]
    verified: set[int] = set()
    while min(len(stepped.answers[row]) for row in rows) < 40:
        stepped.step()
        verified |= stepped.batch._drafting._verified.keys()
    assert sorted(map(len, stepped.groups)) == [1, 2]
    assert verified == set(rows)
    for row, answer in zip(rows, answers, strict=True):
        assert stepped.answers[row][:40] == answer
    # Each leaves with a cache that ends two tokens earlier.
    held = {row: len(stepped.answers[row]) for row in rows}
    stepped.batch.remove(dict.fromkeys(rows, 2))
    for row in rows:
        turn = [*stepped.prompts[row], *stepped.answers[row][: held[row] - 2], 7]
        again = stepped.insert(turn)
        stepped.answer(again, tokens=3)
        stepped.check(again)
        stepped.leave(again)


@pytest.mark.usefixtures("scattered")
@pytest.mark.parametrize("kind", [*sorted(KINDS), "demo"])
def test_moving_between_groups_keeps_answers_and_drafts(kind: str) -> None:
    prompts = [prompt(length, first=length % 60 + 1) for length in (300, 7, 60)]
    answers = [alone(kind, asked, 60) for asked in prompts]
    stepped = grouped(kind, width=4)
    rows = [
        stepped.insert(asked, sources=[Foreseen([*answer[:30], 0], (4, 9))])
        for asked, answer in zip(prompts, answers, strict=True)
    ]
    seen: set[tuple[tuple[int, ...], ...]] = set()
    while min(len(stepped.answers[row]) for row in rows) < 60:
        stepped.step()
        seen.add(tuple(map(tuple, stepped.groups)))
    assert len(seen) > 2
    for row in rows:
        stepped.check(row)
