"""One model of the list: its facts, whether it fits, and its actions. Main thread."""

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import Signal
from PySide6.QtGui import QActionGroup, QFont
from PySide6.QtWidgets import QFrame, QHBoxLayout, QMenu, QPushButton, QToolButton, QVBoxLayout

from engine import as_sentence
from engine.library.found import FoundModel, Origin
from engine.library.hub.hub_model import HubModel
from engine.library.memory import Memory
from engine.library.models import model_name
from ui.kit.controls.buttons import IconButton
from ui.kit.look.theme import Theme
from ui.kit.system.clipboard import copy_text
from ui.kit.system.files_shown import show_in_files, show_in_files_words
from ui.kit.system.menus import add_entry, literal
from ui.kit.text.labels import ElidedLabel, label
from ui.kit.text.pill import StatusPill
from ui.models.model_library import LibraryModel
from ui.models.model_words import RESTART, STUCK, facts, fit_words, newer_words
from ui.words.tones import Tone

# Only these can be deleted: others come with the program, or are a person's own files.
DELETED = (Origin.HUGGING_FACE, Origin.LM_STUDIO)


class ModelCard(QFrame):
    """A model with its button.

    Signals:
        load_wanted: A person wants to load it; carries the ``LibraryModel``.
        restart_wanted: A person wants to load it again, because it is stuck; carries the
            ``LibraryModel``.
        unload_wanted: A person wants to unload it; carries the ``LibraryModel``.
        resume_wanted: A person wants to resume its download; carries the repository.
        draft_wanted: A person chose another draft model for it; carries the ``LibraryModel`` and
            the folder of the draft model, None for none.
        update_wanted: A person wants its newest revision; carries the ``FoundModel``.
        deletion_wanted: A person wants to delete it; carries the ``FoundModel``.
        removal_wanted: A person wants to remove the added folder from the list.
    """

    load_wanted = Signal(object)
    restart_wanted = Signal(object)
    unload_wanted = Signal(object)
    resume_wanted = Signal(str)
    draft_wanted = Signal(object, object)
    update_wanted = Signal(object)
    deletion_wanted = Signal(object)
    removal_wanted = Signal()

    def __init__(
        self,
        theme: Theme,
        model: LibraryModel,
        memory: Memory,
        *,
        is_loaded: bool,
        is_loading: bool = False,
        is_unloaded: bool,
        removal: str,
        stuck_why: str = "",
        drafts: Sequence[FoundModel] = (),
        newer: HubModel | None = None,
        is_listed: bool = True,
    ) -> None:
        super().__init__()
        self.setObjectName("card")
        self.model = model
        self._stuck_why = stuck_why
        self._is_listed = is_listed
        found = model.found
        self._removal = removal
        self._drafts = drafts
        name = ElidedLabel(found.name)
        name.setProperty("role", "title")
        font = QFont(name.font())
        font.setWeight(QFont.Weight.DemiBold)
        name.setFont(font)
        name.setToolTip(str(found.folder))
        line = ElidedLabel(facts(found, model.used_at, model.draft))
        line.setProperty("role", "muted")
        line.setToolTip(line.text())
        words = QVBoxLayout()
        words.setSpacing(3)
        words.addWidget(name)
        words.addWidget(line)
        trouble = self._trouble(memory)
        if trouble:
            is_fault = found.problem or stuck_why or found.obstacle
            role = "fault" if is_fault else "muted"
            words.addWidget(label(trouble, role, 0.95, is_wrapped=True))
        if newer is not None:
            words.addWidget(label(newer_words(newer), "notice", 0.95, is_wrapped=True))
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 11, 8, 11)
        row.setSpacing(10)
        row.addLayout(words, 1)
        self.update_button = self._update_button(newer)
        if self.update_button is not None:
            row.addWidget(self.update_button)
        self.button = self._button(is_loaded=is_loaded or is_loading)
        if self.button is not None:
            row.addWidget(self.button)
        if self.button is None or stuck_why:
            pill = StatusPill(theme, found.name)
            if stuck_why:
                pill.show_state(STUCK, "fault", Tone.FAULT)
            elif is_loading:
                pill.show_state("Loading…", "spinner", Tone.BUSY)
            elif is_unloaded:
                pill.show_state("Unloaded", "clock", Tone.QUIET)
            else:
                pill.show_state("Loaded", "check", Tone.DONE)
            row.insertWidget(1, pill)
        row.addWidget(self._more(theme, can_unload=is_loaded and not is_unloaded))

    def _trouble(self, memory: Memory) -> str:
        found = self.model.found
        if found.problem:
            lead = "Incomplete: " if found.is_partial else "Damaged: "
            return f"{lead}{found.problem}."
        if self._stuck_why:
            return as_sentence(self._stuck_why)
        if found.obstacle:
            return found.obstacle
        if not self._is_listed:
            return "Its folder was not found. It goes on answering until it is unloaded."
        return fit_words(self.model.need, self.model.fit, memory)

    def _button(self, *, is_loaded: bool) -> QPushButton | None:
        found = self.model.found
        if is_loaded:
            return None
        if found.is_partial and "/" in found.name:
            button = QPushButton("Resume")
            button.setAccessibleName(f"Resume the download of {found.name}")
            button.clicked.connect(lambda: self.resume_wanted.emit(found.name))
            return button
        button = QPushButton(RESTART if self._stuck_why else "Load")
        button.setAccessibleName(f"{'Restart' if self._stuck_why else 'Load'} {found.name}")
        button.setEnabled(not (found.is_partial or found.obstacle))
        wanted = self.restart_wanted if self._stuck_why else self.load_wanted
        button.clicked.connect(lambda: wanted.emit(self.model))
        return button

    def _update_button(self, newer: HubModel | None) -> QPushButton | None:
        if newer is None:
            return None
        button = QPushButton("Update")
        button.setAccessibleName(f"Update {self.model.found.name}")
        button.clicked.connect(lambda: self.update_wanted.emit(self.model.found))
        return button

    def _more(self, theme: Theme, *, can_unload: bool) -> QToolButton:
        found = self.model.found
        folder = str(found.folder)
        more = IconButton(theme, "chevron-down", f"More about {self.model.found.name}", size=16)
        menu = QMenu(more)
        if can_unload:
            add_entry(menu, "Unload", lambda: self.unload_wanted.emit(self.model))
            menu.addSeparator()
        add_entry(menu, show_in_files_words(), lambda: show_in_files(self, found.folder))
        add_entry(menu, "Copy Path", lambda: copy_text(folder))
        self._add_drafts(menu)
        if self._removal:
            menu.addSeparator()
            add_entry(menu, literal(self._removal), self.removal_wanted.emit)
        if found.origin in DELETED:
            menu.addSeparator()
            add_entry(menu, "Delete…", lambda: self.deletion_wanted.emit(found))
        more.setMenu(menu)
        more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        return more

    def _add_drafts(self, menu: QMenu) -> None:
        """Offer the possible draft models, and the present one even if its folder is gone."""
        present = self.model.draft
        offered = {one.folder.resolve(): one.name for one in self._drafts}
        if present is not None:
            offered.setdefault(present, model_name(present))
        if not offered:
            return
        inner = menu.addMenu("Draft Model")
        inner.setToolTipsVisible(True)
        group = QActionGroup(inner)
        for folder, name in [(None, "None"), *offered.items()]:
            choose = partial(self.draft_wanted.emit, self.model, folder)
            entry = add_entry(inner, literal(name), choose, is_checked=folder == present)
            entry.setToolTip("" if folder is None else str(folder))
            group.addAction(entry)
