"""An empty conversation: a greeting, a first model to download, and suggestions. Main thread."""

from dataclasses import dataclass

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QPushButton, QScrollArea, QSizePolicy, QWidget

from engine.wording import quoted, visible
from ui.chat.first_model import FirstModel
from ui.chat.session.model_selection import ModelSelection
from ui.kit.buttons import IconBadge, push_button
from ui.kit.labels import label
from ui.kit.layouts import STRETCH, column, row
from ui.models.model_library import ModelLibrary


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Something to try: a question, with a stop sequence for its answer."""

    title: str
    question: str
    stop: str = ""
    is_thinking: bool = False


# The demo model can count and spell, and little else.
DEMO_SUGGESTIONS = (
    Suggestion("See a Stop Happen", "Count from 1 to 10, one number per line", stop="6"),
    Suggestion(
        "Stop Across Several Tokens",
        "Output the whole alphabet from A to Z, without spaces, then immediately output END",
        stop="END",
    ),
    Suggestion("Ask What It Is About", "What is a stop sequence?"),
    Suggestion("Let It Think First", "Count from 1 to 5", is_thinking=True),
)
SUGGESTIONS = (
    Suggestion(
        "Write an Email",
        "Write a short, friendly email that moves our meeting from Tuesday to Thursday",
    ),
    Suggestion("Explain Something", "Explain in five simple sentences how a heat pump works"),
    Suggestion("Plan a Weekend", "Plan a weekend in Lisbon for two people who like food and walks"),
    Suggestion(
        "See a Stop Happen",
        "List the planets from the Sun outwards, one per line, with one fact about each",
        stop="Saturn",
    ),
)


class Welcome(QScrollArea):
    """Greets, shows the state of the model, and offers suggestions."""

    suggestion_chosen = Signal(object)  # Suggestion
    find_requested = Signal()

    def __init__(self, model: ModelSelection, library: ModelLibrary) -> None:
        super().__init__()
        self._model = model
        self._library = library
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName("Welcome")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        badge = IconBadge(56)
        badge.show_icon("mark", "match")
        self._title = label("", "title", 1.75, True)
        self._title.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self._state = label("", "muted", 1.06, is_wrapped=True)
        self._state.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.first = FirstModel(library)  # for users who have only the bundled model
        self.first.find_requested.connect(self.find_requested)
        self._try = label("Try It Without a Download", "title")
        self._try.setContentsMargins(2, 12, 0, 0)
        self._try.hide()
        self.buttons: list[_SuggestionButton] = []
        self._grid = QGridLayout()
        self._grid.setSpacing(12)
        self.find_button = push_button("Find Another Model…", kind="link")
        self.find_button.clicked.connect(self.find_requested)
        center = Qt.AlignmentFlag.AlignHCenter
        inner = column(
            (badge, 0, center),
            8,
            self._title,
            self._state,
            20,
            self.first,
            self._try,
            self._grid,
            (self.find_button, 0, center),
            spacing=8,
            margins=None,
        )
        pile = QWidget()
        pile.setLayout(inner)
        pile.setMaximumWidth(640)
        holder = QWidget()
        holder.setObjectName("scrolled")
        column(
            (None, 4),
            row(STRETCH, (pile, 1000), STRETCH),
            (None, 5),
            margins=(26, 20, 26, 20),
            on=holder,
        )
        self.setWidget(holder)
        model.changed.connect(self.refresh)
        library.changed.connect(self.refresh)
        self.refresh()

    async def finish(self) -> None:
        await self.first.finish()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        columns = 2 if self.width() >= 520 else 1
        if columns != self._grid.property("columns"):
            self._arrange_in(columns)

    def _arrange_in(self, columns: int) -> None:
        self._grid.setProperty("columns", columns)
        for number, button in enumerate(self.buttons):
            self._grid.removeWidget(button)
            self._grid.addWidget(button, number // columns, number % columns)

    def _offer(self, suggestions: tuple[Suggestion, ...], *, is_first: bool) -> None:
        # Only one thing stands out: the recommended model, or else what shows a stop.
        first = next((button for button in self.buttons if button.suggestion.stop), None)
        shown = tuple(button.suggestion for button in self.buttons)
        if shown == suggestions and first is not None and first.property("primary") != is_first:
            return
        for button in self.buttons:
            button.hide()
            self._grid.removeWidget(button)
            button.deleteLater()
        best = (
            None if is_first else next(suggestion for suggestion in suggestions if suggestion.stop)
        )
        self.buttons = [
            _SuggestionButton(suggestion, suggestion is best) for suggestion in suggestions
        ]
        for button in self.buttons:
            button.clicked.connect(
                lambda _=False, chosen=button: self.suggestion_chosen.emit(chosen.suggestion)
            )
        self._arrange_in(self._grid.property("columns") or 2)

    def refresh(self) -> None:
        model = self._model.state
        text = {
            "none": "No model is loaded. Find one below, or open a folder from the File menu.",
            "loading": f"Loading {model.title}. You can write your first message meanwhile.",
            "ready": f"{model.title} is ready. It runs on this computer, and nothing leaves it.",
            "unloaded": f"{model.title} is not loaded. Your first message loads it.",
            "missing": f"{model.title} is not on this Mac. Choose another model.",
            "failed": f"{model.title} could not be loaded: {model.message}",
            "stuck": f"{model.title} is not responding. {model.message} Restart it above.",
        }
        self._state.setText(text["stuck" if model.is_stuck else model.stage])
        is_demo = model.folder is None or self._library.is_bundled(model.folder)
        is_first = self.first.is_recommended and is_demo
        self._offer(DEMO_SUGGESTIONS if is_demo else SUGGESTIONS, is_first=is_first)
        self.first.setVisible(is_first)
        self._try.setVisible(is_first)
        self._title.setText(
            "Get a Model to Chat With" if is_first else "See Exactly Why a Model Stops"
        )
        if is_first:
            self._state.setText("Models run on this computer, and nothing you write leaves it.")
        has_one = model.stage in ("ready", "loading", "unloaded")
        find_label = "Find Another Model…" if has_one else "Find a Model…"
        self.find_button.setVisible(not is_first)
        self.find_button.setText(find_label)
        self.find_button.setAccessibleName(find_label)
        for button in self.buttons:
            button.setEnabled(model.can_answer)
            info = model.info
            if button.suggestion.is_thinking and info is not None:
                button.setVisible(info.can_think)


class _SuggestionButton(QPushButton):
    """A card with a title, the question, and its stop sequence."""

    def __init__(self, suggestion: Suggestion, is_primary: bool) -> None:
        super().__init__()
        self.suggestion = suggestion
        self.setObjectName("suggestion")
        self.setProperty("primary", is_primary)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        with_stop = f", stopping at {quoted(suggestion.stop)}" if suggestion.stop else ""
        self.setAccessibleName(f"{suggestion.title}: {suggestion.question}{with_stop}")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        layout = column(spacing=4, margins=(16, 13, 16, 13), on=self)
        parts = [
            label(suggestion.title, "title"),
            label(suggestion.question, "muted", 0.96, is_wrapped=True),
        ]
        if suggestion.stop:
            parts.append(label(f"Stop sequence: {visible(suggestion.stop)}", "faint", 0.9))
        elif suggestion.is_thinking:
            parts.append(label("With thinking switched on", "faint", 0.9))
        for part in parts:
            part.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
            layout.addWidget(part)
        layout.addStretch(1)
        self.setMinimumHeight(84)

    def sizeHint(self) -> QSize:
        return QSize(280, self.minimumHeight())

    def minimumSizeHint(self) -> QSize:
        return QSize(210, self.minimumHeight())
