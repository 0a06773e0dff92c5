"""Models of every kind of cache reuse whole conversations, and answer as if they did not.

Random conversations with caches that are stored, evicted, written to disk and read: every answer is
compared with that of the bare model, and what was read of each prompt with what the stored
snapshots promise.
"""

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlx_lm.models.cache import make_prompt_cache

from engine.inference.backend import BatchLimits
from engine.inference.batch import RunningBatch
from engine.inference.cache import index, prompt_cache
from engine.inference.cache.disk import DiskCache, stamps_of
from engine.inference.sequence import Sequence as BatchSequence
from engine.values.request import CacheOwner
from tests.support.models.architectures import architecture_model
from tests.support.random_cases import cases

ME = CacheOwner("me", "a conversation")
# A token that ends a message; no answer and no text of a message has it.
END = 1
NOISE = 1e-3
MIN_DISK_TOKENS, BLOCK = 8, 16
PATIENCE_S = 60
_ANSWER = 5


class Reuse:
    """One process after the other that holds conversations."""

    def __init__(
        self, model: Any, folder: Path, disk: Path | None, cache_bytes: int = 1 << 30
    ) -> None:
        self.model = model
        self.read = 0
        self._folder, self._disk_path, self._cache_bytes = folder, disk, cache_bytes
        self._disk: DiskCache | None = None
        # The tokens of which memory or disk holds the cache, unless something was evicted.
        self._promised: list[list[int]] = []
        self._is_complete = cache_bytes > 1 << 20
        self._start()

    def _start(self) -> None:
        self.batch = RunningBatch(self.model, BatchLimits(8, self._cache_bytes, 4, drafts=False))
        if self._disk_path is not None:
            self._disk = DiskCache(self._disk_path, 1 << 30)
            self.batch.prompt_cache.attach(self._disk, self._folder, stamps_of(self._folder))

    def close(self) -> None:
        """End the process; what waits to be written is written."""
        self.batch.close()
        if self._disk is not None:
            self._disk.close()

    def restart(self) -> None:
        self.close()
        self._start()
        if self._disk_path is None:
            self._promised.clear()

    def evict(self, max_bytes: int) -> None:
        self.batch.evict_prompts(max_bytes)
        if self._disk is None:
            self._is_complete = False

    def ask(self, prompt: list[int]) -> list[int]:
        """Answer a prompt, check all of it, and return the answer without an end."""
        prompts = self.batch.prompt_cache
        ends = [at for at, token in enumerate(prompt, 1) if token == END]
        turn_end = ends[-1] if ends and ends[-1] < len(prompt) else 0
        self._read_disk(prompt)
        sequence = BatchSequence(list(prompt), turn_end=turn_end, owner=ME)
        number = self.batch.insert(sequence)
        cached, places = sequence.cached, {*sequence.snapshots_at}
        self._check_promise(prompt, cached)
        answer: list[int] = []
        while len(answer) < _ANSWER:
            answer += [token for row in self.batch.step().values() for token, _ in row.sampled]
        places |= {min(turn_end or len(prompt) - 1, len(prompt) - 1)}
        if not prompts.can_cut_anywhere:
            places |= {*prompts.snapshot_positions(len(prompt), cached)}
            self._promised += [prompt[:at] for at in places if at > cached]
        self.batch.remove({number: 0})
        self.read += len(prompt) - cached
        self._check_answer(prompt, answer)
        self._check_limits()
        # The last token of an answer has been drawn, but not read.
        self._promised.append([*prompt, *answer[:-1]])
        return [token if token != END else END + 1 for token in answer[:-1]]

    def _read_disk(self, prompt: list[int]) -> None:
        if self._disk is None:
            return
        prompts = self.batch.prompt_cache
        self._disk.measured().result(PATIENCE_S)
        if prompts.is_on_disk(ME, prompt):
            prompts.read([(ME, prompt)]).result(PATIENCE_S)
            assert not prompts.is_on_disk(ME, prompt)

    def _check_promise(self, prompt: list[int], cached: int) -> None:
        if not self._is_complete:
            return
        is_cut = self.batch.prompt_cache.can_cut_anywhere
        # A file has a full block, or a snapshot of more than a few tokens.
        few = 0 if self._disk is None else BLOCK if is_cut else MIN_DISK_TOKENS
        for stored in self._promised:
            shared = min(_common(stored, prompt), len(prompt) - 1)
            if is_cut or shared == len(stored):
                assert cached >= shared - few

    def _check_answer(self, prompt: list[int], answer: Sequence[int]) -> None:
        logits = self.model(mx.array([[*prompt, *answer]]), cache=make_prompt_cache(self.model))[0]
        for at, token in enumerate(answer, start=len(prompt) - 1):
            best = logits[at].max().item()
            assert logits[at, token].item() > best - NOISE, (at, prompt, answer)

    def _check_limits(self) -> None:
        prefixes = self.batch.prompt_cache._index
        assert prefixes.size_bytes <= self._cache_bytes
        blocks = prefixes._blocks.values()
        entries = [entry for block in blocks for entry in (block, *block.snapshots.values())]
        size = sum(entry.content.size_bytes for entry in entries if entry.content is not None)
        assert size == prefixes.size_bytes


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


# A message as its length and a seed, so that failing examples stay short.
MESSAGE = st.tuples(st.integers(1, 40), st.integers(0, 3))
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), MESSAGE, st.just(0)),
        st.tuples(st.just("again"), st.just((1, 0)), st.just(0)),
        st.tuples(st.just("edit"), MESSAGE, st.integers(0, 6)),
        st.tuples(st.just("new"), MESSAGE, st.just(0)),
        st.tuples(st.just("restart"), st.just((1, 0)), st.just(0)),
        st.tuples(st.just("evict"), st.just((1, 0)), st.integers(0, 3)),
    ),
    min_size=2,
    max_size=9,
)


def text(message: tuple[int, int]) -> list[int]:
    length, seed = message
    return [2 + (n * (seed + 3) + seed) % 60 for n in range(length)]


def play(reuse: Reuse, moves: Sequence[tuple[str, tuple[int, int], int]]) -> None:
    """Hold conversations; a question and its answer each end with ``END``."""
    turns: list[tuple[list[int], list[int]]] = []
    for move, message, amount in moves:
        if move == "restart":
            reuse.restart()
            continue
        if move == "evict":
            reuse.evict(reuse.batch.cached_bytes * amount // 4)
            continue
        question = text(message)
        if move == "again" and turns:
            question = turns.pop()[0]
        elif move == "new":
            turns = []
        elif move == "edit":
            turns = turns[: amount % (len(turns) + 1)]
        before = [token for turn in turns for part in turn for token in (*part, END)]
        turns.append((question, reuse.ask([*before, *question, END, 3, 4])))


# Full attention; Gated DeltaNet; short convolutions; Mamba 2; RWKV; windows; both in a CacheList.
FEW = ("qwen3", "qwen3_next", "lfm2", "nemotron_h", "rwkv7", "gpt_oss", "falcon_h1")

model_of = functools.cache(architecture_model)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like a model's; snapshots are close, and few tokens are worth a file."""
    monkeypatch.setattr(prompt_cache, "STRIDE", 24)
    monkeypatch.setattr(prompt_cache, "MIN_DISK_TOKENS", MIN_DISK_TOKENS)
    monkeypatch.setattr(index, "BLOCK_TOKENS", BLOCK)
    path = tmp_path / "model"
    path.mkdir()
    (path / "config.json").write_text(json.dumps({"model_type": "none"}))
    mx.save_safetensors(str(path / "model.safetensors"), {"weight": mx.ones((64, 64))})
    return path


def hold(model: Any, folder: Path, disk: Path | None, cache_bytes: int, moves: Any) -> None:
    reuse = Reuse(model, folder, disk, cache_bytes)
    try:
        play(reuse, moves)
    finally:
        reuse.close()


@pytest.mark.parametrize("kind", FEW)
@settings(
    max_examples=cases(4),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(moves=MOVES, is_on_disk=st.booleans(), cache_bytes=st.sampled_from([1 << 30, 30_000, 0]))
def test_random_conversations_reuse_snapshots_exactly(
    kind: str,
    folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
    moves: Any,
    is_on_disk: bool,
    cache_bytes: int,
) -> None:
    disk = tmp_path_factory.mktemp("kept") if is_on_disk else None
    hold(model_of(kind), folder, disk, cache_bytes, moves)
