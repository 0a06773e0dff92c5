"""The window of models: the loaded one above, those that are here, and those to find. Main thread.

The window is created when it is first opened; it scans the disks each time it is shown.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import QTabWidget, QVBoxLayout, QWidget

from engine import as_sentence, counted
from engine.library.found import FoundModel
from engine.library.memory import Fit
from engine.library.removing import Removal
from ui.kit.controls.own_window import OwnWindow
from ui.kit.look.theme import Theme
from ui.models.finding.find_view import FindView
from ui.models.finding.loading_after import LoadingAfter
from ui.models.finding.offers import Offer, fit_sentence
from ui.models.loaded_model import LoadedModel
from ui.models.local_models import LocalModels
from ui.models.model_library import LibraryModel, ModelLibrary
from ui.models.model_words import deletion_question, fit_words, removal_question
from ui.models.question_bar import QuestionBar
from ui.models.upkeep import Upkeep


class ModelsWindow(OwnWindow):
    """Everything about models.

    Signals:
        chat_wanted: A downloaded model is ready; the main window should show an empty chat.

    Args:
        theme: The look.
        library: The models on this computer.
        parent: The window that it belongs to.

    Attributes:
        loaded: The model that answers.
        question: The bar above the views that asks or tells something.
        local: The models on this computer.
        finding: The models on the hub.
        tabs: Both views.
    """

    chat_wanted = Signal()

    def __init__(self, theme: Theme, library: ModelLibrary, parent: QWidget | None = None) -> None:
        super().__init__(theme, "Models", (980, 800), parent)
        self._library = library
        self.loaded = LoadedModel(theme, library)
        self.question = QuestionBar()
        self._upkeep = Upkeep(library, self)
        self.local = LocalModels(theme, library, self._upkeep)
        self.finding = FindView(theme, library)
        self._loading_after = LoadingAfter(library, self)
        self._has_searched_since = False
        self.tabs = QTabWidget()
        self._lay_out()
        self._connect_signals()
        self.local.find_button.setFocus()

    def showEvent(self, event: QShowEvent) -> None:
        """Scan the disks again: another program may have downloaded a model."""
        super().showEvent(event)
        if not event.spontaneous():
            self._library.refresh()

    def show_finding(self) -> None:
        """Show the view that finds models, ready to type in."""
        self.tabs.setCurrentWidget(self.finding)
        self.finding.focus_search()

    async def finish(self) -> None:
        """Cancel the requests to the hub, and wait for their end."""
        await self.finding.finish()
        await self._loading_after.finish()
        await self._upkeep.finish()

    # -- building --------------------------------------------------------------------------

    def _lay_out(self) -> None:
        self.tabs.setDocumentMode(True)
        self.tabs.addTab(self.local, "On This Computer")
        self.tabs.addTab(self.finding, "Find Models")
        asked = QVBoxLayout()
        asked.setContentsMargins(20, 6, 20, 0)
        asked.addWidget(self.question)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.loaded)
        layout.addLayout(asked)
        layout.addWidget(self.tabs, 1)

    def _connect_signals(self) -> None:
        self.loaded.unload.clicked.connect(self._unload)
        details = self.finding.details
        for loads in (self.local.load_wanted, details.load_wanted):
            loads.connect(self._load)
        self.local.unload_wanted.connect(self._unload_at)
        self.local.draft_wanted.connect(self._choose_draft)
        self.local.find_wanted.connect(self.show_finding)
        self.local.deletion_wanted.connect(self._ask_deletion)
        self.local.removal_wanted.connect(self._ask_removal)
        self._upkeep.deletion_ready.connect(self._confirm_deletion)
        self._upkeep.told.connect(lambda words: self.question.tell(words, takes_focus=False))
        details.download_wanted.connect(self._download)
        self.finding.field.textEdited.connect(self._note_search)
        self._loading_after.ready.connect(self._greet)
        self._loading_after.not_loaded.connect(self._say_not_loaded)
        QShortcut(QKeySequence(Qt.Key.Key_Escape), self, self._leave)
        QShortcut(QKeySequence.StandardKey.Find, self, self.show_finding)

    # -- downloading -----------------------------------------------------------------------

    def _download(self, offer: Offer) -> None:
        memory = self.finding.finder.memory
        if offer.model.fit(memory) is Fit.TOO_LARGE:
            self.question.ask(
                f"{offer.name} may not fit. {fit_sentence(offer, memory)}",
                [("Download Anyway", lambda: self._start(offer))],
            )
        else:
            self._start(offer)

    def _start(self, offer: Offer) -> None:
        self._has_searched_since = False
        self._loading_after.want(offer.name)
        if problem := self._library.downloads.start(offer.name):
            self.question.tell(as_sentence(problem))

    def _note_search(self) -> None:
        self._has_searched_since = True

    def _greet(self, name: str) -> None:
        """Show an empty chat; ask first if the person is looking for another model meanwhile."""
        if not self.isVisible():
            return  # the main window shows the model's name; a person who works there is left alone
        if self._has_searched_since:
            self.question.offer(f"{name} is ready.", ("Start a Chat", self.chat_wanted.emit))
        else:
            self.chat_wanted.emit()

    def _say_not_loaded(self, name: str, reason: str) -> None:
        self.question.tell(f"{name} is here, but it was not loaded. {reason}", takes_focus=False)

    # -- deleting --------------------------------------------------------------------------

    def _ask_deletion(self, found: FoundModel) -> None:
        if obstacle := self._upkeep.obstacle(found):
            self.question.tell(obstacle)
        else:
            self._upkeep.ask_deletion(found)

    def _confirm_deletion(self, found: FoundModel, removal: Removal) -> None:
        self.question.ask(
            deletion_question(found.name, removal.freed_bytes),
            [("Delete", lambda: self._upkeep.delete(found, removal))],
            prefers_cancel=True,
        )

    # -- removing a folder -----------------------------------------------------------------

    def _ask_removal(self, folder: Path) -> None:
        """Remove an added folder from the list; ask first if more than one model leaves with it."""
        models = self._library.only_in(folder)
        if len(models) < 2:
            self._remove(folder)
        else:
            remove = ("Remove", partial(self._remove, folder))
            self.question.ask(removal_question(folder, models), [remove], prefers_cancel=True)

    def _remove(self, folder: Path) -> None:
        place = self._library.folders.index(folder)
        self._library.remove_folder(folder)
        undo = ("Undo", partial(self._library.add_folder, folder, place))
        self.question.offer(f"{folder} was removed from the list. Nothing was deleted.", undo)

    # -- loading ---------------------------------------------------------------------------

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
        """Use another draft model; if the model is loaded, load it again with the draft model."""
        if draft == model.draft:
            return
        self._library.choose_draft(model.found.folder, draft)
        if not self._library.is_loaded(model.found):
            return
        # Each chat keeps its model, and the default model stays.
        folder, state = model.found.folder, self._library.model
        load = partial(state.begin_to_load, folder, keeps_default=True)
        self._wait_or_end(
            load, partial(load, cancels_running=True), "Load", state.in_memory.answers_at(folder)
        )

    def _unload(self) -> None:
        state = self._library.model
        self._wait_or_end(state.unload, lambda: state.unload(cancels_running=True), "Unload")

    def _unload_at(self, model: LibraryModel) -> None:
        """Unload a model of the list, even if another one answers in this window."""
        folder, state = model.found.folder, self._library.model
        self._wait_or_end(
            lambda: state.unload_at(folder),
            lambda: state.unload_at(folder, cancels_running=True),
            "Unload",
            state.in_memory.answers_at(folder),
        )

    def _wait_or_end(
        self,
        wait: Callable[[], None],
        end: Callable[[], None],
        what: str,
        answers: int | None = None,
    ) -> None:
        """Do something at once, or ask whether to wait for the running answers."""
        state = self._library.model
        count = state.in_memory.answers_under_way if answers is None else answers
        if what == "Load" and answers is None and state.in_memory.may_be_several:
            count = 0  # the model is loaded beside those that are answering
        if not count:
            wait()
            return
        says = "An answer is" if count == 1 else f"{counted(count, 'answer')} are"
        self.question.ask(
            f"{says} being written.",
            [(f"{what} When Finished", wait), (f"Stop and {what}", end)],
        )

    def _leave(self) -> None:
        """Hide a question, empty the search field, or close the window."""
        if self.question.isVisible():
            self.question.hide()
        elif not self.finding.clear_search():
            self.close()
