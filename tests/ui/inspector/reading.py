"""What the tests of the inspector's rooms read from recorded runs and pictures."""

from collections.abc import Callable

from PySide6.QtGui import QColor, QImage

from engine.recording.run_trace import RunTrace
from ui.inspector.shown_run import ShownRun

THINK = {"plain": ["<think>", "</think>"]}


def trace_of(shown: ShownRun) -> RunTrace:
    assert shown.trace is not None
    return shown.trace


def columns(picture: QImage, color: str, row: Callable[[int], bool] = lambda _: True) -> list[int]:
    """Return the columns of a picture with points of just this color."""
    wanted = QColor(color).rgb()
    found = (
        x
        for x in range(picture.width())
        for y in range(picture.height())
        if row(y) and picture.pixel(x, y) == wanted
    )
    return sorted(set(found))
