"""The window of models: the loaded one above, fetching others, and all that are here. Main thread.

It is made when it is first wanted; it looks at the disks each time it is shown.
"""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from engine import counted, size_in_words
from engine.library.memory import Fit
from ui.kit.controls.own_window import OwnWindow
from ui.kit.look.theme import Theme
from ui.kit.system.file_dialogs import choose_folder
from ui.kit.text.labels import label
from ui.models.download_row import DownloadRow
from ui.models.loaded_model import LoadedModel
from ui.models.model_card import ModelCard
from ui.models.model_library import LibraryModel, ModelLibrary
from ui.models.model_words import fit_words, sentence


class ModelsWindow(OwnWindow):
    """Everything about models."""

    def __init__(self, theme: Theme, library: ModelLibrary, parent: QWidget | None = None) -> None:
        super().__init__(theme, "Models", (760, 800), parent)
        self._theme = theme
        self._library = library
        self.loaded = LoadedModel(theme, library)
        self.repository = QLineEdit()
        self.repository.setAccessibleName("Repository on Hugging Face")
        self.repository.setPlaceholderText("owner/name, such as mlx-community/Qwen3-4B-4bit")
        self.fetch = QPushButton("Download")
        self.fetch.setProperty("kind", "primary")
        self.add = QPushButton("Add a Folder…")
        self.problem = label("", "fault", 0.95, is_wrapped=True)
        self.problem.hide()
        self.question = _Question()
        self._downloads = QVBoxLayout()
        self._cards = QVBoxLayout()
        self._heading = label("On this computer", "heading", weight=QFont.Weight.DemiBold)
        self._note = label("", "muted", 0.95)
        self._hint = label(
            "Models downloaded with Hugging Face’s tools or LM Studio are found where they are; "
            "nothing is copied. Add a folder for other models.",
            "muted",
            0.95,
            is_wrapped=True,
        )
        self.rows: list[DownloadRow] = []
        self.cards: list[ModelCard] = []
        self._lay_out()
        self.fetch.clicked.connect(self._fetch)
        self.repository.returnPressed.connect(self._fetch)
        self.repository.textEdited.connect(self.problem.hide)
        self.add.clicked.connect(self._choose_folder)
        library.changed.connect(self._fill)
        library.model.changed.connect(self._fill)
        library.downloads.changed.connect(self._fill_downloads)
        library.downloads.progressed.connect(self._refresh_downloads)
        self.loaded.unload.clicked.connect(self._unload)
        QShortcut(QKeySequence(Qt.Key.Key_Escape), self, self.close)
        self._fill()
        self._fill_downloads()
        self.repository.setFocus()

    def showEvent(self, event: QShowEvent) -> None:
        """Look at the disks again: another program may have brought a model."""
        super().showEvent(event)
        if not event.spontaneous():
            self._library.refresh()

    # -- building --------------------------------------------------------------------------

    def _lay_out(self) -> None:
        asking = QHBoxLayout()
        asking.setSpacing(8)
        asking.addWidget(self.repository, 1)
        asking.addWidget(self.fetch)
        asking.addWidget(self.add)
        heading = QHBoxLayout()
        heading.addWidget(self._heading)
        heading.addWidget(self._note)
        heading.addStretch(1)
        self._downloads.setSpacing(8)
        self._cards.setSpacing(8)
        holder = QWidget()
        holder.setObjectName("scrolled")
        inner = QVBoxLayout(holder)
        inner.setContentsMargins(20, 4, 20, 18)
        inner.setSpacing(12)
        inner.addLayout(self._downloads)
        inner.addLayout(heading)
        inner.addLayout(self._cards)
        inner.addWidget(self._hint)
        inner.addStretch(1)
        area = QScrollArea()
        area.setAccessibleName("Models on this computer")
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setWidget(holder)
        top = QVBoxLayout()
        top.setContentsMargins(20, 14, 20, 8)
        top.setSpacing(8)
        top.addWidget(self.question)
        top.addLayout(asking)
        top.addWidget(self.problem)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.loaded)
        layout.addLayout(top)
        layout.addWidget(area, 1)

    def _fill(self) -> None:
        library = self._library
        focused = next((card.model.found for card in self.cards if _has_focus(card)), None)
        _clear(self._cards)
        self.cards = []
        for model in library.models:
            added = library.added_folder_of(model.found)
            card = ModelCard(
                self._theme,
                model,
                library.memory,
                is_loaded=library.is_loaded(model.found),
                is_unloaded=library.model.is_unloaded,
                remove=None if added is None else _removal(library, added),
                drafts=library.drafts_for(model.found),
            )
            card.draft_wanted.connect(self._choose_draft)
            card.load_wanted.connect(self._load)
            card.resume_wanted.connect(library.downloads.start)
            self._cards.addWidget(card)
            self.cards.append(card)
            if model.found == focused and card.button is not None:
                card.button.setFocus()
        if library.is_looking and not library.models:
            self._note.setText("Searching…")
        else:
            total = sum(model.found.size_bytes for model in library.models)
            there = counted(len(library.models), "model")
            self._note.setText(f"{there}, {size_in_words(total)}" if total else "")

    def _fill_downloads(self) -> None:
        _clear(self._downloads)
        self.rows = []
        for one in self._library.downloads.items:
            row = DownloadRow(self._theme, self._library.downloads, one)
            self._downloads.addWidget(row)
            self.rows.append(row)

    def _refresh_downloads(self) -> None:
        if self.isVisible():
            for row in self.rows:
                row.refresh()

    # -- intents ---------------------------------------------------------------------------

    def _fetch(self) -> None:
        text = self.repository.text()
        problem = self._library.downloads.start(text)
        self.problem.setText(sentence(problem))
        self.problem.setVisible(bool(problem))
        if not problem:
            self.repository.clear()

    def _choose_folder(self) -> None:
        choose_folder(self, "Add a folder of models", self._library.add_folder)

    def _load(self, model: LibraryModel) -> None:
        if model.fit is Fit.TOO_LARGE:
            self.question.ask(
                f"{model.found.name} may not fit. "
                + fit_words(model.need, model.fit, self._library.memory),
                [("Load Anyway", lambda: self._change(model))],
            )
        else:
            self._change(model)

    def _change(self, model: LibraryModel) -> None:
        folder, state = model.found.folder, self._library.model
        self._wait_or_end(
            lambda: state.load(folder), lambda: state.load(folder, cancels_running=True), "Load"
        )

    def _choose_draft(self, model: LibraryModel, draft: Path | None) -> None:
        """Use another draft model; a loaded model is loaded again with it."""
        if draft == model.draft:
            return
        self._library.choose_draft(model.found.folder, draft)
        if self._library.is_loaded(model.found):
            self._change(model)

    def _unload(self) -> None:
        state = self._library.model
        self._wait_or_end(state.unload, lambda: state.unload(cancels_running=True), "Unload")

    def _wait_or_end(self, wait: Callable[[], None], end: Callable[[], None], what: str) -> None:
        count = self._library.model.answers_under_way
        if not count:
            wait()
            return
        says = "An answer is" if count == 1 else f"{counted(count, 'answer')} are"
        self.question.ask(
            f"{says} being written.",
            [(f"{what} When Finished", wait), (f"Stop and {what}", end)],
        )


class _Question(QFrame):
    """A question with its answers and Cancel."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("question_bar")
        self.words = label("", "", 1.0, is_wrapped=True)
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(14, 9, 10, 9)
        self._row.setSpacing(8)
        self._row.addWidget(self.words, 1)
        self.buttons: list[QPushButton] = []
        self.hide()

    def ask(self, question: str, answers: list[tuple[str, Callable[[], None]]]) -> None:
        """Ask; each answer, and Cancel, hides the question."""
        for button in self.buttons:
            button.hide()
            button.deleteLater()
        self.buttons = []
        self.words.setText(question)
        for says, act in [*answers, ("Cancel", _nothing)]:
            button = QPushButton(says)
            button.clicked.connect(self.hide)
            button.clicked.connect(act)
            self._row.addWidget(button)
            self.buttons.append(button)
        self.show()
        self.buttons[0].setFocus()


def _nothing() -> None:
    pass


def _removal(library: ModelLibrary, folder: Path) -> Callable[[], None]:
    return lambda: library.remove_folder(folder)


def _has_focus(card: QWidget) -> bool:
    return any(child.hasFocus() for child in card.findChildren(QWidget))


def _clear(layout: QVBoxLayout) -> None:
    while (item := layout.takeAt(0)) is not None:
        if (widget := item.widget()) is not None:
            widget.hide()
            widget.deleteLater()
