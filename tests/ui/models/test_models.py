"""The window of models: what is here, fetching more, loading, changing and freeing."""

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QDesktopServices
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from engine.engine import Engine
from engine.inference.backend import LoadProgress, OnLoadProgress
from tests.support.scripted import Stage
from tests.ui.driving import eventually
from tests.ui.models.opened import OpenedModels
from ui.kit.dialogs import show_in_files_label
from ui.kit.theme import Theme
from ui.models.model_list import button_area


async def test_a_model_is_loaded_from_the_list_and_shown_as_loaded(opened: OpenedModels) -> None:
    opened.click("demo-model")
    await opened.loaded("demo-model")
    assert opened.status("demo-model").action == "loaded"
    assert "of weights" in opened.status("demo-model").text
    opened.pick("demo-model")
    menus: list[object] = []
    opened.models.list.menu_requested.connect(lambda *shown: menus.append(shown))
    QTest.keyClick(opened.models.list, Qt.Key.Key_Return)
    assert len(menus) == 1
    QTest.keyClick(QApplication.activePopupWidget(), Qt.Key.Key_Escape)
    opened.window.model_library.mark_waiting(frozenset({opened.demo.resolve()}))
    assert "approval" in opened.status("demo-model").text
    opened.pick("demo-model").unload.click()
    await eventually(lambda: opened.state.stage == "none")
    assert opened.engine.model is None
    assert opened.status("demo-model").action == "load"
    assert "used today" in opened.status("demo-model").text


async def test_the_button_of_a_row_loads_its_model_and_opens_the_menu_of_a_loaded_one(
    opened: OpenedModels,
) -> None:
    models = opened.models
    models.list.pick(opened.entry("demo-model"))
    place = button_area(models.list.visualRect(models.list.currentIndex())).center()
    menus: list[str] = []
    models.list.menu_requested.connect(lambda entry, _: menus.append(entry.name))
    left = Qt.MouseButton.LeftButton
    QTest.mouseClick(models.list.viewport(), left, pos=place - QPoint(200, 0))
    assert opened.state.stage == "none"
    QTest.mouseClick(models.list.viewport(), left, pos=place)
    await opened.loaded("demo-model")
    QTest.mouseClick(models.list.viewport(), left, pos=place)
    assert menus == ["demo-model"]
    popup = QApplication.activePopupWidget()
    assert popup is not None
    popup.close()


async def test_a_folder_that_is_added_is_listed_kept_and_may_be_left_again(
    theme: Theme, tmp_path: Path, demo_model_path: Path
) -> None:
    folder = tmp_path / "mine" / "a-model"
    shutil.copytree(demo_model_path, folder)
    async with OpenedModels(theme, tmp_path, demo_model_path) as opened:
        library = opened.window.model_library
        assert library is not None
        library.add_folder(tmp_path / "mine")
        await eventually(lambda: opened.has("a-model"))
        assert opened.window.preferences.now.models.folders == (str(tmp_path / "mine"),)
        opened.click("a-model")
        await opened.loaded("a-model")
        library.remove_folder(tmp_path / "mine")
        await eventually(lambda: not opened.has("a-model"))
        assert (folder / "model.safetensors").exists()
        assert opened.window.preferences.now.models.choices[-1].folder == str(folder)


async def test_unloadable_local_model_shows_why(
    theme: Theme, tmp_path: Path, demo_model_path: Path
) -> None:
    shutil.copytree(demo_model_path, tmp_path / "mine" / "newer")
    config = tmp_path / "mine" / "newer" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"model_type": "newer9"}))
    async with OpenedModels(theme, tmp_path, demo_model_path) as opened:
        library = opened.window.model_library
        assert library is not None
        library.add_folder(tmp_path / "mine")
        await eventually(lambda: opened.has("newer"))
        assert not opened.pick("newer").primary.isEnabled()
        assert opened.status("newer").text.startswith("It is of architecture newer9")


async def test_removed_folder_comes_back_by_undo(
    theme: Theme, tmp_path: Path, demo_model_path: Path
) -> None:
    for name in ("many/one", "many/two", "alone/three"):
        shutil.copytree(demo_model_path, tmp_path / name)
    (tmp_path / "empty").mkdir()
    many, alone, empty = tmp_path / "many", tmp_path / "alone" / "three", tmp_path / "empty"
    async with OpenedModels(theme, tmp_path, demo_model_path) as opened:
        library, question = opened.window.model_library, opened.models.question
        for folder in (many, alone, empty):
            library.add_folder(folder)
        await eventually(lambda: opened.has("two") and opened.has("three"))
        shown = {folder: opened.status(str(folder)).text for folder in (many, alone, empty)}
        assert list(shown.values()) == ["2 models", "1 model", "No models were found in it."]

        def remove(folder: Path) -> None:
            opened.click(str(folder))

        remove(many)
        await eventually(lambda: not opened.has("one") and not opened.has("two"))
        assert opened.has("three")
        assert "Nothing was deleted" in question.caption.text()
        opened.answer("Undo")
        await eventually(lambda: opened.has("one") and opened.has("two"))
        assert library.folders == (many, alone, empty)
        remove(empty)
        assert library.folders == (many, alone)


class Slow:
    """Loads a stage's model as slowly as from a slow disk."""

    def __init__(self, folder: Path) -> None:
        words = [f"w{number} " for number in range(300)]
        self.stage = Stage(folder, {"long": words}, step_s=0.01)

    def __call__(self, folder: Path, *, on_progress: OnLoadProgress, **options: Any) -> Any:
        import time

        for done in range(0, 101, 5):
            on_progress(LoadProgress("weights", done * 10**7, 10**9))
            time.sleep(0.03)
        return self.stage.load(folder, **options)


async def test_loading_shows_bytes_and_can_be_cancelled(
    theme: Theme, tmp_path: Path, demo_model_path: Path
) -> None:
    engine = Engine(loader=Slow(tmp_path))
    async with OpenedModels(theme, tmp_path, demo_model_path, engine) as opened:
        opened.click("demo-model")
        details = opened.models.details
        await eventually(lambda: "of 1.0 GB" in opened.status("demo-model").text)
        await eventually(lambda: (opened.status("demo-model").percent or 0) > 0)
        assert details.primary.text() == "Cancel"
        details.primary.click()
        await eventually(lambda: opened.state.stage == "none")
        assert opened.status("demo-model").action == "load"


@pytest.mark.parametrize(
    ("words", "is_ended"), [("Load When Finished", False), ("Stop and Load", True)]
)
async def test_a_change_while_an_answer_is_written_asks_first(
    theme: Theme, tmp_path: Path, demo_model_path: Path, words: str, is_ended: bool
) -> None:
    stage, is_decided = Stage(tmp_path, {"long": ["w "] * 1000}), threading.Event()
    stage.slow_until(is_decided)
    engine = Engine(loader=stage.load)
    async with OpenedModels(theme, tmp_path, demo_model_path, engine) as opened:
        opened.state.load(demo_model_path)
        await eventually(lambda: opened.state.stage == "ready")
        workspace = opened.window.workspace
        assert workspace.send("long")
        await eventually(lambda: opened.state.answers_under_way() == 1)
        opened.click("demo-model")
        assert opened.models.question.isVisible()
        assert opened.models.question.caption.text() == "An answer is being written."
        opened.answer(words)
        if not is_ended:
            is_decided.set()
        assert not opened.models.question.isVisible()
        await eventually(
            lambda: opened.state.stage == "ready" and not opened.state.answers_under_way()
        )
        written = workspace.current.conversation.messages[-1].run
        assert written is not None
        await eventually(lambda: written.finished is not None)
        assert (written.finished.stop.kind == "cancelled") is is_ended


async def test_the_idle_time_before_unloading_is_chosen_and_saved(opened: OpenedModels) -> None:
    opened.click("demo-model")
    await opened.loaded("demo-model")
    opened.models.memory.idle_unload.choose("15")
    assert opened.window.preferences.now.models.rests_after_min == 15
    opened.engine.unload_after(0.05)
    await eventually(lambda: opened.status("demo-model").text.startswith("Unloaded"))
    opened.engine.unload_after(None)
    assert opened.window.workspace.send("Hello")
    await eventually(lambda: opened.status("demo-model").action == "loaded")


async def test_damaged_model_of_own_folder_is_shown_there_and_loads_once_repaired(
    theme: Theme, tmp_path: Path, demo_model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(demo_model_path, broken)
    (broken / "model.safetensors").write_bytes(b"x" * 100)
    async with OpenedModels(theme, tmp_path, demo_model_path) as opened:
        opened.state.load(broken)
        await eventually(lambda: opened.state.stage == "failed")
        details = opened.pick("broken")
        assert opened.status("broken").text == "The file model.safetensors is damaged."
        assert "is damaged: " in details.status.text()
        shutil.copy(demo_model_path / "model.safetensors", broken)
        assert details.primary.text() == show_in_files_label()
        shown: list[str] = []
        monkeypatch.setattr(
            QDesktopServices, "openUrl", lambda url: shown.append(url.toLocalFile()) or True
        )
        details.primary.click()
        assert shown == [str(broken)]
        opened.state.load_again(broken)
        await opened.loaded("broken")
