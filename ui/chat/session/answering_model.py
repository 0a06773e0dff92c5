"""The model that answers the open conversation: loaded, loading, not loaded, or gone.

Main thread.
"""

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Literal, Protocol

from PySide6.QtCore import QObject, QTimer, Signal

from engine import LoadProgress, ModelInfo, as_sentence
from ui.kit.tasks import finish_tasks, start_task
from ui.models.model_state import ModelState
from ui.records.conversations import ChosenModel, Conversation

# A conversation remembers its model. The engine's own state says which one is loaded.

_LOOK_MS = 3000

AnsweringStage = Literal["none", "unloaded", "loading", "ready", "failed", "gone"]


class ModelFinder(Protocol):
    """The part of the library that finds a model by its name."""

    @property
    def has_looked(self) -> bool:
        """Whether the disks were scanned since the program started."""

    def folder_named(self, name: str) -> Path | None:
        """Return the folder of a model by its name."""

    def refresh(self) -> None:
        """Scan the disks again."""


class AnsweringModel(QObject):
    """Follows the open conversation and the engine's model.

    Signals:
        changed: The stage or the model has changed.
        chosen: The model of a conversation has changed; carries the ``Conversation``.
    """

    changed = Signal()
    chosen = Signal(object)

    def __init__(self, loaded: ModelState, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.loaded = loaded
        self.library: ModelFinder | None = None
        self._conversation = Conversation()
        self._gone: ChosenModel | None = None
        self._before: tuple[Conversation, ChosenModel | None] | None = None
        self._has_begun_scan = False
        self._looking_for: tuple[Conversation, ChosenModel] | None = None
        # A folder may be renamed or unplugged at any time.
        self._has_ended = False
        self._watch = QTimer(self, interval=_LOOK_MS)
        self._watch.timeout.connect(self._look)
        self._watch.start()
        loaded.chosen.connect(self._take_choice)
        loaded.changed.connect(self._refresh)

    # -- what is known ---------------------------------------------------------------------

    @property
    def choice(self) -> ChosenModel | None:
        """The model that the conversation remembers."""
        return self._conversation.model

    @property
    def stage(self) -> AnsweringStage:
        """The stage of the conversation's model."""
        stage, choice = self._stage, self.choice
        is_needed = stage == "unloaded" or (stage == "ready" and self._rests)
        return "gone" if is_needed and choice is not None and choice == self._gone else stage

    @property
    def _stage(self) -> AnsweringStage:
        """The stage of the model, wherever its folder is."""
        choice = self.choice
        if choice is None:
            return self.loaded.stage
        if choice.folder is None:  # only its name is known, until it is found on this computer
            return "unloaded"
        # The model may be one of several in memory while another one is loading or has failed.
        if self.loaded.in_memory.may_be_several and self.loaded.info_of(choice.folder) is not None:
            return "ready"
        if self.loaded.is_at(choice.folder):
            return self.loaded.stage
        if self.is_stuck:
            return "failed"
        return "unloaded"

    @property
    def folder(self) -> Path | None:
        """The model's folder; None if there is no model, or only its name is known."""
        return self.loaded.path if self.choice is None else self.choice.folder

    @property
    def has_lost_folder(self) -> bool:
        """Whether the model answers although its folder is gone; once unloaded, it is gone, too."""
        choice = self.choice
        return choice is not None and choice == self._gone and self.stage == "ready"

    @property
    def name(self) -> str:
        """The model's name; empty if there is none."""
        choice = self.choice
        return self.loaded.name if choice is None else choice.name

    @property
    def message(self) -> str:
        """Why loading failed or ended, or why the model does not respond."""
        stuck_why = self._stuck_why
        return as_sentence(stuck_why) if stuck_why else self.loaded.message

    @property
    def is_stuck(self) -> bool:
        """Whether the model does not respond until it is restarted."""
        return bool(self._stuck_why)

    @property
    def _stuck_why(self) -> str:
        choice = self.choice
        return self.loaded.in_memory.stuck_at(None if choice is None else choice.folder)

    @property
    def info(self) -> ModelInfo | None:
        """The conversation's model, if it is loaded."""
        choice = self.choice
        if choice is not None and choice.folder is None:
            return None
        return self.loaded.info_of(None if choice is None else choice.folder)

    @property
    def progress(self) -> LoadProgress | None:
        return self.loaded.progress if self.is_loading else None

    @property
    def is_loading(self) -> bool:
        """Whether it is being loaded, for the first time or again after it was idle."""
        is_again = self.stage == "ready" and self.loaded.is_loading_again and not self._is_beside
        return self.stage == "loading" or is_again

    @property
    def is_idle(self) -> bool:
        """Whether its memory was freed until the next message."""
        return self.stage == "ready" and self._rests

    @property
    def can_answer(self) -> bool:
        """Whether a message can be sent; it may have to wait for the model."""
        return self.stage in ("ready", "loading", "unloaded")

    # -- intents ---------------------------------------------------------------------------

    def follow(self, conversation: Conversation) -> None:
        """Follow another conversation's model from now on; ``look_again`` reports it."""
        self._conversation = conversation

    def settle(self) -> bool:
        """Let the conversation remember the model that answers it; return whether there is one.

        A model that failed counts: who asks again wants it to be loaded again.
        """
        if not (self.can_answer or (self.stage == "failed" and self.name)):
            return False
        if self.choice is None:
            info = self.loaded.info
            folder = self.loaded.path if info is None else info.path
            if folder is not None:
                name = self.loaded.name if info is None else info.id
                self._remember(ChosenModel(name, folder.resolve()))
        return True

    def choose(self, folder: Path) -> None:
        """Let the model of a folder answer the conversation, and load it at once."""
        if self.loaded.stage != "loading" and self.loaded.info_of(folder.resolve()) is not None:
            self._remember(ChosenModel.of(folder))
            self._refresh()
        else:
            self.loaded.load(folder)

    def load_again(self) -> None:
        """Load the conversation's model again after it failed or got stuck."""
        choice = self.choice
        self.loaded.load_again(None if choice is None else choice.folder)

    def remember(self, choice: ChosenModel) -> None:
        """Let the conversation use a model; the next message loads it if necessary."""
        self._remember(choice)
        self._refresh()

    def look_again(self) -> None:
        """Check again whether the model is on this computer."""
        self._refresh()

    async def finish(self) -> None:
        """Wait for the look that is under way; from then on none begins."""
        self._has_ended = True
        self._watch.stop()
        await finish_tasks(self)

    # -- inside ----------------------------------------------------------------------------

    @property
    def _rests(self) -> bool:
        return self.loaded.is_unloaded and not self._is_beside

    @property
    def _is_beside(self) -> bool:
        """Whether the conversation's model is in memory beside the default one."""
        choice = self.choice
        return choice is not None and not self.loaded.is_at(choice.folder)

    def _remember(self, choice: ChosenModel | None) -> None:
        if self._conversation.model != choice:
            self._conversation.model = choice
            self.chosen.emit(self._conversation)

    def _take_choice(self, folder: Path) -> None:
        """Note that a person chose another model; if loading it fails, the earlier one stays."""
        if self._before is None or self._before[0] is not self._conversation:
            self._before = self._conversation, self.choice
        self._remember(ChosenModel.of(folder))

    def _refresh(self) -> None:
        if self.loaded.stage != "loading":
            self._settle_choice()
        choice, info = self.choice, self.loaded.info
        if choice is None and info is not None:
            # It stays this one, whatever is loaded for others; saved with the first message.
            choice = ChosenModel(info.id, info.path.resolve())
        if choice is not None and choice.folder is not None:
            # The name of a link or of its folder, whichever the engine offers the model by.
            known = self.loaded.info_of(choice.folder)
            self._conversation.model = choice if known is None else replace(choice, name=known.id)
        self._look()
        self.changed.emit()

    def _look(self) -> None:
        """Check on another thread whether the model's folder is there; once at a time."""
        choice = self.choice
        if choice is None or self._looking_for == (self._conversation, choice) or self._has_ended:
            return
        self._looking_for = self._conversation, choice
        start_task(self, self._look_for(self._conversation, choice), "look for a model")

    def _settle_choice(self) -> None:
        """Go back to the earlier model if the chosen one could not be loaded."""
        before, self._before = self._before, None
        if before is None:
            return
        conversation, earlier = before
        choice = conversation.model
        if choice is None or self.loaded.is_at(choice.folder):
            return
        if self.loaded.info_of(choice.folder) is not None:
            return
        conversation.model = earlier
        self.chosen.emit(conversation)

    async def _look_for(self, conversation: Conversation, choice: ChosenModel) -> None:
        try:
            await self._find(conversation, choice)
        finally:
            if self._looking_for == (conversation, choice):
                self._looking_for = None

    async def _find(self, conversation: Conversation, choice: ChosenModel) -> None:
        folder = choice.folder
        is_there = folder is not None and await asyncio.to_thread(_is_model, folder)
        answers = self._stage == "ready" and not self._rests
        if not (is_there or answers) and (library := self.library) is not None:
            if not library.has_looked:
                if not self._has_begun_scan:
                    self._has_begun_scan = True
                    library.refresh()  # the end of the scan leads here again
                return
            # The model may have been moved, and an imported conversation has only its name.
            folder = library.folder_named(choice.name)
            is_there = folder is not None and await asyncio.to_thread(_is_model, folder)
        if conversation is not self._conversation or self.choice != choice:
            return
        was_gone, self._gone = self._gone == choice, None if is_there else choice
        if is_there and folder != choice.folder:
            assert folder is not None
            self._remember(ChosenModel(choice.name, folder.resolve()))
            self.changed.emit()
        elif was_gone == is_there:
            self.changed.emit()


def _is_model(folder: Path) -> bool:
    return os.path.isfile(folder / "config.json")
