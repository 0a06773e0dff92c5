"""The model's name in the header: ready, loading with progress, not loaded, gone. Main thread."""

from PySide6.QtCore import Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from engine import counted, size_in_words
from ui.chat.session.answering_model import AnsweringModel, AnsweringStage
from ui.kit.controls.buttons import IconButton
from ui.kit.look.theme import Theme
from ui.kit.text.elided import ElidedButton
from ui.models.model_words import RESTART, loading_words, percent
from ui.words.tones import Tone

_TONES: dict[AnsweringStage, Tone] = {
    "none": Tone.QUIET,
    "unloaded": Tone.QUIET,
    "loading": Tone.LIMIT,
    "ready": Tone.DONE,
    "failed": Tone.FAULT,
    "gone": Tone.FAULT,
}


class ModelBadge(QWidget):
    """Shows which model answers; loading can be cancelled, and retried after a failure.

    Signals:
        switch_wanted: A person wants to choose another model.
    """

    switch_wanted = Signal()

    def __init__(self, theme: Theme, model: AnsweringModel) -> None:
        super().__init__()
        self._model = model
        self._light = _Light(theme)
        self.name = ElidedButton()
        self.name.setProperty("kind", "fold")
        self.name.clicked.connect(self.switch_wanted)
        self._open = IconButton(theme, "chevron-down", "Switch models (Ctrl+K)", size=14)
        self._open.clicked.connect(self.switch_wanted)
        self.cancel = IconButton(theme, "close", "Cancel loading", size=14)
        self.cancel.clicked.connect(model.loaded.cancel_load)
        self.again = QPushButton("Try Again")
        self.again.setAccessibleName("Load the model again")
        self.again.clicked.connect(model.load_again)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 4, 0)
        row.setSpacing(5)
        row.addWidget(self._light)
        row.addWidget(self.name)
        row.addWidget(self.cancel)
        row.addWidget(self._open)
        row.addWidget(self.again)
        model.changed.connect(self._refresh)
        model.loaded.progressed.connect(self._refresh)
        self._refresh()

    def _refresh(self) -> None:
        model = self._model
        words = {
            "none": "Choose a Model",
            "unloaded": f"{model.name}, not loaded",
            "loading": f"Loading {model.name}…{_share(model)}",
            "ready": f"{model.name} (unloaded)" if model.is_idle else model.name,
            "failed": f"{model.name} {'is not responding' if model.is_stuck else 'failed to load'}",
            "gone": f"{model.name} is gone",
        }[model.stage]
        self._light.show_tone(_TONES[model.stage])
        self.name.setText(words)
        self.name.setToolTip(self._details())
        self.name.setAccessibleName(f"Model: {words}. Switch models")
        self.cancel.setVisible(model.stage == "loading")
        self.again.setText(RESTART if model.is_stuck else "Try Again")
        self.again.setVisible(model.stage == "failed" and model.loaded.path is not None)

    def _details(self) -> str:
        model, info = self._model, self._model.info
        if model.stage == "loading":
            waits_for = model.loaded.in_memory.answers_under_way
            return loading_words(model.progress, model.loaded.loading_s, waits_for)
        if model.stage == "unloaded":
            return "The next message loads it."
        if model.stage == "gone":
            return "It is no longer on this computer. Choose another one."
        if info is None:
            return model.message
        return (
            f"{info.architecture}, {size_in_words(info.size_bytes)}, context of "
            f"{counted(info.context_length, 'token')}\n{info.path}"
        )


def _share(model: AnsweringModel) -> str:
    progress = model.progress
    if progress is None or progress.phase != "weights":
        return ""
    return f" {percent(progress.done_bytes, progress.total_bytes)} %"


class _Light(QWidget):
    """A small dot in a tone."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._tone = Tone.QUIET
        theme.follow(self, lambda: self.setFixedSize(theme.px(8), theme.px(8)))

    def show_tone(self, tone: Tone) -> None:
        """Show another tone."""
        self._tone = tone
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the dot."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QColor(0, 0, 0, 0))
        painter.setBrush(QColor(self._theme.colors.tone(self._tone)[0]))
        painter.drawEllipse(self.rect())
        painter.end()
