"""The collector's pause leaves alone what others decide."""

import gc
from collections.abc import Iterator

import pytest

from engine.threads import collector_paused


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    threshold, was_enabled = gc.get_threshold(), gc.isenabled()
    yield
    gc.set_threshold(*threshold)
    (gc.enable if was_enabled else gc.disable)()


def test_collector_pause_restores_threshold() -> None:
    gc.set_threshold(700, 10, 10)
    with collector_paused():
        assert gc.get_threshold()[0] == 0
    assert gc.get_threshold() == (700, 10, 10)


def test_collector_turned_off_during_pause_stays_off() -> None:
    gc.enable()
    with collector_paused():
        gc.disable()
    assert not gc.isenabled()
