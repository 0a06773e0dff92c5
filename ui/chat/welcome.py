"""An empty conversation: a greeting, suggestions, and a first model to download. Main thread."""

from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QPushButton, QWidget

from engine.wording import quoted
from ui.chat.first_model import FirstModel
from ui.chat.session.model_selection import ModelSelection
from ui.kit.buttons import IconBadge, push_button
from ui.kit.labels import ElidedLabel, clear_layout, label
from ui.kit.layouts import STRETCH, column, row, scrolling
from ui.kit.theme import current_theme
from ui.models.model_library import ModelLibrary
from ui.words import THIS_COMPUTER

SIDE_PX = 26


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Something to try: a question, with a stop sequence for its answer."""

    icon: str
    title: str
    question: str
    stop: str = ""


# What the demo model can do.
DEMO_SUGGESTIONS = (
    Suggestion("chat", "Meet the App", "What is Fullstop?"),
    Suggestion("code", "Write Code", "Write hello world in Python"),
    Suggestion("thinking", "Explain a Word", "What is a token?"),
    Suggestion(
        "stop-match", "See Why a Model Stops", "Count from 1 to 10, one number per line", stop="6"
    ),
)
SUGGESTIONS = (
    Suggestion("pencil", "Write an Email", "Write an email to move a meeting"),
    Suggestion("thinking", "Explain Something", "Explain how a heat pump works"),
    Suggestion("calendar", "Plan a Weekend", "Plan a food weekend in Lisbon"),
    Suggestion(
        "stop-match",
        "See Why a Model Stops",
        "List the planets from the Sun outwards, one per line",
        stop="Saturn",
    ),
)


class Welcome(QWidget):
    """An empty chat: a greeting above the composer, suggestions and a first model below it."""

    suggestion_chosen = Signal(object)  # Suggestion
    find_requested = Signal()

    def __init__(self, model: ModelSelection, library: ModelLibrary) -> None:
        super().__init__()
        self._model = model
        self._library = library
        center = Qt.AlignmentFlag.AlignHCenter
        title = self._title = label("What can I help with?", "title", 1.75)
        title.setAlignment(center)
        self._state = label("", "muted", is_wrapped=True)
        self._state.setAlignment(center)
        column(STRETCH, title, self._state, spacing=8, margins=(SIDE_PX, 8, SIDE_PX, 24), on=self)
        self.first = FirstModel(library)  # for users who have only the bundled model
        self.first.find_requested.connect(self.find_requested)
        self._suggestions = _Suggestions()
        self.buttons = self._suggestions.buttons
        self.after_demo = label("", "muted", is_wrapped=True)  # above the field of a begun chat
        self.get_model = push_button("Get Model…", "Get a model to chat with", kind="link")
        self.get_model.setProperty("is_flush", True)
        self.get_model.clicked.connect(self.find_requested)
        self.offer = QFrame()
        self.offer.setObjectName("card")
        row((self.after_demo, 1), self.get_model, spacing=12, margins=(12, 6, 12, 6), on=self.offer)
        self.find_button = push_button("Find Model…", kind="link")
        self.find_button.clicked.connect(self.find_requested)
        pile = self._pile = QWidget()
        column(
            self._suggestions,
            self.first,
            (self.find_button, 0, center),
            STRETCH,
            spacing=16,
            on=pile,
        )
        self._sides = row(STRETCH, (pile, 1000), STRETCH)
        self.below = scrolling(self._sides, "Suggestions", goes_sideways=False)
        self.below.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.below.verticalScrollBar().rangeChanged.connect(self._set_margins)
        self._set_margins()
        self.below.setMinimumHeight(1)
        current_theme().changed.connect(self._fit)
        self._fit()
        model.changed.connect(self.refresh)
        library.changed.connect(self.refresh)
        self.refresh()

    def hasHeightForWidth(self) -> bool:
        """Give way in a low window, where Qt would cut the composer instead."""
        return False

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_state()

    def _fit_state(self) -> None:
        """Show the heading alone in a low window, or nothing: no half line."""
        lines = self.height() / self._title.sizeHint().height()
        self._title.setVisible(lines >= 2)
        self._state.setVisible(lines >= 3 and bool(self._state.text()))

    async def finish(self) -> None:
        await self.first.finish()

    def _fit(self) -> None:
        self._pile.setMaximumWidth(current_theme().column_px())

    def _set_margins(self) -> None:
        """Keep the edges below the composer's, also beside a scroll bar."""
        bar = self.below.verticalScrollBar()
        bar_px = bar.sizeHint().width() if bar.maximum() else 0
        self._sides.setContentsMargins(SIDE_PX, 0, SIDE_PX - bar_px, 16)

    def _offer(self, suggestions: tuple[Suggestion, ...]) -> None:
        if tuple(button.suggestion for button in self.buttons) == suggestions:
            return
        self._suggestions.show_suggestions(suggestions)
        for button in self.buttons:
            button.clicked.connect(partial(self.suggestion_chosen.emit, button.suggestion))

    def refresh(self) -> None:
        model = self._model.state
        is_demo = model.folder is None or self._library.is_bundled(model.folder)
        ability = f"runs on {THIS_COMPUTER}, and nothing leaves it"
        if is_demo:
            ability = "can count, spell and explain stop sequences"
        text = f"{model.title} {ability}." if model.can_answer else ""
        self._state.setText(text)
        self._fit_state()
        self._offer(DEMO_SUGGESTIONS if is_demo else SUGGESTIONS)
        is_first = self.first.is_recommended and is_demo
        self.first.setVisible(is_first)
        self.after_demo.setText(f"{model.title} {ability}." if is_first else "")
        has_one = model.stage in ("ready", "loading", "unloaded")
        self.find_button.setVisible(not is_first and (is_demo or not has_one))
        for button in self.buttons:
            button.setEnabled(model.can_answer)


class _Suggestions(QWidget):
    """Buttons in two columns of equal width; in one where the titles would be cut."""

    def __init__(self) -> None:
        super().__init__()
        self.buttons: list[_SuggestionButton] = []
        self._grid = QGridLayout()
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(8)
        self.setLayout(self._grid)

    def show_suggestions(self, suggestions: tuple[Suggestion, ...]) -> None:
        clear_layout(self._grid)
        self.buttons[:] = [_SuggestionButton(suggestion) for suggestion in suggestions]
        self._arrange()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        # Each has its whole title.
        widest = max((button.minimumSizeHint().width() for button in self.buttons), default=0)
        columns = 2 if self.width() >= 2 * widest + self._grid.spacing() else 1
        for number, button in enumerate(self.buttons):
            self._grid.addWidget(button, *divmod(number, columns))
        self._grid.setColumnStretch(0, 1)
        self._grid.setColumnStretch(1, columns - 1)


class _SuggestionButton(QPushButton):
    """An icon, a title and below it the question."""

    def __init__(self, suggestion: Suggestion) -> None:
        super().__init__()
        self.suggestion = suggestion
        self.setProperty("kind", "suggestion")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        with_stop = f", stopping at {quoted(suggestion.stop)}" if suggestion.stop else ""
        self.setAccessibleName(f"{suggestion.title}: {suggestion.question}{with_stop}")
        badge = IconBadge(32)
        badge.show_icon(suggestion.icon, "match")
        self._title = label(suggestion.title, "title")
        text = f"Ends the answer at {quoted(suggestion.stop)}" if with_stop else suggestion.question
        question = ElidedLabel(text, "muted")
        texts = column(self._title, question, spacing=2)
        self._line = row(badge, (texts, 1), spacing=12, margins=(12, 8, 12, 8), on=self)
        self._line.addStrut(40)
        for part in (badge, self._title, question):
            part.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def sizeHint(self) -> QSize:
        return self._line.sizeHint()

    def minimumSizeHint(self) -> QSize:
        return self._line.minimumSize()
