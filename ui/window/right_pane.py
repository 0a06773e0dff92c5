"""The pane at the right, with a tab for each of its pages. Main thread."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QApplication,
    QDockWidget,
    QFrame,
    QMainWindow,
    QStackedWidget,
    QTabBar,
    QWidget,
)

from ui.kit.buttons import IconButton
from ui.kit.layouts import STRETCH, column, row
from ui.kit.theme import HEAD_PX
from ui.kit.windows import move_focus

WIDTH_PX = 320

Page = tuple[str, QWidget, Callable[[], object]]
"""Title, content, and what gives its main control the keyboard."""


class RightPane(QDockWidget):
    """Shows one of several pages; can be closed and detached."""

    changing = Signal()  # before it is shown or hidden
    opened = Signal()  # also by being attached again
    closed = Signal()
    left = Signal()  # the keyboard goes back to the message

    def __init__(self, pages: Sequence[Page], window: QMainWindow) -> None:
        super().__init__(window)
        self.setObjectName("right_pane")
        self.pages = pages
        self.tabs = QTabBar()
        self.tabs.setProperty("kind", "pane")
        self.tabs.setAccessibleName("Right pane")
        self.tabs.setExpanding(False)
        self._stack = QStackedWidget()
        for title, page, _ in pages:
            self.tabs.addTab(title)
            self._stack.addWidget(page)
        self.setWindowTitle(self.tabs.tabText(0))
        self.tabs.currentChanged.connect(self._show_tab)
        self.setTitleBarWidget(QWidget())  # none; the tabs are in the content
        frame = QFrame()
        frame.setObjectName("right_pane")
        frame.setMinimumWidth(WIDTH_PX)
        column(self._build_head(), (self._stack, 1), spacing=0, on=frame)
        self.setWidget(frame)
        self.setAllowedAreas(
            Qt.DockWidgetArea.RightDockWidgetArea | Qt.DockWidgetArea.LeftDockWidgetArea
        )
        self.topLevelChanged.connect(self._detach)

    @property
    def page(self) -> QWidget | None:
        """The page that is shown; None while the pane is closed."""
        return self._stack.currentWidget() if self.isVisible() else None

    def open(self, page: QWidget) -> None:
        self.tabs.setCurrentIndex(self._stack.indexOf(page))
        self.show()
        self.raise_()
        if self.isFloating():
            self.activateWindow()

    def enter(self) -> None:
        """Move the keyboard to the page that is shown."""
        _, page, focus = self.pages[self.tabs.currentIndex()]
        self.open(page)
        focus()

    def toggle(self, page: QWidget) -> None:
        """Show a page with the keyboard in it; or close the pane, if it shows the page."""
        if self.page is page:
            self.leave()
        else:
            self.open(page)
            self.enter()

    def leave(self) -> None:
        self.close()
        self.left.emit()

    def setVisible(self, is_visible: bool) -> None:  # noqa: N802 - Qt's name
        focused = QApplication.focusWidget()
        had_focus = focused is not None and self.isAncestorOf(focused)
        self.changing.emit()
        super().setVisible(is_visible)
        (self.opened if is_visible else self.closed).emit()
        if had_focus and not is_visible:
            self.left.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Go back to the message on Escape."""
        if event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        else:
            super().keyPressEvent(event)

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        # Docked, the window around it does this.
        return (
            move_focus(self, is_next) if self.isFloating() else super().focusNextPrevChild(is_next)
        )

    def _build_head(self) -> QWidget:
        head = QFrame()
        head.setObjectName("dock_title")
        head.setFixedHeight(HEAD_PX)
        detach = IconButton("detach", "Detach / Attach")
        close = IconButton("close", "Close the right pane", keys="Ctrl+I")
        detach.clicked.connect(lambda: self.setFloating(not self.isFloating()))
        close.clicked.connect(self.leave)
        row(
            (self.tabs, 0, Qt.AlignmentFlag.AlignBottom),
            STRETCH,
            detach,
            close,
            spacing=2,
            margins=(16, 0, 8, 0),
            on=head,
        )
        return head

    def _show_tab(self, index: int) -> None:
        self._stack.setCurrentIndex(index)
        self.setWindowTitle(self.tabs.tabText(index))

    def _detach(self, is_floating: bool) -> None:
        """Give the detached pane the frame of a window, beside the message field."""
        window = self.parentWidget()
        if not is_floating or window is None:
            self.opened.emit()
            return
        self.setWindowFlags(Qt.WindowType.Tool)
        corner = window.geometry().topRight()
        size = QSize(self.width(), round(window.height() * 0.7))
        self.resize(size)
        self.move(corner.x() - size.width() - 24, corner.y() + HEAD_PX)
        self.show()
