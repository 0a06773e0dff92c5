"""The model's name with a light: loading, ready, failed; a click opens the models. Main thread."""

from PySide6.QtCore import Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from engine import counted, size_in_words
from ui.kit.look.theme import Theme
from ui.kit.text.elided import ElidedButton
from ui.models.model_state import ModelState
from ui.models.model_words import percent
from ui.words.tones import Tone


class ModelBadge(QWidget):
    """Says which model answers; after a failure it offers to try again.

    Signals:
        models_wanted: The list of models is to be shown.
    """

    models_wanted = Signal()

    def __init__(self, theme: Theme, model: ModelState) -> None:
        super().__init__()
        self._model = model
        self._light = _Light(theme)
        self._name = ElidedButton()
        self._name.setProperty("kind", "fold")
        self._name.clicked.connect(self.models_wanted)
        self._again = QPushButton("Try again")
        self._again.setAccessibleName("Load the model again")
        self._again.clicked.connect(model.load_again)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 4, 0)
        row.setSpacing(7)
        row.addWidget(self._light)
        row.addWidget(self._name)
        row.addWidget(self._again)
        model.changed.connect(self._refresh)
        model.progressed.connect(self._refresh)
        self._refresh()

    def _refresh(self) -> None:
        model = self._model
        tones = {
            "none": Tone.QUIET,
            "loading": Tone.LIMIT,
            "ready": Tone.DONE,
            "failed": Tone.FAULT,
        }
        words = {
            "none": "Choose a model",
            "loading": f"Loading {model.name}…{_share(model)}",
            "ready": f"{model.name} (unloaded)" if model.is_unloaded else model.name,
            "failed": f"{model.name} failed to load",
        }
        self._light.show_tone(tones[model.stage])
        self._name.setText(words[model.stage])
        self._name.setToolTip(self._details())
        self._name.setAccessibleName(f"Model: {words[model.stage]}")
        self._again.setVisible(model.stage == "failed" and model.path is not None)

    def _details(self) -> str:
        info = self._model.info
        if info is None:
            return self._model.message
        return (
            f"{info.architecture}, {size_in_words(info.size_bytes)}, context of "
            f"{counted(info.context_length, 'token')}\n{info.path}"
        )


def _share(model: ModelState) -> str:
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
