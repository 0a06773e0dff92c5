import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from app.settings.settings_file import FILE_NAME, StoredPreferences
from ui import preferences_state
from ui.preferences import NewConversation, Preferences, ServerPreferences
from ui.preferences_state import PreferencesState


def test_every_preference_survives_a_restart(tmp_path: Path) -> None:
    wanted = Preferences(
        theme="dark",
        has_high_contrast=True,
        stays_in_tray=False,
        columns=(("Requests", "Time"), ("Runs", "When")),
        server=ServerPreferences(
            port=9001,
            is_on_network=True,
            is_key_required=True,
            allowed_origins=("*",),
            at_launch="on",
            was_on=True,
        ),
        new_conversation=NewConversation("Be brief.", 0.25, 77, True),
    )
    StoredPreferences(tmp_path).keep(wanted)
    assert StoredPreferences(tmp_path).preferences() == wanted


def test_the_default_preferences_agree_in_file_and_window(tmp_path: Path) -> None:
    assert StoredPreferences(tmp_path).preferences() == Preferences()


class SlowPreferences(StoredPreferences):
    """Notes the threads that write to the disk, and can delay them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.threads: list[int] = []
        self.gate = threading.Event()
        self.gate.set()

    def keep(self, preferences: Preferences) -> None:
        self.threads.append(threading.get_ident())
        assert self.gate.wait(30)
        super().keep(preferences)


async def test_changes_are_kept_on_another_thread_and_the_newest_wins(tmp_path: Path) -> None:
    stored = SlowPreferences(tmp_path)
    state = PreferencesState(stored.preferences(), stored)
    stored.gate.clear()
    for port in range(9002, 9012):
        state.change_server(port=port)
        await asyncio.sleep(0)
    stored.gate.set()
    await state.finish()
    assert threading.get_ident() not in stored.threads
    assert len(stored.threads) <= 2, "changes that arrive meanwhile are kept together"
    assert StoredPreferences(tmp_path).preferences().server.port == 9011


async def test_a_change_that_cannot_be_kept_takes_effect_and_is_reported(tmp_path: Path) -> None:
    (tmp_path / "no folder").write_text("")
    state = PreferencesState(Preferences(), StoredPreferences(tmp_path / "no folder"))
    said: list[str] = []
    state.keeping_failed.connect(said.append)
    state.change(theme="dark")
    assert state.now.theme == "dark"
    await state.finish()
    assert said[0].startswith("Your settings could not be saved: ")


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def test_an_unsaved_change_is_kept_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preferences_state, "_TRIED_AGAIN_AFTER_S", 0.01)
    obstacle = tmp_path / "folder"
    obstacle.write_text("")

    async def steps() -> None:
        stored = StoredPreferences(obstacle)
        state = PreferencesState(Preferences(), stored)
        said: list[str] = []
        state.keeping_failed.connect(said.append)
        state.change(theme="dark")
        await until(lambda: bool(said))
        await asyncio.to_thread(obstacle.unlink)
        await until((obstacle / FILE_NAME).exists)
        await state.finish()
        assert len(said) == 1

    asyncio.run(asyncio.wait_for(steps(), 60))
    assert StoredPreferences(obstacle).preferences().theme == "dark"


def test_layout_and_model_are_kept_beside_the_preferences(tmp_path: Path) -> None:
    stored = StoredPreferences(tmp_path)
    stored.keep_window_layout(b"\x00\xff layout")
    stored.keep_last_model(tmp_path)
    stored.keep(replace(stored.preferences(), theme="light"))
    again = StoredPreferences(tmp_path)
    assert (again.window_layout, again.last_model) == (b"\x00\xff layout", tmp_path)


def test_a_model_that_no_longer_exists_is_not_the_last_one(tmp_path: Path) -> None:
    stored = StoredPreferences(tmp_path)
    stored.keep_last_model(tmp_path / "gone")
    assert stored.last_model is None


def test_a_damaged_layout_is_ignored(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text('{"window_layout": "not base64!"}')
    assert StoredPreferences(tmp_path).window_layout == b""
