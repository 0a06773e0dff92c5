"""The list that opens from the model's name in the header."""

import asyncio
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from engine.library.memory import Fit
from tests.ui.chat.switching.several import SeveralModels
from tests.ui.driving import eventually
from ui.kit.theme import Theme


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


async def test_a_name_that_has_the_words_stands_before_an_architecture_that_has_them(
    theme: Theme, tmp_path: Path, demo_model_path: Path
) -> None:
    async with SeveralModels(theme, tmp_path, demo_model_path, ("a", "my-qwen")) as several:
        switcher = several.open()
        assert several.names == ["a", "my-qwen"]
        QTest.keyClicks(switcher.field, "qwen")
        assert several.names == ["my-qwen", "a"]


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


async def test_the_model_of_the_conversation_stands_first_then_those_used_last(
    theme: Theme, tmp_path: Path, demo_model_path: Path
) -> None:
    names = ("alpha", "beta", "gamma")
    async with SeveralModels(theme, tmp_path, demo_model_path, names) as several:
        await several.load("gamma")
        await several.load("beta")
        switcher = several.open()
        assert several.names == ["beta", "gamma", "alpha"]
        row = switcher.rows.at(0)
        assert (row.is_chosen, row.is_loaded) == (True, True)
        assert row.state[0] == "Loaded"
        assert switcher.rows.at(1).state[0] == "Fits"
        spoken = switcher.rows.index(0).data(Qt.ItemDataRole.AccessibleTextRole)
        assert spoken.startswith("beta, ")
        assert "Loaded" in spoken
        assert "answers this conversation" in spoken


async def test_a_model_that_may_not_fit_is_loaded_only_after_a_question(
    several: SeveralModels,
) -> None:
    library = several.window.model_library
    library.local = [replace(one, fit=Fit.TOO_LARGE) for one in library.local]
    library.refresh = lambda: None  # type: ignore[method-assign]
    switcher = several.open()
    assert switcher.rows.at(0).state[0] == "Too large"
    several.press(Qt.Key.Key_Return)
    assert switcher.isVisible()
    assert "may not fit" in switcher.warning.text()
    assert several.answering.state.stage == "none"
    QTest.keyClick(switcher.anyway, Qt.Key.Key_Space)
    assert not switcher.isVisible()
    await eventually(lambda: several.answering.state.stage == "ready")


async def test_a_model_with_missing_files_says_so_and_is_not_loaded(
    theme: Theme, tmp_path: Path, demo_model_path: Path
) -> None:
    several = SeveralModels(theme, tmp_path, demo_model_path, ("alpha", "broken"))
    (several.folder / "broken" / "tokenizer.json").unlink()
    several.window.preferences.change_models(folders=())
    async with several:
        library = several.window.model_library
        damaged = [
            replace(one, found=replace(one.found, problem="tokenizer.json missing"))
            for one in library.local
            if one.found.name == "broken"
        ] or [
            replace(
                library.local[0],
                found=replace(
                    library.local[0].found, name="broken", problem="tokenizer.json missing"
                ),
            )
        ]
        library.local = [*[m for m in library.local if m.found.name == "alpha"], *damaged]
        library.refresh = lambda: None  # type: ignore[method-assign]
        switcher = several.open()
        assert several.names == ["alpha", "broken"]
        assert "Incomplete" in switcher.rows.at(1).facts or "Damaged" in switcher.rows.at(1).facts
        switcher.list.clicked.emit(switcher.rows.index(1))
        assert switcher.isVisible()
        assert "tokenizer.json missing" in switcher.note.text()


async def test_a_model_that_is_found_while_the_list_is_open_appears_and_the_selection_stays(
    theme: Theme, tmp_path: Path, demo_model_path: Path
) -> None:
    async with SeveralModels(theme, tmp_path, demo_model_path, ("beta", "gamma")) as several:
        switcher = several.open()
        several.press(Qt.Key.Key_Down)
        import shutil

        await asyncio.to_thread(shutil.copytree, demo_model_path, several.folder / "alpha")
        several.window.model_library.refresh()
        await eventually(lambda: several.names == ["alpha", "beta", "gamma"])
        assert switcher.list.currentIndex().row() == 2


async def test_the_window_of_models_is_one_button_away(several: SeveralModels) -> None:
    switcher = several.open()
    switcher.more.click()
    assert not switcher.isVisible()
    assert several.window.others.models is not None
    assert several.window.others.models.isVisible()


async def test_the_name_in_the_header_opens_the_list_and_says_so(several: SeveralModels) -> None:
    assert several.header.name.accessibleName() == "Model: Choose a Model. Switch models"
    several.header.name.click()
    assert several.switcher.isVisible()
    several.press(Qt.Key.Key_Escape)
    assert several.window.chat.composer.input.hasFocus() or not several.window.isActiveWindow()


async def test_the_list_takes_the_keyboard_and_return_loads_the_row(several: SeveralModels) -> None:
    switcher = several.open()
    QTest.keyClick(switcher.field, Qt.Key.Key_Tab)
    assert switcher.list.hasFocus()
    QTest.keyClick(switcher.list, Qt.Key.Key_Down)
    QTest.keyClick(switcher.list, Qt.Key.Key_Return)
    assert not switcher.isVisible()
    await eventually(lambda: several.answering.state.stage == "ready")
    assert several.engine.model is not None
    assert several.engine.model.id == "beta"
