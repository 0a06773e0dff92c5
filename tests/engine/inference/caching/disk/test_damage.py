"""Damaged, foreign and half-written files are dropped silently, and never give a wrong token."""

from pathlib import Path

import mlx.core as mx
import pytest

from engine.inference.cache import disk as cache_files
from tests.support.models.disk_caches import Room

IDS = list(range(200))


@pytest.fixture
def kept(room: Room) -> Path:
    """The first file of a cache of 200 tokens."""
    room.keep(IDS)
    first, *_ = room.paths
    return first


def reopened(room: Room, model: Path) -> int:
    """Return how many tokens a later process finds; what it finds must be right."""
    later = Room(room.disk.folder.path, model)
    try:
        return later.tokens([*IDS, 1])
    finally:
        later.close()


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
def test_file_with_a_damaged_byte_is_deleted(
    room: Room, model: Path, kept: Path, share: float
) -> None:
    data = bytearray(kept.read_bytes())
    data[int(share * (len(data) - 1))] ^= 1 << int(share * 7)
    kept.write_bytes(bytes(data))
    assert reopened(room, model) == 0
    assert not kept.exists()


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5])
def test_shortened_file_is_deleted_and_written_again(
    room: Room, model: Path, kept: Path, share: float
) -> None:
    data = kept.read_bytes()
    kept.write_bytes(data[: int(share * len(data))])
    assert reopened(room, model) == 0
    assert not kept.exists()
    room.keep(IDS)
    assert room.tokens([*IDS, 1]) == 192


def test_foreign_file_with_a_fitting_name_is_deleted(room: Room, model: Path, kept: Path) -> None:
    mx.save_safetensors(str(kept), {"weight": mx.ones((4, 4))})
    assert reopened(room, model) == 0
    assert not kept.exists()


def test_file_of_another_version_is_not_read(
    room: Room, model: Path, monkeypatch: pytest.MonkeyPatch, kept: Path
) -> None:
    monkeypatch.setattr(cache_files, "FORMAT", 999)
    assert reopened(room, model) == 0
