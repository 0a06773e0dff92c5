"""The list below the model's name: type to filter it, choose with the arrow keys and Return.

Main thread. It shows the models of the last scan at once, and updates them after a new scan.
"""

from PySide6.QtCore import QModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import QHideEvent, QKeyEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QListView,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from engine import counted
from engine.library.memory import Fit
from ui.chat.session.answering_model import AnsweringModel
from ui.chat.switching.model_delegate import ModelDelegate
from ui.chat.switching.model_rows import ModelRow, ModelRows, rows_of
from ui.kit.controls.clear_button import add_clear_button, add_leading_icon
from ui.kit.controls.popping_up import move_within_screen
from ui.kit.controls.reading_order import move_focus
from ui.kit.look.theme import Theme
from ui.kit.text.labels import label
from ui.models.model_library import ModelLibrary
from ui.models.model_words import fit_words

_WIDTH_PX, _ROWS = 430, 8
_STEPS = {
    Qt.Key.Key_Down: 1,
    Qt.Key.Key_Up: -1,
    Qt.Key.Key_PageDown: _ROWS,
    Qt.Key.Key_PageUp: -_ROWS,
}


class ModelSwitcher(QFrame):
    """Chooses the model of the open conversation.

    Signals:
        more_wanted: A person wants to see the window of models.
        closed: It was closed; the composer gets the focus.

    Args:
        theme: The look.
        answering: The model of the open conversation.
        library: The models on this computer.
        parent: The window.

    Attributes:
        field: The field for the words.
        list: The models.
        anyway: The button that loads a model although it may not fit.
    """

    more_wanted = Signal()
    closed = Signal()

    def __init__(
        self, theme: Theme, answering: AnsweringModel, library: ModelLibrary, parent: QWidget
    ) -> None:
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint)
        self.setObjectName("popover")
        self.setAccessibleName("Switch models")
        self._theme = theme
        self._answering = answering
        self._library = library
        self._asked: ModelRow | None = None
        self.rows = ModelRows(self)
        self.field = _FindField(theme)
        self.list = QListView()
        self.list.setObjectName("conversation_list")
        self.list.setAccessibleName("Models on this computer")
        self.list.setModel(self.rows)
        self.list.setItemDelegate(ModelDelegate(theme, self.list))
        self.list.setUniformItemSizes(True)
        self.list.setMouseTracking(True)
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.note = label("", "faint", 0.92, is_wrapped=True)
        self.warning = label("", "muted", 0.95, is_wrapped=True)
        self.anyway = QPushButton("Load Anyway")
        self.anyway.setAccessibleName("Load the model although it may not fit")
        self.more = QPushButton("Models…")
        self.more.setAccessibleName("Show the window of models")
        self._lay_out()
        theme.follow(self, self._fit)
        self.field.textChanged.connect(self._look_for)
        self.field.step_wanted.connect(self._step)
        self.field.chosen.connect(lambda: self._choose(self.list.currentIndex()))
        self.field.left.connect(self.close)
        self.list.clicked.connect(self._choose)
        self.anyway.clicked.connect(self._load_asked)
        self.more.clicked.connect(self._show_more)
        library.changed.connect(self._refill)
        answering.changed.connect(self._refill)

    def pop_up(self, anchor: QWidget) -> None:
        """Appear below a widget, with the models that are known."""
        self.field.clear()
        self._ask(None)
        self._fill()
        self._select(0)
        self._fit()
        corner = anchor.mapToGlobal(QPoint(anchor.width() - self.width(), anchor.height() + 6))
        move_within_screen(self, corner, self.size(), anchor)
        self.show()
        self.field.setFocus()
        self._library.refresh()

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        """Move the focus by Tab in reading order."""
        return move_focus(self, is_next)

    def hideEvent(self, event: QHideEvent) -> None:
        """Emit ``closed``."""
        super().hideEvent(event)
        self.closed.emit()

    def _lay_out(self) -> None:
        question = QHBoxLayout()
        question.addWidget(self.warning, 1)
        question.addWidget(self.anyway)
        foot = QHBoxLayout()
        foot.addWidget(self.note, 1)
        foot.addWidget(self.more)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 10, 8, 9)
        layout.setSpacing(7)
        for part in (self.field, self.list):
            layout.addWidget(part)
        layout.addLayout(question)
        layout.addLayout(foot)
        for row in (question, foot):
            row.setContentsMargins(8, 0, 4, 0)
            row.setSpacing(10)

    def _fit(self) -> None:
        screen = self.screen().availableGeometry()
        self.setFixedWidth(min(self._theme.px(_WIDTH_PX), screen.width()))
        row_px = self.list.sizeHintForRow(0) if self.rows.rowCount() else self._theme.px(50)
        rows = max(2, min(_ROWS, self.rows.total))
        self.list.setFixedHeight(min(rows * max(1, row_px) + 4, round(screen.height() * 0.6)))
        self.adjustSize()

    # -- rows ------------------------------------------------------------------------------

    def _refill(self) -> None:
        """Show the models that were found meanwhile, and keep the selection."""
        if not self.isVisible():
            return
        before = self._current()
        self._fill()
        row = -1 if before is None else self.rows.row_of(before.model)
        self._select(max(row, 0))
        self._fit()

    def _fill(self) -> None:
        choice = self._answering.choice
        folder = choice.folder if choice is not None else None
        if choice is None and (info := self._answering.loaded.info) is not None:
            folder = info.path
        self.rows.show(rows_of(self._library, "" if folder is None else str(folder)))
        self._say()

    def _look_for(self, text: str) -> None:
        self.rows.look_for(text)
        self._ask(None)
        self._select(0)
        self._say()

    def _say(self) -> None:
        shown, total = self.rows.rowCount(), self.rows.total
        if not total:
            words = "Searching…" if self._library.is_looking else "No models yet."
        elif not shown:
            words = "No model has this in its name."
        elif shown < total:
            words = f"{shown} of {counted(total, 'model')}"
        else:
            words = counted(total, "model")
        self.note.setText(words)

    def _current(self) -> ModelRow | None:
        index = self.list.currentIndex()
        return self.rows.at(index.row()) if index.isValid() else None

    def _select(self, row: int) -> None:
        if row < self.rows.rowCount():
            self.list.setCurrentIndex(self.rows.index(row))

    def _step(self, step: int) -> None:
        """Go to the next row that can be chosen; stay at the ends of the list."""
        count = self.rows.rowCount()
        row = max(0, min(count - 1, self.list.currentIndex().row() + step))
        self._ask(None)
        if count:
            self._select(row)
            self.list.scrollTo(self.rows.index(row))

    # -- intents ---------------------------------------------------------------------------

    def _choose(self, index: QModelIndex) -> None:
        if not index.isValid():
            return
        row = self.rows.at(index.row())
        if not row.can_be_loaded:
            self._ask(None)
            self.note.setText(f"{row.model.found.problem or 'It is damaged'}.")
        elif row.model.fit is Fit.TOO_LARGE and not (row.is_loaded or row.is_loading):
            self._ask(row)
        else:
            self._load(row)

    def _ask(self, row: ModelRow | None) -> None:
        """Ask before a model is loaded that may not fit."""
        self._asked = row
        self.warning.setVisible(row is not None)
        self.anyway.setVisible(row is not None)
        if row is not None:
            model = row.model
            words = fit_words(model.need, model.fit, self._library.memory)
            self.warning.setText(f"{model.found.name} may not fit. {words}")
            self.anyway.setFocus()
        self.adjustSize()

    def _load_asked(self) -> None:
        if self._asked is not None:
            self._load(self._asked)

    def _load(self, row: ModelRow) -> None:
        self.close()
        self._answering.choose(row.model.found.folder)

    def _show_more(self) -> None:
        self.close()
        self.more_wanted.emit()


class _FindField(QLineEdit):
    """The field; its arrow keys move through the list below, which shows the selected row.

    Signals:
        step_wanted: An arrow key was pressed; carries how many rows to go down.
        chosen: A person chose the selected row.
        left: A person wants to close the list.
    """

    step_wanted = Signal(int)
    chosen = Signal()
    left = Signal()

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.setPlaceholderText("Find a model")
        self.setAccessibleName("Find a model")
        add_leading_icon(theme, self, "search")
        add_clear_button(theme, self, "Clear the text")

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Move, choose, or close; all other keys type."""
        key = event.key()
        if key in _STEPS:
            self.step_wanted.emit(_STEPS[Qt.Key(key)])
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.chosen.emit()
        elif key == Qt.Key.Key_Escape:
            self.left.emit()
        else:
            super().keyPressEvent(event)
