"""The page that shows one question with two answers, side by side or below one another.

Main thread. The differences are computed on another thread once both answers have ended.
"""

import asyncio
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont, QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QButtonGroup,
    QFrame,
    QHBoxLayout,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from engine import counted
from ui.chat.session.open_conversation import OpenConversation
from ui.chat.session.side_by_side import Side, SideBySide
from ui.chat.sides.side_column import SideColumn
from ui.kit.background.tasks import Tasks
from ui.kit.look.theme import Theme
from ui.kit.text.labels import label
from ui.records.conversations import difference_words
from ui.words.differences import differences

_NARROW_PX, _WIDEST_PX = 620, 1240
_NEAR_END_PX = 12


class SidesPage(QWidget):
    """Shows the two answers of the open conversation.

    Signals:
        kept: A person chose an answer; carries its ``Side``, or None to keep both as versions.
        compare_wanted: A person wants to compare both runs in the inspector; carries them.
        run_wanted: A person wants to see why an answer ended; carries its ``Run``.
    """

    kept = Signal(object)
    compare_wanted = Signal(object, object)
    run_wanted = Signal(object)

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._sides: SideBySide | None = None
        self._tasks = Tasks()
        self._is_at_end = True
        self.columns: list[SideColumn] = []
        self._reasons = QButtonGroup(self)
        heading = label("Side by side", "title", weight=QFont.Weight.DemiBold)
        self.words = label("", "muted", is_wrapped=True)
        self.compare = QPushButton("Compare in the Inspector")
        self.leave = QPushButton("Keep Both as Versions")
        self.leave.setToolTip("The conversation continues with the left answer. Its settings stay.")
        for button in (self.compare, self.leave):
            button.setAccessibleName(button.text())
        texts = QVBoxLayout()
        texts.setSpacing(2)
        texts.addWidget(heading)
        texts.addWidget(self.words)
        self._head = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._head.setSpacing(8)
        self._head.addLayout(texts, 1)
        buttons = QHBoxLayout()
        buttons.addWidget(self.compare)
        buttons.addWidget(self.leave)
        self._head.addLayout(buttons)
        self.question = label("", "", is_wrapped=True)
        bubble = QFrame()
        bubble.setObjectName("bubble")
        within = QVBoxLayout(bubble)
        within.setContentsMargins(14, 9, 14, 9)
        within.addWidget(self.question)
        self._row = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._row.setSpacing(14)
        middle = QWidget()
        theme.follow(middle, lambda: middle.setMaximumWidth(theme.px(_WIDEST_PX)))
        column = QVBoxLayout(middle)
        column.setContentsMargins(20, 16, 20, 12)
        column.setSpacing(12)
        column.addLayout(self._head)
        column.addWidget(bubble)
        column.addLayout(self._row)
        column.addStretch(1)
        holder = QWidget()
        holder.setObjectName("scrolled")
        outer = QHBoxLayout(holder)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addStretch(1)
        outer.addWidget(middle, 1000)
        outer.addStretch(1)
        self.area = QScrollArea()
        self.area.setAccessibleName("Two answers side by side")
        self.area.setWidgetResizable(True)
        self.area.setFrameShape(QFrame.Shape.NoFrame)
        self.area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.area.setWidget(holder)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.area)
        bar = self.area.verticalScrollBar()
        bar.valueChanged.connect(self._notice_place)
        bar.rangeChanged.connect(self._follow_end)
        self.compare.clicked.connect(self._compare)
        self.leave.clicked.connect(lambda: self.kept.emit(None))
        theme.changed.connect(self._arrange)

    def show_sides(self, opened: OpenConversation) -> None:
        """Show the two answers of a conversation, or nothing if it has none."""
        sides = opened.sides
        if sides is self._sides:
            return
        if self._sides is not None:
            self._sides.is_running_changed.disconnect(self._refresh)
        for column in self.columns:
            column.hide()
            self._row.removeWidget(column)
            column.deleteLater()
        self.columns = []
        self._sides = sides
        if sides is None:
            return
        left, right = sides.sides
        assert sides.question is not None
        self.question.setText(_question(sides))
        others = difference_words(right.variant, left.variant)
        own = "" if left.variant.model is None else left.variant.model.name
        details = (own, others or "The same settings")
        titles = ("As this conversation", "With the changes")
        for side, title, detail in zip(sides.sides, titles, details, strict=True):
            self._add_column(len(self.columns), side, title, detail)
        sides.is_running_changed.connect(self._refresh)
        self._is_at_end = True
        self._arrange()
        self._refresh()

    def _add_column(self, place: int, side: Side, title: str, detail: str) -> None:
        column = SideColumn(self._theme, side, title, detail, self._reasons)
        column.keep_wanted.connect(partial(self.kept.emit, side))
        column.reason_wanted.connect(self.run_wanted)
        column.again_wanted.connect(lambda: self._answer_again(column))
        self._row.insertWidget(place, column, 1)
        self.columns.insert(place, column)

    def _answer_again(self, column: SideColumn) -> None:
        """Ask for an answer that failed once more, and show it in its column."""
        side = column.side
        if self._sides is None or not self._sides.answer_again(side):
            return
        place = self.columns.index(column)
        self.columns.remove(column)
        self._row.removeWidget(column)
        column.hide()
        column.deleteLater()
        self._add_column(place, side, column.title.text(), column.detail.text())
        self._refresh()
        self.run_wanted.emit(side.run)

    async def finish(self) -> None:
        """Wait until the background work has ended."""
        await self._tasks.finish()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the columns below one another if they would be too narrow side by side."""
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        is_narrow = self.width() < self._theme.px(_NARROW_PX)
        down, across = QBoxLayout.Direction.TopToBottom, QBoxLayout.Direction.LeftToRight
        for row in (self._row, self._head):
            row.setDirection(down if is_narrow else across)

    def _refresh(self) -> None:
        sides = self._sides
        if sides is None:
            return
        for column in self.columns:
            column.show_busy(sides.is_running)
        self.compare.setEnabled(not sides.is_running)
        self.leave.setEnabled(not sides.is_running)
        under_way = [one for one in sides.sides if one.session.is_running]
        failed = [one for one in self.columns if one.has_failed]
        if under_way:
            words = "Both answers are" if len(under_way) > 1 else "An answer is"
            self.words.setText(f"{words} being written.")
        elif failed:
            words = "Both answers" if len(failed) > 1 else "One of the answers"
            self.words.setText(f"{words} failed.")
            for column in self.columns:
                column.show_differences([])
        else:
            self._tasks.start(self._show_differences(sides), "compare two answers")

    async def _show_differences(self, sides: SideBySide) -> None:
        texts = [column.shown_text for column in self.columns]
        left, right = await asyncio.to_thread(differences, *texts)
        if sides is not self._sides:
            return
        for column, spans in zip(self.columns, (left, right), strict=True):
            column.show_differences(spans)
        count = max(len(left), len(right))
        if not count:
            words = "Both answers have the same words."
        else:
            words = f"The answers differ in {counted(count, 'place')}, which {_are(count)} marked."
        self.words.setText(words)

    def _compare(self) -> None:
        if self._sides is not None and len(runs := self._sides.runs) == 2:
            self.compare_wanted.emit(*runs)

    def _notice_place(self, value: int) -> None:
        self._is_at_end = value >= self.area.verticalScrollBar().maximum() - _NEAR_END_PX

    def _follow_end(self, _least: int, most: int) -> None:
        if self._is_at_end and self._sides is not None and self._sides.is_running:
            self.area.verticalScrollBar().setValue(most)


def _question(sides: SideBySide) -> str:
    asked = sides.question
    assert asked is not None
    names = ", ".join(file.name for file in asked.files)
    return "\n".join(part for part in (asked.typed, names) if part)


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
