"""The search field of the sidebar and its results. Main thread."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from PySide6.QtCore import QModelIndex, Qt, Signal
from PySide6.QtGui import QFont, QFontMetrics, QKeyEvent
from PySide6.QtWidgets import QListView, QWidget

from ui.chat.session.conversation_list import ConversationList
from ui.chat.session.search import FoundConversation, MoreHits, Search, role_label, since_days
from ui.chat.sidebar_rows import when_text
from ui.kit.commands import Command, context_menu, popup_below
from ui.kit.fields import is_typed_text
from ui.kit.labels import ElidedButton, label
from ui.kit.layouts import FlowLayout, column
from ui.kit.menus import escape_mnemonics
from ui.kit.rows import Index, RowContent, RowDelegate, RowPart
from ui.kit.theme import current_theme
from ui.records.store import EVERYWHERE, Hit

_ELIDE = Qt.TextElideMode.ElideRight
_DAYS = (("Today", 0), ("Last 7 Days", 6), ("Last 30 Days", 29), ("Last 12 Months", 364))
_SPEAKERS = (("You", "you"), ("Model", "model"), ("Tools", "tool"))


class _FilterChip(ElidedButton):
    """Shows what a search is narrowed to in one respect; a click offers the choices."""

    narrowed = Signal()

    def __init__(self, accessible_name: str, nothing: str) -> None:
        super().__init__()
        self._name, self._nothing = accessible_name, nothing
        self._choices: Sequence[tuple[str, Any]] = ()
        self.value: Any = None
        self.setProperty("kind", "chip")
        self.setCheckable(True)
        self.clicked.connect(self._offer)
        self._show(nothing)

    def show_choices(self, choices: Sequence[tuple[str, Any]]) -> None:
        """Offer choices; hidden without any. A choice that is no longer offered is undone."""
        self._choices = choices
        if self.value is not None and self.value not in [value for _, value in choices]:
            self._choose(None, self._nothing)
        self.setVisible(bool(choices))

    def _offer(self) -> None:
        self.setChecked(self.value is not None)
        entries = [
            Command(
                escape_mnemonics(text),
                partial(self._choose, value, text),
                checked=value == self.value,
            )
            for text, value in ((self._nothing, None), *self._choices)
        ]
        popup_below(self, context_menu(self, self._name, entries))

    def _choose(self, value: Any, text: str) -> None:
        self.value = value
        self._show(text)
        self.narrowed.emit()

    def _show(self, text: str) -> None:
        self.setText(self._name if self.value is None else text)
        self.setChecked(self.value is not None)
        self.setAccessibleName(f"{self._name}: {text}")
        self.setToolTip(f"{self._name} of the results")


class SearchResults(QWidget):
    """The hits by conversation, or a message that there are none."""

    chosen = Signal(object)  # Hit
    left = Signal()

    def __init__(self, search: Search, conversations: ConversationList) -> None:
        super().__init__()
        self._search = search
        self._folders = conversations.folders
        self.folder = _FilterChip("Folder", "Any Folder")
        self.time = _FilterChip("Time", "Any Time")
        self.speaker = _FilterChip("Who", "Anyone")
        filters = QWidget()
        flow = FlowLayout(filters)
        for chip in (self.folder, self.time, self.speaker):
            flow.addWidget(chip)
            chip.narrowed.connect(self._narrow)
        self.time.show_choices(_DAYS)
        self.speaker.show_choices(_SPEAKERS)
        self.list = _ResultList()
        self.list.setObjectName("conversation_list")
        self.list.setAccessibleName("Search results")
        self.list.setModel(search)
        self.list.setItemDelegate(_ResultDelegate(self.list))
        self.list.setMouseTracking(True)
        self.list.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.count = label("", "faint", 0.92, is_wrapped=True)
        self.count.setContentsMargins(18, 0, 18, 4)
        chips = column(filters, margins=(8, 0, 8, 8))
        column(chips, self.count, (self.list, 1), spacing=0, on=self)
        # Whether the user came here from the field by keyboard, and has not chosen a hit yet.
        self._is_entered = False
        self.list.clicked.connect(self._take)
        self.list.activated.connect(self._take)
        self.list.left.connect(self.left)
        search.changed.connect(self._refresh)
        self._refresh()

    def enter(self) -> None:
        first = self._search.first_hit()
        if first >= 0:
            if not self.list.currentIndex().isValid():
                self.list.setCurrentIndex(self._search.index(first))
            self.list.setFocus()
            self._is_entered = True
            self._choose(self.list.currentIndex())

    @property
    def is_walked(self) -> bool:
        return self._is_entered and self.list.hasFocus()

    def _take(self, index: QModelIndex) -> None:
        self._is_entered = False
        self._choose(index)

    def _choose(self, index: QModelIndex) -> None:
        if not index.isValid():
            return
        row = self._search.at(index.row())
        if isinstance(row, MoreHits):
            self._search.show_more(row)
            self.list.setCurrentIndex(self._search.index(index.row()))
        elif (hit := self._search.hit_at(index.row())) is not None:
            self.chosen.emit(hit)

    def _narrow(self) -> None:
        days = self.time.value
        self._search.narrow(
            replace(
                self._search.filter,
                folder_id=self.folder.value or "",
                since=0.0 if days is None else since_days(days),
                speaker=self.speaker.value or "",
            )
        )

    def _refresh(self) -> None:
        search = self._search
        if search.is_active:
            self.folder.show_choices([(folder.name, folder.id) for folder in self._folders.all()])
        if search.summary:
            order = "\nBest matches first" if search.found_conversations > 1 else ""
            self.count.setText(search.summary + order)
        elif search.is_searching:
            self.count.setText("Searching…")
        else:
            advice = "Try fewer or shorter words"
            if search.filter != EVERYWHERE:
                advice = "Try fewer words, or search in more conversations"
            self.count.setText(f"No results for “{search.query.strip()}”. {advice}.")


class _ResultList(QListView):
    """A list that leaves letters to the composer."""

    left = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        before = self.currentIndex()
        if is_typed_text(event):
            event.ignore()
        elif event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        else:
            super().keyPressEvent(event)
            if event.key() == Qt.Key.Key_Up and self.currentIndex() == before:
                self.left.emit()


class _ResultDelegate(RowDelegate):
    """Conversations as headings, hits on one line with the matches in bold, and "more" rows."""

    def content(self, index: Index) -> RowContent | None:
        row, colors = index.data(Search.row_role), current_theme().colors
        if isinstance(row, Hit):
            who = role_label(row)
            return RowContent(
                self._fitting(row, 10, who, colors.muted),
                right=RowPart(who),
                weight=QFont.Weight.Normal,
                scale=0.9,
                inset_px=10,
            )
        if isinstance(row, FoundConversation):
            hit, title, when = row.hit, RowPart(row.title), when_text(row.sent_at)
            below = RowPart()
            if hit is not None and row.is_lone:
                below = self._fitting(hit)
            else:
                when = f"{row.hits} · {when}" if row.hits else when
                title = title if hit is None else RowPart(hit.snippet, bold=hit.spans)
            return RowContent(
                title,
                right=RowPart(when),
                subtitle=below,
                weight=QFont.Weight.DemiBold,
                has_ground=hit is not None,
            )
        if isinstance(row, MoreHits):
            inset_px = 10 if row.conversation_id else 0
            title = RowPart(row.label, colors.match)
            return RowContent(title, weight=QFont.Weight.Normal, scale=0.9, inset_px=inset_px)
        return None

    def _fitting(self, hit: Hit, inset_px: int = 0, beside: str = "", color: str = "") -> RowPart:
        """Return a snippet without the first words that push the match out of its line."""
        text, spans = hit.snippet, hit.spans
        metrics = QFontMetrics(self._font(0.9, QFont.Weight.DemiBold))
        room_px = self.ground(self._view.viewport().rect()).width() - inset_px - 20
        room_px -= metrics.horizontalAdvance(f"{beside}…") + 10
        while spans and metrics.horizontalAdvance(text[: sum(spans[0])]) > room_px:
            begin = spans[0][0]
            cut = text.find(" ", 0, begin) + 1 or begin  # a long word is cut before the match
            if begin <= 1:
                break
            text = f"…{text[cut:]}"
            spans = tuple((start - cut + 1, length) for start, length in spans)
        return RowPart(text, color, bold=spans)
