"""The view of the models on this computer: downloads, then a card for each. Main thread."""

from functools import partial

from PySide6.QtCore import Signal
from PySide6.QtGui import QFont
from PySide6.QtWidgets import (
    QAbstractButton,
    QFrame,
    QHBoxLayout,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from engine import counted, size_in_words
from engine.library.found import FoundModel, Origin
from engine.library.hub.hub_model import HubModel
from ui.kit.look.theme import Theme
from ui.kit.system.file_dialogs import choose_folder
from ui.kit.text.labels import label
from ui.models.download_row import DownloadRow
from ui.models.model_card import ModelCard
from ui.models.model_library import ModelLibrary
from ui.models.model_words import removal_words
from ui.models.upkeep import Upkeep


class LocalModels(QWidget):
    """Lists the downloads and the models on this computer.

    Signals:
        load_wanted: A person wants to load a model; carries the ``LibraryModel``.
        unload_wanted: A person wants to unload a model; carries the ``LibraryModel``.
        draft_wanted: A person chose another draft model for a model; carries the ``LibraryModel``
            and the folder of the draft model, None for none.
        find_wanted: A person wants to find models on the hub.
        deletion_wanted: A person wants to delete a model; carries the ``FoundModel``.
        removal_wanted: A person wants to remove an added folder from the list; carries it.
    """

    load_wanted = Signal(object)
    unload_wanted = Signal(object)
    draft_wanted = Signal(object, object)
    find_wanted = Signal()
    deletion_wanted = Signal(object)
    removal_wanted = Signal(object)

    def __init__(self, theme: Theme, library: ModelLibrary, upkeep: Upkeep) -> None:
        super().__init__()
        self._theme = theme
        self._library = library
        self._upkeep = upkeep
        self.rows: list[DownloadRow] = []
        self.cards: list[ModelCard] = []
        self.find_button = QPushButton("Find Models…")
        self.find_button.setProperty("kind", "primary")
        self.add = QPushButton("Add a Folder…")
        self.check = QPushButton("Check for Updates")
        self.check.setToolTip("Asks the hub whether it has newer revisions of these models")
        self.outcome = label("", "muted", 0.95, is_wrapped=True)
        self._downloads = QVBoxLayout()
        self._cards = QVBoxLayout()
        self._note = label("", "heading", weight=QFont.Weight.DemiBold)
        self._hint = label(
            "Models downloaded with Hugging Face’s tools or LM Studio are found where they are; "
            "nothing is copied. Add a folder for other models.",
            "muted",
            0.95,
            is_wrapped=True,
        )
        self._lay_out()
        self.find_button.clicked.connect(self.find_wanted)
        self.add.clicked.connect(self._choose_folder)
        self.check.clicked.connect(upkeep.check)
        upkeep.changed.connect(self._fill)
        library.changed.connect(self._fill)
        library.model.changed.connect(self._fill)
        library.downloads.changed.connect(self._fill_downloads)
        library.downloads.changed.connect(self._fill)
        library.downloads.progressed.connect(self._refresh_downloads)
        self._fill()
        self._fill_downloads()

    def _lay_out(self) -> None:
        self._downloads.setSpacing(8)
        self._cards.setSpacing(8)
        heading = QHBoxLayout()
        heading.setSpacing(8)
        heading.addWidget(self._note)
        heading.addStretch(1)
        heading.addWidget(self.check)
        heading.addWidget(self.add)
        heading.addWidget(self.find_button)
        holder = QWidget()
        holder.setObjectName("scrolled")
        inner = QVBoxLayout(holder)
        inner.setContentsMargins(20, 4, 20, 18)
        inner.setSpacing(12)
        inner.addLayout(self._downloads)
        inner.addLayout(self._cards)
        inner.addWidget(self._hint)
        inner.addStretch(1)
        area = QScrollArea()
        area.setAccessibleName("Models on this computer")
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(area.horizontalScrollBarPolicy().ScrollBarAlwaysOff)
        area.setWidget(holder)
        top = QVBoxLayout()
        top.setContentsMargins(20, 14, 20, 8)
        top.setSpacing(6)
        top.addLayout(heading)
        top.addWidget(self.outcome)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(top)
        layout.addWidget(area, 1)

    def _fill(self) -> None:
        library = self._library
        focused = next((card for card in self.cards if _focused_name(card)), None)
        kept = _focused_name(focused) if focused is not None else ""
        _clear(self._cards)
        self.cards = []
        unlisted = library.unlisted()
        for model in [*library.models, *unlisted]:
            is_listed = model not in unlisted
            added = library.added_folder_of(model.found) if is_listed else None
            card = ModelCard(
                self._theme,
                model,
                library.memory,
                is_loaded=library.is_loaded(model.found),
                is_loading=library.is_loading(model.found),
                is_unloaded=library.model.is_unloaded,
                stuck_why=library.model.in_memory.stuck_at(model.found.folder),
                removal="" if added is None else removal_words(added, library.only_in(added)),
                drafts=library.drafts_for(model.found) if is_listed else (),
                newer=self._newer(model.found),
                is_listed=is_listed,
            )
            card.update_wanted.connect(self._upkeep.update)
            card.deletion_wanted.connect(self.deletion_wanted)
            card.draft_wanted.connect(self.draft_wanted)
            card.load_wanted.connect(self.load_wanted)
            card.restart_wanted.connect(lambda one: library.model.load_again(one.found.folder))
            card.unload_wanted.connect(self.unload_wanted)
            card.removal_wanted.connect(partial(self.removal_wanted.emit, added))
            card.resume_wanted.connect(library.downloads.start)
            self._cards.addWidget(card)
            self.cards.append(card)
            if focused is not None and model.found.name == focused.model.found.name:
                _focus_again(card, kept)
        upkeep = self._upkeep
        self.check.setVisible(upkeep.can_check)
        self.check.setText("Checking…" if upkeep.is_checking else "Check for Updates")
        self.outcome.setText(upkeep.outcome)
        self.outcome.setVisible(bool(upkeep.outcome))
        if library.is_looking and not library.models:
            self._note.setText("Searching…")
        else:
            total = sum(model.found.size_bytes for model in library.models)
            there = counted(len(library.models), "model")
            self._note.setText(f"{there}, {size_in_words(total)}" if total else "")

    def _newer(self, found: FoundModel) -> HubModel | None:
        """Return the newer revision that the hub has; None while it is being downloaded."""
        is_running = self._library.downloads.is_running(found.name)
        is_theirs = found.origin is Origin.HUGGING_FACE and not is_running
        return self._upkeep.updates.get(found.name) if is_theirs else None

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

    def _choose_folder(self) -> None:
        choose_folder(self, "Add a Folder of Models", self._library.add_folder)


def _focused_name(card: QWidget) -> str:
    """Return the name of the control inside that has the focus; empty if none has."""
    controls = card.findChildren(QAbstractButton)
    return next((one.accessibleName() for one in controls if one.hasFocus()), "")


def _focus_again(card: QWidget, name: str) -> None:
    """Focus the control of this name in a new card, or its last one, which opens the menu."""
    controls = card.findChildren(QAbstractButton)
    chosen = next((one for one in controls if one.accessibleName() == name), controls[-1])
    chosen.setFocus()


def _clear(layout: QVBoxLayout) -> None:
    while (item := layout.takeAt(0)) is not None:
        if (widget := item.widget()) is not None:
            widget.hide()
            widget.deleteLater()
