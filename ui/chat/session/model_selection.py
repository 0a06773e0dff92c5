"""The model selected for the open conversation, which remembers it. Main thread."""

import asyncio
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from engine.library.adapters import is_model
from engine.library.local_models import FoundModel
from engine.library.memory_need import Fit
from ui.kit.tasks import finish_tasks, start_task
from ui.models.model_library import ModelLibrary
from ui.models.models import ShownModel
from ui.records.conversations import ChosenModel, Conversation


class ModelSelection(QObject):
    """Selects the open conversation's model, and follows its state."""

    changed = Signal()
    chosen = Signal(object)  # Conversation

    def __init__(self, library: ModelLibrary, parent: QObject) -> None:
        super().__init__(parent)
        self.models = library.models
        self._library = library
        self._conversation = Conversation()
        self._missing: ChosenModel | None = None
        self.last_used: ChosenModel | None = None  # new conversations take it
        # The conversation whose model is being changed, and its model before.
        self._before: tuple[Conversation, ChosenModel | None] | None = None
        self._is_checking = self._has_ended = False
        # The folder may be renamed or unplugged at any time.
        self._checks = QTimer(self, interval=3000)
        self._checks.timeout.connect(self._check)
        self._checks.start()
        self.models.chosen.connect(self._take_choice)
        self.models.changed.connect(self._refresh)
        library.changed.connect(self.refresh)

    @property
    def choice(self) -> ChosenModel | None:
        return self._conversation.model

    @property
    def state(self) -> ShownModel:
        """The state of the conversation's model, or of the default one."""
        choice = self.choice
        if choice is None:
            return self.models.status()
        state = self._state_of(choice)
        if choice != self._missing:
            return state
        if state.stage == "unloaded" or state.is_idle:
            return replace(state, stage="missing", is_idle=False)
        return replace(state, has_lost_folder=state.stage == "ready")

    @property
    def others(self) -> list[FoundModel]:
        """The models on this computer that could answer instead, the last used first."""
        folder = self.state.folder
        others = [
            model
            for model in self._library.every()
            if model.found.can_be_loaded and model.fit is not Fit.TOO_LARGE
            if folder is None or model.folder != folder.resolve()
        ]
        return [model.found for model in sorted(others, key=lambda each: -each.used_at)]

    def follow(self, conversation: Conversation) -> None:
        """Follow another conversation's model from now on; ``refresh`` reports it."""
        self._conversation = conversation

    def ensure(self) -> bool:
        """Let the conversation remember the model that answers it; return whether there is one.

        A model that failed counts: a new request loads it again.
        """
        state = self.state
        if not (state.can_answer or (state.stage == "failed" and state.name)):
            return False
        if self.choice is None:
            info = self.models.status().info
            folder = self.models.path if info is None else info.path
            if folder is not None:
                name = self.models.name if info is None else info.id
                self._remember(ChosenModel(name, folder.resolve()))
        self.last_used = self.choice
        return True

    def choose(self, folder: Path) -> None:
        """Let the model of a folder answer the conversation, and load it at once."""
        if self.models.stage != "loading" and self.models.status(folder.resolve()).info is not None:
            self.remember(self.choice_of(folder))
        else:
            self.models.load(folder)

    def choice_of(self, folder: Path) -> ChosenModel:
        """Return the model of a folder under the name by which the engine offers it."""
        return ChosenModel(self.models.name_of(folder), folder.resolve())

    def load_again(self) -> None:
        """Load the conversation's model again after it failed or got stuck."""
        self.models.load_again(None if self.choice is None else self.choice.folder)

    def remember(self, choice: ChosenModel) -> None:
        """Let the conversation use a model; the next message loads it if necessary."""
        self._remember(choice)
        self.last_used = choice
        self.refresh()

    def refresh(self) -> None:
        """Report the present state, and check again whether the model is on this computer."""
        self._check()
        self._refresh()

    async def finish(self) -> None:
        """Wait for the running check; from then on none begins."""
        self._checks.stop()
        self._has_ended = True
        await finish_tasks(self)

    def _state_of(self, choice: ChosenModel) -> ShownModel:
        if choice.folder is None:  # only its name is known, until it is found on this computer
            return ShownModel(choice.name, None, "unloaded")
        state = self.models.status(choice.folder)
        return replace(state, name=choice.name if state.info is None else state.info.id)

    def _remember(self, choice: ChosenModel | None) -> None:
        if self._conversation.model != choice:
            self._conversation.model = choice
            self.chosen.emit(self._conversation)

    def _take_choice(self, folder: Path) -> None:
        """Remember a chosen model; if loading it fails, the earlier one is restored."""
        if self._before is None or self._before[0] is not self._conversation:
            self._before = self._conversation, self.choice
        self._remember(self.choice_of(folder))
        self.last_used = self.choice

    def _refresh(self) -> None:
        if self.models.stage != "loading":
            self._restore_after_failure()
        choice, info = self.choice or self.last_used, self.models.status().info
        if choice is None and info is not None:
            # It stays this one, whatever is loaded for others; saved with the first message.
            choice = ChosenModel(info.id, info.path.resolve())
        if choice is not None and choice.folder is not None:
            # The name of a link or of its folder, whichever the engine offers the model by.
            known = self.models.status(choice.folder).info
            self._conversation.model = choice if known is None else replace(choice, name=known.id)
        self.changed.emit()

    def _restore_after_failure(self) -> None:
        before, self._before = self._before, None
        if before is None:
            return
        conversation, earlier = before
        choice = conversation.model
        if choice is None or self.models.is_at(choice.folder):
            return
        if self.models.status(choice.folder).info is None:
            conversation.model = self.last_used = earlier
            self.chosen.emit(conversation)

    def _check(self) -> None:
        if self.choice is not None and not self._is_checking and not self._has_ended:
            self._is_checking = True
            work = self._find(self._conversation, self.choice)
            start_task(self, work, "look for a model")

    async def _find(self, conversation: Conversation, choice: ChosenModel) -> None:
        """Look for the model's folder on another thread, where it was and in the library."""
        folder = choice.folder
        is_there = folder is not None and await asyncio.to_thread(is_model, folder)
        state, library = self._state_of(choice), self._library
        answers = state.stage == "ready" and not state.is_idle
        is_known = is_there or answers or library.has_looked
        if not is_known and not library.is_looking:
            library.refresh()  # its end leads here again
        if library.has_looked and not (is_there or answers):
            # The model may have been moved, and an imported conversation has only its name.
            folder = library.folder_named(choice.name)
            is_there = folder is not None and await asyncio.to_thread(is_model, folder)
        self._is_checking = False
        if conversation is not self._conversation or self.choice != choice:
            self._check()
            return
        if not is_known:
            return
        was_missing = self._missing == choice
        self._missing = None if is_there else choice
        if self.last_used == self._missing:
            self.last_used = None
        if is_there and folder is not None and folder != choice.folder:
            self._remember(ChosenModel(choice.name, folder.resolve()))
            self.changed.emit()
        elif was_missing == is_there:
            self.changed.emit()
