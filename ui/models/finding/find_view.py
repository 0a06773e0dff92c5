"""The view that finds models: a search field, the list, and the chosen model beside it.

Main thread.
"""

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QFont, QKeyEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from ui.kit.controls.clear_button import add_clear_button, add_leading_icon
from ui.kit.look.theme import Theme
from ui.kit.text.labels import label
from ui.models.finding.finder import Finder, list_words
from ui.models.finding.offer_details import OfferDetails
from ui.models.finding.offer_list import OfferList
from ui.models.finding.possession import Possession
from ui.models.model_library import ModelLibrary

# Milliseconds without typing after which a search begins, and without moving through the list
# after which a card is read.
_TYPING_MS, _WALKING_MS = 250, 200
_SIDE_BY_SIDE_PX = 680
_MOST_CHARS = 200


class FindView(QWidget):
    """Finds models on the hub."""

    def __init__(self, theme: Theme, library: ModelLibrary) -> None:
        super().__init__()
        self._theme = theme
        self.finder = Finder(library, self)
        possession = Possession(library, self)
        self.field = _SearchField()
        self.field.setMaxLength(_MOST_CHARS)
        self.field.setPlaceholderText("Search Hugging Face for MLX models, or paste owner/name")
        self.field.setAccessibleName("Search for models")
        add_leading_icon(theme, self.field, "search")
        add_clear_button(theme, self.field, "Clear the search")
        self.bar = QProgressBar()
        self.bar.setRange(0, 0)
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(4)
        self.bar.setAccessibleName("Searching")
        self.stop = QPushButton("Cancel")
        self.stop.setAccessibleName("Cancel the search")
        self.heading = label("", "heading", weight=QFont.Weight.DemiBold)
        self.note = label("", "muted", 0.95)
        self.problem = label("", "", is_wrapped=True)
        self.again = QPushButton("Try Again")
        self.empty = label("", "muted", is_wrapped=True)
        self.list = OfferList(theme, self.finder, possession)
        self.more = QPushButton("Show More")
        self.more.setAccessibleName("Show more models")
        self.details = OfferDetails(theme, self.finder, possession, library.downloads)
        self._typing = QTimer(self, singleShot=True, interval=_TYPING_MS)
        self._walking = QTimer(self, singleShot=True, interval=_WALKING_MS)
        self._lay_out()
        self._connect_signals()
        self._refresh()

    def begin(self) -> None:
        """Show suggestions, if nothing was searched for yet. Needs the running loop."""
        self.finder.begin()

    def showEvent(self, event: QShowEvent) -> None:
        """Begin when the view is first seen."""
        super().showEvent(event)
        self.begin()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the chosen model below the list if both would be too narrow side by side."""
        super().resizeEvent(event)
        is_wide = self.width() >= self._theme.px(_SIDE_BY_SIDE_PX)
        wanted = Qt.Orientation.Horizontal if is_wide else Qt.Orientation.Vertical
        if self._splitter.orientation() != wanted:
            self._splitter.setOrientation(wanted)
            self._splitter.setSizes([1100, 900])
            self._left.setContentsMargins(20, 0, 4 if is_wide else 20, 14 if is_wide else 0)
            self.details.set_left_margin(12 if is_wide else 20)

    def focus_search(self) -> None:
        """Focus the search field and select its text."""
        self.field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.field.selectAll()

    def clear_search(self) -> bool:
        """Clear the search field if it has the focus; return whether it contained text."""
        if not (self.field.hasFocus() and self.field.text()):
            return False
        self.field.clear()
        return True

    async def finish(self) -> None:
        """Cancel the requests to the hub, and wait for their end."""
        self._typing.stop()
        self._walking.stop()
        await self.finder.finish()

    # -- building --------------------------------------------------------------------------

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(self.heading)
        head.addWidget(self.note)
        head.addStretch(1)
        head.addWidget(self.stop)
        self._problem_bar = QFrame()
        self._problem_bar.setObjectName("question_bar")
        inside = QHBoxLayout(self._problem_bar)
        inside.setContentsMargins(14, 8, 10, 8)
        inside.addWidget(self.problem, 1)
        inside.addWidget(self.again)
        left = QWidget()
        column = self._left = QVBoxLayout(left)
        column.setContentsMargins(20, 0, 4, 14)
        column.setSpacing(8)
        column.addWidget(self.empty)
        column.addWidget(self.list, 1)
        column.addWidget(self.more)
        column.addStretch(0)
        self._splitter = QSplitter(Qt.Orientation.Horizontal)
        self._splitter.setChildrenCollapsible(False)
        self._splitter.addWidget(left)
        self._splitter.addWidget(self.details)
        self._splitter.setSizes([1100, 900])
        top = QVBoxLayout()
        top.setContentsMargins(20, 14, 20, 4)
        top.setSpacing(8)
        top.addWidget(self.field)
        top.addLayout(head)
        top.addWidget(self.bar)
        top.addWidget(self._problem_bar)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addLayout(top)
        layout.addWidget(self._splitter, 1)

    def _connect_signals(self) -> None:
        finder = self.finder
        self.field.textChanged.connect(lambda: self._typing.start())
        self.field.returnPressed.connect(self._search_now)
        self.field.left.connect(self._enter_list)
        self._typing.timeout.connect(self._search)
        self.list.picked.connect(self._pick)
        self.list.wanted.connect(self.details.act)
        self._walking.timeout.connect(self._read_card)
        self.more.clicked.connect(finder.show_more)
        self.again.clicked.connect(finder.try_again)
        self.stop.clicked.connect(finder.cancel)
        finder.changed.connect(self._refresh)

    # -- asking ----------------------------------------------------------------------------

    def _search_now(self) -> None:
        self._typing.stop()
        self._search()
        self._enter_list()

    def _search(self) -> None:
        text = self.field.text().strip()
        if text != self.finder.query or self.finder.stage == "failed":
            self.finder.search(text)

    def _enter_list(self) -> None:
        if self.list.offers.rowCount():
            self.list.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _pick(self, _: str) -> None:
        self.details.show_offer(self.list.current)
        self._walking.start()

    def _read_card(self) -> None:
        current = self.list.current
        self.finder.look_at("" if current is None else current.name)

    # -- showing ---------------------------------------------------------------------------

    def _refresh(self) -> None:
        finder = self.finder
        is_asking = finder.stage == "asking"
        self.heading.setText("Search results" if finder.query else "Suggested for this computer")
        if finder.is_offline:
            self.heading.setText("Without the hub")
        self.note.setText(list_words(finder))
        self.bar.setVisible(is_asking)
        self.stop.setVisible(is_asking)
        self.problem.setText(finder.problem)
        self._problem_bar.setVisible(bool(finder.problem))
        self.more.setVisible(finder.can_show_more)
        self.list.setVisible(bool(finder.offers))
        self.empty.setText(self._empty_words())
        self.empty.setVisible(bool(self.empty.text()))
        self.details.show_offer(self.list.current)

    def _empty_words(self) -> str:
        finder = self.finder
        if finder.offers or finder.stage in ("idle", "asking"):
            return ""
        if finder.is_offline:
            return "No model on this computer has this in its name."
        if not finder.query:
            return "None of the suggested models fits into this computer’s memory."
        return (
            f"No MLX model on the hub has a name with “{finder.query}”. Try fewer or shorter words."
        )


class _SearchField(QLineEdit):
    """Moves to the list with the Down key.

    Signals:
        left: The Down key was pressed.
    """

    left = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Emit ``left`` for the Down key."""
        if event.key() == Qt.Key.Key_Down:
            self.left.emit()
            event.accept()
            return
        super().keyPressEvent(event)
