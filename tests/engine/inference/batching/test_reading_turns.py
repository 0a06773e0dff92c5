"""Short prompts overtake long ones, and long ones are never left out; step by step, no clock."""

from pathlib import Path
from typing import Any

import pytest

from engine.inference.backend import BatchLimits
from engine.inference.batch import RunningBatch
from engine.inference.prefill import PrefillPacer
from engine.inference.sequence import Sequence
from tests.support.scripted import Stage

ANSWER = [f"w{n} " for n in range(3000)]


class Reading:
    """A batch of the scripted model that is stepped by hand."""

    def __init__(self, folder: Path) -> None:
        self.stage = Stage(folder, {"long": ANSWER, "short": ["yes"]}, context=100_000)
        self.batch = RunningBatch(
            self.stage.model, BatchLimits(prefill_chunk=64, cache_bytes=0, rows=32)
        )
        self.read: dict[int, int] = {}
        self.sampled: set[int] = set()
        self.reading_steps = 0
        self.inserted = 100

    def insert(self, length: int) -> int:
        # No two begin with the same tokens: each is read for itself.
        self.inserted += 1
        return self.batch.insert(Sequence([self.inserted, *[5] * (length - 1)]))

    def step(self) -> None:
        step = self.batch.step()
        read = {number: row.read for number, row in step.items() if row.read is not None}
        self.reading_steps += bool(read)
        self.read.update(read)
        self.sampled.update(number for number, row in step.items() if row.sampled)

    def until_sampled(self, row: int, most_steps: int) -> None:
        """Step until a row has its first token, or fail after this many steps of reading."""
        end = self.reading_steps + most_steps
        while row not in self.sampled:
            assert self.reading_steps <= end, "it waits too long"
            self.step()


@pytest.fixture
def reading(tmp_path: Path) -> Any:
    made = Reading(tmp_path)
    yield made
    made.batch.close()


@pytest.mark.parametrize(("token_s", "following"), [(0.35, 16), (1e-4, 512)])
def test_first_read_is_short_and_the_next_fits_the_speed(token_s: float, following: int) -> None:
    pacer = PrefillPacer(512)
    first = pacer.tokens(0)
    assert 0 < first * 0.35 < 30, "a processor that takes 0.35 s a token reports in time"
    pacer.record_read(first * token_s, first, 0)
    assert pacer.tokens(0) == following


def test_a_short_prompt_overtakes_four_long_ones_that_fill_all_places(reading: Reading) -> None:
    long = [reading.insert(20_000) for _ in range(4)]
    for _ in range(5):
        reading.step()
    before = dict(reading.read)
    short = reading.insert(10)
    reading.until_sampled(short, most_steps=3)
    assert all(reading.read.get(row, 0) - before.get(row, 0) <= 2 * 64 for row in long)


def test_short_prompts_without_end_do_not_starve_a_long_one(reading: Reading) -> None:
    long = reading.insert(2000 + 4096)
    begun = reading.reading_steps
    while long not in reading.sampled:
        # There always are prompts of both other kinds.
        while len(reading.batch.sequences) - len(reading.sampled) < 9:
            reading.insert(30)
            reading.insert(600)
        reading.step()
        for row in [*reading.sampled - {long}]:
            reading.batch.remove({row: 0})
            reading.sampled.discard(row)
        steps = reading.reading_steps - begun
        # At least every fifth step reads some of it.
        assert reading.read.get(long, 0) >= 16 * (steps // 5) - 16 or long in reading.sampled
