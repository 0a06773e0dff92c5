"""The model that is recommended to a person who has none yet, with one button. Main thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QFrame, QPushButton, QWidget

from engine import as_sentence, size_in_words
from engine.library.hub_models import SuggestedModel, recommended
from engine.library.local_models import Origin
from ui.kit.buttons import IconBadge
from ui.kit.labels import label
from ui.kit.layouts import STRETCH, column, row
from ui.models.downloads import DownloadRow
from ui.models.model_library import ModelLibrary
from ui.models.model_words import duration
from ui.words import Tone

if TYPE_CHECKING:
    from ui.models.models_window import LoadingAfter

# What most connections at home reach.
_USUAL_BYTES_PER_S = 50_000_000 / 8
_MB = 1_000_000


def figures_of(suggestion: SuggestedModel) -> str:
    """Return its size and how long it takes to download."""
    size = suggestion.size_mb * _MB
    took = duration(size / _USUAL_BYTES_PER_S)
    return f"{size_in_words(size)} · about {took} at 50 Mbit/s"


class FirstModel(QFrame):
    """Recommends one model, downloads it, and says when it can answer.

    Signals:
        ready: The model was downloaded and is loaded.
        find_wanted: A person wants to see the other models.

    Args:
        library: The models on this computer.
    """

    ready = Signal()
    find_wanted = Signal()

    def __init__(self, library: ModelLibrary) -> None:
        super().__init__()
        self.setObjectName("suggestion_card")
        self._library = library
        self._suggestion: SuggestedModel | None = None
        self._row: DownloadRow | None = None
        self._loading: LoadingAfter | None = None
        badge = IconBadge(40)
        badge.show_icon("download", Tone.MATCH)
        self.name = label("", "title", 1.2, weight=QFont.Weight.DemiBold, is_wrapped=True)
        self.words = label("", "", is_wrapped=True)
        self.figures = label("", "muted", 0.95, is_wrapped=True)
        self.problem = label("", "fault", 0.95, is_wrapped=True)
        self.problem.hide()
        self.download = QPushButton("Download")
        self.download.setProperty("kind", "primary")
        self.download.clicked.connect(self._start)
        self.others = QPushButton("Other Models…")
        self.others.setProperty("kind", "link")
        self.others.setAccessibleName("Find other models")
        self.others.clicked.connect(self.find_wanted)
        self._buttons = QWidget()
        row(self.download, self.others, STRETCH, spacing=8, on=self._buttons)
        self._told = column(self.name, self.words, self.figures, self.problem, spacing=3)
        row(
            (badge, 0, Qt.AlignmentFlag.AlignTop),
            (column(self._told, self._buttons, spacing=11), 1),
            spacing=14,
            margins=(18, 16, 18, 16),
            on=self,
        )
        library.changed.connect(self.refresh)
        library.downloads.changed.connect(self.refresh)
        library.downloads.progressed.connect(self._show_progress)
        self.refresh()

    @property
    def is_wanted(self) -> bool:
        """Whether there is something to recommend: no model is here beside the one that came."""
        return self._suggestion is not None and not any(
            model.found.origin is not Origin.BUNDLED and not model.found.is_partial
            for model in self._library.models
        )

    def refresh(self) -> None:
        """Show the model that fits this computer, or its download."""
        library = self._library
        if library.has_looked:
            self._suggestion = recommended(library.memory)
        suggestion = self._suggestion
        if suggestion is None:
            return
        self.name.setText(suggestion.title)
        self.words.setText(suggestion.first_words)
        room = size_in_words(library.memory.total or library.memory.usable)
        self.figures.setText(f"{figures_of(suggestion)} · suits this computer’s {room} of memory")
        self.download.setAccessibleName(f"Download {suggestion.title}")
        items = library.downloads.items
        one = next((item for item in items if item.repository == suggestion.name), None)
        if self._row is not None and self._row.download is not one:
            self._row.hide()
            self._row.deleteLater()
            self._row = None
        if one is not None and self._row is None:
            self._row = DownloadRow(library.downloads, one)
            self._told.addWidget(self._row)
        self._buttons.setVisible(one is None)
        self._show_progress()

    async def finish(self) -> None:
        """Wait until the background work has ended."""
        if self._loading is not None:
            await self._loading.finish()

    def _show_progress(self) -> None:
        if self._row is not None:
            self._row.refresh()

    def _start(self) -> None:
        if self._suggestion is None:
            return
        if self._loading is None:
            # The module of the models' window must not hold up the main window.
            from ui.models.models_window import LoadingAfter

            self._loading = LoadingAfter(self._library, self)
            self._loading.ready.connect(lambda _: self.ready.emit())
            self._loading.not_loaded.connect(lambda _, why: self._say(why))
        self._loading.want(self._suggestion.name)
        self._say(as_sentence(self._library.downloads.start(self._suggestion.name)))

    def _say(self, problem: str) -> None:
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))
