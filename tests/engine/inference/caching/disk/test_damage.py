"""Damaged, foreign and half-written files are dropped silently, and never give a wrong token."""

from pathlib import Path

import mlx.core as mx
import pytest

from engine.files.json_fields import DamagedFile
from engine.inference.cache import disk as cache_files
from engine.inference.cache.disk import FileHeader
from tests.support.models.disk_caches import Room

IDS = list(range(200))


@pytest.fixture
def kept(room: Room) -> Path:
    """The file of a cache of 200 tokens."""
    room.keep(IDS)
    [name] = room.names
    return room.disk.folder.path / name


def reopened(room: Room, model: Path) -> int:
    """Return how many tokens a later process finds; what it finds must be right."""
    later = Room(room.disk.folder.path, model)
    try:
        return later.tokens([*IDS, 1])
    finally:
        later.close()


def flip(path: Path, place: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1 << bit
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
def test_a_damaged_byte_anywhere_drops_the_file(
    room: Room, model: Path, kept: Path, share: float
) -> None:
    flip(kept, int(share * (kept.stat().st_size - 1)), bit=int(share * 24) % 8)
    assert reopened(room, model) == 0
    assert not kept.exists()


def test_a_file_damaged_while_the_program_runs_is_dropped(room: Room, kept: Path) -> None:
    flip(kept, kept.stat().st_size - 9)
    assert room.tokens([*IDS, 1]) == 0
    room.wait()
    assert not kept.exists()
    room.keep(IDS)
    assert room.tokens([*IDS, 1]) == 200


def starts_at_zero(room: Room, name: str) -> bool:
    return FileHeader.from_metadata(room.disk.folder.metadata(name)).start == 0


def test_blocks_after_a_damaged_block_are_unused_until_it_is_rewritten(
    room: Room, model: Path
) -> None:
    room.keep(list(range(500)))
    room.keep(list(range(560)))
    first = next(name for name in room.disk.folder.files() if starts_at_zero(room, name))
    path = room.disk.folder.path / first
    flip(path, path.stat().st_size - 5)
    later = Room(room.disk.folder.path, model)
    assert later.tokens([*range(560), 1]) == 0
    later.keep(list(range(560)))
    assert later.tokens([*range(560), 1]) == 560
    later.close()


def test_a_file_of_another_version_is_dropped(
    room: Room, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    room.wait()
    monkeypatch.setattr(cache_files, "FORMAT", 999)
    room.keep(IDS)
    monkeypatch.undo()
    assert len(room.names) == 1
    assert reopened(room, model) == 0
    assert room.names == []


def test_a_foreign_file_with_a_fitting_name_is_dropped(room: Room, model: Path, kept: Path) -> None:
    mx.save_safetensors(str(kept), {"weight": mx.ones((4, 4))})
    assert reopened(room, model) == 0
    assert not kept.exists()


@pytest.mark.parametrize(
    "metadata",
    [None, {"fullstop": "not json"}, {"fullstop": '{"format": 1}'}, {"fullstop": "[" * 10_000}],
)
def test_metadata_of_another_kind_is_no_segment(metadata: object) -> None:
    with pytest.raises(DamagedFile):
        FileHeader.from_metadata(metadata)
