"""The caches of the window's conversations on disk: kept, used, and deleted with them."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import DiskCache, Engine
from engine.inference.cache import index
from tests.support.shown import main_window, shown
from tests.ui.driving import eventually
from tests.ui.window.kept.driving_kept import ask
from ui.kit.theme import Theme

LONG = "the quick brown fox jumps over the lazy dog and says hello. " * 8


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[DiskCache]:
    disk = DiskCache(tmp_path / "kept", 1 << 30)
    yield disk
    disk.close()


@pytest.fixture
def keeping(
    disk: DiskCache, demo_model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Engine]:
    monkeypatch.setattr(index, "BLOCK_TOKENS", 16)  # files hold full blocks
    engine = Engine(disk=disk)
    asyncio.run(engine.load(demo_model_path))
    yield engine
    engine.close()


async def test_a_conversation_goes_on_from_disk_once_the_model_was_unloaded(
    keeping: Engine, disk: DiskCache, theme: Theme
) -> None:
    async with shown(main_window(keeping, theme)) as window:
        await ask(window, f"{LONG}Count from 1 to 5")
        keeping.unload_when_idle()
        await eventually(lambda: keeping.status.is_unloaded)
        await asyncio.wrap_future(disk.measured())
        await ask(window, "Count from 1 to 7")
        finished = window.workspace.current.conversation.messages[-1].run.finished
        assert finished.usage.disk_tokens > 100


async def test_deleting_a_conversation_deletes_its_caches_alone(
    keeping: Engine, disk: DiskCache, theme: Theme
) -> None:
    async with shown(main_window(keeping, theme)) as window:
        await ask(window, f"{LONG}Count from 1 to 5")
        first = window.workspace.current.conversation
        window.workspace.new_conversation()
        await ask(window, f"{LONG}Say: hello")
        both = await asyncio.wrap_future(disk.measured())
        window.workspace.delete(first)
        left = await asyncio.wrap_future(disk.measured())
        assert 0 < left < both
        window.workspace.conversations.undo_last()
        assert await asyncio.wrap_future(disk.measured()) == left
        window.workspace.open(first)
        await ask(window, "Count from 1 to 7")
        assert await asyncio.wrap_future(disk.measured()) > left
