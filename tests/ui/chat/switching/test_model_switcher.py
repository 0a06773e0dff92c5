"""The list that opens from the model's name in the header."""

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
