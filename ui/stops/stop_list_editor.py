"""The editor of a stop list: table, input line and buttons, above the end tokens. Main thread."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QKeyEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from ui.kit.controls.buttons import ChipButton, IconButton
from ui.kit.look.theme import Theme, fixed_font, restyle
from ui.kit.text.elided import ElidedButton
from ui.kit.text.labels import label
from ui.stops.end_tokens import EndTokens
from ui.stops.import_export_menu import ImportExportMenu
from ui.stops.stop_cells import StopColumn
from ui.stops.stop_list import StopListModel
from ui.stops.stop_table import StopTable


class StopListEditor(QWidget):
    """Edits the stop list of the open conversation.

    Attributes:
        table: The sequences.
        end_tokens: The token ids that also end answers.
        apply_now: The button that applies the edited list to the running answer.
    """

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._model: StopListModel | None = None
        self.table = StopTable(theme)
        self.input = _Input()
        self.input.setAccessibleName("New stop sequence")
        self.input.setFont(fixed_font(self.input.font(), 1.0))
        self.add = QPushButton("Add")
        self.add.setAccessibleName("Add the stop sequence")
        self.message = label("", "fault", 0.93, is_wrapped=True)
        self.message.hide()
        self.remark = label("", "muted", 0.93, is_wrapped=True)
        self.remark.hide()
        self.fix = ElidedButton()
        self.fix.setAccessibleName("Fix the selected sequence")
        self.fix.hide()
        self.apply_bar = QFrame()
        self.apply_bar.setObjectName("hint_bar")
        self.apply_bar.hide()
        self.apply_now = QPushButton("Apply Now")
        self.apply_now.setAccessibleName("Use this stop list for the running answer")
        self._empty = label(
            "No stop sequences yet. An answer ends where one of them first appears in its text; "
            "the sequence itself is cut off.",
            "muted",
            0.95,
            is_wrapped=True,
        )
        self.undo = IconButton(theme, "undo", "Undo the last change of the stop list")
        self.redo = IconButton(theme, "redo", "Redo the last change of the stop list")
        self.up = IconButton(theme, "up", "Move the selected sequence up (Alt+Up)")
        self.down = IconButton(theme, "down", "Move the selected sequence down (Alt+Down)")
        self.remove = IconButton(theme, "trash", "Remove the selected sequence (Delete)")
        self.more = IconButton(theme, "copy", "Paste, copy, import or export the stop list")
        self.import_export = ImportExportMenu(self)
        self.more.setMenu(self.import_export)
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.as_typed = ChipButton(theme, "pencil", "As Typed", is_toggle=True)
        self.as_typed.setToolTip("Every character counts as it is; \\n is two characters")
        self.with_escapes = ChipButton(theme, "sparkle", "With Escapes", is_toggle=True)
        self.with_escapes.setToolTip("\\n is a line break, \\t a tab, \\\\ a backslash")
        self.end_tokens = EndTokens(theme)
        self._lay_out()
        self._connect_signals()

    def show_model(self, model: StopListModel) -> None:
        """Edit another list."""
        if self._model is not None:
            self._disconnect(self._model)
        self._model = model
        self.table.setModel(model)
        self.import_export.show_model(model)
        model.remarks_changed.connect(self._refresh)
        model.edited.connect(self._refresh)
        model.row_changed.connect(self._select)
        model.refused.connect(self._show_refusal)
        model.mode_changed.connect(self._show_mode)
        model.undo_stack.canUndoChanged.connect(self.undo.setEnabled)
        model.undo_stack.canRedoChanged.connect(self.redo.setEnabled)
        self.table.selectionModel().currentRowChanged.connect(lambda *_: self._refresh())
        self.undo.setEnabled(model.undo_stack.canUndo())
        self.redo.setEnabled(model.undo_stack.canRedo())
        self.input.setText(model.half_typed)
        self._show_mode(model.with_escapes)
        self._hide_refusal()
        self._refresh()

    def offer_to_apply(self, can_apply: bool) -> None:
        """Show whether the edited list can be applied to a running answer."""
        self.apply_bar.setVisible(can_apply)

    # -- building --------------------------------------------------------------------------

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.setSpacing(1)
        head.addWidget(label("Stop sequences", "title", weight=QFont.Weight.DemiBold))
        head.addStretch(1)
        for button in (self.undo, self.redo, self.up, self.down, self.remove, self.more):
            head.addWidget(button)
        entry = QHBoxLayout()
        entry.setSpacing(6)
        entry.addWidget(self.input, 1)
        entry.addWidget(self.add)
        modes = QHBoxLayout()
        modes.setSpacing(6)
        modes.addWidget(label("Input", "faint", 0.92))
        modes.addWidget(self.with_escapes)
        modes.addWidget(self.as_typed)
        modes.addStretch(1)
        group = QButtonGroup(self)
        group.addButton(self.with_escapes)
        group.addButton(self.as_typed)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addLayout(head)
        layout.addWidget(self._empty)
        layout.addWidget(self.table)
        layout.addWidget(self.remark)
        layout.addWidget(self.fix, 0, Qt.AlignmentFlag.AlignLeft)
        bar = QHBoxLayout(self.apply_bar)
        bar.setContentsMargins(10, 6, 6, 6)
        words = label("Changes apply from the next answer.", "muted", 0.93, True)
        bar.addWidget(words, 1)
        bar.addWidget(self.apply_now)
        layout.addWidget(self.apply_bar)
        layout.addLayout(entry)
        layout.addWidget(self.message)
        layout.addLayout(modes)
        layout.addSpacing(4)
        layout.addWidget(self.end_tokens)

    def _connect_signals(self) -> None:
        self.input.textChanged.connect(self._keep_typed)
        self.input.returnPressed.connect(self._add)
        self.input.textEdited.connect(self._hide_refusal)
        self.add.clicked.connect(self._add)
        self.fix.clicked.connect(self._fix)
        self.import_export.refused.connect(self._show_refusal)
        self.undo.clicked.connect(self._undo)
        self.redo.clicked.connect(self._redo)
        self.up.clicked.connect(lambda: self._move(-1))
        self.down.clicked.connect(lambda: self._move(1))
        self.remove.clicked.connect(self._remove)
        self.table.remove_wanted.connect(self._remove)
        self.table.move_wanted.connect(self._move)
        self.with_escapes.clicked.connect(lambda: self._set_mode(True))
        self.as_typed.clicked.connect(lambda: self._set_mode(False))

    def _disconnect(self, model: StopListModel) -> None:
        model.edited.disconnect(self._refresh)
        model.remarks_changed.disconnect(self._refresh)
        model.row_changed.disconnect(self._select)
        model.refused.disconnect(self._show_refusal)
        model.mode_changed.disconnect(self._show_mode)
        model.undo_stack.canUndoChanged.disconnect(self.undo.setEnabled)
        model.undo_stack.canRedoChanged.disconnect(self.redo.setEnabled)

    # -- intents ---------------------------------------------------------------------------

    def _add(self) -> None:
        if self._model is not None and self._model.add(self.input.text()):
            self.input.clear()
            self._hide_refusal()

    def _keep_typed(self, typed: str) -> None:
        if self._model is not None:
            self._model.half_typed = typed

    def _remove(self) -> None:
        row = self.table.currentIndex().row()
        if self._model is not None and row >= 0:
            self._model.remove([row])

    def _fix(self) -> None:
        row = self.table.currentIndex().row()
        if self._model is not None and row >= 0:
            self._model.fix(row)

    def _move(self, by: int) -> None:
        row = self.table.currentIndex().row()
        if self._model is not None and row >= 0:
            self._model.move(row, row + by)

    def _undo(self) -> None:
        if self._model is not None:
            self._model.undo_stack.undo()

    def _redo(self) -> None:
        if self._model is not None:
            self._model.undo_stack.redo()

    def _set_mode(self, with_escapes: bool) -> None:
        if self._model is not None:
            self._model.set_with_escapes(with_escapes)
        self.input.setFocus()

    # -- showing ---------------------------------------------------------------------------

    def _refresh(self) -> None:
        model = self._model
        if model is None:
            return
        rows, row = model.rowCount(), self.table.currentIndex().row()
        self._empty.setVisible(rows == 0)
        self.table.setVisible(rows > 0)
        self.table.setFixedHeight(self.table.sizeHint().height())
        self.up.setEnabled(row > 0)
        self.down.setEnabled(0 <= row < rows - 1)
        self.remove.setEnabled(row >= 0)
        found = model.remarks_on(row) if row >= 0 else []
        self.remark.setText("\n".join(remark.words for remark in found))
        self.remark.setVisible(bool(found))
        fix = next((remark.fix for remark in found if remark.fix), "")
        self.fix.setText(fix.replace("&", "&&"))
        self.fix.setAccessibleName(fix or "Fix the selected sequence")
        self.fix.setVisible(bool(fix))

    def _select(self, row: int) -> None:
        if row >= 0:
            self.table.setCurrentIndex(self.table.model().index(row, StopColumn.SEQUENCE))
        self._refresh()
        self.table.scrollTo(self.table.currentIndex())

    def _show_mode(self, with_escapes: bool) -> None:
        self.with_escapes.setChecked(with_escapes)
        self.as_typed.setChecked(not with_escapes)
        hint = "For example \\n\\nUser:" if with_escapes else "For example END"
        self.input.setPlaceholderText(hint)

    def _show_refusal(self, message: str) -> None:
        self.message.setText(message)
        self.message.show()
        self._mark_input(True)

    def _hide_refusal(self) -> None:
        self.message.hide()
        self._mark_input(False)

    def _mark_input(self, is_invalid: bool) -> None:
        restyle(self.input, "invalid", is_invalid)


class _Input(QLineEdit):
    """A line whose Return key adds what is typed; in a dialog it would press *Save* as well."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        super().keyPressEvent(event)
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            event.accept()
