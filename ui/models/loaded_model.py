"""The loaded model, or the one being loaded: state, progress, actions. Main thread."""

from PySide6.QtGui import QFont
from PySide6.QtWidgets import QFrame, QHBoxLayout, QProgressBar, QPushButton, QVBoxLayout

from engine import as_sentence, counted, size_in_words
from ui.kit.controls.choice import Choice
from ui.kit.look.theme import Theme
from ui.kit.text.labels import ElidedLabel, label
from ui.kit.text.pill import StatusPill
from ui.models.model_library import ModelLibrary
from ui.models.model_words import RESTART, STUCK, loading_words, percent
from ui.preferences.preferences import declaration
from ui.words.tones import Tone


class LoadedModel(QFrame):
    """The top of the models window."""

    def __init__(self, theme: Theme, library: ModelLibrary) -> None:
        super().__init__()
        self.setObjectName("chat_header")
        self._library = library
        self.pill = StatusPill(theme, "Model")
        self.name = ElidedLabel()
        font = QFont(self.name.font())
        font.setWeight(QFont.Weight.DemiBold)
        self.name.setFont(font)
        self.words = label("", "muted", 0.95, is_wrapped=True)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(4)
        self.bar.setAccessibleName("Loading of the model")
        self.cancel = QPushButton("Cancel")
        self.cancel.setAccessibleName("Cancel loading")
        self.again = QPushButton("Try Again")
        self.unload = QPushButton("Unload")
        self.unload.setAccessibleName("Unload the model")
        idle, minutes = declaration("models.rests_after_min"), library.rests_after_min
        offered = {minutes: f"Unload After {minutes} min"} | dict(idle.choices)
        choices = [(str(after), offered[after]) for after in sorted(offered)]
        self.idle_unload = Choice(theme, idle.label, choices)
        self.idle_unload.choose(str(minutes))
        self.idle_unload.setToolTip("The next request loads it again")
        self._lay_out()
        self.cancel.clicked.connect(library.model.cancel_load)
        self.again.clicked.connect(lambda: library.model.load_again())
        self.idle_unload.currentIndexChanged.connect(
            lambda row: library.change_idle_minutes(int(self.idle_unload.itemData(row)))
        )
        library.model.changed.connect(self._refresh)
        library.model.progressed.connect(self._refresh)
        self._refresh()

    def _lay_out(self) -> None:
        row = QHBoxLayout()
        row.setSpacing(10)
        row.addWidget(self.pill)
        row.addWidget(self.name, 1)
        for widget in (self.idle_unload, self.cancel, self.again, self.unload):
            row.addWidget(widget)
        column = QVBoxLayout(self)
        column.setContentsMargins(20, 12, 20, 12)
        column.setSpacing(7)
        column.addLayout(row)
        column.addWidget(self.words)
        column.addWidget(self.bar)

    def _refresh(self) -> None:
        model = self._library.model
        stage = model.stage
        states = {
            "none": ("No model", "mark", Tone.QUIET),
            "loading": ("Loading", "spinner", Tone.BUSY),
            "ready": ("Ready", "check", Tone.DONE),
            "failed": (STUCK if model.is_stuck else "Failed", "fault", Tone.FAULT),
        }
        unloaded = ("Unloaded", "clock", Tone.QUIET)
        self.pill.show_state(*(unloaded if model.is_unloaded else states[stage]))
        self.name.setText(model.name or "Choose one below")
        self.words.setText(self._words())
        self.words.setVisible(bool(self.words.text()))
        progress = model.progress
        self.bar.setVisible(stage == "loading")
        if stage == "loading" and progress is not None and progress.phase == "weights":
            self.bar.setRange(0, 100)
            self.bar.setValue(percent(progress.done_bytes, progress.total_bytes))
        else:
            self.bar.setRange(0, 0)
        self.cancel.setVisible(stage == "loading")
        self.again.setText(RESTART if model.is_stuck else "Try Again")
        self.again.setVisible(stage == "failed" and model.path is not None)
        self.unload.setVisible(stage == "ready")

    def _words(self) -> str:
        model = self._library.model
        if model.stage == "loading":
            return loading_words(model.progress, model.loading_s, model.in_memory.answers_under_way)
        info = model.info
        if info is None:
            return as_sentence(model.message)
        # A load that failed or was cancelled left the previous model in place.
        before = f"{as_sentence(model.message)} " if model.message else ""
        if model.is_unloaded:
            if before:
                return f"{before}The next request loads {model.name} again."
            return "Unloaded to free its memory. The next request loads it again."
        drafted = "" if info.draft is None else f"  ·  draft model: {info.draft.id}"
        return (
            f"{before}{info.architecture}  ·  {size_in_words(info.size_bytes)}  ·  "
            f"{counted(info.context_length, 'token')} of context{drafted}"
        )
