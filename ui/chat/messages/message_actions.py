"""The small buttons beside a message, and the switch of its versions.

Main thread. The buttons of a question are drawn only while the pointer or the focus is there; the
keyboard and screen readers can reach them at all times.
"""

from PySide6.QtCore import QEvent, QObject, QPoint, Signal
from PySide6.QtGui import QFocusEvent, QPaintEvent
from PySide6.QtWidgets import QApplication, QHBoxLayout, QSizePolicy, QWidget

from ui.kit.controls.buttons import IconButton
from ui.kit.look.theme import Theme
from ui.kit.text.labels import label

_SIZE = 16


class MessageActions(QWidget):
    """A row of buttons.

    Signals:
        version_stepped: A person wants another version: -1 for the previous one, 1 for the next.
    """

    version_stepped = Signal(int)

    def __init__(self, theme: Theme, message_view: QWidget, is_quiet: bool) -> None:
        super().__init__()
        self._theme = theme
        self._message_view = message_view
        self._is_quiet = is_quiet
        self.earlier = _ActionButton(self, theme, "chevron-left", "Earlier version (Ctrl+[)")
        self.later = _ActionButton(self, theme, "chevron-right", "Later version (Ctrl+])")
        self.place = label("", "muted", 0.9)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        self._layout = QHBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(2)
        for part in (self.earlier, self.place, self.later):
            self._layout.addWidget(part)
            part.hide()
        self.earlier.clicked.connect(lambda: self.version_stepped.emit(-1))
        self.later.clicked.connect(lambda: self.version_stepped.emit(1))
        if is_quiet:
            message_view.installEventFilter(self)

    @property
    def are_drawn(self) -> bool:
        """Whether the buttons are drawn now."""
        focused = QApplication.focusWidget()
        has_focus = focused is not None and self._message_view.isAncestorOf(focused)
        return not self._is_quiet or self._message_view.underMouse() or has_focus

    def add(self, icon: str, says: str) -> IconButton:
        """Add a button and return it."""
        button = _ActionButton(self, self._theme, icon, says)
        # The switch is always drawn, so it is at the outer edge, where it leaves no gap.
        before_switch = self._layout.indexOf(self.earlier)
        self._layout.insertWidget(before_switch if self._is_quiet else -1, button)
        return button

    def show_versions(self, number: int, count: int) -> None:
        """Show that this is version ``number``, from 1, of ``count``."""
        for part in (self.earlier, self.place, self.later):
            part.setVisible(count > 1)
        self.place.setText(f"{number}/{count}")
        self.place.setAccessibleName(f"Version {number} of {count}")
        self.earlier.setEnabled(number > 1)
        self.later.setEnabled(number < count)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Draw the buttons while the pointer is over the message."""
        if event.type() in (QEvent.Type.Enter, QEvent.Type.Leave):
            self.repaint_all()
        return False

    def repaint_all(self) -> None:
        """Draw the buttons, or stop drawing them."""
        for button in self.findChildren(_ActionButton):
            button.update()


def below(button: QWidget) -> QPoint:
    """Return the place on the screen at which a button's menu opens."""
    return button.mapToGlobal(QPoint(0, button.height()))


class _ActionButton(IconButton):
    """A button that is drawn only while its row says so."""

    def __init__(self, row: MessageActions, theme: Theme, icon: str, says: str) -> None:
        super().__init__(theme, icon, says, size=_SIZE)
        self._row = row

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw nothing while the row is hidden, except for the switch of versions."""
        if self._row.are_drawn or self in (self._row.earlier, self._row.later):
            super().paintEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Draw the row."""
        super().focusInEvent(event)
        self._row.repaint_all()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Stop drawing the row."""
        super().focusOutEvent(event)
        self._row.repaint_all()
