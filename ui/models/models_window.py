"""The window of models: those of this computer and of the hub in one list. Main thread."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QPoint, QSignalBlocker, Qt, QTimer, QUrl, Signal
from PySide6.QtGui import (
    QDesktopServices,
    QHideEvent,
    QKeySequence,
    QResizeEvent,
    QShortcut,
    QShowEvent,
)
from PySide6.QtWidgets import QCheckBox, QFrame, QPushButton, QSplitter, QWidget

from engine.library.hub import Hub
from engine.library.local_models import FoundModel
from engine.library.memory_need import Fit
from engine.library.model_files import model_name
from engine.wording import as_sentence, counted
from ui.kit.buttons import Choice, EmptyState, push_button
from ui.kit.commands import Command, Submenu, context_menu, fill_menu
from ui.kit.commands import Entry as MenuEntry
from ui.kit.dialogs import choose_folder, show_in_files, show_in_files_label
from ui.kit.fields import ListSearchField
from ui.kit.labels import label, show_text, thin_bar
from ui.kit.layouts import STRETCH, column, row
from ui.kit.menus import copy_text, escape_mnemonics
from ui.kit.theme import restyle
from ui.kit.windows import OwnWindow
from ui.models.finder import ORDERS, Finder, SortAndFilter
from ui.models.loading_after import LoadingAfter
from ui.models.memory_bar import MemoryBar
from ui.models.model_details import GATED, ModelDetails
from ui.models.model_entries import Entry, ModelEntries, is_deletable
from ui.models.model_library import LibraryModel, ModelLibrary
from ui.models.model_list import ModelList
from ui.models.model_words import deletion_question
from ui.models.upkeep import Upkeep
from ui.words import THIS_COMPUTER, display_name


class QuestionBar(QFrame):
    """Asks a question or shows a message; hidden otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("question_bar")
        self.caption = label("", "", 1.0, is_wrapped=True)
        self._row = row((self.caption, 1), spacing=8, margins=(12, 8, 8, 8), on=self)
        self.buttons: list[QPushButton] = []
        self.hide()

    def ask(
        self, text: str, *answers: Command, close: str = "Cancel", focus: int | None = 0
    ) -> None:
        """Show a text with its answers; ``focus`` is the button that gets the focus, if any."""
        for button in self.buttons:
            button.hide()
            button.deleteLater()
        self.caption.setText(text)
        restyle(self, "is_question", focus is not None)
        self.buttons = []
        for answer in (*answers, Command(close, self.hide)):
            button = QPushButton(answer.label)
            button.clicked.connect(self.hide)
            button.clicked.connect(lambda _=False, answer=answer: answer.run())
            self._row.addWidget(button)
            self.buttons.append(button)
        self.show()
        if focus is not None:
            self.buttons[focus].setFocus()

    def show_message(self, text: str, *answers: Command) -> None:
        """Show a text that does not need an answer; leaves the focus where it is."""
        self.ask(text, *answers, close="Close" if answers else "OK", focus=None)


class ModelsWindow(OwnWindow):
    """Everything about models."""

    chat_requested = Signal()
    model_ready = Signal()  # a downloaded one, which is loaded now
    template_requested = Signal(object)  # LibraryModel

    def __init__(self, library: ModelLibrary, parent: QWidget | None = None) -> None:
        super().__init__("Models", (1080, 720), parent)
        self._library = library
        self.finder = Finder(library, self)
        self.upkeep = Upkeep(library, self)
        self._loading_after = LoadingAfter(library, self)
        self.field = ListSearchField("Search for models", "Clear Search")
        self.field.setMaxLength(200)
        self.field.setPlaceholderText("Search your models and Hugging Face, or paste owner/name")
        self.check = QPushButton("Check for Updates")
        self.check.setToolTip("Checks Hugging Face for newer versions")
        self.add = QPushButton("Add Folder…")
        self.add.setToolTip(
            "Models of Hugging Face’s tools and LM Studio are found where they are; nothing is "
            "copied"
        )
        self.outcome = label("", "muted", 0.95, is_wrapped=True)
        self.order = Choice("Order of the models", list(ORDERS.items()))
        self.bits = Choice("Bits of a weight", [("", "Any Quantization")])
        self.fits_only = QCheckBox("Only models that fit")
        self.bar = thin_bar("Searching")
        self.bar.setRange(0, 0)
        self.bar.setFixedWidth(96)
        self.stop = push_button("Cancel", "Cancel the search")
        self.problem = label("", "", is_wrapped=True)
        self.page = QPushButton("Open Model Page")
        self.again = QPushButton("Try Again")
        self.question = QuestionBar()
        self.clear = QPushButton()
        self.empty = EmptyState(self.clear)
        self.entries = ModelEntries(library, self.finder, self.upkeep, self)
        self.list = ModelList(self.entries)
        self.more = push_button("Show More", "Show more models")
        self.details = ModelDetails(library, self.finder, self.upkeep)
        self.memory = MemoryBar(library)
        self._typing = QTimer(self, singleShot=True, interval=200)
        self._walking = QTimer(self, singleShot=True, interval=200)
        self._look = QTimer(self, interval=2_000)  # the times of idle models go on
        self._lay_out()
        self._connect_signals()
        self._refresh()
        self.field.setFocus()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if event.spontaneous():
            return
        self._look.start()
        self._library.refresh()
        if self.finder.stage == "idle":
            self.finder.search("")
        self._refresh()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._look.stop()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the chosen model below the list if both would be too narrow side by side."""
        super().resizeEvent(event)
        is_wide = self.width() >= 600
        target = Qt.Orientation.Horizontal if is_wide else Qt.Orientation.Vertical
        if self._splitter.orientation() != target:
            self._splitter.setOrientation(target)
            self._splitter.setSizes([1150, 850])

    def show_finding(self, text: str = "") -> None:
        """Let the user type a search, or begin one."""
        if text:
            self.field.setText(text)
        self.field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.field.selectAll()

    def show_model(self, name: str) -> None:
        """Choose the row of a model."""
        self.field.clear()
        self.list.pick(Entry(name))
        self.list.setFocus(Qt.FocusReason.ShortcutFocusReason)

    async def finish(self) -> None:
        self._typing.stop()
        self._walking.stop()
        await self.finder.finish()
        await self._loading_after.finish()
        await self.upkeep.finish()

    # -- building --------------------------------------------------------------------------

    def _lay_out(self) -> None:
        self._problem_bar = QFrame()
        self._problem_bar.setObjectName("question_bar")
        answers = (self.page, self.again)
        row((self.problem, 1), *answers, spacing=8, margins=(12, 8, 8, 8), on=self._problem_bar)
        self._narrowing = QWidget()
        for choice in (self.order, self.bits):
            choice.setMinimumWidth(96)  # on a small screen, their words are shortened
        # One line, so that the list does not jump while a search runs.
        narrowing = (self.order, self.bits, self.fits_only, STRETCH, self.bar, self.stop)
        row(*narrowing, spacing=8, on=self._narrowing)
        left = QWidget()
        more = row(16, self.more, 16)
        column((self.list, 1), more, margins=(8, 0, 0, 8), on=left)
        self._splitter = QSplitter()
        self._splitter.setChildrenCollapsible(False)
        self._splitter.addWidget(left)
        self._splitter.addWidget(self.details)
        self._splitter.setSizes([1150, 850])
        rule = QFrame()
        rule.setObjectName("rule")
        rule.setFixedHeight(1)
        column(
            column(
                row((self.field, 1), self.check, self.add, spacing=8),
                self._narrowing,
                self._problem_bar,  # in its place
                spacing=8,
                margins=(16, 16, 16, 4),
            ),
            (self._splitter, 1),
            (self.empty, 1),
            # Below the list, whose rows stay where they are.
            column(
                self.outcome,
                self.question,
                spacing=8,
                margins=(16, 0, 16, 8),
            ),
            rule,
            self.memory,
            spacing=0,
            on=self,
        )
        # Until they are needed: the first size of the window has no room for all of them.
        for part in (self._narrowing, self.outcome, self._problem_bar, self.empty, self.more):
            part.hide()

    def _connect_signals(self) -> None:
        library, finder, upkeep = self._library, self.finder, self.upkeep
        self.field.textChanged.connect(lambda: self._typing.start())
        self.field.textChanged.connect(self.entries.look_for)
        self.field.chosen.connect(self._search_now)
        self.field.step_requested.connect(lambda _: self._enter_list())
        self.field.left.connect(self._on_escape)
        self._typing.timeout.connect(self._search)
        self._walking.timeout.connect(self._look_at)
        self._look.timeout.connect(self._refresh)
        self.list.picked.connect(self._pick)
        for actions in (self.list, self.details):
            actions.action_requested.connect(self._act)
        self.list.menu_requested.connect(self._show_menu)
        self.details.unload_requested.connect(self._unload_at)
        self.details.template_requested.connect(self.template_requested)
        fill_menu(self.details.more.menu(), (), lambda: self.commands(self.details.entry))
        self.again.clicked.connect(finder.try_again)
        self.page.clicked.connect(lambda: QDesktopServices.openUrl(QUrl(Hub().page(finder.query))))
        self.stop.clicked.connect(finder.cancel)
        self.more.clicked.connect(finder.show_more)
        self.clear.clicked.connect(self._clear)
        for choice in (self.order, self.bits):
            choice.currentIndexChanged.connect(self._arrange)
        self.fits_only.toggled.connect(self._arrange)
        self.add.clicked.connect(
            lambda: choose_folder(self, "Add Folder of Models", library.add_folder)
        )
        self.check.clicked.connect(upkeep.check)
        upkeep.deletion_ready.connect(self._confirm_deletion)
        upkeep.finished.connect(self.question.show_message)
        library.changed.connect(self._look_for_updates)
        downloads = library.downloads
        for signal in (library.changed, library.models.changed, upkeep.changed, finder.changed):
            signal.connect(self._refresh)
        for signal in (downloads.changed, downloads.progressed, finder.result_changed):
            signal.connect(self._refresh)
        self._loading_after.ready.connect(self._offer_chat)
        self._loading_after.not_loaded.connect(self._show_not_loaded)
        QShortcut(QKeySequence(Qt.Key.Key_Escape), self, self._on_escape)
        QShortcut(QKeySequence.StandardKey.Find, self, self.show_finding)

    # -- searching -------------------------------------------------------------------------

    def _search_now(self) -> None:
        self._typing.stop()
        self._search()
        self._enter_list()

    def _search(self) -> None:
        text = self.field.text().strip()
        if text != self.finder.query or self.finder.stage == "failed":
            self.finder.search(text)

    def _enter_list(self) -> None:
        if self.entries.rowCount():
            self.list.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _pick(self) -> None:
        before, entry = self.details.entry, self.list.current
        self.details.show_entry(entry)
        keys = [one and (one.key, one.hub is None) for one in (before, entry)]
        if keys[0] != keys[1]:
            self._walking.start()

    def _look_at(self) -> None:
        """Ask the hub about the chosen model, if it is one of the hub."""
        entry = self.list.current
        self.finder.look_at("" if entry is None or entry.hub is None else entry.name)

    def _arrange(self) -> None:
        bits = self.bits.currentData()
        self.finder.arrange(
            SortAndFilter(
                self.order.currentData(), int(bits) if bits else None, self.fits_only.isChecked()
            )
        )

    def _fill_bits(self) -> None:
        chosen = self.finder.arrangement.bits
        every = sorted({*self.finder.bits_found, *([] if chosen is None else [chosen])})
        shown = [self.bits.itemData(position) for position in range(1, self.bits.count())]
        if shown == [str(bits) for bits in every]:
            return
        with QSignalBlocker(self.bits):
            while self.bits.count() > 1:
                self.bits.removeItem(1)
            for bits in every:
                self.bits.addItem(f"{bits}-bit" if bits else "Not Quantized", str(bits))
            self.bits.choose("" if chosen is None else str(chosen))

    # -- showing ---------------------------------------------------------------------------

    def _refresh(self) -> None:
        if not self.isVisible():
            return
        finder, upkeep = self.finder, self.upkeep
        self.check.setVisible(upkeep.can_check)
        self.check.setText("Checking…" if upkeep.is_checking else "Check for Updates")
        show_text(self.outcome, upkeep.outcome)
        self._narrowing.setVisible(bool(finder.query) and finder.stage != "failed")
        self._fill_bits()
        for part in (self.bar, self.stop):
            part.setVisible(finder.stage == "asking")
        is_gated = " is gated" in finder.problem
        self.problem.setText(GATED if is_gated else finder.problem)
        self.page.setVisible(is_gated)
        self._problem_bar.setVisible(bool(finder.problem))
        self.more.setVisible(finder.can_show_more)
        self.entries.refresh()
        text = self._empty_text() if self.entries.row_of(None) < 0 else ""
        self._splitter.setVisible(not text)
        self.empty.setVisible(bool(text))
        is_known = not finder.problem or bool(finder.left_out)
        where = f"Not on {THIS_COMPUTER.title()}"
        self.empty.show_text("No Matching Models" if is_known else where, text)
        self.clear.setText("Clear Filters" if finder.left_out else "Clear Search")

    def _empty_text(self) -> str:
        finder = self.finder
        if finder.stage in ("idle", "asking"):
            return ""
        if finder.left_out:
            return "No results match the filters."
        if finder.problem:
            return f"No model here has “{finder.query}” in its name."
        return (
            f"No MLX model on Hugging Face or {THIS_COMPUTER} has “{finder.query}” in its name. "
            "Try fewer or shorter words."
        )

    def _clear(self) -> None:
        """Clear the filters that leave no result, or else the search."""
        if self.finder.left_out:
            self.fits_only.setChecked(False)
            self.bits.setCurrentIndex(0)
        else:
            self.field.clear()
        self.field.setFocus(Qt.FocusReason.OtherFocusReason)

    def _look_for_updates(self) -> None:
        if self.isVisible() and not self._library.is_looking:
            self.upkeep.check_sometimes()

    # -- acting ----------------------------------------------------------------------------

    def _act(self, entry: Entry) -> None:
        """Run the action of a row's button."""
        library, model = self._library, entry.local
        download = library.downloads.unfinished(entry.name)
        match self.entries.state(entry).action:
            case "get":
                if problem := self.details.problem.text():
                    self.question.ask(problem, close="OK")
                else:
                    self._download(entry)
            case "pause" if download is not None:
                download.cancel()
            case "resume" | "retry_download" | "get_again":
                self.start(entry.name)
            case "show" if model is not None:
                show_in_files(self, model.found.folder)
            case "cancel":
                library.models.cancel_load()
            case "remove" if entry.folder is not None:
                self._remove(entry.folder)
            case "retry" | "restart" if model is not None:
                library.models.load_again(model.found.folder)
            case "load" if model is not None:
                self._load(model)
            case _:
                pass

    def _show_menu(self, entry: Entry, position: QPoint) -> None:
        if commands := self.commands(entry):
            context_menu(self, f"Actions of {entry.title}", commands).popup(position)

    def commands(self, entry: Entry | None) -> list[MenuEntry]:
        """Return the menu of an entry."""
        if entry is not None and entry.folder is not None:
            remove = Command("Remove from List", partial(self._remove, entry.folder))
            return [self._show_command(entry.folder), None, remove]
        if entry is None or entry.local is None:
            return []
        model, found = entry.local, entry.local.found
        commands: list[MenuEntry] = []
        if self.entries.state(entry).action == "loaded":
            loaded = {m.folder: m for m in self._library.models.in_memory}
            status = loaded.get(model.folder)
            commands.append(Command("Unload", partial(self._unload_at, found.folder)))
            if status is not None:
                pin = partial(self._library.pin, status.folder, not status.is_pinned)
                commands.append(Command("Keep in Memory", pin, checked=status.is_pinned))
            commands.append(None)
        elif found.can_be_loaded:
            commands += [Command("Load", partial(self._load, model)), None]
        bases = [
            Command(
                escape_mnemonics(display_name(base.name)),
                partial(self._choose_base, model, base.folder),
                checked=base.folder == found.base,
            )
            for base in self._library.bases_for(model)
        ]
        if bases:
            commands.append(Submenu("Base", bases))
        if drafts := self._draft_commands(model):
            commands.append(Submenu("Draft Model", drafts))
        if found.can_be_loaded:
            edit = partial(self.template_requested.emit, model)
            commands.append(Command("Chat Template…", edit))
        commands.append(self._show_command(found.folder))
        commands.append(Command("Copy Path", partial(copy_text, str(found.folder))))
        if is_deletable(found):
            commands += [None, Command("Delete…", partial(self._ask_deletion, found))]
        return commands

    def _show_command(self, folder: Path) -> Command:
        return Command(show_in_files_label(), partial(show_in_files, self, folder))

    def _draft_commands(self, model: LibraryModel) -> list[MenuEntry]:
        """Offer the possible draft models, and the present one even if its folder is gone."""
        present = model.draft
        offered = {draft.folder.resolve(): draft.name for draft in self._library.drafts_for(model)}
        if present is not None:
            offered.setdefault(present, model_name(present))
        return [
            Command(
                escape_mnemonics(display_name(name)),
                partial(self._choose_draft, model, folder),
                checked=folder == present,
                tool_tip="" if folder is None else str(folder),
            )
            for folder, name in ([(None, "None"), *offered.items()] if offered else ())
        ]

    # -- downloading -----------------------------------------------------------------------

    def _download(self, entry: Entry) -> None:
        result, memory = entry.hub, self.finder.memory
        if result is not None and result.model.fit(memory) is Fit.TOO_LARGE:
            self.question.ask(
                f"{entry.title} may fail to load, or slow other apps down. Get it anyway?",
                Command("Get Anyway", partial(self.start, entry.name)),
                focus=-1,
            )
        else:
            self.start(entry.name)

    def start(self, repository: str) -> None:
        """Download a model, and load it unless another is chosen meanwhile."""
        self._loading_after.want(repository)
        if problem := self._library.downloads.start(repository):
            self.question.ask(as_sentence(problem), close="OK")

    def _offer_chat(self, name: str) -> None:
        """Offer a chat; the user who works in another window, or in this one, is left alone."""
        self.model_ready.emit()
        start = Command("Start Chat", self.chat_requested.emit)
        self.question.show_message(f"{display_name(name)} is ready.", start)

    def _show_not_loaded(self, name: str, reason: str) -> None:
        text = f"{display_name(name)} was downloaded but couldn’t be loaded. {reason}"
        self.question.show_message(text)

    # -- deleting --------------------------------------------------------------------------

    def _ask_deletion(self, model: FoundModel) -> None:
        if obstacle := self.upkeep.obstacle(model):
            unload = Command("Unload", partial(self._unload_at, model.folder))
            is_loaded = self._library.models.status(model.folder.resolve()).stage == "ready"
            answers = (unload,) if is_loaded else ()
            self.question.ask(obstacle, *answers, close="Cancel" if answers else "OK", focus=-1)
        else:
            self.upkeep.ask_deletion(model)

    def _confirm_deletion(self, model: FoundModel, folder: Path, freed_bytes: int) -> None:
        self.question.ask(
            deletion_question(display_name(model.name), freed_bytes),
            Command("Delete", lambda: self.upkeep.delete(model, folder, freed_bytes)),
            focus=-1,
        )

    # -- removing a folder -----------------------------------------------------------------

    def _remove(self, folder: Path) -> None:
        position = self._library.folders.index(folder)
        self._library.remove_folder(folder)
        undo = Command("Undo", partial(self._library.add_folder, folder, position))
        self.question.show_message(
            f"{folder} was removed from the list. Nothing was deleted.", undo
        )

    # -- loading ---------------------------------------------------------------------------

    def _load(self, model: LibraryModel) -> None:
        if model.fit is Fit.TOO_LARGE:
            self.question.ask(
                f"{display_name(model.found.name)} may fail to load, or slow other apps down. "
                "Load it anyway?",
                Command("Load Anyway", lambda: self._change(model)),
                focus=-1,
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
        if self._library.models.status(model.folder).stage != "ready":
            return
        # Each chat keeps its model, and the default model stays.
        folder, state = model.found.folder, self._library.models
        load = partial(state.begin_to_load, folder, keeps_default=True)
        self._wait_or_end(load, "Load", state.answers_under_way(folder))

    def _choose_base(self, model: LibraryModel, base: Path) -> None:
        """Pair an adapter with another base, which makes it another model."""
        if base == model.found.base:
            return
        if self._library.models.status(model.folder).stage == "ready":
            self._unload_at(model.found.folder)
        self._library.choose_base(model.found.folder, base)

    def _unload_at(self, folder: Path) -> None:
        state = self._library.models
        self.question.hide()  # it may offer a chat with the model
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
        """Hide a question, clear the search, or close the window."""
        if self.question.isVisible():
            self.question.hide()
        elif self.field.text():
            self.field.clear()
        else:
            self.close()
