"""Movements, which nothing makes where motion is reduced."""

import pytest
from PySide6.QtWidgets import QLabel, QWidget
from pytestqt.qtbot import QtBot

from ui.kit.buttons import UndoBar
from ui.kit.labels import label
from ui.kit.motion import Shimmer, dissolve, fade
from ui.kit.theme import Theme


@pytest.mark.parametrize("has_motion", [True, False])
def test_movements_end_in_place_and_are_off_with_reduced_motion(
    theme: Theme, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, has_motion: bool
) -> None:
    monkeypatch.setattr(theme, "has_motion", has_motion)
    around = QWidget()
    qtbot.addWidget(around)
    inside = label("Thinking…")
    inside.setParent(around)
    shimmer = Shimmer(inside)
    around.show()
    shimmer.show_active(True)
    assert shimmer.isVisible() == has_motion
    shimmer.show_active(False)
    assert not shimmer.isVisible()
    ended: list[bool] = []
    fade(inside, is_in=False, then=lambda: ended.append(True))
    assert bool(ended) != has_motion
    qtbot.waitUntil(lambda: bool(ended) and inside.graphicsEffect() is None)
    bar = UndoBar()
    qtbot.addWidget(bar)
    bar.offer("Deleted", lambda: None)
    assert bar.isVisible()
    qtbot.waitUntil(lambda: bar.graphicsEffect() is None)


def test_dissolving_shows_the_former_look_for_a_moment(
    theme: Theme, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(theme, "has_motion", True)
    page = QWidget()
    qtbot.addWidget(page)
    dissolve(page)
    assert not page.findChildren(QLabel)  # it is not seen
    page.show()
    dissolve(page)
    dissolve(page)
    assert len(page.findChildren(QLabel)) == 1
    qtbot.waitUntil(lambda: not page.findChildren(QLabel))
