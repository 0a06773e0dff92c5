"""The list that opens from the model's name in the header."""

from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from engine.library.memory_need import Fit
from tests.ui.chat.switching.several import SeveralModels
from tests.ui.driving import eventually
from ui.kit.rows import CONTENT


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
    content = switcher.rows.data(switcher.rows.index(0, 0), CONTENT)
    assert content.right.text == "Too large"
    several.press(Qt.Key.Key_Return)
    assert switcher.isVisible()
    assert "may not fit" in switcher.warning.text()
    assert several.answering.state.stage == "none"
    QTest.keyClick(switcher.anyway, Qt.Key.Key_Space)
    assert not switcher.isVisible()
    await eventually(lambda: several.answering.state.stage == "ready")
