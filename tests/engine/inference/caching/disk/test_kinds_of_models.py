"""Small models of every kind of cache go on from disk as if they had never been away."""

from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models.cache import make_prompt_cache

from engine.inference.backend import BatchLimits
from engine.inference.batch import RunningBatch
from engine.inference.cache.folder import stamps_of
from engine.inference.cache.index import LoadedPrefix
from engine.inference.sequence import Sequence as BatchSequence
from tests.engine.inference.speculation.test_cache_kinds import model_of
from tests.support.models.disk_caches import ME, PATIENCE_S, Room

PROMPT = [3 + n * 7 % 50 for n in range(150)]


def batch_of(model: Any, room: Room | None, folder: Path) -> RunningBatch:
    batch = RunningBatch(model, BatchLimits(512, 0, 4, guesses=False))
    if room is not None:
        batch.prompts.attach(room.disk, folder, stamps_of(folder))
    return batch


def answer(
    batch: RunningBatch, tokens: list[int], loaded: LoadedPrefix | None = None
) -> tuple[list[int], int]:
    """Return eight tokens, and how many of the prompt came from disk."""
    sequence = BatchSequence(tokens, loaded=loaded, owner=ME)
    batch.insert(sequence)
    drawn: list[int] = []
    while len(drawn) < 8:
        drawn += [token for _, token, _ in batch.step().sampled]
    batch.leave({sequence.number: 0})
    batch.close()
    return drawn, sequence.from_disk


@pytest.mark.parametrize("kind", ["plain", "windows", "states"])
def test_the_next_turn_continues_from_disk_token_for_token(
    kind: str, tmp_path: Path, model: Path
) -> None:
    network = model_of(kind, mx.float32)
    room = Room(tmp_path / "kept", model)
    room.load(model, make_prompt_cache(network))
    first, _ = answer(batch_of(network, room, model), PROMPT)
    room.close()

    later = Room(tmp_path / "kept", model)
    later.load(model, make_prompt_cache(network))
    # The last token of an answer has been drawn, but not read.
    turn = [*PROMPT, *first[:-1], *range(5, 25)]
    loaded = later.loaded(turn)
    assert loaded is not None
    again, from_disk = answer(batch_of(network, later, model), turn, loaded)
    later.disk.writer.do(lambda: None).result(PATIENCE_S)
    later.close()

    anew, none = answer(batch_of(network, None, model), turn)
    assert from_disk >= len(PROMPT) - 1
    assert none == 0
    assert again == anew
