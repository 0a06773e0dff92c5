"""The models on this computer: downloads, then a card for each. Main thread."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QFrame,
    QMenu,
    QPushButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from engine.library.hub_models import HubModel
from engine.library.local_models import FoundModel, Origin
from engine.library.memory_need import Memory
from engine.library.model_files import model_name
from engine.wording import counted, format_size
from ui.kit.buttons import IconButton, push_button
from ui.kit.commands import Command, Entry, Submenu, fill_menu
from ui.kit.dialogs import choose_folder, show_in_files, show_in_files_label
from ui.kit.labels import ElidedLabel, StatusPill, label, show_text
from ui.kit.layouts import STRETCH, column, row, scrolling
from ui.kit.menus import copy_text, escape_mnemonics
from ui.models.downloads import DownloadRow
from ui.models.model_library import LibraryModel, ModelLibrary
from ui.models.model_words import RESTART, STUCK, facts, fit_text, newer_text
from ui.models.upkeep import Upkeep

# Only these can be deleted: others come with the program, or are the user's own files.
DELETED = (Origin.HUGGING_FACE, Origin.LM_STUDIO)


class LocalModelRow(QFrame):
    """A row of a model with its buttons; the signals of its list announce the choices."""

    def __init__(
        self,
        listed_by: "LocalModels",
        model: LibraryModel,
        memory: Memory,
        *,
        is_loaded: bool,
        is_loading: bool = False,
        is_unloaded: bool,
        stuck_why: str = "",
        drafts: Sequence[FoundModel] = (),
        newer: HubModel | None = None,
        is_listed: bool = True,
        needs_user: bool = False,
    ) -> None:
        super().__init__()
        self.setObjectName("card")
        self._list = listed_by
        self.model = model
        self._stuck_why = stuck_why
        self._is_listed = is_listed
        found = model.found
        self._drafts = drafts
        name = ElidedLabel(found.name, "title")
        name.setToolTip(str(found.folder))
        line = ElidedLabel(facts(found, model.used_at, model.draft), "muted")
        line.setToolTip(line.text())
        text = column(name, row((line, 1), *self._template_link(), spacing=10), spacing=3)
        trouble = self._trouble(memory)
        notes = []
        if trouble:
            is_fault = found.trouble or stuck_why
            notes.append((trouble, "fault" if is_fault else "muted"))
        if newer is not None:
            notes.append((newer_text(newer), "notice"))
        for saved, role in notes:
            note = label(saved, role, 0.95, is_wrapped=True)
            # Qt's minimum would be the height of its narrowest shape, and the list have a bar.
            note.setMinimumHeight(1)
            text.addWidget(note)
        bar = row((text, 1), spacing=10, margins=(14, 11, 8, 11), on=self)
        self.update_button = self._update_button(newer)
        if self.update_button is not None:
            bar.addWidget(self.update_button)
        self.button = self._button(is_loaded=is_loaded or is_loading)
        if self.button is not None:
            bar.addWidget(self.button)
        if self.button is None or stuck_why:
            pill = StatusPill(found.name)
            if stuck_why:
                pill.show_state(STUCK, "fault", "fault")
            elif needs_user:
                pill.show_state("Needs Approval", "warning", "limit")
            elif is_loading:
                pill.show_state("Loading…", "spinner", "busy")
            elif is_unloaded:
                pill.show_state("Unloaded", "clock", "quiet")
            else:
                pill.show_state("Loaded", "check", "done")
            bar.insertWidget(1, pill)
        bar.addWidget(self._more(can_unload=is_loaded and not is_unloaded))

    def _template_link(self) -> list[QPushButton]:
        if not self.model.found.can_be_loaded:
            return []
        whose = "yours" if self.model.has_user_template else "the model’s own"
        link = push_button(f"Chat template: {whose}", kind="link")
        link.setAccessibleName(f"Chat template of {self.model.found.name}: {whose}")
        link.setToolTip("Edit the chat template, and compare it with the model’s own")
        link.clicked.connect(lambda: self._list.template_requested.emit(self.model))
        return [link]

    def _trouble(self, memory: Memory) -> str:
        found = self.model.found
        if self._stuck_why and not found.problem:
            return self._stuck_why
        if found.trouble:
            return found.trouble
        if not self._is_listed:
            return "Its folder can’t be found. It stays available until it is unloaded."
        return fit_text(self.model.need, self.model.fit, memory)

    def _button(self, *, is_loaded: bool) -> QPushButton | None:
        found = self.model.found
        if is_loaded:
            return None
        if found.is_partial and "/" in found.name:
            button = push_button("Resume", f"Resume the download of {found.name}")
            button.clicked.connect(lambda: self._list.library.downloads.start(found.name))
            return button
        text = RESTART if self._stuck_why else "Load"
        button = push_button(text, f"{'Restart' if self._stuck_why else 'Load'} {found.name}")
        button.setEnabled(not (found.is_partial or found.obstacle))
        button.clicked.connect(self._restart if self._stuck_why else self._load)
        return button

    def _load(self) -> None:
        self._list.load_requested.emit(self.model)

    def _restart(self) -> None:
        self._list.library.models.load_again(self.model.found.folder)

    def _update_button(self, newer: HubModel | None) -> QPushButton | None:
        if newer is None:
            return None
        button = push_button("Update", f"Update {self.model.found.name}")
        button.clicked.connect(lambda: self._list.upkeep.update(self.model.found))
        return button

    def _more(self, *, can_unload: bool) -> QToolButton:
        found = self.model.found
        folder = str(found.folder)
        more = IconButton("chevron-down", f"More about {self.model.found.name}", size=16)
        menu = QMenu(more)
        requested = self._list
        entries: list[Entry] = [
            Command(show_in_files_label(), lambda: show_in_files(self, found.folder)),
            Command("Copy Path", lambda: copy_text(folder)),
        ]
        if can_unload:
            unload = Command("Unload", lambda: requested.unload_requested.emit(self.model))
            entries = [unload, None, *entries]
        if drafts := self._draft_entries():
            entries.append(Submenu("Draft Model", drafts))
        if found.can_be_loaded:
            edit = partial(requested.template_requested.emit, self.model)
            entries.append(Command("Chat Template…", edit))
        if found.origin in DELETED:
            delete = Command("Delete…", lambda: requested.deletion_requested.emit(found))
            entries += [None, delete]
        fill_menu(menu, entries)
        more.setMenu(menu)
        more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        return more

    def _draft_entries(self) -> list[Entry]:
        """Offer the possible draft models, and the present one even if its folder is gone."""
        present = self.model.draft
        offered = {draft.folder.resolve(): draft.name for draft in self._drafts}
        if present is not None:
            offered.setdefault(present, model_name(present))
        return [
            Command(
                escape_mnemonics(name),
                partial(self._list.draft_requested.emit, self.model, folder),
                checked=folder == present,
                tool_tip="" if folder is None else str(folder),
            )
            for folder, name in ([(None, "None"), *offered.items()] if offered else ())
        ]


class LocalModels(QWidget):
    """Lists the downloads and the models on this computer."""

    load_requested = Signal(object)  # LibraryModel
    unload_requested = Signal(object)  # LibraryModel
    draft_requested = Signal(object, object)  # LibraryModel, folder of the draft model or None
    template_requested = Signal(object)  # LibraryModel
    find_requested = Signal()
    deletion_requested = Signal(object)  # FoundModel
    removal_requested = Signal(object)  # folder

    def __init__(self, library: ModelLibrary, upkeep: Upkeep) -> None:
        super().__init__()
        self.library = library
        self.upkeep = upkeep
        self.rows: list[DownloadRow] = []
        self.cards: list[LocalModelRow] = []
        self._shown: list[dict[str, Any]] | None = None
        self.find_button = push_button("Find Models…", kind="primary")
        self.add = QPushButton("Add a Folder…")
        self.check = QPushButton("Check for Updates")
        self.check.setToolTip("Checks Hugging Face for newer versions")
        self.outcome = label("", "muted", 0.95, is_wrapped=True)
        self._downloads = QVBoxLayout()
        self._cards = QVBoxLayout()
        self._folders_head = label("Your Folders", "heading")
        self._folders = QVBoxLayout()
        self._folders.setSpacing(8)
        self.shown_folders: dict[Path, int] = {}
        self._note = label("", "heading")
        self._hint = label(
            "Models downloaded with Hugging Face’s tools or LM Studio are found where they are; "
            "nothing is copied. Add a folder for other models.",
            "muted",
            0.95,
            is_wrapped=True,
        )
        self._lay_out()
        self.find_button.clicked.connect(self.find_requested)
        self.add.clicked.connect(self._choose_folder)
        self.check.clicked.connect(upkeep.check)
        upkeep.changed.connect(self._fill)
        library.changed.connect(self._fill)
        library.models.changed.connect(self._fill)
        library.downloads.changed.connect(self._fill_downloads)
        library.downloads.changed.connect(self._fill)
        library.downloads.progressed.connect(self._refresh_downloads)
        self._fill()
        self._fill_downloads()

    def _lay_out(self) -> None:
        self._downloads.setSpacing(8)
        self._cards.setSpacing(8)
        inside = column(
            self._downloads,
            self._cards,
            self._folders_head,
            self._folders,
            self._hint,
            STRETCH,
            spacing=12,
            margins=(20, 4, 20, 18),
        )
        area = scrolling(inside, "Models on this computer", goes_sideways=False)
        column(
            column(
                row(self._note, STRETCH, self.check, self.add, self.find_button, spacing=8),
                self.outcome,
                spacing=6,
                margins=(20, 14, 20, 8),
            ),
            (area, 1),
            spacing=0,
            on=self,
        )

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._fill()

    def _fill(self) -> None:
        if not self.window().isVisible():
            return
        library = self.library
        shown = [self._card_arguments(model) for model in [*library.local, *library.unlisted()]]
        if shown != self._shown:
            self._shown = shown
            self._fill_cards(shown)
        self._fill_folders()
        upkeep = self.upkeep
        self.check.setVisible(upkeep.can_check)
        self.check.setText("Checking…" if upkeep.is_checking else "Check for Updates")
        show_text(self.outcome, upkeep.outcome)
        if library.is_looking and not library.local:
            self._note.setText("Searching…")
        else:
            total = sum(model.found.size_bytes for model in library.local)
            there = counted(len(library.local), "model")
            self._note.setText(f"{there}, {format_size(total)}" if total else "")

    def _card_arguments(self, model: LibraryModel) -> dict[str, Any]:
        library, found = self.library, model.found
        is_listed = model in library.local
        state = library.models.status(found.folder.resolve())
        return {
            "model": model,
            "memory": library.memory,
            "is_loaded": state.stage == "ready",
            "is_loading": state.is_loading,
            "is_unloaded": state.is_idle,
            "stuck_why": state.message if state.is_stuck else "",
            "drafts": library.drafts_for(model) if is_listed else (),
            "newer": self._newer(found),
            "is_listed": is_listed,
            "needs_user": found.folder.resolve() in library.waiting,
        }

    def _fill_cards(self, shown: list[dict[str, Any]]) -> None:
        focused = next((card for card in self.cards if _focused_name(card)), None)
        kept = _focused_name(focused) if focused is not None else ""
        _clear(self._cards)
        self.cards = []
        for arguments in shown:
            card = LocalModelRow(self, **arguments)
            self._cards.addWidget(card)
            self.cards.append(card)
            if focused is not None and card.model.found.name == focused.model.found.name:
                _focus_again(card, kept)

    def _fill_folders(self) -> None:
        library = self.library
        shown = {folder: len(library.in_folder(folder)) for folder in library.folders}
        self._folders_head.setVisible(bool(shown))
        if shown != self.shown_folders:
            self.shown_folders = shown
            _clear(self._folders)
            for folder, count in shown.items():
                self._folders.addWidget(self._folder_card(folder, count))

    def _folder_card(self, folder: Path, count: int) -> QFrame:
        card = QFrame()
        card.setObjectName("card")
        name = ElidedLabel(str(folder))
        name.setToolTip(str(folder))
        text = counted(count, "model") if count else "No models were found in it."
        remove = push_button("Remove", f"Remove the folder {folder} from the list")
        remove.setToolTip("Nothing is deleted")
        remove.clicked.connect(partial(self.removal_requested.emit, folder))
        row(
            (column(name, label(text, "muted", 0.95), spacing=3), 1),
            remove,
            spacing=10,
            margins=(14, 9, 8, 9),
            on=card,
        )
        return card

    def _newer(self, model: FoundModel) -> HubModel | None:
        """Return the newer revision that the hub has; None while it is being downloaded."""
        is_running = self.library.downloads.is_running(model.name)
        is_theirs = model.origin is Origin.HUGGING_FACE and not is_running
        return self.upkeep.updates.get(model.name) if is_theirs else None

    def _fill_downloads(self) -> None:
        _clear(self._downloads)
        self.rows = []
        for item in self.library.downloads.items:
            row = DownloadRow(self.library.downloads, item)
            self._downloads.addWidget(row)
            self.rows.append(row)

    def _refresh_downloads(self) -> None:
        if self.isVisible():
            for line in self.rows:
                line.refresh()

    def _choose_folder(self) -> None:
        choose_folder(self, "Add a Folder of Models", self.library.add_folder)


def _focused_name(card: QWidget) -> str:
    controls = card.findChildren(QAbstractButton)
    return next((control.accessibleName() for control in controls if control.hasFocus()), "")


def _focus_again(card: QWidget, name: str) -> None:
    """Focus the control of this name in a new card, or its last one, which opens the menu."""
    controls = card.findChildren(QAbstractButton)
    chosen = next(
        (control for control in controls if control.accessibleName() == name), controls[-1]
    )
    chosen.setFocus()


def _clear(layout: QVBoxLayout) -> None:
    while (item := layout.takeAt(0)) is not None:
        if (widget := item.widget()) is not None:
            widget.hide()
            widget.deleteLater()
