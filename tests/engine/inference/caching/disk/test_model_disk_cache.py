"""Caches on disk: kept, found, limited, forgotten, shared with other processes."""

import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from mlx_lm.models.cache import make_prompt_cache

from engine.inference.backend import BatchLimits
from engine.inference.batch import RunningBatch
from engine.inference.cache import disk as cache_files
from engine.inference.cache.disk import stamps_of
from engine.inference.sequence import Sequence as BatchSequence
from engine.values.request import CacheOwner
from tests.support.models.disk_caches import BLOCK, ME, Room, kv_cache
from tests.support.models.tiny_models import KINDS, tiny_model

YOU = CacheOwner("me", "another conversation")


def again(room: Room, model: Path) -> Room:
    """Return what another process finds, started later."""
    return Room(room.disk.folder.path, model)


def test_a_cache_is_available_to_the_next_process(room: Room, model: Path) -> None:
    ids = list(range(200))
    room.keep(ids)
    room.close()
    later = again(room, model)
    assert later.tokens([*ids, 1]) == 192
    later.close()


def test_turn_after_turn_comes_back_from_its_segments(room: Room, model: Path) -> None:
    for length in (500, 560, 640, 700, 1500, 1600):
        room.keep(list(range(length)))
    room.close()
    later = again(room, model)
    assert later.tokens([*range(1600), 3]) == 1600
    assert later.tokens([*range(1550), 3, 4]) == 1550 // BLOCK * BLOCK
    assert len(later.paths) == 1600 // BLOCK
    later.close()


# -- limits and forgetting -----------------------------------------------------------------


def test_the_least_recently_used_caches_make_room_for_new_ones(room: Room) -> None:
    first, second, third = ([n * 1000 + k for k in range(200)] for n in range(3))
    room.keep(first, CacheOwner("me", "1"))
    room.keep(second, CacheOwner("me", "2"))
    assert room.tokens([*first, 1]) == 192  # used, so that the second is the oldest now
    size = room.disk.folder.size_bytes
    room.disk.limit_to(size + size // 4)
    room.keep(third, CacheOwner("me", "3"))
    # The last blocks went first.
    assert 0 < room.tokens([*second, 1]) < 192
    assert room.tokens([*first, 1]) == 192
    assert room.tokens([*third, 1]) == 192
    assert room.disk.folder.size_bytes <= room.disk.max_bytes


def test_a_limit_of_zero_keeps_nothing_and_deletes_existing_files(room: Room) -> None:
    room.keep(list(range(200)))
    room.disk.limit_to(0)
    room.wait()
    assert room.paths == []
    room.keep(list(range(300)))
    assert room.paths == []
    assert room.tokens(list(range(301))) == 0


def test_the_same_tokens_of_two_owners_are_found_by_each_alone(room: Room, model: Path) -> None:
    other = CacheOwner("another", ME.kept_with)
    room.keep(list(range(600)), ME)
    room.keep(list(range(500)), other)
    room.close()
    later = again(room, model)
    assert later.tokens([*range(600), 1], other) == 496
    assert later.tokens([*range(600), 1], ME) == 592
    later.close()


def test_a_conversation_is_forgotten_and_others_are_not(room: Room) -> None:
    room.keep(list(range(200)), ME)
    room.keep(list(range(1000, 1200)), YOU)
    room.disk.forget(ME).result(60)
    assert room.tokens([*range(200), 1]) == 0
    assert room.tokens([*range(1000, 1200), 1]) == 192


def test_a_running_answer_leaves_no_cache_for_a_forgotten_owner(room: Room) -> None:
    epoch = room.model.disk_epoch(ME)
    room.disk.forget(ME).result(60)
    room.model.keep(ME, epoch, kv_cache(list(range(200))), list(range(200)))
    room.wait()
    assert room.paths == []


# -- other kinds of caches -----------------------------------------------------------------


# -- troubles ------------------------------------------------------------------------------


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


def test_a_full_disk_is_logged_once_and_disturbs_no_answer(
    room: Room, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_files, "MIN_FREE_BYTES", 1 << 60)
    for number in range(3):
        room.keep([number * 1000 + k for k in range(200)])
    assert room.paths == []
    [said] = warnings_of(caplog)
    assert "the disk is nearly full" in said
    monkeypatch.undo()
    room.keep(list(range(200)))
    assert len(room.paths) == 200 // BLOCK


def test_nothing_builds_on_a_file_that_another_process_deleted(room: Room, model: Path) -> None:
    room.keep(list(range(500)))
    room.paths[0].unlink()
    room.keep(list(range(560)))
    room.close()
    later = again(room, model)
    assert later.tokens([*range(560), 1]) == 560
    later.close()


def test_racing_writers_in_one_folder_never_give_a_wrong_token(tmp_path: Path, model: Path) -> None:
    rooms = [Room(tmp_path / "kept", model, 60_000) for _ in range(3)]
    histories = [[n * 10_000 + k for k in range(600)] for n in range(3)]

    def work(room: Room, seed: int) -> None:
        for turn in range(1, 20):
            history = histories[(turn + seed) % 3]
            ids = history[: 70 + turn * 25]
            assert room.tokens([*ids, 1]) <= len(ids)
            room.keep(ids, CacheOwner("me", str((turn + seed) % 3)))
            if turn % 7 == seed:
                room.disk.forget(CacheOwner("me", str(seed)))

    faults: list[BaseException] = []

    def watched(room: Room, seed: int) -> None:
        try:
            work(room, seed)
        except BaseException as fault:
            faults.append(fault)

    threads = [
        threading.Thread(target=watched, args=(room, seed)) for seed, room in enumerate(rooms)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for room in rooms:
        room.close()
    assert faults == []
    assert not list((tmp_path / "kept").glob("*.tmp"))
    later = Room(tmp_path / "kept", model)
    for history in histories:
        later.tokens([*history, 1])
    later.close()


# -- models of every kind of cache ---------------------------------------------------------


PROMPT = [3 + n * 7 % 50 for n in range(150)]


def batch_of(model: Any, room: Room | None, folder: Path) -> RunningBatch:
    batch = RunningBatch(model, BatchLimits(512, 0, 4, drafts=False))
    if room is not None:
        batch.prompt_cache.attach(room.disk, folder, stamps_of(folder))
    return batch


def answer(batch: RunningBatch, tokens: list[int]) -> tuple[list[int], int]:
    """Return eight tokens, and how many of the prompt came from disk."""
    if batch.prompt_cache.is_on_disk(ME, tokens):
        batch.prompt_cache.read([(ME, tokens)]).result(60)
    sequence = BatchSequence(tokens, owner=ME)
    batch.insert(sequence)
    drawn: list[int] = []
    while len(drawn) < 8:
        drawn += [token for row in batch.step().values() for token, _ in row.sampled]
    batch.remove({sequence.number: 0})
    batch.close()
    return drawn, sequence.from_disk


@pytest.mark.parametrize("kind", KINDS)
def test_the_next_turn_continues_from_disk_token_for_token(
    kind: str, tmp_path: Path, model: Path
) -> None:
    network = tiny_model(kind)
    room = Room(tmp_path / "kept", model)
    room.load(model, make_prompt_cache(network))
    first, _ = answer(batch_of(network, room, model), PROMPT)
    room.close()

    later = Room(tmp_path / "kept", model)
    later.load(model, make_prompt_cache(network))
    # The last token of an answer has been drawn, but not read.
    turn = [*PROMPT, *first[:-1], *range(5, 25)]
    again, from_disk = answer(batch_of(network, later, model), turn)
    later.wait()
    later.close()

    anew, none = answer(batch_of(network, None, model), turn)
    assert from_disk >= len(PROMPT) // BLOCK * BLOCK
    assert none == 0
    assert again == anew
