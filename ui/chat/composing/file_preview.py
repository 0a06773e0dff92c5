"""A card with the text of a file as the model reads it; for PDF files it also chooses the pages.

Main thread.
"""

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from ui.chat.composing.file_chip import words_of
from ui.kit.controls.popping_up import pop_up_above
from ui.kit.controls.reading_order import move_focus
from ui.kit.look.theme import Theme, fixed_font
from ui.kit.text.labels import ElidedLabel, label, rescale
from ui.records.attachments import Attachment

MOST_SHOWN_CHARS = 100_000
_WIDTH_PX, _TEXT_HEIGHT_PX = 560, 300
_PAD_PX = 14


class FilePreview(QFrame):
    """A card above the file's chip.

    Signals:
        chosen: A person chose other pages; carries the ``Attachment`` with these.
        remove_wanted: A person wants to remove the file.
    """

    chosen = Signal(object)
    remove_wanted = Signal()

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint)
        self.setObjectName("popover")
        self._theme = theme
        self.file = Attachment("", "")
        self._name = ElidedLabel("", mode=Qt.TextElideMode.ElideMiddle)
        self._name.setProperty("role", "heading")
        self.facts = label("", "muted", 0.93, is_wrapped=True)
        self.remark = label("", "muted", 0.93, is_wrapped=True)
        self._pages = QWidget()
        self.first, self.last = _page_field("First page"), _page_field("Last page")
        self._of = QLabel()
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setTabChangesFocus(True)
        self.remove = QPushButton("Remove")
        self.close_button = QPushButton("Close")
        self._lay_out()
        self.first.valueChanged.connect(self._choose)
        self.last.valueChanged.connect(self._choose)
        self.remove.clicked.connect(self._remove)
        self.close_button.clicked.connect(self.hide)
        theme.follow(self, self._fit)

    def show_file(self, file: Attachment, tokens: int | None) -> None:
        """Show a file."""
        is_same = file == self.file
        self.file = file
        self.setAccessibleName(f"Preview of {file.name}")
        self._name.setText(file.name)
        self.show_tokens(tokens)
        self.remark.setText(file.remark)
        self.remark.setVisible(bool(file.remark))
        self._show_pages(file)
        self.text.setAccessibleName(f"Text of {file.name}, as the model reads it")
        self.remove.setAccessibleName(f"Remove {file.name}")
        if not is_same:
            self.text.setPlainText(shown_text(file.text))

    def show_tokens(self, tokens: int | None) -> None:
        """Show how many tokens the text has; None while that is not known."""
        self.facts.setText(words_of(self.file, tokens))

    def pop_up(self, anchor: QWidget) -> None:
        """Appear above a widget."""
        pop_up_above(self, anchor)
        if self._pages.isHidden():
            self.text.setFocus()
        else:
            self.first.setFocus()
            self.first.selectAll()

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        """Move the focus by Tab in reading order."""
        return move_focus(self, is_next)

    def _show_pages(self, file: Attachment) -> None:
        pages, known = file.pages, len(file.all_pages)
        self._pages.setVisible(pages is not None and known > 1)
        if pages is None or known < 2:
            return
        for field, value in ((self.first, pages.first), (self.last, pages.last)):
            with QSignalBlocker(field):
                field.setRange(1, known)
                field.setValue(value)
        self._of.setText(f"of {pages.total:,}")

    def _choose(self) -> None:
        first, last = self.first.value(), self.last.value()
        # The edited field keeps its value, and the other one follows it.
        if first > last:
            first, last = (first, first) if self.sender() is self.first else (last, last)
        chosen = self.file.with_pages(first, last)
        self.show_file(chosen, None)
        self.chosen.emit(chosen)

    def _remove(self) -> None:
        self.hide()
        self.remove_wanted.emit()

    def _lay_out(self) -> None:
        rescale(self._name, 1.05)
        pages = QHBoxLayout(self._pages)
        pages.setContentsMargins(0, 0, 0, 0)
        for widget in (QLabel("Pages"), self.first, QLabel("to"), self.last, self._of):
            pages.addWidget(widget)
        pages.addStretch(1)
        buttons = QHBoxLayout()
        buttons.addWidget(self.remove)
        buttons.addStretch(1)
        buttons.addWidget(self.close_button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(_PAD_PX, _PAD_PX, _PAD_PX, _PAD_PX)
        layout.setSpacing(8)
        for part in (self._name, self.facts, self.remark, self._pages, self.text):
            layout.addWidget(part)
        layout.addLayout(buttons)

    def _fit(self) -> None:
        room = self.screen().availableGeometry()
        self.setFixedWidth(min(self._theme.px(_WIDTH_PX), room.width() - 40))
        height = min(self._theme.px(_TEXT_HEIGHT_PX), room.height() // 2)
        self.text.setFixedHeight(height)
        self.text.setFont(fixed_font(self.font(), 0.95))


def _page_field(says: str) -> QSpinBox:
    field = QSpinBox()
    field.setAccessibleName(says)
    field.setToolTip(says)
    field.setKeyboardTracking(False)
    field.setMinimum(1)
    field.lineEdit().setTextMargins(8, 0, 8, 0)
    return field


def shown_text(text: str) -> str:
    """Return a file's text, shortened to what the card shows."""
    left = len(text) - MOST_SHOWN_CHARS
    if left <= 0:
        return text.rstrip("\n")
    return f"{text[:MOST_SHOWN_CHARS]}\n\n… {left:,} more characters, which the model reads too"
