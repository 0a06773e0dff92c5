"""The sidebar and the stop panel beside the chat, and the layout that the next start restores."""

from pathlib import Path

import pytest

from engine.engine import Engine
from tests.support.shown import main_window, shown
from tests.ui.driving import Enter, Living, eventually, opened
from ui.kit.theme import Theme
from ui.window.main_window import MainWindow


@pytest.fixture
def window(enter: Enter, engine: Engine, theme: Theme) -> Living[MainWindow]:
    return enter(lambda: opened(main_window(engine, theme), quits=True))


async def test_side_columns_leave_the_chat_its_width(window: MainWindow) -> None:
    window.resize(700, 800)
    window.stop_panel.show()
    await eventually(lambda: window.stop_panel.width() >= window.stop_panel.minimumWidth())
    assert window.chat.width() >= window.chat.minimumWidth()
    window.sidebar.hide()
    assert window.chat.width() >= window.chat.minimumWidth()


async def test_side_columns_are_restored_with_their_widths(
    window: MainWindow, engine: Engine, theme: Theme, tmp_path: Path
) -> None:
    window.resize(780, 560)
    window._splitter.setSizes([310, 470])
    layout = window.save_layout()
    async with shown(main_window(engine, theme), quits=True) as other:
        other.restore_layout(layout)
        assert other._splitter.sizes()[0] == pytest.approx(310, abs=20)
        other.stop_panel.show()
        other.sidebar.hide()
        other.restore_layout(other.save_layout())
        assert other.sidebar.isHidden()
        assert other.stop_panel.isVisible()
        other.restore_layout(b"from another version")
        assert other.sidebar.isHidden()
