"""The models on this computer: downloads, then a card for each. Main thread."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

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
from ui.kit.labels import ElidedLabel, StatusPill, clear_layout, label, show_text
from ui.kit.layouts import STRETCH, column, row, scrolling
from ui.kit.menus import copy_text, escape_mnemonics
from ui.models.downloads import DownloadRow
from ui.models.model_library import LibraryModel, ModelLibrary
from ui.models.model_words import RESTART, STUCK, facts, fit_text, newer_text
from ui.models.models import ShownModel
from ui.models.upkeep import Upkeep
from ui.words import Tone

# Only these can be deleted: others come with the program, or are the user's own files.
DELETED = (Origin.HUGGING_FACE, Origin.LM_STUDIO)


@dataclass(frozen=True, slots=True)
class RowState:
    """All that a row shows."""

    model: LibraryModel
    shown: ShownModel
    memory: Memory
    drafts: Sequence[FoundModel]
    newer: HubModel | None
    is_listed: bool
    needs_user: bool


class LocalModelRow(QFrame):
    """A row of a model with its buttons; the signals of its list announce the choices."""

    def __init__(self, listed_by: "LocalModels", state: RowState) -> None:
        super().__init__()
        self.setObjectName("card")
        self._list = listed_by
        self._state = state
        self.model = state.model
        found, shown = state.model.found, state.shown
        name = ElidedLabel(found.name, "title")
        name.setToolTip(str(found.folder))
        line = ElidedLabel(facts(found, self.model.used_at, self.model.draft), "muted")
        line.setToolTip(line.text())
        text = column(name, row((line, 1), *self._template_link(), spacing=10), spacing=3)
        notes = []
        if trouble := self._trouble():
            notes.append((trouble, "fault" if found.trouble or shown.is_stuck else "muted"))
        if state.newer is not None:
            notes.append((newer_text(state.newer), "notice"))
        for saved, role in notes:
            note = label(saved, role, 0.95, is_wrapped=True)
            # Qt's minimum would be the height of its narrowest shape, and the list have a bar.
            note.setMinimumHeight(1)
            text.addWidget(note)
        bar = row((text, 1), spacing=10, margins=(14, 11, 8, 11), on=self)
        self.update_button = None
        if state.newer is not None:
            self.update_button = push_button("Update", f"Update {found.name}")
            self.update_button.clicked.connect(lambda: self._list.upkeep.update(found))
            bar.addWidget(self.update_button)
        is_used = shown.stage == "ready" or shown.is_loading
        self.button = None if is_used else self._load_button()
        if self.button is not None:
            bar.addWidget(self.button)
        if is_used or shown.is_stuck:
            pill = StatusPill(found.name)
            pill.show_state(*self._pill_state())
            bar.insertWidget(1, pill)
        bar.addWidget(self._more())

    def _pill_state(self) -> tuple[str, str, Tone]:
        shown = self._state.shown
        if shown.is_stuck:
            return STUCK, "fault", "fault"
        if self._state.needs_user:
            return "Needs Approval", "warning", "limit"
        if shown.is_loading:
            return "Loading…", "spinner", "busy"
        return ("Unloaded", "clock", "quiet") if shown.is_idle else ("Loaded", "check", "done")

    def _template_link(self) -> list[QPushButton]:
        if not self.model.found.can_be_loaded:
            return []
        whose = "yours" if self.model.has_user_template else "the model’s own"
        link = push_button(f"Chat template: {whose}", kind="link")
        link.setAccessibleName(f"Chat template of {self.model.found.name}: {whose}")
        link.setToolTip("Edit the chat template, and compare it with the model’s own")
        link.clicked.connect(lambda: self._list.template_requested.emit(self.model))
        return [link]

    def _trouble(self) -> str:
        found, shown = self.model.found, self._state.shown
        if shown.is_stuck and not found.problem:
            return shown.message
        if found.trouble:
            return found.trouble
        if not self._state.is_listed:
            return "Its folder can’t be found. It stays available until it is unloaded."
        return fit_text(self.model.need, self.model.fit, self._state.memory)

    def _load_button(self) -> QPushButton:
        found, library = self.model.found, self._list.library
        if found.is_partial and "/" in found.name:
            button = push_button("Resume", f"Resume the download of {found.name}")
            button.clicked.connect(lambda: library.downloads.start(found.name))
        elif self._state.shown.is_stuck:
            button = push_button(RESTART, f"Restart {found.name}")
            button.clicked.connect(lambda: library.models.load_again(found.folder))
        else:
            button = push_button("Load", f"Load {found.name}")
            button.setEnabled(not (found.is_partial or found.obstacle))
            button.clicked.connect(lambda: self._list.load_requested.emit(self.model))
        return button

    def _more(self) -> QToolButton:
        found, shown, requested = self.model.found, self._state.shown, self._list
        folder = str(found.folder)
        more = IconButton("chevron-down", f"More about {found.name}", size=16)
        menu = QMenu(more)
        entries: list[Entry] = [
            Command(show_in_files_label(), lambda: show_in_files(self, found.folder)),
            Command("Copy Path", lambda: copy_text(folder)),
        ]
        if shown.stage == "ready" and not shown.is_idle:
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
        offered = {draft.folder.resolve(): draft.name for draft in self._state.drafts}
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
        self._shown: list[RowState] | None = None
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
        self.add.clicked.connect(
            lambda: choose_folder(self, "Add a Folder of Models", library.add_folder)
        )
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
        shown = [self._row_state(model) for model in [*library.local, *library.unlisted()]]
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

    def _row_state(self, model: LibraryModel) -> RowState:
        library, found = self.library, model.found
        is_listed, folder = model in library.local, found.folder.resolve()
        shown = library.models.status(folder)
        reason = shown.message if shown.is_stuck else ""
        return RowState(
            model,
            # A row does not show how far a load is.
            replace(shown, message=reason, progress=None, loading_s=0.0),
            library.memory,
            library.drafts_for(model) if is_listed else (),
            self._newer(found),
            is_listed,
            needs_user=folder in library.waiting,
        )

    def _fill_cards(self, shown: list[RowState]) -> None:
        focused = next((card for card in self.cards if _focused_name(card)), None)
        kept = _focused_name(focused) if focused is not None else ""
        clear_layout(self._cards)
        self.cards = []
        for state in shown:
            card = LocalModelRow(self, state)
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
            clear_layout(self._folders)
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
        clear_layout(self._downloads)
        self.rows = []
        for item in self.library.downloads.items:
            row = DownloadRow(self.library.downloads, item)
            self._downloads.addWidget(row)
            self.rows.append(row)

    def _refresh_downloads(self) -> None:
        if self.isVisible():
            for line in self.rows:
                line.refresh()


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
