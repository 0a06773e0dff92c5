"""The bar that finds text in the open conversation. Main thread."""

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLineEdit, QToolButton

from ui.chat.reading.text_finder import TextFinder
from ui.kit.controls.buttons import IconButton
from ui.kit.look.theme import Theme, restyle
from ui.kit.text.labels import label

_FIELD_CHARS = 26


class FindBar(QFrame):
    """A field with count, next, previous and match case; hidden until a person opens it.

    Return goes to the next place, Shift+Return to the previous one, Escape closes the bar.

    Signals:
        closed: The bar was closed; the composer gets the focus.
    """

    closed = Signal()

    def __init__(self, theme: Theme, finder: TextFinder) -> None:
        super().__init__()
        self.setObjectName("find_bar")
        self._finder = finder
        self.field = QLineEdit()
        self.field.setPlaceholderText("Find in this conversation")
        self.field.setAccessibleName("Find in this conversation")
        theme.follow(self.field, self._fit_field)
        self.case = QToolButton()
        self.case.setText("Aa")
        self.case.setCheckable(True)
        self.case.setAccessibleName("Match case")
        self.case.setToolTip("Match case")
        self.count = label("", "muted", 0.95)
        self.earlier = IconButton(theme, "up", "Previous place (Shift+Enter)")
        self.later = IconButton(theme, "down", "Next place (Enter)")
        self.close_button = IconButton(theme, "close", "Close the find bar (Esc)")
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 6, 10, 6)
        row.setSpacing(6)
        row.addWidget(self.field, 3)
        row.addWidget(self.case)
        row.addWidget(self.count)
        row.addWidget(self.earlier)
        row.addWidget(self.later)
        row.addStretch(1)
        row.addWidget(self.close_button)
        self.field.textChanged.connect(self._look)
        self.case.toggled.connect(self._look)
        self.earlier.clicked.connect(lambda: finder.step(-1))
        self.later.clicked.connect(lambda: finder.step(1))
        self.close_button.clicked.connect(self.put_away)
        finder.changed.connect(self._show_count)
        self.hide()
        self._show_count()

    def begin(self, text: str = "") -> None:
        """Show the bar with the caret in its field; search for a given text."""
        is_new = self.isHidden()
        self.show()
        self.field.setFocus()
        if text and text != self.field.text():
            self.field.setText(text)
        elif is_new:
            self._look()  # search for the text of the last time
        self.field.selectAll()

    def step(self, by: int) -> None:
        """Go to the next (1) or previous (-1) place; open the bar if there is no text to find."""
        if self.isHidden() or not self.field.text():
            self.begin()
        if self.field.text():
            self._finder.step(by)

    def put_away(self) -> None:
        """Hide the bar and remove the highlights."""
        if not self.isHidden():
            self.hide()
            self._finder.end()
            self.closed.emit()

    def event(self, event: QEvent) -> bool:
        """Keep Escape for the bar; otherwise it would stop the running answer."""
        if (
            event.type() == QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and event.key() == Qt.Key.Key_Escape
        ):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Step with Return, leave with Escape."""
        if event.key() == Qt.Key.Key_Escape:
            self.put_away()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            is_back = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            self._finder.step(-1 if is_back else 1)
        else:
            super().keyPressEvent(event)

    def _look(self) -> None:
        if not self.isHidden():
            self._finder.look_for(self.field.text(), self.case.isChecked())

    def _show_count(self) -> None:
        finder = self._finder
        found, is_wanted = finder.count, finder.query is not None
        if not is_wanted:
            words = ""
        elif found:
            words = f"{finder.number:,} of {found:,}{'…' if finder.is_counting else ''}"
        else:
            words = "Searching…" if finder.is_counting else "Not found"
        self.count.setText(words)
        self.field.setAccessibleDescription(words)
        is_missing = is_wanted and not found and not finder.is_counting
        restyle(self.field, "invalid", is_missing)
        for button in (self.earlier, self.later):
            button.setEnabled(bool(found))

    def _fit_field(self) -> None:
        width = self.field.fontMetrics().averageCharWidth() * _FIELD_CHARS
        self.field.setMaximumWidth(width * 2)
