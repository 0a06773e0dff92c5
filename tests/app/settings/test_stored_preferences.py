from dataclasses import replace
from pathlib import Path

import pytest

from app.settings.settings_file import StoredPreferences
from ui.preferences import NewConversation, Preferences, ServerPreferences
from ui.preferences_state import PreferencesState


def test_preferences_round_trip(tmp_path: Path) -> None:
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
    StoredPreferences(tmp_path).save(wanted)
    assert StoredPreferences(tmp_path).preferences() == wanted


async def test_unsaved_preference_is_reported(tmp_path: Path) -> None:
    (tmp_path / "no folder").write_text("")
    state = PreferencesState(Preferences(), StoredPreferences(tmp_path / "no folder").save)
    said: list[str] = []
    state.keeping_failed.connect(said.append)
    state.change(theme="dark")
    assert state.now.theme == "dark"
    await state.finish()
    assert said[0].startswith("Your settings could not be saved: ")


def test_a_preference_that_could_not_be_saved_is_saved_later(tmp_path: Path) -> None:
    folder = tmp_path / "no folder"
    folder.write_text("")
    stored, dark = StoredPreferences(folder), Preferences(theme="dark")
    with pytest.raises(FileExistsError):
        stored.save(dark)
    folder.unlink()
    stored.save(dark)
    assert StoredPreferences(folder).preferences() == dark


def test_layout_and_last_model_are_stored(tmp_path: Path) -> None:
    stored = StoredPreferences(tmp_path)
    stored.save_window_layout(b"\x00\xff layout")
    stored.save_last_model(tmp_path)
    stored.save(replace(stored.preferences(), theme="light"))
    again = StoredPreferences(tmp_path)
    assert (again.window_layout, again.last_model) == (b"\x00\xff layout", tmp_path)
