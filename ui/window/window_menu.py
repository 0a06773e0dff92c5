"""The Window menu: minimize, zoom, and the list of the program's windows. Main thread."""

import sys
from functools import partial

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QApplication, QDialog, QMenu, QWidget

from ui.kit.controls.own_window import bring_forward
from ui.kit.system.menus import add_entry, literal


class WindowMenu(QObject):
    """Fills the menu; it lists the windows again each time it is opened."""

    def __init__(self, menu: QMenu) -> None:
        super().__init__(menu)
        self._menu = menu
        add = partial(add_entry, menu, works_everywhere=True)
        self.minimize = add("Mi&nimize", self._minimize, "Ctrl+M")
        # Each desktop has its own word for it.
        self.zoom = add_entry(
            menu, "&Zoom" if sys.platform == "darwin" else "Ma&ximize", self._zoom
        )
        self.to_front = add_entry(menu, "&Bring All to Front", self._bring_all)
        menu.addSeparator()
        self._listed: list[QAction] = []
        menu.aboutToShow.connect(self._list)

    def _list(self) -> None:
        for entry in self._listed:
            self._menu.removeAction(entry)
            entry.deleteLater()
        front = front_window()
        self._listed = [
            add_entry(
                self._menu,
                literal(window.windowTitle()),
                partial(bring_forward, window),
                is_checked=window is front,
            )
            for window in open_windows()
        ]
        for entry in (self.minimize, self.zoom):
            entry.setEnabled(front is not None)

    def _minimize(self) -> None:
        window = front_window()
        if window is not None:
            window.showMinimized()

    def _zoom(self) -> None:
        window = front_window()
        if window is not None:
            window.setWindowState(window.windowState() ^ Qt.WindowState.WindowMaximized)

    def _bring_all(self) -> None:
        front = front_window()
        for window in open_windows():
            if not window.isMinimized():
                window.raise_()
        if front is not None:
            bring_forward(front)


def open_windows() -> list[QWidget]:
    """Return the program's windows that are open, minimized ones included, by their titles."""
    found = [
        widget
        for widget in QApplication.topLevelWidgets()
        if widget.isVisible()
        and widget.windowType() == Qt.WindowType.Window
        and not isinstance(widget, QDialog)
        and widget.windowTitle()
    ]
    return sorted(found, key=lambda widget: (widget.parent() is not None, widget.windowTitle()))


def front_window() -> QWidget | None:
    """Return the window that has the focus; None if another program has it."""
    active = QApplication.activeWindow()
    windows = open_windows()
    while active is not None and active not in windows:
        active = active.parentWidget()
    return active
