"""The editor of a stop list: field, table with its cells, remarks, end tokens. Main thread."""

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import (
    QAbstractItemModel,
    QEvent,
    QItemSelectionModel,
    QModelIndex,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPalette,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QButtonGroup,
    QFrame,
    QHeaderView,
    QLineEdit,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QToolButton,
    QWidget,
)

from engine.library.model_info import ModelInfo
from engine.stopping.record import describe_source
from engine.stopping.rules import OWN_STOP_OPTIONS, StopScope
from engine.wording import counted, visible
from ui.kit import icons
from ui.kit.buttons import ChipButton, IconButton, UndoBar, push_button
from ui.kit.commands import Command, context_menu
from ui.kit.dialogs import prompt_number
from ui.kit.following import Following
from ui.kit.labels import ElidedButton, ElidedLabel, clear_layout, label
from ui.kit.layouts import STRETCH, column, row
from ui.kit.rows import Index
from ui.kit.theme import current_theme, fixed_font, restyle
from ui.stops.stop_list import StopListModel
from ui.stops.stop_list_menu import StopListMenu
from ui.stops.stop_lists import StopLists
from ui.stops.stop_rows import SCOPE_LABELS, StopColumn

_SCOPE_ICONS = {
    StopScope.TEXT: "chat",
    StopScope.TEXT_AND_THINKING: "thinking",
    StopScope.ALL: "tool",
}

_ROW_PX = 34
_WIDTHS_PX = {
    StopColumn.ENABLED: 30,
    StopColumn.SCOPE: 28,
    StopColumn.TOKENS: 74,
    StopColumn.FIRED: 34,
    StopColumn.REMARK: 28,
}
_EDIT_KEYS = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_F2)


class StopDelegate(QStyledItemDelegate):
    """Styles the cells, and edits sequences in place."""

    scope_requested = Signal(QModelIndex)

    def __init__(self, table: QTableView) -> None:
        super().__init__(table)
        self._table = table

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802
        super().initStyleOption(option, index)
        colors, kind = current_theme().colors, StopColumn(index.column())
        enabled = index.model().index(index.row(), StopColumn.ENABLED)
        is_on = enabled.data(Qt.ItemDataRole.CheckStateRole) == Qt.CheckState.Checked
        color, icon = colors.faint, ""
        if kind is StopColumn.SEQUENCE:
            option.font = fixed_font(self._table.font(), 1.0)
            color = colors.text if is_on else colors.hint
        elif kind is StopColumn.SCOPE:
            scope = index.data(Qt.ItemDataRole.UserRole)
            # The default scope is muted, so that the others stand out.
            color = colors.match if is_on and scope != StopScope.TEXT else colors.faint
            icon = _SCOPE_ICONS[scope]
        elif kind is StopColumn.TOKENS:
            option.text = counted(int(option.text), "token") if option.text.isdecimal() else ""
            option.displayAlignment = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        elif kind is StopColumn.REMARK:
            color, icon = colors.limit, "warning" if option.text else ""
            option.text = ""
        for role in (QPalette.ColorRole.Text, QPalette.ColorRole.HighlightedText):
            option.palette.setColor(role, QColor(color))
        if icon:
            option.icon = icons.icon(icon, color, 16)
            option.decorationSize = QSize(16, 16)
            option.features |= option.features.HasDecoration

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: Index) -> QWidget:
        editor = QLineEdit(parent)
        editor.setFont(fixed_font(self._table.font(), 1.0))
        model = index.model()
        assert isinstance(model, StopListModel)
        with_escapes = model.edits_with_escapes(index.row())
        editor.setAccessibleName(
            "Stop sequence, with escapes" if with_escapes else "Stop sequence, as typed"
        )
        return editor

    def updateEditorGeometry(
        self, editor: QWidget, option: QStyleOptionViewItem, index: Index
    ) -> None:
        editor.setGeometry(option.rect.adjusted(0, 3, 0, -3))

    def editorEvent(
        self,
        event: object,
        model: QAbstractItemModel,
        option: QStyleOptionViewItem,
        index: Index,
    ) -> bool:
        """Switch a row on a click anywhere in its first cell."""
        if not isinstance(event, QMouseEvent) or event.type() != QEvent.Type.MouseButtonRelease:
            return False
        if event.button() != Qt.MouseButton.LeftButton:
            return False
        if index.column() == StopColumn.ENABLED:
            _switch(model, index)
        elif index.column() == StopColumn.SCOPE:
            self.scope_requested.emit(index.model().index(index.row(), StopColumn.SCOPE))
        return index.column() in (StopColumn.ENABLED, StopColumn.SCOPE)


def _switch(model: QAbstractItemModel, cell: Index) -> None:
    is_on = cell.data(Qt.ItemDataRole.CheckStateRole) == Qt.CheckState.Checked
    state = Qt.CheckState.Unchecked if is_on else Qt.CheckState.Checked
    model.setData(cell, state, Qt.ItemDataRole.CheckStateRole)


class StopTable(QTableView):
    """Edits in place, drags to reorder, removes with Delete, switches with Space."""

    remove_requested = Signal()
    move_requested = Signal(int)  # -1 for up, 1 for down

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("stop_table")
        self.setAccessibleName("Stop sequences")
        delegate = StopDelegate(self)
        delegate.scope_requested.connect(self.choose_scope)
        self.setItemDelegate(delegate)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setEditTriggers(
            QAbstractItemView.EditTrigger.DoubleClicked
            | QAbstractItemView.EditTrigger.EditKeyPressed
        )
        self.setDragDropMode(QAbstractItemView.DragDropMode.InternalMove)
        self.setDragDropOverwriteMode(False)
        self.setDropIndicatorShown(True)
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.verticalHeader().hide()
        self.horizontalHeader().hide()

    def setModel(self, model: QAbstractItemModel | None) -> None:
        """Commit the open editor and show a list; the sequences take the remaining width."""
        for field in self.viewport().findChildren(QLineEdit):
            self.commitData(field)
        super().setModel(model)
        # Qt creates a selection model for each model, and keeps the old one alive.
        for selection in self.findChildren(QItemSelectionModel):
            if selection is not self.selectionModel():
                selection.deleteLater()
        header = self.horizontalHeader()
        header.setMinimumSectionSize(24)
        self.verticalHeader().setMinimumSectionSize(24)
        header.setSectionResizeMode(StopColumn.SEQUENCE, QHeaderView.ResizeMode.Stretch)
        for fixed, width in _WIDTHS_PX.items():
            header.setSectionResizeMode(fixed, QHeaderView.ResizeMode.Fixed)
            self.setColumnWidth(fixed, width)
        self.verticalHeader().setDefaultSectionSize(_ROW_PX)
        self.setFixedHeight(self.sizeHint().height())

    def sizeHint(self) -> QSize:
        model = self.model()
        rows = model.rowCount() if model is not None else 0
        # The style sheet pads the frame, so that rows end inside the round corners.
        return QSize(240, min(max(rows, 1), 7) * _ROW_PX + 8)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        index = self.currentIndex()
        is_alt = bool(event.modifiers() & Qt.KeyboardModifier.AltModifier)
        if event.matches(QKeySequence.StandardKey.Delete) or event.key() == Qt.Key.Key_Backspace:
            self.remove_requested.emit()
        elif is_alt and event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            self.move_requested.emit(-1 if event.key() == Qt.Key.Key_Up else 1)
        elif event.key() == Qt.Key.Key_Space and index.isValid():
            _switch(self.model(), index.siblingAtColumn(StopColumn.ENABLED))
        elif event.key() in _EDIT_KEYS and index.isValid():
            if self.state() != QAbstractItemView.State.EditingState:
                self.edit(index.siblingAtColumn(StopColumn.SEQUENCE))
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Show the menu of where the row applies: at the mouse or, by keyboard, at the row."""
        index = self.indexAt(event.pos())
        if event.reason() == QContextMenuEvent.Reason.Keyboard or not index.isValid():
            index = self.currentIndex()
        if index.isValid():
            self.choose_scope(index)

    def choose_scope(self, index: QModelIndex) -> None:
        model = self.model()
        assert isinstance(model, StopListModel)
        row, entry = index.row(), model.entries()[index.row()]
        entries = [
            Command(text, partial(model.set_scope, row, scope), checked=scope == entry.scope)
            for scope, text in SCOPE_LABELS.items()
        ]
        for option in OWN_STOP_OPTIONS:
            if option.kind is bool:
                is_on = getattr(entry.stop, option.name)
                turn = partial(model.set_option, row, option, not is_on)
                entries.append(Command(option.title, turn, checked=is_on))
        menu = context_menu(self, "Where this sequence applies", entries)
        position = self.visualRect(index.siblingAtColumn(StopColumn.SCOPE)).bottomLeft()
        menu.popup(self.viewport().mapToGlobal(position))


class EndTokens(QWidget):
    """Lists the token ids with their texts and sources; the user can add more."""

    added = Signal(int)  # id
    removed = Signal(int)  # id

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[str, ModelInfo | None, tuple[int, ...]] = "", None, ()
        self._rows = column(spacing=5, on=self)

    def show_tokens(self, info: ModelInfo | None, added: Sequence[int], name: str = "") -> None:
        before = self._shown[1]
        if info is not None:
            name = info.id
        elif before is not None and before.id == name:
            info = before
        target = name, info, tuple(added)
        if target == self._shown:
            return
        self._shown = target
        clear_layout(self.layout())
        if name:
            self._list(name, info, added)

    def _list(self, name: str, info: ModelInfo | None, added: Sequence[int]) -> None:
        layout = self._rows
        head = ElidedLabel(f"End tokens of {name}", "muted", 0.93)
        layout.addWidget(head)
        if info is None:
            layout.addWidget(_end_token("…", "known once the model is loaded"))
        for token in () if info is None else info.eos:
            text = f"token {token.token_id}, named by {describe_source(token.source)}"
            layout.addWidget(_end_token(visible(token.text), text))
        for token_id in added:
            is_known = info is None or token_id < info.vocabulary_size
            row = _end_token(str(token_id), "added by you" if is_known else "not in this model")
            remove = IconButton("close", f"Remove end token {token_id}", size=14)
            remove.clicked.connect(lambda _=False, number=token_id: self.removed.emit(number))
            inner = row.layout()
            assert inner is not None
            inner.addWidget(remove)
            layout.addWidget(row)
        more = push_button("Add a Token ID…", kind="link")
        more.setProperty("is_flush", True)
        more.setAccessibleName("Add a token id that ends answers")
        if info is None:
            more.setEnabled(False)
        else:
            more.clicked.connect(lambda: self._ask_token(info))
        layout.addWidget(more, 0, Qt.AlignmentFlag.AlignLeft)

    def _ask_token(self, info: ModelInfo) -> None:
        maximum = info.vocabulary_size - 1
        question = f"A token id from 0 to {maximum:,} that ends an answer:"
        prompt_number(self, "End Token", question, self.added.emit, minimum=0, maximum=maximum)


def _end_token(text: str, caption: str) -> QWidget:
    line = QWidget()
    chip = label(text, "chip")
    chip.setFont(fixed_font(chip.font(), 0.92))
    source = ElidedLabel(caption, "faint")
    source.setToolTip(caption)
    line.setAccessibleName(f"End token {text}, {caption}")
    row(chip, (source, 1), on=line)
    return line


class StopListEditor(QWidget):
    """Edits a stop list; its menu has the lists saved by name."""

    def __init__(self, lists: StopLists) -> None:
        super().__init__()
        self._model = StopListModel(parent=self)
        self._following = Following()
        self.table = StopTable()
        self.input = _Input()
        self.input.setAccessibleName("New stop sequence")
        self.input.setFont(fixed_font(self.input.font(), 1.0))
        self.add = push_button("Add", "Add the stop sequence")
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
        self.apply_now = push_button("Apply Now", "Use this stop list for the running answer")
        self._empty = label(
            "No stop sequences yet. An answer ends where one of them first appears in its text; "
            "the sequence itself is cut off.",
            "muted",
            0.95,
            is_wrapped=True,
        )
        self.undo = IconButton("undo", "Undo")
        self.redo = IconButton("redo", "Redo")
        self.up = IconButton("up", "Move the selected sequence up", keys="Alt+Up")
        self.down = IconButton("down", "Move the selected sequence down", keys="Alt+Down")
        self.remove = IconButton("trash", "Remove the selected sequence", keys="Del")
        self.more = IconButton("more", "More actions for the stop list")
        self.undo_bar = UndoBar()
        self.menu = StopListMenu(self, lists, self.undo_bar)
        self.more.setMenu(self.menu)
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.as_typed = ChipButton("pencil", "Literal", is_toggle=True)
        self.as_typed.setToolTip("Every character counts as it is; \\n is two characters")
        self.with_escapes = ChipButton("sparkle", "Escapes", is_toggle=True)
        self.with_escapes.setToolTip("\\n is a line break, \\t a tab, \\\\ a backslash")
        self.end_tokens = EndTokens()
        self._lay_out()
        self._connect_signals()

    def show_model(self, model: StopListModel) -> None:
        self._model = model
        self.table.setModel(model)
        self.menu.show_model(model)
        self._following.follow(
            (model.remarks_changed, self._refresh),
            (model.edited, self._refresh),
            (model.edited, self._hide_refusal),
            (model.row_changed, self._select),
            (model.refused, self._show_refusal),
            (model.mode_changed, self._show_mode),
            (model.undo_stack.canUndoChanged, self.undo.setEnabled),
            (model.undo_stack.canRedoChanged, self.redo.setEnabled),
            (model.undo_stack.undoTextChanged, self._name_undo),
            (model.undo_stack.redoTextChanged, self._name_redo),
        )
        self.table.selectionModel().currentRowChanged.connect(lambda *_: self._refresh())
        self.undo.setEnabled(model.undo_stack.canUndo())
        self.redo.setEnabled(model.undo_stack.canRedo())
        self._name_undo(model.undo_stack.undoText())
        self._name_redo(model.undo_stack.redoText())
        self.input.setText(model.pending_input)
        self._show_mode(model.with_escapes)
        self._hide_refusal()
        self._refresh()

    def _name_undo(self, what: str) -> None:
        """Name the last change, which may also be a deleted message."""
        self.undo.show_icon("undo", f"Undo {what}".rstrip())

    def _name_redo(self, what: str) -> None:
        self.redo.show_icon("redo", f"Redo {what}".rstrip())

    # -- building --------------------------------------------------------------------------

    def _lay_out(self) -> None:
        group = QButtonGroup(self)
        group.addButton(self.with_escapes)
        group.addButton(self.as_typed)
        text = label("Changes apply from the next answer.", "muted", 0.93, True)
        row((text, 1), self.apply_now, margins=(10, 6, 6, 6), on=self.apply_bar)
        column(
            row(
                label("Stop sequences", "title"),
                STRETCH,
                self.undo,
                self.redo,
                self.up,
                self.down,
                self.remove,
                self.more,
                spacing=1,
            ),
            self._empty,
            self.table,
            self.remark,
            (self.fix, 0, Qt.AlignmentFlag.AlignLeft),
            self.apply_bar,
            row((self.input, 1), self.add, spacing=6),
            self.message,
            row(
                label("Input", "faint", 0.92), self.with_escapes, self.as_typed, STRETCH, spacing=6
            ),
            self.undo_bar,
            4,
            self.end_tokens,
            spacing=8,
            on=self,
        )

    def _connect_signals(self) -> None:
        self.input.textChanged.connect(self._keep_typed)
        self.input.returnPressed.connect(self._add)
        self.input.textEdited.connect(self._hide_refusal)
        self.add.clicked.connect(self._add)
        self.fix.clicked.connect(self._fix)
        self.menu.refused.connect(self._show_problem)
        self.undo.clicked.connect(lambda: self._model.undo_stack.undo())
        self.redo.clicked.connect(lambda: self._model.undo_stack.redo())
        self.up.clicked.connect(lambda: self._move(-1))
        self.down.clicked.connect(lambda: self._move(1))
        self.remove.clicked.connect(self._remove)
        self.table.remove_requested.connect(self._remove)
        self.table.move_requested.connect(self._move)
        self.with_escapes.clicked.connect(lambda: self._set_mode(True))
        self.as_typed.clicked.connect(lambda: self._set_mode(False))

    # -- intents ---------------------------------------------------------------------------

    def _add(self) -> None:
        if self._model.add(self.input.text()):
            self.input.clear()

    def _keep_typed(self, typed: str) -> None:
        self._model.pending_input = typed

    def _remove(self) -> None:
        if (selected := self._selected) >= 0:
            self._model.remove([selected])

    def _fix(self) -> None:
        if (selected := self._selected) >= 0:
            self._model.fix(selected)

    def _move(self, by: int) -> None:
        if (selected := self._selected) >= 0:
            self._model.move(selected, selected + by)

    @property
    def _selected(self) -> int:
        return self.table.currentIndex().row()

    def _set_mode(self, with_escapes: bool) -> None:
        self._model.set_with_escapes(with_escapes)
        self.input.setFocus()

    # -- showing ---------------------------------------------------------------------------

    def _refresh(self) -> None:
        model = self._model
        rows, row = model.rowCount(), self._selected
        self._empty.setVisible(rows == 0)
        self.table.setVisible(rows > 0)
        self.table.setFixedHeight(self.table.sizeHint().height())
        self.up.setEnabled(row > 0)
        self.down.setEnabled(0 <= row < rows - 1)
        self.remove.setEnabled(row >= 0)
        remarks = model.remarks_on(row) if row >= 0 else []
        self.remark.setText("\n".join(remark.text for remark in remarks))
        self.remark.setVisible(bool(remarks))
        fix = next((remark.fix for remark in remarks if remark.fix), "")
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
        self._show_problem(message)
        restyle(self.input, "invalid", True)

    def _show_problem(self, message: str) -> None:
        self.message.setText(message)
        self.message.show()

    def _hide_refusal(self) -> None:
        self.message.hide()
        restyle(self.input, "invalid", False)


class _Input(QLineEdit):
    """A line that accepts the Return key, so that a dialog around it does not press *Save*."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        super().keyPressEvent(event)
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            event.accept()
