"""An empty conversation: a greeting, a first model to download, and suggestions. Main thread."""

from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QPushButton, QWidget

from engine.wording import quoted
from ui.chat.first_model import FirstModel
from ui.chat.session.model_selection import ModelSelection
from ui.kit.buttons import push_button
from ui.kit.labels import ElidedLabel, clear_layout, label
from ui.kit.layouts import STRETCH, column, row, scrolling
from ui.kit.theme import CHAT_PX, current_theme
from ui.models.model_library import ModelLibrary
from ui.words import THIS_COMPUTER

SIDE_PX = 26


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Something to try: a question, with a stop sequence for its answer."""

    title: str
    question: str
    stop: str = ""


# What the demo model can do.
DEMO_SUGGESTIONS = (
    Suggestion("Meet the App", "What is Fullstop?"),
    Suggestion("Write Code", "Write hello world in Python"),
    Suggestion("Explain a Word", "What is a token?"),
    Suggestion("See Why a Model Stops", "Count from 1 to 10, one number per line", stop="6"),
)
SUGGESTIONS = (
    Suggestion("Write an Email", "Write a friendly email that moves our meeting to Thursday"),
    Suggestion("Explain Something", "Explain in five simple sentences how a heat pump works"),
    Suggestion("Plan a Weekend", "Plan a weekend in Lisbon for two who like food and walks"),
    Suggestion(
        "See Why a Model Stops",
        "List the planets from the Sun outwards, one per line",
        stop="Saturn",
    ),
)


class Welcome(QWidget):
    """An empty chat: a greeting above the composer, a first model and suggestions below it."""

    suggestion_chosen = Signal(object)  # Suggestion
    find_requested = Signal()

    def __init__(self, model: ModelSelection, library: ModelLibrary) -> None:
        super().__init__()
        self._model = model
        self._library = library
        center = Qt.AlignmentFlag.AlignHCenter
        title = label("What can I help with?", "title", 1.75)
        title.setAlignment(center)
        self._state = label("", "muted", is_wrapped=True)
        self._state.setAlignment(center)
        column(STRETCH, title, self._state, spacing=8, margins=(SIDE_PX, 8, SIDE_PX, 24), on=self)
        self.first = FirstModel(library)  # for users who have only the bundled model
        self.first.find_requested.connect(self.find_requested)
        self.buttons: list[_SuggestionButton] = []
        self._suggestions = column(spacing=0)
        self.find_button = push_button("Find Model…", kind="link")
        self.find_button.clicked.connect(self.find_requested)
        pile = self._pile = QWidget()
        column(
            self.first,
            self._suggestions,
            (self.find_button, 0, center),
            STRETCH,
            spacing=12,
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
        clear_layout(self._suggestions)
        self.buttons = [_SuggestionButton(suggestion) for suggestion in suggestions]
        widest = max(button.title.sizeHint().width() for button in self.buttons)
        for button in self.buttons:
            button.title.setMinimumWidth(widest)
            self._suggestions.addWidget(button)
            button.clicked.connect(partial(self.suggestion_chosen.emit, button.suggestion))

    def refresh(self) -> None:
        model = self._model.state
        is_demo = model.folder is None or self._library.is_bundled(model.folder)
        ability = f"runs on {THIS_COMPUTER}, and nothing leaves it"
        if is_demo:
            ability = "can count, spell and explain stop sequences"
        text = f"{model.title} {ability}." if model.can_answer else ""
        if model.stage == "failed":
            text = f"{model.title} could not be loaded: {model.message}"
        self._state.setText(text)
        self._offer(DEMO_SUGGESTIONS if is_demo else SUGGESTIONS)
        is_first = self.first.is_recommended and is_demo
        self.first.setVisible(is_first)
        has_one = model.stage in ("ready", "loading", "unloaded")
        self.find_button.setVisible(not is_first and (is_demo or not has_one))
        for button in self.buttons:
            button.setEnabled(model.can_answer)


class _SuggestionButton(QPushButton):
    """A row with a title and the question."""

    def __init__(self, suggestion: Suggestion) -> None:
        super().__init__()
        self.suggestion = suggestion
        self.setProperty("kind", "row")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        with_stop = f", stopping at {quoted(suggestion.stop)}" if suggestion.stop else ""
        self.setAccessibleName(f"{suggestion.title}: {suggestion.question}{with_stop}")
        title = self.title = label(suggestion.title, "title")
        question = self._question = ElidedLabel(f"{suggestion.question}{with_stop}", "muted")
        self._line = row(title, (question, 1), spacing=24, margins=(16, 0, 16, 0), on=self)
        self._line.addStrut(40)
        for part in (title, question):
            part.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Show the title alone where the question would be a few letters."""
        super().resizeEvent(event)
        self._question.setVisible(self.width() >= CHAT_PX * 2 // 3)

    def sizeHint(self) -> QSize:
        return self._line.sizeHint()

    def minimumSizeHint(self) -> QSize:
        return self._line.minimumSize()
