"""No control is cut off on a screen of 1440 × 900 at an interface size of 100, 150 and 200 %."""

import asyncio

import pytest
from PySide6.QtWidgets import QAbstractButton, QApplication, QComboBox, QLineEdit, QWidget

from engine import Engine
from tests.support.shown import shown, whole_window
from ui.kit.theme import Theme

_SCREEN_PX = 1440, 860  # without the title bar


def cut_off(window: QWidget) -> list[str]:
    """Return the visible controls that have less width than they need."""
    controls = [*window.findChildren(QAbstractButton), *window.findChildren(QComboBox)]
    return [
        f"{type(control).__name__} {control.accessibleName() or control.objectName()}"
        for control in controls
        if control.isVisible()
        and not isinstance(control.parent(), QLineEdit)  # sized by the field
        and not control.visibleRegion().isEmpty()
        and control.width() < control.minimumSizeHint().width()
    ]


@pytest.mark.parametrize("percent", [100, 150, 200])
async def test_no_control_is_cut_off(engine: Engine, theme: Theme, percent: int) -> None:
    width, height = (round(side * 100 / percent) for side in _SCREEN_PX)
    async with shown(whole_window(engine, theme), quits=True) as window:
        window.resize(width, height)
        window.others.show_inspector()
        window.others.show_server()
        window.others.show_preferences()
        for other in [top for top in QApplication.topLevelWidgets() if top.isVisible()]:
            other.resize(min(other.width(), width), min(other.height(), height))
            for _ in range(10):
                await asyncio.sleep(0)
            assert cut_off(other) == [], other.windowTitle()
        window.others.close_all()
