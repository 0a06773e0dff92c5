"""The models in memory: what each takes, for how long it has been idle, and what can be done.

Main thread. Nothing is asked while the panel is hidden.
"""

import time
from functools import partial
from pathlib import Path

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QFont, QHideEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QProgressBar, QPushButton, QWidget

from engine import ModelStatus, counted, size_in_words
from ui.kit.buttons import CheckBox, ChipButton
from ui.kit.labels import ElidedLabel, label
from ui.kit.layouts import column, row
from ui.kit.theme import current_theme
from ui.models.model_library import ModelLibrary
from ui.models.model_words import duration, percent

_LOOK_MS = 2_000
_LOW_PX = 600  # a window that is lower has little room for its lists


def memory_words(model: ModelStatus, now: float) -> str:
    """Return what a model in memory takes and what it is doing, in one line.

    Args:
        model: The model.
        now: The present Unix time.
    """
    info, words = model.info, []
    if info is not None:
        words.append(f"{size_in_words(info.weights_bytes)} of weights")
        caches = model.memory_bytes - info.weights_bytes
        if caches > 0:
            words.append(f"{size_in_words(caches)} of caches")
    answers = model.running + model.waiting
    if answers:
        words.append("answering" if answers == 1 else f"{counted(answers, 'answer')} under way")
        return "  ·  ".join(words)
    if model.used_at is not None:
        words.append(f"idle for {duration(max(0.0, now - model.used_at))}")
    if model.unloads_at is not None:
        words.append(f"unloaded in {duration(max(0.0, model.unloads_at - now))}")
    return "  ·  ".join(words)


class _Line(QWidget):
    """One model in memory."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = ElidedLabel(name)
        font = QFont(self.name.font())
        font.setWeight(QFont.Weight.Medium)
        self.name.setFont(font)
        self.words = ElidedLabel()
        self.words.setProperty("role", "muted")
        self.pin = CheckBox("Pin")
        self.pin.setAccessibleName(f"Pin {name}")
        self.pin.setToolTip("It stays in memory, idle or not, also if another model needs room")
        self.unload = QPushButton("Unload")
        self.unload.setAccessibleName(f"Unload {name}")
        row(
            (column(self.name, self.words, spacing=1), 1),
            self.pin,
            self.unload,
            spacing=10,
            on=self,
        )


class MemoryPanel(QFrame):
    """Lists the models in memory, with the sum of what they take. Hidden while there are none.

    Signals:
        unload_wanted: A person wants to unload a model; carries its folder.
    """

    unload_wanted = Signal(object)

    def __init__(self, library: ModelLibrary) -> None:
        super().__init__()
        self._library = library
        self.lines: dict[Path, _Line] = {}
        self.total = label("", "muted", 0.95)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(4)
        self.bar.setRange(0, 100)
        self.bar.setAccessibleName("Memory that models take")
        self.models_shown = ChipButton("chevron-down", "", is_toggle=True)
        self._models = QWidget()
        self._list = column(spacing=8, on=self._models)
        self._is_low = self._wants_models = False  # what a person wants in a window that is low
        heading = label("In Memory", "heading", weight=QFont.Weight.DemiBold)
        column(
            row(heading, (self.total, 1), self.models_shown, spacing=10),
            self.bar,
            self._models,
            spacing=8,
            margins=(20, 0, 20, 12),
            on=self,
        )
        self._look = QTimer(self, interval=_LOOK_MS)
        self._look.timeout.connect(self.refresh)
        self.models_shown.clicked.connect(self._fold)
        library.model.changed.connect(self.refresh)
        library.model.progressed.connect(self.refresh)
        library.changed.connect(self.refresh)
        self._arrange()
        self.refresh()

    def showEvent(self, event: QShowEvent) -> None:
        """Follow the engine while the panel can be seen."""
        super().showEvent(event)
        self._look.start()
        self.refresh()

    def hideEvent(self, event: QHideEvent) -> None:
        """Ask nothing while nobody looks."""
        super().hideEvent(event)
        self._look.stop()

    def fit_window(self, height: int) -> None:
        """Fold to one line in a window that is low, unless a person wants the models."""
        self._is_low = height < current_theme().px(_LOW_PX)
        self._arrange()

    def _fold(self, is_shown: bool) -> None:
        self._wants_models = is_shown
        self._arrange()

    def _arrange(self) -> None:
        shows = not self._is_low or self._wants_models
        self.models_shown.setVisible(self._is_low)
        self.models_shown.setChecked(shows)
        self.bar.setVisible(shows)
        self._models.setVisible(shows)

    def refresh(self) -> None:
        """Show what is in memory now."""
        models = {model.folder: model for model in self._library.model.in_memory.every}
        for folder in self.lines.keys() - models.keys():
            line = self.lines.pop(folder)
            line.hide()
            line.deleteLater()
        now = time.time()
        for folder, model in models.items():
            line = self.lines.get(folder) or self._new_line(model)
            line.words.setText(memory_words(model, now))
            line.pin.setChecked(model.is_pinned)
        taken = sum(model.memory_bytes for model in models.values())
        most = self._library.memory.usable
        room = f" of {size_in_words(most)} that models may take" if most else ""
        self.total.setText(f"{size_in_words(taken)}{room}")
        self.bar.setValue(percent(taken, most))
        words = counted(len(models), "model")
        self.models_shown.say(counted(len(models), "Model"), f"Show the {words} in memory")
        self.setVisible(bool(models))

    def _new_line(self, model: ModelStatus) -> _Line:
        line = self.lines[model.folder] = _Line(model.id)
        line.pin.clicked.connect(lambda is_on: self._library.pin(model.folder, is_on))
        line.unload.clicked.connect(partial(self.unload_wanted.emit, model.folder))
        self._list.addWidget(line)
        return line
