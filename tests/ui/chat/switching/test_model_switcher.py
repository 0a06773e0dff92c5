"""The list that opens from the model's name in the header."""

import shutil
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from engine.library.memory_need import Fit
from tests.ui.chat.switching.several import SeveralModels
from tests.ui.driving import eventually
from ui.kit.rows import CONTENT
from ui.kit.theme import Theme
from ui.models.model_entries import Entry, state_of
from ui.words import THIS_COMPUTER


async def test_typing_finds_a_model_and_return_loads_it(several: SeveralModels) -> None:
    switcher = several.open()
    assert sorted(several.names) == ["alpha", "beta"]
    QTest.keyClicks(switcher.field, "be")
    assert several.names == ["beta"]
    assert switcher.note.text() == "1 of 2 models"
    several.press(Qt.Key.Key_Return)
    assert not switcher.isVisible()
    await eventually(lambda: several.answering.state.stage == "ready")
    assert several.engine.model is not None
    assert several.engine.model.id == "beta"
    assert several.header.name.text() == "beta"


async def test_switcher_without_match_searches_the_hub(several: SeveralModels) -> None:
    switcher = several.window.choosing_model.switcher
    switcher.pop_up(several.window)
    switcher.field.setText("gemma none")
    assert switcher.hub_search.text() == "Search Hugging Face for “gemma none”"
    several.press(Qt.Key.Key_Return)
    assert switcher.isHidden()
    assert several.window.others.models.field.text() == "gemma none"
    several.window.others.models.close()


async def test_arrows_walk_and_escape_changes_nothing(several: SeveralModels) -> None:
    switcher = several.open()
    assert switcher.list.currentIndex().row() == 0
    several.press(Qt.Key.Key_Down)
    assert switcher.list.currentIndex().row() == 1
    several.press(Qt.Key.Key_Down)
    assert switcher.list.currentIndex().row() == 1
    several.press(Qt.Key.Key_Up)
    assert switcher.list.currentIndex().row() == 0
    several.press(Qt.Key.Key_Escape)
    assert not switcher.isVisible()
    assert several.answering.state.stage == "none"


async def test_a_model_that_may_not_fit_is_loaded_only_after_a_question(
    several: SeveralModels,
) -> None:
    library = several.window.model_library
    library.local = [replace(one, fit=Fit.TOO_LARGE) for one in library.local]
    library.refresh = lambda: None  # type: ignore[method-assign]
    switcher = several.open()
    content = switcher.rows.data(switcher.rows.index(0, 0), CONTENT)
    assert content.right.text == f"Too large for {THIS_COMPUTER}"
    several.press(Qt.Key.Key_Return)
    assert switcher.isVisible()
    assert "is too large" in switcher.warning.text()
    assert several.answering.state.stage == "none"
    QTest.keyClick(switcher.anyway, Qt.Key.Key_Space)
    assert not switcher.isVisible()
    await eventually(lambda: several.answering.state.stage == "ready")


async def test_a_name_is_found_before_an_architecture(
    theme: Theme, tmp_path: Path, demo_model_path: Path
) -> None:
    names = ("alpha", "some-qwen")  # the architecture of both is qwen3
    async with SeveralModels(theme, tmp_path, demo_model_path, names) as several:
        QTest.keyClicks(several.open().field, "qwen")
        assert several.names == ["some-qwen", "alpha"]


async def test_a_loaded_model_outside_the_known_folders_is_listed_and_not_lost(
    theme: Theme, tmp_path: Path, demo_model_path: Path
) -> None:
    outside = tmp_path / "elsewhere" / "gamma"
    shutil.copytree(demo_model_path, outside)
    async with SeveralModels(theme, tmp_path, demo_model_path, at_once=True) as several:
        several.window.start(outside)
        await eventually(lambda: several.answering.state.stage == "ready")
        switcher = several.open()
        assert several.names[0] == "gamma"
        assert switcher.note.text() == "3 models"
        gamma, library = switcher.rows.at(0), several.window.model_library
        assert "can’t be found" not in state_of(Entry("gamma", gamma), library).text


async def test_narrow_header_hides_name_of_ready_model(several: SeveralModels) -> None:
    several.open()
    several.header.show_compact(True)
    assert not several.header.name.isHidden()
    several.press(Qt.Key.Key_Return)
    await eventually(lambda: several.answering.state.stage == "ready")
    several.header.show_compact(True)
    assert several.header.name.isHidden()
    several.header.show_compact(False)
    assert not several.header.name.isHidden()
