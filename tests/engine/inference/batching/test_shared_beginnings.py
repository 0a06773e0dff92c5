"""Prompts that share a beginning read it once, and no answer differs from one read alone.

Real models, the caches of which are of all kinds; no test looks at a clock.
"""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from mlx_lm.models.cache import make_prompt_cache

from engine.inference.backend import BatchLimits
from engine.inference.batching import mlx_batch, shared_reading
from engine.inference.batching.mlx_batch import RunningBatch
from tests.support.models.tiny_models import KINDS, VOCABULARY, tiny_model
from tests.support.random_cases import cases

# A token whose likelihood differs by less from the best one's is as good: adding up in another
# order gives other last digits.
NOISE = 1e-3


@functools.cache
def demo_model() -> Any:
    return mlx_lm.load(str(Path(__file__).parents[4] / "assets" / "demo-model"))[0]


class Model:
    """A model that counts the tokens that it reads."""

    def __init__(self, kind: str) -> None:
        self.model = demo_model() if kind == "demo" else tiny_model(kind)
        self.layers = self.model.layers
        self.tokens = 0
        self.fails = False

    def make_cache(self) -> list[Any]:
        return list(make_prompt_cache(self.model))

    def __call__(self, tokens: mx.array, cache: Any = None) -> Any:
        if self.fails:
            self.fails = False
            raise RuntimeError("out of memory")
        if tokens.shape[1] > 1:
            self.tokens += tokens.size
        return self.model(tokens, cache=cache)


class Stepped:
    """A batch that is stepped by hand, and what its rows have answered."""

    def __init__(self, kind: str, *, cache_bytes: int = 1 << 30, chunk: int = 8) -> None:
        self.model = Model(kind)
        limits = BatchLimits(prefill_chunk=chunk, cache_bytes=cache_bytes, rows=32)
        self.batch = RunningBatch(self.model, limits)
        self.prompts: dict[int, list[int]] = {}
        self.cached: dict[int, int] = {}
        self.read: dict[int, int] = {}
        self.answers: dict[int, list[int]] = {}

    def insert(self, prompt: list[int], turn_end: int = 0) -> int:
        row, cached, _ = self.batch.insert(list(prompt), turn_end=turn_end)
        self.prompts[row], self.answers[row] = prompt, []
        self.cached[row] = cached
        return row

    def step(self) -> None:
        step = self.batch.step()
        for row, cached in self.batch.take_shared():
            assert cached >= self.cached[row]
            self.cached[row] = cached
        for row, read in step.read:
            self.read[row] = self.cached[row] + read
            assert self.read[row] <= len(self.prompts[row])
        for row, token, _ in step.sampled:
            self.answers[row].append(token)

    def answer(self, *rows: int, tokens: int = 4) -> None:
        for _ in range(3000):
            if all(len(self.answers[row]) >= tokens for row in rows):
                return
            self.step()
        pytest.fail("a row does not answer")

    def leave(self, row: int) -> None:
        self.batch.leave(row)

    def check(self, row: int) -> None:
        """Fail unless an answer is what the model says of its prompt read at once, alone."""
        prompt, answer = self.prompts[row], self.answers[row]
        model = self.model.model
        logits = model(mx.array([[*prompt, *answer]]), cache=make_prompt_cache(model))[0]
        for at, token in enumerate(answer, start=len(prompt) - 1):
            best = logits[at].max().item()
            assert logits[at, token].item() > best - NOISE, (row, at, prompt, answer)


@pytest.fixture(autouse=True)
def few_tokens_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tiny prompts be shared."""
    for module in (shared_reading, mlx_batch):
        monkeypatch.setattr(module, "WORTH_TOKENS", 4)


@pytest.fixture(params=sorted(KINDS))
def stepped(request: pytest.FixtureRequest) -> Iterator[Stepped]:
    made = Stepped(request.param)
    yield made
    made.batch.close()


SYSTEM = [n * 7 % 61 + 1 for n in range(50)]


def test_prompts_that_arrive_together_read_what_they_share_once(stepped: Stepped) -> None:
    rows = [stepped.insert([*SYSTEM, 10 + n, 3, 4]) for n in range(6)]
    stepped.answer(*rows)
    # Rows that are read together are filled up to the longest.
    assert stepped.model.tokens <= len(SYSTEM) + 6 * 3
    assert [stepped.cached[row] for row in rows] == [0] + [len(SYSTEM)] * 5
    for row in rows:
        stepped.check(row)
        stepped.leave(row)
    use = stepped.batch.cache_use
    assert (use.hits, use.hit_tokens) == (5, 5 * len(SYSTEM))


def test_those_that_waited_read_the_few_tokens_of_their_own_together() -> None:
    stepped = Stepped("full", chunk=64)
    rows = [stepped.insert([*SYSTEM, 10 + n, 3, 4, 5]) for n in range(12)]
    stepped.answer(rows[0], tokens=1)
    # Four at a time would take three steps of reading, between which the first ones decode.
    stepped.answer(*rows, tokens=1)
    counts = [len(stepped.answers[row]) for row in rows[1:]]
    assert counts == [1] * 11
    stepped.batch.close()


def test_beside_an_answer_few_long_prompts_begin_in_one_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mlx_batch, "_COPIED_TOKENS", 2 * len(SYSTEM) + 8)
    stepped = Stepped("full", chunk=64)
    beside = stepped.insert([1, 2, 3])
    stepped.answer(beside, tokens=1)
    rows = [stepped.insert([*SYSTEM, 10 + n, 3, 4]) for n in range(7)]
    begun: set[int] = set()
    while len(begun) < len(rows):
        stepped.step()
        now = {row for row in rows if stepped.answers[row]}
        assert len(now - begun) <= 2
        begun = now
    for row in (beside, *rows):
        stepped.check(row)
    stepped.batch.close()


def test_the_choices_of_one_request_read_their_prompt_once(stepped: Stepped) -> None:
    rows = [stepped.insert(SYSTEM) for _ in range(5)]
    stepped.answer(*rows)
    assert stepped.model.tokens <= len(SYSTEM)
    assert [stepped.cached[row] for row in rows] == [0] + [len(SYSTEM) - 1] * 4
    for row in rows:
        stepped.check(row)


def test_one_that_arrives_later_waits_only_for_what_is_left(stepped: Stepped) -> None:
    first = stepped.insert([*SYSTEM, 1, 2, 3, 4, 5])
    while stepped.read.get(first, 0) < 20:
        stepped.step()
    assert stepped.read[first] < len(SYSTEM)
    second = stepped.insert([*SYSTEM, 9, 8])
    stepped.answer(first, second)
    # Read side by side, the shorter rest is filled up.
    assert stepped.model.tokens <= len(SYSTEM) + 2 * 5
    assert stepped.cached[second] == len(SYSTEM)
    stepped.check(first)
    stepped.check(second)


def test_what_an_answer_under_way_has_read_is_not_read_again() -> None:
    stepped = Stepped("full")
    first = stepped.insert([*SYSTEM, 1, 2, 3])
    stepped.answer(first)
    second = stepped.insert([*SYSTEM, 9, 8])
    assert stepped.cached[second] == len(SYSTEM)
    stepped.answer(second)
    stepped.answer(first, tokens=12)
    stepped.check(first)
    stepped.check(second)
    assert stepped.model.tokens <= len(SYSTEM) + 3 + 2
    stepped.batch.close()


def test_sharing_needs_no_room_for_kept_prompts() -> None:
    stepped = Stepped("full", cache_bytes=0)
    rows = [stepped.insert([*SYSTEM, 10 + n]) for n in range(4)]
    stepped.answer(*rows)
    assert stepped.model.tokens <= len(SYSTEM) + 4
    for row in rows:
        stepped.check(row)
        stepped.leave(row)
    assert stepped.batch.cache_use.size_bytes == 0
    stepped.batch.close()


def test_when_the_reader_is_cancelled_the_next_one_reads_on(stepped: Stepped) -> None:
    rows = [stepped.insert([*SYSTEM, 10 + n, 3]) for n in range(4)]
    while stepped.read.get(rows[0], 0) < 20:
        stepped.step()
    stepped.leave(rows[0])
    stepped.answer(*rows[1:])
    assert stepped.model.tokens <= len(SYSTEM) + 4 * 2
    # It has begun where the first one ended.
    assert 20 <= stepped.cached[rows[1]] < len(SYSTEM)
    assert [stepped.cached[row] for row in rows[2:]] == [len(SYSTEM)] * 2
    for row in rows[1:]:
        stepped.check(row)


def test_one_whose_reader_is_cancelled_may_take_more_from_another_row() -> None:
    stepped = Stepped("full", chunk=32)
    long = [n * 7 % 61 + 1 for n in range(600)]
    reader = stepped.insert([*long, 1, 2, 3])
    heir = stepped.insert([*long, 4, 5, 6])
    # A short prompt is read before long ones, and does not wait for them.
    other = stepped.insert([*long[:480], 7, 8, 9])
    stepped.answer(other, tokens=1)
    assert stepped.read[reader] < 400
    stepped.leave(reader)
    stepped.answer(heir)
    assert stepped.cached[heir] == 480
    assert stepped.read[heir] == len(stepped.prompts[heir])
    stepped.check(heir)


def test_the_progress_of_one_that_waits_is_the_readers(stepped: Stepped) -> None:
    rows = [stepped.insert([*SYSTEM, 10 + n, 3, 4]) for n in range(2)]
    seen = [0]
    while rows[1] in stepped.batch._joining._waiting:
        stepped.step()
        seen.append(stepped.read.get(rows[1], 0))
        assert seen[-1] in (min(stepped.read[rows[0]], len(SYSTEM)), seen[-2])
    assert seen == sorted(seen)
    assert seen[2] > 0


def test_one_that_waits_can_leave(stepped: Stepped) -> None:
    rows = [stepped.insert([*SYSTEM, 10 + n]) for n in range(3)]
    stepped.step()
    stepped.leave(rows[1])
    stepped.answer(rows[0], rows[2])
    stepped.check(rows[0])
    stepped.check(rows[2])
    for row in (rows[0], rows[2]):
        stepped.leave(row)
    # The one that left kept nothing and left nothing behind.
    assert stepped.answers[rows[1]] == []


def test_when_a_step_fails_those_that_waited_go_on(stepped: Stepped) -> None:
    rows = [stepped.insert([*SYSTEM, 10 + n]) for n in range(3)]
    stepped.step()
    stepped.model.fails = True
    with pytest.raises(RuntimeError):
        stepped.step()
    assert list(stepped.batch.reset()) == rows[1:]
    stepped.answer(*rows[1:])
    assert stepped.cached[rows[2]] == len(SYSTEM)
    stepped.check(rows[1])
    stepped.check(rows[2])


def test_one_that_waited_keeps_its_place_among_those_with_as_much_to_read() -> None:
    stepped = Stepped("full", chunk=64)
    # All are in the second lane, which reads four prompts at a time.
    own = [[n + 1] * 700 for n in range(9)]
    reader = stepped.insert([*SYSTEM, *own[0]])
    waiting = stepped.insert([*SYSTEM, *own[1]])
    others = [stepped.insert(one) for one in own[2:]]
    begun: list[int] = []
    while len(begun) < 9:
        stepped.step()
        begun += [row for row in stepped.read if row not in begun and stepped.read[row] > 50]
    assert begun[:1] == [reader]
    assert begun.index(waiting) <= 4
    assert sorted(begun[5:]) == others[-4:]
    stepped.batch.close()


def test_the_next_turn_begins_at_the_end_of_the_last_users_turn(stepped: Stepped) -> None:
    """The header of an answer is not always repeated by the next turn's prompt."""
    turn = len(SYSTEM)
    first = stepped.insert([*SYSTEM, 61, 62, 63], turn_end=turn)
    stepped.answer(first)
    stepped.leave(first)
    second = stepped.insert([*SYSTEM, 61, 5, 6, 7, 8])
    # A cache that can be cut anywhere also has the first token of the header.
    assert stepped.cached[second] in (turn, turn + 1)
    stepped.answer(second)
    stepped.check(second)


def test_the_next_turn_that_repeats_the_answer_begins_after_it(stepped: Stepped) -> None:
    first = stepped.insert(SYSTEM)
    stepped.answer(first, tokens=30)
    stepped.leave(first)
    answer = stepped.answers[first]
    second = stepped.insert([*SYSTEM, *answer, 5, 6])
    assert stepped.cached[second] == len(SYSTEM) + 30
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
    assert stepped.cached[row] == len(SYSTEM)


def test_kept_conversations_report_the_bytes_that_they_hold(stepped: Stepped) -> None:
    for number in range(6):
        row = stepped.insert([*SYSTEM * 20, 10 + number, 3])
        stepped.answer(row)
        stepped.leave(row)
    mx.synchronize(stepped.batch._lanes[0].stream)
    # Nothing may wait for Python's garbage collector.
    use, before = stepped.batch.cache_use, mx.get_active_memory()
    stepped.batch._prompt_cache.clear()
    held = before - mx.get_active_memory()
    # Keys and values of 1,000 tokens in the layers that keep them, once and not six times.
    assert use.size_bytes < 2 * 1000 * 2 * 16 * 4 * 2
    # MLX gives an array up to 16 KB more than it needs, and rounds up to pages.
    assert use.size_bytes <= held <= use.size_bytes + use.entries * 10 * (20 << 10)


Move = tuple[str, int, int, list[int]]
TAILS = st.lists(st.integers(1, VOCABULARY - 1), min_size=1, max_size=12)
MOVES = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "ask", "again", "step", "leave", "finish"]),
        st.integers(0, 100),
        st.integers(0, 30),
        TAILS,
    ),
    max_size=14,
)


@pytest.mark.parametrize("kind", [*sorted(KINDS), "demo"])
@settings(
    max_examples=cases(6),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@example(
    moves=[("ask", 0, 3, [1]), ("step", 0, 4, [1]), ("ask", 74, 17, [1, 1, 2, 1])],
    cache_bytes=30_000,
)
@given(moves=MOVES, cache_bytes=st.sampled_from([0, 30_000, 1 << 30]))
def test_random_trees_of_conversations_never_get_a_wrong_token(
    kind: str, moves: list[Move], cache_bytes: int
) -> None:
    """Prompts branch from earlier ones and their answers; rows join, are stepped and leave."""
    stepped = Stepped(kind, cache_bytes=cache_bytes)
    histories: list[list[int]] = [SYSTEM[:30], SYSTEM]
    running: list[int] = []
    for move, which, amount, tail in moves:
        if move in ("ask", "again"):
            history = histories[which % len(histories)]
            cut = len(history) if move == "again" else max(1, len(history) - amount)
            prompt = [*history[:cut], *tail]
            running.append(stepped.insert(prompt, turn_end=max(0, len(prompt) - amount % 6)))
            histories.append(prompt)
        elif move == "step":
            for _ in range(amount % 7):
                stepped.step()
        elif running:
            row = running.pop(which % len(running))
            if move == "finish":
                stepped.answer(row, tokens=1 + amount % 20)
            stepped.leave(row)
            stepped.check(row)
            histories.append([*stepped.prompts[row], *stepped.answers[row]])
    stepped.answer(*running)
    for row in running:
        stepped.check(row)
    stepped.batch.close()
