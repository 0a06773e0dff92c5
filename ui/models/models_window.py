"""The window of models: in memory, on this computer, and on the hub. Main thread."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import QCheckBox, QFrame, QPushButton, QTabWidget, QWidget

from engine import ModelStatus
from engine.library.local_models import FoundModel
from engine.library.memory_need import Fit
from engine.library.model_info import ModelInfo
from engine.wording import as_sentence, counted, format_size
from ui.kit.buttons import Choice, push_button
from ui.kit.commands import Command
from ui.kit.labels import ElidedLabel, StatusPill, label, show_text, thin_bar
from ui.kit.layouts import column, row
from ui.kit.windows import OwnWindow
from ui.models.find_view import FindView
from ui.models.finder import HubResult, fit_sentence
from ui.models.loading_after import LoadingAfter
from ui.models.local_models import LocalModels
from ui.models.model_library import LibraryModel, ModelLibrary
from ui.models.model_words import (
    RESTART,
    STUCK,
    deletion_question,
    duration,
    fit_text,
    loading_text,
    percent,
)
from ui.models.models import LoadStage, ShownModel
from ui.models.upkeep import Upkeep
from ui.preferences import declaration
from ui.words import Tone


def memory_text(model: ModelStatus, now: float) -> str:
    """Return memory and activity of a loaded model, in one line."""
    info, text = model.info, []
    if info is not None:
        text.append(f"{format_size(info.weights_bytes)} of weights")
        caches = model.memory_bytes - info.weights_bytes
        if caches > 0:
            text.append(f"{format_size(caches)} of caches")
    answers = model.running + model.waiting
    if answers:
        text.append("answering" if answers == 1 else f"{counted(answers, 'answer')} under way")
        return "  ·  ".join(text)
    if model.used_at is not None:
        text.append(f"idle for {duration(max(0.0, now - model.used_at))}")
    if model.unloads_at is not None:
        text.append(f"unloaded in {duration(max(0.0, model.unloads_at - now))}")
    return "  ·  ".join(text)


class _Line(QWidget):
    """One model in memory."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = ElidedLabel(name, "title")
        self.caption = ElidedLabel("", "muted")
        self.is_pinned = False  # as the engine reported it last
        self.pin = QCheckBox("Pin")
        self.pin.setAccessibleName(f"Pin {name}")
        self.pin.setToolTip("Keeps the model in memory")
        self.unload = push_button("Unload", f"Unload {name}")
        row(
            (column(self.name, self.caption, spacing=1), 1),
            self.pin,
            self.unload,
            spacing=10,
            on=self,
        )


class MemoryPanel(QFrame):
    """Lists the models in memory with their sizes. Hidden while there are none."""

    unload_requested = Signal(object)

    def __init__(self, library: ModelLibrary) -> None:
        super().__init__()
        self._library = library
        self.lines: dict[Path, _Line] = {}
        self.total = label("", "muted", 0.95)
        self.bar = thin_bar("Memory that models take")
        self.bar.setRange(0, 100)
        self._models = QWidget()
        self._list = column(spacing=8, on=self._models)
        heading = label("In Memory", "heading")
        column(
            row(heading, (self.total, 1), spacing=10),
            self.bar,
            self._models,
            spacing=8,
            margins=(20, 0, 20, 12),
            on=self,
        )
        self._look = QTimer(self, interval=2_000)
        self._look.timeout.connect(self.refresh)
        library.models.changed.connect(self.refresh)
        library.changed.connect(self.refresh)
        self.refresh()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._look.start()
        self.refresh()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._look.stop()

    def refresh(self) -> None:
        models = {model.folder: model for model in self._library.models.in_memory}
        for folder in self.lines.keys() - models.keys():
            line = self.lines.pop(folder)
            line.hide()
            line.deleteLater()
        now = time.time()
        for folder, model in models.items():
            line = self.lines.get(folder) or self._new_line(model)
            line.caption.setText(memory_text(model, now))
            # A status from before a click repeats the old state, and must not undo the click.
            if model.is_pinned != line.is_pinned:
                line.is_pinned = model.is_pinned
                line.pin.setChecked(model.is_pinned)
        taken = sum(model.memory_bytes for model in models.values())
        limit = self._library.memory.usable
        available = f" of {format_size(limit)} that models may take" if limit else ""
        self.total.setText(f"{format_size(taken)}{available}")
        self.bar.setValue(percent(taken, limit))
        self.setVisible(bool(models))

    def _new_line(self, model: ModelStatus) -> _Line:
        line = self.lines[model.folder] = _Line(model.id)
        line.pin.clicked.connect(lambda is_on: self._library.pin(model.folder, is_on))
        line.unload.clicked.connect(partial(self.unload_requested.emit, model.folder))
        self._list.addWidget(line)
        return line


class QuestionBar(QFrame):
    """Asks a question or shows a message; hidden otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("question_bar")
        self.caption = label("", "", 1.0, is_wrapped=True)
        self._row = row((self.caption, 1), spacing=8, margins=(14, 9, 10, 9), on=self)
        self.buttons: list[QPushButton] = []
        self.hide()

    def ask(self, question: str, *answers: Command, prefers_cancel: bool = False) -> None:
        self._show(question, *answers, Command("Cancel", _nothing))
        self.buttons[-1 if prefers_cancel else 0].setFocus()

    def offer(self, text: str, answer: Command) -> None:
        """Show a message with one action; leaves the focus where it is."""
        self._show(text, answer, Command("Close", _nothing))

    def show_message(self, text: str, *, takes_focus: bool = True) -> None:
        self._show(text, Command("OK", _nothing))
        if takes_focus:
            self.buttons[0].setFocus()

    def _show(self, text: str, *answers: Command) -> None:
        for button in self.buttons:
            button.hide()
            button.deleteLater()
        self.buttons = []
        self.caption.setText(text)
        for answer in answers:
            button = QPushButton(answer.label)
            button.clicked.connect(self.hide)
            button.clicked.connect(lambda _=False, answer=answer: answer.run())
            self._row.addWidget(button)
            self.buttons.append(button)
        self.show()


def _nothing() -> None:
    pass


class LoadedModel(QWidget):
    """The top of the models window: the model that answers where none is chosen."""

    def __init__(self, library: ModelLibrary) -> None:
        super().__init__()
        self._library = library
        self.pill = StatusPill("Model")
        self.name = ElidedLabel("", "title")
        self.caption = label("", "muted", 0.95, is_wrapped=True)
        self.problem = label("", "fault", 0.95, is_wrapped=True)
        self.bar = thin_bar("Loading of the model")
        self.cancel = push_button("Cancel", "Cancel loading")
        self.again = QPushButton("Retry")
        preferences = library.preferences
        idle = declaration("models.rests_after_min")
        minutes = preferences.now.models.rests_after_min
        offered = {minutes: f"Unload After {minutes} min"} | dict(idle.choices)
        choices = [(str(after), offered[after]) for after in sorted(offered)]
        self.idle_unload = Choice(idle.label, choices)
        self.idle_unload.choose(str(minutes))
        self.idle_unload.setToolTip("The next request loads it again")
        self._lay_out()
        self.cancel.clicked.connect(library.models.cancel_load)
        self.again.clicked.connect(lambda: library.models.load_again())
        self.idle_unload.currentIndexChanged.connect(
            lambda row: preferences.change_value(
                "models.rests_after_min", int(self.idle_unload.itemData(row))
            )
        )
        library.models.changed.connect(self._refresh)
        self._refresh()

    def _lay_out(self) -> None:
        column(
            row(self.pill, (self.name, 1), self.idle_unload, self.cancel, self.again, spacing=10),
            self.caption,
            self.problem,
            self.bar,
            spacing=7,
            margins=(20, 12, 20, 12),
            on=self,
        )

    def _refresh(self) -> None:
        models = self._library.models
        model, failure = models.status(), models.failure
        stage, progress = model.stage, model.progress
        states: dict[LoadStage, tuple[str, str, Tone]] = {
            "none": ("No model", "mark", "quiet"),
            "loading": ("Loading", "spinner", "busy"),
            "ready": ("Ready", "check", "done"),
            "failed": (STUCK if model.is_stuck else "Failed", "fault", "fault"),
        }
        unloaded: tuple[str, str, Tone] = "Unloaded", "clock", "quiet"
        self.pill.show_state(*(unloaded if model.is_idle else states[stage]))
        self.name.setText(model.name or "Choose one below")
        show_text(self.caption, self._status_text(model))
        self.problem.setText(f"{failure} {as_sentence(model.message)}" if failure else "")
        self.problem.setVisible(bool(failure))
        self.bar.setVisible(stage == "loading")
        if stage == "loading" and progress is not None and progress.phase == "weights":
            self.bar.setRange(0, 100)
            self.bar.setValue(percent(progress.done_bytes, progress.total_bytes))
        else:
            self.bar.setRange(0, 0)
        self.cancel.setVisible(stage == "loading")
        self.again.setText(RESTART if model.is_stuck else "Retry")
        self.again.setVisible(stage == "failed" and model.folder is not None)

    def _status_text(self, model: ShownModel) -> str:
        models, info = self._library.models, model.info
        if model.is_loading:
            return loading_text(model.progress, model.loading_s, models.answers_under_way())
        if info is None:
            return as_sentence(model.message)
        # After a cancelled load the previous model is in place; a failed load has a line.
        was_cancelled = model.message and not models.failure
        before = f"{as_sentence(model.message)} " if was_cancelled else ""
        if model.is_idle:
            if before:
                return f"{before}The next request loads {model.name} again."
            return "Unloaded to free its memory. The next request loads it again."
        drafted = "" if info.draft is None else f"  ·  draft model: {info.draft.id}"
        drafted += "" if info.user_template is None else "  ·  your chat template"
        return (
            f"{before}{info.architecture}  ·  {format_size(info.size_bytes)}  ·  "
            f"{counted(info.context_length, 'token')} of context{drafted}{_draft_head_text(info)}"
        )


def _draft_head_text(info: ModelInfo) -> str:
    problem = info.own_head_problem
    if problem is None:
        return ""
    return f"  ·  own draft head: yes{f', not used: {problem}' if problem else ''}"


class ModelsWindow(OwnWindow):
    """Everything about models."""

    chat_requested = Signal()
    template_requested = Signal(object)  # LibraryModel

    def __init__(self, library: ModelLibrary, parent: QWidget | None = None) -> None:
        super().__init__("Models", (980, 800), parent)
        self._library = library
        self.loaded = LoadedModel(library)
        self.memory = MemoryPanel(library)
        self.question = QuestionBar()
        self._upkeep = Upkeep(library, self)
        self.local = LocalModels(library, self._upkeep)
        self.finding = FindView(library)
        self._loading_after = LoadingAfter(library, self)
        self._has_searched_since = False
        self.tabs = QTabWidget()
        self.tabs.setAccessibleName("Lists of models")
        self._lay_out()
        self._connect_signals()
        self.local.find_button.setFocus()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not event.spontaneous():
            self._library.refresh()

    def show_finding(self) -> None:
        self.tabs.setCurrentWidget(self.finding)
        self.finding.focus_search()

    async def finish(self) -> None:
        await self.finding.finish()
        await self._loading_after.finish()
        await self._upkeep.finish()

    # -- building --------------------------------------------------------------------------

    def _lay_out(self) -> None:
        self.tabs.setDocumentMode(True)
        top = QFrame()
        top.setObjectName("chat_header")
        column(self.loaded, self.memory, spacing=0, on=top)
        column(
            top,
            column(self.question, margins=(20, 6, 20, 6)),
            (self.tabs, 1),
            spacing=0,
            on=self,
        )
        # Filled in their place: what moves is styled again with all that it holds.
        self.tabs.addTab(self.local, "On This Computer")
        self.tabs.addTab(self.finding, "Find Models")

    def _connect_signals(self) -> None:
        self.memory.unload_requested.connect(self._unload_at)
        details = self.finding.details
        for loads in (self.local.load_requested, details.load_requested):
            loads.connect(self._load)
        self.local.unload_requested.connect(lambda model: self._unload_at(model.found.folder))
        self.local.draft_requested.connect(self._choose_draft)
        self.local.template_requested.connect(self.template_requested)
        self.local.find_requested.connect(self.show_finding)
        self.local.deletion_requested.connect(self._ask_deletion)
        self.local.removal_requested.connect(self._remove)
        self._upkeep.deletion_ready.connect(self._confirm_deletion)
        self._library.changed.connect(self._look_for_updates)
        self._upkeep.finished.connect(
            lambda text: self.question.show_message(text, takes_focus=False)
        )
        details.download_requested.connect(self._download)
        self.finding.field.textEdited.connect(self._note_search)
        self._loading_after.ready.connect(self._greet)
        self._loading_after.not_loaded.connect(self._show_not_loaded)
        QShortcut(QKeySequence(Qt.Key.Key_Escape), self, self._on_escape)
        QShortcut(QKeySequence.StandardKey.Find, self, self.show_finding)

    def _look_for_updates(self) -> None:
        if self.isVisible() and not self._library.is_looking:
            self._upkeep.check_sometimes()

    # -- downloading -----------------------------------------------------------------------

    def _download(self, result: HubResult) -> None:
        memory = self.finding.finder.memory
        if result.model.fit(memory) is Fit.TOO_LARGE:
            self.question.ask(
                f"{result.name} may not fit. {fit_sentence(result, memory)}",
                Command("Download Anyway", lambda: self._start(result)),
            )
        else:
            self._start(result)

    def _start(self, result: HubResult) -> None:
        self._has_searched_since = False
        self._loading_after.want(result.name)
        if problem := self._library.downloads.start(result.name):
            self.question.show_message(as_sentence(problem))

    def _note_search(self) -> None:
        self._has_searched_since = True

    def _greet(self, name: str) -> None:
        """Show an empty chat; ask first if the user is looking for another model meanwhile."""
        if not self.isVisible():
            return  # the main window shows the model's name; the user who works there is left alone
        if self._has_searched_since:
            self.question.offer(
                f"{name} is ready.", Command("Start a Chat", self.chat_requested.emit)
            )
        else:
            self.chat_requested.emit()

    def _show_not_loaded(self, name: str, reason: str) -> None:
        self.question.show_message(
            f"{name} was downloaded but couldn’t be loaded. {reason}", takes_focus=False
        )

    # -- deleting --------------------------------------------------------------------------

    def _ask_deletion(self, model: FoundModel) -> None:
        if obstacle := self._upkeep.obstacle(model):
            self.question.show_message(obstacle)
        else:
            self._upkeep.ask_deletion(model)

    def _confirm_deletion(self, model: FoundModel, folder: Path, freed_bytes: int) -> None:
        self.question.ask(
            deletion_question(model.name, freed_bytes),
            Command("Delete", lambda: self._upkeep.delete(model, folder, freed_bytes)),
            prefers_cancel=True,
        )

    # -- removing a folder -----------------------------------------------------------------

    def _remove(self, folder: Path) -> None:
        position = self._library.folders.index(folder)
        self._library.remove_folder(folder)
        undo = Command("Undo", partial(self._library.add_folder, folder, position))
        self.question.offer(f"{folder} was removed from the list. Nothing was deleted.", undo)

    # -- loading ---------------------------------------------------------------------------

    def _load(self, model: LibraryModel) -> None:
        if model.fit is Fit.TOO_LARGE:
            self.question.ask(
                f"{model.found.name} may not fit. "
                + fit_text(model.need, model.fit, self._library.memory),
                Command("Load Anyway", lambda: self._change(model)),
            )
        else:
            self._change(model)

    def _change(self, model: LibraryModel) -> None:
        folder, state = model.found.folder, self._library.models
        # Beside others that are answering, a model is loaded at once.
        count = 0 if state.may_be_several else state.answers_under_way()
        self._wait_or_end(partial(state.load, folder), "Load", count)

    def _choose_draft(self, model: LibraryModel, draft: Path | None) -> None:
        """Use another draft model; if the model is loaded, load it again with the draft model."""
        if draft == model.draft:
            return
        self._library.choose_draft(model.found.folder, draft)
        if not self._library.is_loaded(model.found):
            return
        # Each chat keeps its model, and the default model stays.
        folder, state = model.found.folder, self._library.models
        load = partial(state.begin_to_load, folder, keeps_default=True)
        self._wait_or_end(load, "Load", state.answers_under_way(folder))

    def _unload_at(self, folder: Path) -> None:
        state = self._library.models
        self._wait_or_end(partial(state.unload, folder), "Unload", state.answers_under_way(folder))

    def _wait_or_end(self, act: Callable[..., None], what: str, answers: int) -> None:
        """Do something at once, or ask whether to wait for the running answers."""
        if not answers:
            act()
            return
        subject = "An answer is" if answers == 1 else f"{counted(answers, 'answer')} are"
        self.question.ask(
            f"{subject} being written.",
            Command(f"{what} When Finished", act),
            Command(f"Stop and {what}", partial(act, cancels_running=True)),
        )

    def _on_escape(self) -> None:
        """Hide a question, empty the search field, or close the window."""
        if self.question.isVisible():
            self.question.hide()
        elif not self.finding.clear_search():
            self.close()
