"""Keys and clicks as they come from a real keyboard and mouse."""

from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from ui.window.main_window import MainWindow


def keyboard() -> QWidget:
    widget = QApplication.focusWidget()
    assert widget is not None
    return widget


def click(widget: QWidget, place: QPoint | None = None) -> None:
    QTest.mouseClick(
        widget, Qt.MouseButton.LeftButton, pos=widget.rect().center() if place is None else place
    )


def row(window: MainWindow, number: int) -> QPoint:
    return window.sidebar.list.visualRect(window.sidebar.rows.index(number)).center()
