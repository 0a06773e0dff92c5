"""Prompts wait for the list of kept caches, all of them together for a few seconds at most."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.inference.cache import prompt_cache
from tests.support.models.disk_caches import Room


class Clock:
    """A clock that only waiting moves on."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.waits_s: list[float] = []

    def monotonic(self) -> float:
        return self.now_s

    def exception(self, timeout_s: float) -> None:
        """Wait in vain, as for a list that takes long."""
        self.waits_s.append(timeout_s)
        self.now_s += timeout_s
        raise TimeoutError


def test_a_long_list_holds_up_the_prompts_after_a_load_once_and_not_each_of_them(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(prompt_cache, "time", SimpleNamespace(monotonic=clock.monotonic))
    room = Room(tmp_path / "kept", model)
    try:
        monkeypatch.setattr(room.model, "_is_listed", clock)
        clock.now_s += 2
        for _ in range(3):
            room.model.wait_for_files()
    finally:
        room.close()

    assert clock.waits_s == [3.0, 0.0, 0.0]
