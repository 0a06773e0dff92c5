"""Weight files are in the system's memory by the time they are loaded, and nobody waits for it."""

import time
from pathlib import Path

import pytest

from engine.inference.backend import BatchLimits, LoadProgress
from engine.inference.loader import ReadingAhead, load_model

LIMIT_S = 60


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, size in (("one.safetensors", 9 << 20), ("two.safetensors", 5 << 20), ("x.txt", 99)):
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
    return tmp_path


def test_all_weight_files_are_read(folder: Path) -> None:
    with ReadingAhead(folder, 1 << 30) as ahead:
        assert ahead.wait(LIMIT_S)
    assert ahead.read_bytes == 14 << 20


def test_no_more_is_read_than_was_allowed(folder: Path) -> None:
    with ReadingAhead(folder, (10 << 20) + 3) as ahead:
        assert ahead.wait(LIMIT_S)
    assert ahead.read_bytes == (10 << 20) + 3


def test_it_ends_when_the_weights_are_loaded_and_forwards_the_progress(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_endlessly(*_: object) -> int:
        time.sleep(0.001)
        return 1

    monkeypatch.setattr("engine.inference.loader._read_some", read_endlessly)
    seen: list[LoadProgress] = []
    with ReadingAhead(folder, 1 << 60) as ahead:
        observe = ahead.until_weights(seen.append)
        observe(LoadProgress("tokenizer"))
        while ahead.read_bytes == 0:
            assert not ahead.wait(0.01)
        observe(LoadProgress("weights", 0, 9))
        assert ahead.wait(LIMIT_S)
    assert seen == [LoadProgress("tokenizer"), LoadProgress("weights", 0, 9)]


def test_an_unreadable_folder_is_left_to_the_loader_to_report(tmp_path: Path) -> None:
    with ReadingAhead(tmp_path / "none") as nothing:
        assert nothing.wait(LIMIT_S)
    (tmp_path / "is_a_folder.safetensors").mkdir()
    with ReadingAhead(tmp_path) as ahead:
        assert ahead.wait(LIMIT_S)
    assert nothing.read_bytes == ahead.read_bytes == 0


def test_a_model_is_loaded_with_its_weights_read_ahead(
    demo_model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[ReadingAhead] = []

    class Noted(ReadingAhead):
        def __init__(self, folder: Path) -> None:
            super().__init__(folder)
            made.append(self)

    monkeypatch.setattr("engine.inference.loader.ReadingAhead", Noted)
    phases: list[str] = []

    def note(progress: LoadProgress) -> None:
        phases.append(progress.phase)
        if progress.phase == "checking":
            assert made[0].wait(LIMIT_S)  # the libraries are there, the weights are not

    backend = load_model(demo_model_path, limits=BatchLimits(64, 0, 1), on_progress=note)
    backend.close()
    assert phases[-1] == "weights"
    assert made[0].read_bytes == sum(
        one.stat().st_size for one in demo_model_path.glob("*.safetensors")
    )
