"""The editor of a stop list: field, table with its cells, remarks, end tokens. Main thread."""

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import (
    QAbstractItemModel,
    QEvent,
    QItemSelectionModel,
    QModelIndex,
    QPoint,
    QPointF,
    QRect,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QFont,
    QFontMetrics,
    QFontMetricsF,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPainterPath,
    QPalette,
    QResizeEvent,
    QTextLayout,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHeaderView,
    QLineEdit,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QToolButton,
    QWidget,
)

from engine.library.model_info import ModelInfo
from engine.stopping.record import describe_source
from engine.stopping.rules import OWN_STOP_OPTIONS
from engine.wording import quoted, visible
from ui.kit import icons
from ui.kit.buttons import IconButton, UndoBar, push_button
from ui.kit.commands import Command, Entry, Submenu, context_menu, fill_menu
from ui.kit.dialogs import prompt_number
from ui.kit.following import Following
from ui.kit.labels import ElidedLabel, clear_layout, label
from ui.kit.layouts import STRETCH, column, row
from ui.kit.menus import escape_mnemonics
from ui.kit.rows import Index
from ui.kit.theme import current_theme, fixed_font, restyle, sized_font
from ui.stops.stop_list import StopListModel
from ui.stops.stop_list_menu import StopListMenu
from ui.stops.stop_lists import StopLists
from ui.stops.stop_rows import ENDED_ANSWER, SCOPE_LABELS, Remark, StopColumn
from ui.words import display_name

_ROW_PX = 32
_EDGES_PX = {StopColumn.ENABLED: 30, StopColumn.REMARK: 34}
_REMARK_GAP_PX = 6
_SIGNS = "⏎⇥"  # small in most fonts
_EDIT_KEYS = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_F2)


class StopDelegate(QStyledItemDelegate):
    """Draws the cells, with the remarks below the row, and edits sequences in place."""

    menu_requested = Signal(QModelIndex)

    def __init__(self, table: "StopTable") -> None:
        super().__init__(table)
        self._table = table

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802
        super().initStyleOption(option, index)
        colors, kind = current_theme().colors, StopColumn(index.column())
        enabled = index.model().index(index.row(), StopColumn.ENABLED)
        is_on = enabled.data(Qt.ItemDataRole.CheckStateRole) == Qt.CheckState.Checked
        color, icon = colors.muted, ""
        if kind is StopColumn.SEQUENCE:
            font = fixed_font(self._table.font(), 1.0)
            font.setLetterSpacing(QFont.SpacingType.AbsoluteSpacing, 0.8)  # signs would touch
            option.font = font
            option.text = ""  # ``_draw_sequence`` draws it
            color = colors.text if is_on else colors.hint
            option.rect.setRight(option.rect.right() - self._note_px(index))
        elif kind is StopColumn.REMARK:
            model = index.model()
            assert isinstance(model, StopListModel)
            color, icon = colors.limit, "warning" if model.has_problem(index.row()) else ""
            option.text = ""
        for role in (QPalette.ColorRole.Text, QPalette.ColorRole.HighlightedText):
            option.palette.setColor(role, QColor(color))
        if icon:
            option.icon = icons.icon(icon, color, 16)
            option.decorationSize = QSize(16, 16)
            option.features |= option.features.HasDecoration

    def _note_px(self, index: Index) -> int:
        note = _note(index)
        return self._table.fontMetrics().horizontalAdvance(note) + 8 if note else 0

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw a cell in the upper part of its row, and its part of the remarks below."""
        whole, has_fired = QRect(option.rect), _has_fired(index)
        is_selected = bool(option.state & QStyle.StateFlag.State_Selected)
        colors = current_theme().colors
        if has_fired or (is_selected and self._table.hasFocus()):
            painter.save()
            painter.setClipRect(whole)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(colors.match_soft if has_fired else colors.hover))
            ground = QRect(0, whole.top(), self._table.viewport().width(), whole.height())
            painter.drawRoundedRect(ground, 6, 6)
            painter.restore()
        option.state &= ~(QStyle.StateFlag.State_Selected | QStyle.StateFlag.State_HasFocus)
        option.rect = whole.adjusted(0, 0, 0, _ROW_PX - whole.height())
        super().paint(painter, option, index)
        if index.column() == StopColumn.SEQUENCE:
            self.initStyleOption(option, index)
            _draw_sequence(painter, option, str(index.data()))
            option.rect = whole.adjusted(0, 0, 0, _ROW_PX - whole.height())
        if index.column() == StopColumn.SEQUENCE and (note := _note(index)):
            painter.setFont(self._table.font())
            painter.setPen(QColor(colors.match if has_fired else colors.muted))
            right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            is_last = self._table.columnSpan(index.row(), index.column()) > 1
            painter.drawText(option.rect.adjusted(0, 0, -8 if is_last else -4, 0), right, note)
        if shown := self._table.shown_remarks(index.row(), whole.top()):
            painter.save()
            painter.setClipRect(whole)
            painter.setFont(self._table.remark_font)
            for remark, text_area, fix_area in shown:
                painter.setPen(QColor(colors.muted))
                painter.drawText(text_area, Qt.TextFlag.TextWordWrap, remark.text)
                painter.setPen(QColor(colors.match))
                painter.drawText(fix_area, remark.fix)
            painter.restore()

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
        editor.setGeometry(option.rect.adjusted(0, 3, 0, _ROW_PX - option.rect.height() - 3))

    def editorEvent(
        self,
        event: object,
        model: QAbstractItemModel,
        option: QStyleOptionViewItem,
        index: Index,
    ) -> bool:
        """Switch a row on a click in its first cell; open its menu from the last; fix it."""
        if not isinstance(event, QMouseEvent) or event.type() != QEvent.Type.MouseButtonRelease:
            return False
        if event.button() != Qt.MouseButton.LeftButton:
            return False
        for remark, _, fix_area in self._table.shown_remarks(index.row(), option.rect.top()):
            if fix_area.contains(event.position().toPoint()):
                assert isinstance(model, StopListModel)
                model.fix(index.row(), remark)
                return True
        if index.column() == StopColumn.ENABLED:
            _switch(model, index)
        elif index.column() == StopColumn.REMARK:
            self.menu_requested.emit(index.model().index(index.row(), StopColumn.REMARK))
        return index.column() in (StopColumn.ENABLED, StopColumn.REMARK)


def _draw_sequence(painter: QPainter, option: QStyleOptionViewItem, text: str) -> None:
    """Draw a sequence, its signs of white space as high as its capitals."""
    font = QFont(option.font)
    metrics = QFontMetricsF(font)
    # The style's margin of a cell and the padding of the sheet.
    area = QRectF(option.rect).adjusted(7, 0, -7, 0)
    shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, area.width())
    layout, formats = QTextLayout(shown, font), []
    for place, sign in enumerate(shown):
        if sign in _SIGNS:
            larger, outline = QFont(font), QPainterPath()
            outline.addText(QPointF(), font, sign)
            bounds = outline.boundingRect()
            scale = min(max(1.0, metrics.capHeight() / max(1.0, bounds.height())), 2.0)
            larger.setPointSizeF(font.pointSizeF() * scale)
            found = QTextLayout.FormatRange()
            found.start, found.length = place, 1
            found.format.setFont(larger)
            found.format.setBaselineOffset(100 * bounds.bottom() / metrics.height())
            formats.append(found)
    layout.setFormats(formats)
    layout.beginLayout()
    line = layout.createLine()
    layout.endLayout()
    if not line.isValid():
        return
    top = area.center().y() + metrics.capHeight() / 2 - line.ascent()
    painter.save()
    painter.setClipRect(option.rect)
    painter.setPen(option.palette.color(QPalette.ColorRole.Text))
    layout.draw(painter, QPointF(area.left(), top))
    painter.restore()


def _cell(index: Index, column: StopColumn) -> str:
    return str(index.model().index(index.row(), column).data() or "")


def _has_fired(index: Index) -> bool:
    return _cell(index, StopColumn.FIRED) == ENDED_ANSWER


def _note(index: Index) -> str:
    """Return the text at the right of a sequence: its scope, and whether it fired."""
    cells = (_cell(index, column) for column in (StopColumn.SCOPE, StopColumn.FIRED))
    return " · ".join(filter(None, cells))


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
        self._is_folded = False  # the selected row
        delegate = StopDelegate(self)
        delegate.menu_requested.connect(self.show_menu)
        self.remark_font = sized_font(self.font(), 12)
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
        header.setMinimumSectionSize(4)
        self.verticalHeader().setMinimumSectionSize(24)
        for drawn in (StopColumn.SCOPE, StopColumn.FIRED):  # beside the sequence
            self.setColumnHidden(drawn, True)
        header.setSectionResizeMode(StopColumn.SEQUENCE, QHeaderView.ResizeMode.Stretch)
        for fixed, width in _EDGES_PX.items():
            header.setSectionResizeMode(fixed, QHeaderView.ResizeMode.Fixed)
            self.setColumnWidth(fixed, width)
        self.fit_rows()

    def fit_rows(self) -> None:
        """Give each row the height of its remarks, and the table that of its rows."""
        model = self.model()
        heights = []
        for number in range(0 if model is None else model.rowCount()):
            shown = self.shown_remarks(number, 0)
            heights.append(
                max(shown[-1][1].bottom(), shown[-1][2].bottom()) + 7 if shown else _ROW_PX
            )
            if self.rowHeight(number) != heights[-1]:
                self.setRowHeight(number, heights[-1])
        assert model is None or isinstance(model, StopListModel)
        problems = [model is not None and model.has_problem(each) for each in range(len(heights))]
        self.setColumnHidden(StopColumn.REMARK, not any(problems))
        self.clearSpans()
        for number, has_problem in enumerate(problems):
            if not has_problem:  # no place for an icon: words end at the same edge in all rows
                self.setSpan(number, StopColumn.SEQUENCE, 1, len(StopColumn) - StopColumn.SEQUENCE)
        self.setFixedHeight(sum(heights[:7]) + 6)  # more scroll

    def shown_remarks(self, row: int, top: int) -> list[tuple[Remark, QRect, QRect]]:
        """Return the remarks below a row that begins at a height, each with its places.

        They are those of the selected row, and problems of the fired stop. The second place is
        that of the link that mends it; empty without one.
        """
        model, metrics = self.model(), QFontMetrics(self.remark_font)
        assert isinstance(model, StopListModel)
        has_fired = bool(model.fired) and model.entries()[row].stop.text == model.fired
        is_unfolded = row == self.currentIndex().row() and not self._is_folded
        left, y = _EDGES_PX[StopColumn.ENABLED] + 7, top + _ROW_PX - 3
        width, shown = self.viewport().width() - left - 8, []
        for remark in model.remarks_on(row):
            if not (is_unfolded or (has_fired and remark.is_problem)):
                continue
            text_area = metrics.boundingRect(
                QRect(left, y, width, 10_000), Qt.TextFlag.TextWordWrap, remark.text
            )
            text_area.setWidth(width)
            y, fix_area = text_area.bottom() + 1, QRect()
            if remark.fix and is_unfolded:
                fix_px = min(metrics.horizontalAdvance(remark.fix) + 1, width)
                fix_area = QRect(left, y, fix_px, metrics.height() + 2)
                y = fix_area.bottom() + 1
            shown.append((remark, text_area, fix_area))
            y += _REMARK_GAP_PX
        return shown

    def _unfold(self) -> None:
        """Show the remarks of the selected row again, which a menu at the mouse leaves folded."""
        if self._is_folded:
            self._is_folded = False
            self.fit_rows()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() != Qt.MouseButton.RightButton:  # that opens a menu, which selects
            self._unfold()
            super().mousePressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.fit_rows()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        self._unfold()
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
        """Show the menu of a row: at the mouse or, by keyboard, at the row."""
        is_key = event.reason() == QContextMenuEvent.Reason.Keyboard
        index = self.currentIndex() if is_key else self.indexAt(event.pos())
        if index.isValid():
            self.show_menu(index, None if is_key else event.globalPos())

    def show_menu(self, index: QModelIndex, position: QPoint | None = None) -> None:
        """Show all actions of a row, below it if no position is given."""
        self._is_folded |= position is not None and index.row() != self.currentIndex().row()
        self.setCurrentIndex(index)
        cell = index.siblingAtColumn(StopColumn.SEQUENCE)
        menu = context_menu(self, f"Stop sequence {quoted(str(cell.data()), 20)}", self.entries())
        below = self.viewport().mapToGlobal(self.visualRect(cell).bottomLeft())
        menu.popup(position or below)

    def entries(self) -> list[Entry]:
        """Return all actions of the selected row."""
        model, index = self.model(), self.currentIndex()
        if not isinstance(model, StopListModel) or not index.isValid():
            return [Command("No Stop Selected", lambda: None, enabled=False)]
        row = index.row()
        entry, cell = model.entries()[row], index.siblingAtColumn(StopColumn.SEQUENCE)
        scopes = [
            Command(text, partial(model.set_scope, row, scope), checked=scope == entry.scope)
            for scope, text in SCOPE_LABELS.items()
        ]
        options = []
        for option in OWN_STOP_OPTIONS:
            if option.kind is bool:
                is_on = getattr(entry.stop, option.name)
                turn = partial(model.set_option, row, option, not is_on)
                options.append(Command(option.title, turn, checked=is_on))
        fixes = (remark for remark in model.remarks_on(row) if remark.fixed is not None)
        remark = next(fixes, None)
        fix = []
        if remark is not None:
            fix = [Command(escape_mnemonics(remark.fix), partial(model.fix, row, remark))]
        return [
            Command("Edit", partial(self.edit, cell)),
            *fix,
            Command(
                "On",
                partial(model.set_enabled, row, not entry.is_enabled),
                checked=entry.is_enabled,
            ),
            Submenu("Applies To", scopes),
            *options,
            None,
            Command("Move Up", partial(self.move_requested.emit, -1), enabled=row > 0),
            Command(
                "Move Down",
                partial(self.move_requested.emit, 1),
                enabled=row < model.rowCount() - 1,
            ),
            None,
            Command("Remove", self.remove_requested.emit),
        ]


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
        head = ElidedLabel(f"End tokens of {display_name(name)}", "muted", 0.93)
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
        more = push_button("Add Token ID…", kind="link")
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
        prompt_number(
            self, "End Token", question, self.added.emit, done="Add", minimum=0, maximum=maximum
        )


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
        self.input.setPlaceholderText("Add a stop…")
        self.input.setFont(fixed_font(self.input.font(), 1.0))
        self.add = IconButton("plus", "Add the stop sequence")
        self.message = label("", "fault", 0.93, is_wrapped=True)
        self.message.hide()
        self.apply_bar = QFrame()
        self.apply_bar.setObjectName("hint_bar")
        self.apply_bar.hide()
        self.apply_now = push_button("Apply Now", "Use this stop list for the running answer")
        self._empty = label(
            "An answer ends where a stop sequence first appears; the sequence is cut off.",
            "muted",
            is_wrapped=True,
        )
        self.more = IconButton("more", "More actions for the stop list")
        self.undo_bar = UndoBar()
        inner = self.undo_bar.layout()
        assert inner is not None
        inner.setContentsMargins(0, 0, 0, 0)  # as wide as the card
        self.menu = StopListMenu(self, lists, self.undo_bar)
        fill_menu(self.menu, [None, Submenu("Selected Stop", self.table.entries)])
        self.more.setMenu(self.menu)
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.with_escapes = QToolButton()
        self.with_escapes.setProperty("kind", "code")
        self.with_escapes.setCheckable(True)
        self.with_escapes.setText(r"\n")
        self.with_escapes.setFont(fixed_font(self.with_escapes.font(), 1.0))
        self.with_escapes.setAccessibleName(r"\n means a new line")
        self.with_escapes.setToolTip(r"\n means a new line, \t a tab, \\ a backslash")
        self._rule = QFrame()
        self._rule.setObjectName("rule")
        self._rule.setFixedHeight(1)
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
            (model.undo_stack.indexChanged, self.undo_bar.hide),
            (model.removed, self._offer_undo),
            (model.refused, self._show_refusal),
            (model.mode_changed, self.with_escapes.setChecked),
        )
        self.table.selectionModel().currentRowChanged.connect(lambda *_: self._refresh())
        self.input.setText(model.pending_input)
        self.with_escapes.setChecked(model.with_escapes)
        self._hide_refusal()
        self.undo_bar.hide()
        self._refresh()

    # -- building --------------------------------------------------------------------------

    def _lay_out(self) -> None:
        text = label("Changes apply from the next answer.", "muted", 0.93, True)
        row((text, 1), self.apply_now, margins=(10, 6, 6, 6), on=self.apply_bar)
        card = QFrame()
        card.setObjectName("stop_card")
        options = row(4, self.with_escapes, self.more, spacing=2)
        field = row(self.add, (self.input, 1), options, spacing=0, margins=(5, 3, 5, 3))
        column(self.table, self._rule, field, spacing=0, margins=1, on=card)
        column(
            card,
            self.message,
            self._empty,
            self.apply_bar,
            self.undo_bar,
            STRETCH,
            spacing=8,
            on=self,
        )

    def _connect_signals(self) -> None:
        self.input.textChanged.connect(self._keep_typed)
        self.input.returnPressed.connect(self.add_typed)
        self.input.textEdited.connect(self._hide_refusal)
        self.add.clicked.connect(self.add_typed)
        self.menu.refused.connect(self._show_problem)
        self.table.remove_requested.connect(self._remove)
        self.table.move_requested.connect(self._move)
        self.with_escapes.clicked.connect(self._set_mode)

    # -- intents ---------------------------------------------------------------------------

    def add_typed(self) -> None:
        """Add the text of the field, which gets the keyboard."""
        self.input.setFocus()
        if self.input.text() and self._model.add(self.input.text()):
            self.input.setText("")  # unlike clear(), no typing is left to undo before the stop

    def _keep_typed(self, typed: str) -> None:
        self._model.pending_input = typed

    def _remove(self) -> None:
        if (selected := self._selected) >= 0:
            self._model.remove([selected])

    def _offer_undo(self, text: str) -> None:
        self.undo_bar.offer(text, self._model.undo_stack.undo)

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
        rows = model.rowCount()
        self._empty.setVisible(rows == 0)
        self.table.setVisible(rows > 0)
        self._rule.setVisible(rows > 0)
        self.table.fit_rows()

    def _select(self, row: int) -> None:
        if row >= 0:
            self.table.setCurrentIndex(self.table.model().index(row, StopColumn.SEQUENCE))
        self._refresh()
        self.table.scrollTo(self.table.currentIndex())

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
