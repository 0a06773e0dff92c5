"""The folder of kept caches: names, permissions, sizes, and what others do in it."""

import hashlib
import os
import stat
from pathlib import Path

import pytest

from engine.inference.cache import disk as cache_files
from engine.inference.cache.disk import CacheFolder
from engine.values.request import CacheOwner


def write(
    folder: CacheFolder, text: bytes = b"text", kept_with: str = "me", model: str = "m"
) -> str:
    with folder.unfinished(len(text)) as path:
        path.write_bytes(text)
        key = hashlib.sha256(text).hexdigest()
        return folder.commit(path, model, CacheOwner("me", kept_with), key)


@pytest.fixture
def folder(tmp_path: Path) -> CacheFolder:
    return CacheFolder(tmp_path / "caches" / "own")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_files_and_folder_are_for_their_person_alone(folder: CacheFolder) -> None:
    before = os.umask(0)
    try:
        name = write(folder)
    finally:
        os.umask(before)
    assert mode(folder.path) == 0o700
    assert mode(folder.path / name) == 0o600


def test_a_folder_that_others_could_open_is_closed_to_them(folder: CacheFolder) -> None:
    folder.path.mkdir(parents=True)
    folder.path.chmod(0o755)
    write(folder)
    assert mode(folder.path) == 0o700


def test_file_that_is_not_committed_is_deleted(folder: CacheFolder) -> None:
    with pytest.raises(OSError, match="No space left"), folder.unfinished(3):
        raise OSError("No space left")
    assert list(folder.path.iterdir()) == []


def test_the_least_recently_used_files_go_first(folder: CacheFolder) -> None:
    first, second, third = (write(folder, text) for text in (b"one1", b"two2", b"tri3"))
    folder.touch([first])
    assert folder.shrink_to(8) == [second]
    assert set(folder.files()) == {first, third}
    assert folder.size_bytes == 8


def test_an_owner_is_forgotten_with_the_caches_for_every_model(folder: CacheFolder) -> None:
    write(folder, b"1", "me", "one model")
    write(folder, b"2", "me", "another model")
    other = write(folder, b"3", "you", "one model")
    folder.delete_owner(CacheOwner("me", "me"))
    assert list(folder.files()) == [other]


def test_files_of_other_programs_are_left_alone(folder: CacheFolder) -> None:
    write(folder)
    (folder.path / "notes.txt").write_text("mine")
    (folder.path / "model.safetensors").write_text("mine")
    folder.shrink_to(0)
    assert sorted(one.name for one in folder.path.iterdir()) == ["model.safetensors", "notes.txt"]


def test_unfinished_files_of_killed_processes_are_deleted(folder: CacheFolder) -> None:
    folder.path.mkdir(parents=True)
    alive, dead = (folder.path / f"unfinished-{digit * 16}.safetensors" for digit in "01")
    for path in (alive, dead):
        path.touch()
    os.utime(dead, (0, 0))
    folder.delete_abandoned()
    assert list(folder.path.iterdir()) == [alive]


def test_the_last_room_on_a_disk_is_left_free(
    folder: CacheFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_files, "MIN_FREE_BYTES", 1 << 60)
    with pytest.raises(OSError, match="nearly full"):
        write(folder)
