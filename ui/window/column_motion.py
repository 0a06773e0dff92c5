"""The movement of the columns beside the chat. Main thread."""

from collections.abc import Sequence

from PySide6.QtCore import (
    QCoreApplication,
    QEasingCurve,
    QEvent,
    QPoint,
    QRect,
    Qt,
    QVariantAnimation,
)
from PySide6.QtWidgets import QLabel, QMainWindow, QWidget

from ui.kit.motion import DURATION_MS
from ui.kit.theme import current_theme


class ColumnMotion(QVariantAnimation):
    """Moves columns that appear or disappear and the area between them, with one value.

    The area is laid out anew in each frame; the window's own layout waits for the end.
    """

    def __init__(self, window: QMainWindow, area: QWidget, columns: Sequence[QWidget]) -> None:
        super().__init__(window)
        self._window, self._area, self._columns = window, area, columns
        self._noted: dict[QWidget, QLabel | None] = {}  # a picture of each visible column
        # A column or its picture, where it ends or began, and whether it appears.
        self._moving: list[tuple[QWidget, QRect, bool]] = []
        self._final = QRect()  # of the area
        self.setDuration(DURATION_MS)
        self.setEasingCurve(QEasingCurve.Type.OutCubic)
        self.setStartValue(1.0)
        self.setEndValue(0.0)
        self.valueChanged.connect(self._place)
        self.finished.connect(self._lay_out)

    def note(self) -> None:
        """Note how the columns look before some are shown or hidden; end an earlier movement."""
        self.finish()
        self._noted = {column: self._picture_of(column) for column in self._columns}

    def begin(self) -> None:
        """Move the columns that were shown or hidden since they were noted."""
        noted, self._noted = self._noted, {}
        moving: list[tuple[QWidget, bool]] = []
        for column, picture in noted.items():
            appears = column.isVisible()
            if appears is (picture is None) and self._can_move(column):
                moving.append((picture or column, appears))
            elif picture is not None:
                picture.deleteLater()
        if not moving:
            return
        self._lay_out()
        self._moving = [(moved, self._place_of(moved), appears) for moved, appears in moving]
        self._final = self._area.geometry()
        layout = self._window.layout()
        assert layout is not None
        layout.setEnabled(False)
        for moved, _, appears in self._moving:
            if not appears:
                moved.show()
        self.start()
        self._place(1.0)  # Qt emits no value that is the same as after the last movement

    def finish(self) -> None:
        """End a movement at once."""
        if self.state() is not QVariantAnimation.State.Stopped:
            self.stop()
            self._place(0.0)
            self._lay_out()

    def _can_move(self, column: QWidget) -> bool:
        # Not while the window is shown: Qt then shows the columns one by one.
        is_seen = self._window.testAttribute(Qt.WidgetAttribute.WA_Mapped)
        return is_seen and current_theme().has_motion and not column.isWindow()

    def _picture_of(self, column: QWidget) -> QLabel | None:
        if not (column.isVisible() and self._can_move(column)):
            return None
        picture = QLabel(self._window)
        picture.setObjectName("passing_column")
        picture.setPixmap(column.grab())
        picture.setGeometry(self._place_of(column))
        return picture

    def _place_of(self, column: QWidget) -> QRect:
        return QRect(column.mapTo(self._window, QPoint()), column.size())

    def _place(self, share: float) -> None:
        """Move all to a share of their way before their end."""
        left_px = right_px = 0
        for moved, home, appears in self._moving:
            rest_px = round((home.width() + 1) * share)  # with the separator
            outside_px = rest_px if appears else home.width() + 1 - rest_px
            edge_px = rest_px if appears else -rest_px
            if home.center().x() < self._final.center().x():
                outside_px, left_px = -outside_px, left_px - edge_px
            else:
                right_px += edge_px
            if not self._area.isAncestorOf(moved):  # a column in the area moves with it
                moved.move(home.topLeft() + QPoint(outside_px, 0))
        self._area.setGeometry(self._final.adjusted(left_px, 0, right_px, 0))

    def _lay_out(self) -> None:
        """Put all in their places, and remove the pictures of columns that have disappeared."""
        for moved, _, appears in self._moving:
            if not appears:
                moved.deleteLater()
                moved.hide()
        self._moving = []
        layout = self._window.layout()
        assert layout is not None
        layout.setEnabled(True)
        # The area first: the least width of its visible parts counts in the window's layout.
        QCoreApplication.sendPostedEvents(None, int(QEvent.Type.LayoutRequest))
        layout.update()
        layout.activate()
