"""The Storage page: how much is kept on disk, and forgetting it."""

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from engine import DiskCache
from engine.values.request import CacheOwner
from tests.support.kept import preferences_state
from tests.ui.driving import confirm_deletion, eventually
from ui.kit.theme import Theme
from ui.preferences import STORAGE
from ui.preferences_state import PreferencesState
from ui.window.preferences_dialog import PreferencesDialog


def filled(folder: Path) -> DiskCache:
    """Return the caches of a folder that holds 2,000 bytes of two conversations."""
    disk = DiskCache(folder, 1_000_000)
    for name in ("one", "two"):
        with disk.folder.unfinished(1000) as path:
            path.write_bytes(name.encode().ljust(1000))
            disk.folder.commit(path, "model", CacheOwner(name), "0" * 64)
    return disk


def storage_page(
    theme: Theme, state: PreferencesState, parent: QWidget, disk: DiskCache | None
) -> PreferencesDialog:
    dialog = PreferencesDialog(state, parent, disk)
    dialog.show_pane(STORAGE)
    dialog.show()
    return dialog


async def test_it_says_how_much_is_kept_and_forgets_it(
    theme: Theme, parent: QWidget, qtbot: QtBot, tmp_path: Path
) -> None:
    disk = filled(tmp_path)
    dialog = storage_page(theme, preferences_state(), parent, disk)
    row = dialog.kept
    assert row is not None
    await eventually(lambda: row.size_label.text() == "2.0 kB")
    assert row.size_label.accessibleName() == "Cached Prompts on Disk: 2.0 kB"
    await eventually(row.forget.isEnabled)
    qtbot.mouseClick(row.forget, Qt.MouseButton.LeftButton)
    assert len(disk.folder.files()) == 2, "nothing is deleted before it is confirmed"
    assert "2.0 kB" in await confirm_deletion(dialog)
    await eventually(lambda: row.size_label.text() == "0 bytes")
    assert not row.forget.isEnabled()
    assert disk.folder.files() == {}
    dialog.close()
    disk.close()


async def test_keeping_none_deletes_what_is_there_and_the_page_shows_it(
    theme: Theme, parent: QWidget, tmp_path: Path
) -> None:
    disk = filled(tmp_path)
    state = preferences_state()
    state.changed.connect(lambda _: disk.limit_to(state.now.kept_prompts_bytes))
    dialog = storage_page(theme, state, parent, disk)
    row = dialog.kept
    assert row is not None
    await eventually(lambda: row.size_label.text() == "2.0 kB")
    state.change(kept_prompts_gb=0)
    await eventually(lambda: row.size_label.text() == "0 bytes")
    dialog.close()
    disk.close()
