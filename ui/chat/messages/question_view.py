"""A question: its files and its text, which can be edited in its place.

A line above the first message in the prompt shows how many were left out. Main thread.
"""

import re
from collections.abc import Sequence
from math import ceil

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QTextBlock,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
)
from PySide6.QtWidgets import QFrame, QPushButton, QSizePolicy, QWidget

from ui.chat.composer.attachments import AttachedFile, file_lines
from ui.chat.composer.message_editor import EditedInPlace
from ui.chat.messages.message_foot import ShownMessage
from ui.kit.buttons import copy_on_click, fold_button, push_button
from ui.kit.flow_text import FlowText, SearchedPart, SearchedText, utf16_length
from ui.kit.labels import label
from ui.kit.layouts import STRETCH, FlowLayout, column, row
from ui.kit.markdown.style import Runs, highlighted_lines
from ui.kit.theme import current_theme
from ui.records.attachments import Attachment
from ui.records.messages import ConversationMessage
from ui.records.runs import LeftOut
from ui.words import lines_of

# A line has its surplus height below the letters.
_PAD_X, _PAD_TOP, _PAD_BOTTOM, _LINE_PERCENT = 15, 11, 6, 128
_CODE_PX = 8
_FENCE_END = "```"
_FENCE = re.compile(r" {0,3}```[\w+#. -]*")


class PromptLine(EditedInPlace):
    """Says which messages above are not sent, or are sent as a summary."""

    send_all_requested = Signal()
    summary_edited = Signal(str)  # text; empty to remove it

    def __init__(self, left_out: LeftOut, summary: str) -> None:
        super().__init__()
        is_summarized = left_out.is_summarized and bool(summary.strip())
        self._summary = summary if is_summarized else ""
        self.caption = label(left_out.sentence, "muted", 0.92, is_wrapped=True)
        self.setAccessibleName(left_out.sentence)
        self.send_all = _link("Include All", "Include all earlier messages")
        self.fold = fold_button("Show Summary")
        self.text = FlowText()
        self.text.setObjectName("answer_text")
        self.text.setAccessibleName("Summary of the earlier messages")
        self.text.setPlainText(self._summary)
        self.text.hide()
        self.edit = _link("Edit", "Edit the summary")
        self.remove = _link("Remove", "Remove the summary; the messages are then left out")
        buttons = QWidget()
        flow = FlowLayout(buttons)
        for button in (self.send_all, self.fold, self.edit, self.remove):
            flow.addWidget(button)
        for part in (self.fold, self.edit, self.remove):
            part.setVisible(is_summarized)
        self._column = column(
            _rule(),
            self.caption,
            buttons,
            self.text,
            _rule(),
            spacing=4,
            margins=(0, 0, 0, 12),
            on=self,
        )
        self.send_all.clicked.connect(self.send_all_requested)
        self.fold.toggled.connect(self._fold)
        self.edit.clicked.connect(self.begin_editing)
        self.remove.clicked.connect(lambda: self.summary_edited.emit(""))

    def begin_editing(self) -> None:
        self.open_editor(self._column, self.text, self._summary, accessible_name="summary")

    def show_edited_part(self) -> None:
        self.text.setVisible(self.fold.isChecked() and self.editor is None)

    def take_edited(self, text: str, files: tuple[Attachment, ...]) -> None:
        self.end_editing()
        self.summary_edited.emit(text)

    def _fold(self, is_open: bool) -> None:
        self.show_edited_part()
        self.fold.setText("Hide Summary" if is_open else "Show Summary")


def _link(text: str, accessible_name: str) -> QPushButton:
    button = push_button(text, accessible_name, kind="link")
    button.setProperty("is_flush", True)
    return button


def _rule() -> QFrame:
    rule = QFrame()
    rule.setObjectName("prompt_rule")
    rule.setFixedHeight(1)
    rule.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
    return rule


class TypedText(FlowText):
    """Shows a text as it was typed, its fenced code with the look of code."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._code: list[tuple[QTextBlock, QTextBlock]] = []  # the lines of its fences
        self.follow_message_font()
        self.setPlainText(text)
        lines, cursor = QTextBlockFormat(), QTextCursor(self.document())
        lines.setLineHeight(
            _LINE_PERCENT, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value
        )
        cursor.select(QTextCursor.SelectionType.Document)
        cursor.mergeBlockFormat(lines)
        block, first = self.document().begin(), None
        while block.isValid():
            if first is None:
                first = block if _FENCE.fullmatch(block.text()) else None
            elif block.text().strip() == _FENCE_END:
                if first.next() != block:
                    self._code.append((first, block))
                first = None
            block = block.next()
        self._show_code()
        if self._code:
            current_theme().changed.connect(self._show_code)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the grounds of code."""
        painter, layout = QPainter(self.viewport()), self.document().documentLayout()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(current_theme().colors.canvas))
        for first, last in self._code:
            top, end = layout.blockBoundingRect(first).top(), layout.blockBoundingRect(last)
            ground = QRectF(0, top, self.viewport().width(), end.bottom() - top)
            painter.drawRoundedRect(ground, 6, 6)
        painter.end()
        super().paintEvent(event)

    def width_within(self, limit: int) -> int:
        """Return the width of the longest line, where lines wrap at a width."""
        return _text_px(self, limit) + _CODE_PX * bool(self._code)

    def _show_code(self) -> None:
        for first, last in self._code:
            self._flatten(first, 0)
            self._flatten(last, _CODE_PX // 2 if last.next().isValid() else 0)
            lines, block = [], first.next()
            while block != last:
                lines.append(block.text())
                block = block.next()
            language = first.text().strip().removeprefix(_FENCE_END).strip()
            block, colors = first.next(), current_theme().colors
            for line in highlighted_lines("\n".join(lines), language, colors)[: len(lines)]:
                self._color(block, line)
                block = block.next()

    def _flatten(self, fence: QTextBlock, below_px: int) -> None:
        """Make the line of a fence the space above or below its code."""
        cursor, form, tiny = QTextCursor(fence), QTextBlockFormat(), QTextCharFormat()
        form.setLineHeight(_CODE_PX, QTextBlockFormat.LineHeightTypes.FixedHeight.value)
        form.setBottomMargin(below_px)
        cursor.setBlockFormat(form)
        cursor.movePosition(cursor.MoveOperation.EndOfBlock, cursor.MoveMode.KeepAnchor)
        tiny.setFontPointSize(1)
        tiny.setForeground(QColor(Qt.GlobalColor.transparent))
        cursor.setCharFormat(tiny)

    def _color(self, block: QTextBlock, line: Runs) -> None:
        cursor, indent, form = QTextCursor(block), QTextBlockFormat(), QTextCharFormat()
        indent.setLeftMargin(_CODE_PX)
        indent.setRightMargin(_CODE_PX)
        cursor.mergeBlockFormat(indent)
        form.setFont(current_theme().code_font())
        for text, color in line:
            form.setForeground(QColor(color))
            right, units = cursor.MoveOperation.Right, utf16_length(text)
            cursor.movePosition(right, cursor.MoveMode.KeepAnchor, units)
            cursor.setCharFormat(form)
            cursor.clearSelection()


class PlainBubble(QWidget):
    """Text in a rounded card at the right, as wide as it needs and at most four fifths."""

    def __init__(self, text: str, files: Sequence[AttachedFile], beside: QWidget) -> None:
        super().__init__()
        self._beside = beside
        self.files = files
        self.text_view = TypedText(text)
        self.text_view.setAccessibleName(f"You: {text}")
        if self.files and not text:
            self.text_view.hide()  # not shown here; without a parent it would become a window
        self._card = QFrame()
        self._card.setObjectName("bubble")
        inner = column(spacing=8, margins=(_PAD_X, _PAD_TOP, _PAD_X, _PAD_BOTTOM), on=self._card)
        inner.addWidget(self.text_view)
        self._inner = inner
        row(STRETCH, (beside, 0, Qt.AlignmentFlag.AlignBottom), self._card, spacing=8, on=self)
        self.add_files(self.files)
        # Text of another size needs another card size, even if the column keeps its width.
        current_theme().changed.connect(self._fit)

    def add_files(self, files: Sequence[AttachedFile]) -> None:
        """Show further files above the text."""
        for file in files:
            self._inner.insertWidget(self._inner.count() - 1, file)
            file.unfolded.connect(self._fit)
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        available = self.width() - self._beside.sizeHint().width() - 8
        limit = max(100, min(int(self.width() * 0.8), available)) - 2 * _PAD_X
        widths = [self.text_view.width_within(limit)]
        for file in self.files:
            widths.append(file.chip.sizeHint().width())
            if file.picture is not None:
                widths.append(file.picture_px)
            if file.text_view is not None and file.is_unfolded:
                widths.append(_text_px(file.text_view, limit))
        target = min(max(widths) + 2, limit)
        self.text_view.setFixedWidth(target)
        chips_px = max((file.chip.sizeHint().width() for file in self.files), default=0)
        for file in self.files:
            file.fit(target)
            file.chip.setMinimumWidth(min(chips_px, target))  # their ends are one edge
        # The buttons stand beside the middle of the last line.
        margins = self._beside.contentsMargins()
        line_px = self.text_view.fontMetrics().lineSpacing() * _LINE_PERCENT / 100
        buttons_px = self._beside.sizeHint().height() - margins.bottom()
        margins.setBottom(max(0, round((line_px + _PAD_TOP + _PAD_BOTTOM - buttons_px) / 2)))
        self._beside.setContentsMargins(margins)

    def minimumSizeHint(self) -> QSize:
        return QSize(120, super().minimumSizeHint().height())


def _text_px(view: FlowText, limit: int) -> int:
    """Return the width of the longest line, where lines wrap at a width."""
    view.document().setTextWidth(limit)
    return ceil(view.document().idealWidth())


def question_lines(message: ConversationMessage) -> list[str]:
    """Return the lines in which a question is searched, in the order of its parts."""
    files = (line for card in message.cards for line in file_lines(*card))
    return [*files, *lines_of(message.typed)]


class QuestionView(ShownMessage):
    """Shows a question; editing it asks again and keeps the old version."""

    edited = Signal(str, object)  # text, files
    send_all_requested = Signal()
    summary_edited = Signal(str)  # text; empty to remove it

    def __init__(self, message: ConversationMessage, parent: QWidget | None = None) -> None:
        super().__init__(message, message.cards, (), parent)
        self.prompt_line: PromptLine | None = None
        self._line_shows: object = None
        self.edit = self.action_row.add("pencil", "Edit this question", "Ctrl+E")
        self._copy = self.action_row.add("copy", "Copy this question")
        self.add_common_buttons("question")
        self.bubble = PlainBubble(message.typed, self.files, self.action_row)
        self._layout = column(self.bubble, spacing=3, on=self)
        self.edit.clicked.connect(self.begin_editing)
        copy_on_click(self._copy, lambda: message.text)

    @property
    def text_view(self) -> FlowText:
        return self.bubble.text_view

    def searched_parts(self) -> list[SearchedPart]:
        """Return the views of ``question_lines``."""
        files = [part for file in self.files for part in file.searched_parts()]
        return [*files, SearchedText(self.text_view)]

    def show_busy(self, is_busy: bool) -> None:
        self.edit.setEnabled(not is_busy)
        self.action_row.stop_at()
        if self.editor is not None:
            self.editor.show_busy(is_busy)

    def refresh(self) -> None:
        self.pinned.setVisible(self.message.is_pinned)
        cards = self.message.cards
        for card, shown in zip(cards, self.files, strict=False):
            shown.show_excerpt(*card)
        for shown in self.files[len(cards) :]:
            shown.hide()
            shown.deleteLater()
        added = [self.card_of(*card) for card in cards[len(self.files) :]]
        self.files[len(cards) :] = added
        self.bubble.add_files(added)

    def show_prompt_line(self, left_out: LeftOut | None) -> None:
        """Say above the question that the prompt begins with it; None for nothing."""
        shows = None if left_out is None else (left_out, self.message.summary)
        if shows == self._line_shows:
            return
        self._line_shows = shows
        line, self.prompt_line = self.prompt_line, None
        if line is not None:
            line.hide()
            line.deleteLater()
        if left_out is not None:
            line = self.prompt_line = PromptLine(left_out, self.message.summary)
            line.send_all_requested.connect(self.send_all_requested)
            line.summary_edited.connect(self.summary_edited)
            line.left.connect(self.left)
            self._layout.insertWidget(0, line)

    def begin_editing(self) -> None:
        typed, files = self.message.typed, self.message.files
        self.open_editor(self._layout, self.bubble, typed, files, sends="Send")

    def show_edited_part(self) -> None:
        self.bubble.setVisible(self.editor is None)

    def take_edited(self, text: str, files: tuple[Attachment, ...]) -> None:
        if (text, files) == (self.message.typed, self.message.files):
            self.end_editing()
        else:
            self.edited.emit(text, files)
