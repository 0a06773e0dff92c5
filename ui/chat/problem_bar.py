"""The bars of problems in the window. Main thread."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QAbstractButton, QFrame

from engine.wording import as_sentence
from ui.chat.first_model import FirstModel
from ui.chat.session.model_selection import ModelSelection
from ui.kit.buttons import IconBadge, IconButton, push_button
from ui.kit.dialogs import show_in_files, show_in_files_label
from ui.kit.labels import label
from ui.kit.layouts import column, row
from ui.models.downloads import Download, Downloads
from ui.records.store import Problem
from ui.words import THIS_COMPUTER, display_name


class NoticeBar(QFrame):
    """A bar across the chat: a sentence, its detail, and buttons."""

    def __init__(self, *buttons: QAbstractButton) -> None:
        super().__init__()
        self.setObjectName("problem_bar")
        badge = IconBadge(30)
        badge.show_icon("fault", "fault")
        self.sentence = label("", "title", is_wrapped=True)
        self.detail = label("", "muted", 0.95, is_wrapped=True)
        texts = column(self.sentence, self.detail, spacing=2)
        row(badge, (texts, 1), *buttons, spacing=12, margins=(16, 10, 10, 10), on=self)
        self.hide()


class ProblemBar(NoticeBar):
    """Shows the problem, its cause and the file, with a button that dismisses it."""

    solved = Signal()
    restore_requested = Signal()
    recovery_requested = Signal(object)  # path of the damaged file

    def __init__(self, *remedies: QAbstractButton) -> None:
        self._problem: Problem | None = None
        self.show_file = push_button(show_in_files_label(), "Show the folder of this file")
        self.recover = push_button("Recover", "Recover the readable part of the damaged file")
        self.restore = push_button("Restore Backup…", "Restore a backup of the conversations")
        close = IconButton("close", "Dismiss this message", size=16)
        super().__init__(*remedies, self.show_file, self.recover, self.restore, close)
        self.recover.clicked.connect(self._recover)
        self.restore.clicked.connect(self.restore_requested)
        self.show_file.clicked.connect(self._show_file)
        close.clicked.connect(self.hide)

    def show_problem(self, problem: Problem | None) -> None:
        self._problem = problem
        self.setVisible(problem is not None)
        if problem is None:
            self.solved.emit()
        else:
            self.sentence.setText(problem.sentence)
            self.detail.setText(problem.detail)
            self.show_file.setVisible(problem.path is not None)
            self.recover.setVisible(problem.can_be_recovered)
            self.recover.setEnabled(True)
            self.restore.setVisible(problem.has_backup)

    def _recover(self) -> None:
        self.recover.setEnabled(False)  # not twice
        if self._problem is not None:
            self.recovery_requested.emit(self._problem.path)

    def _show_file(self) -> None:
        if self._problem is not None and self._problem.path is not None:
            path = self._problem.path
            folder = path if path.is_dir() else path.parent
            show_in_files(self, folder)


class DownloadProblemBar(NoticeBar):
    """Names the download that failed last, unless the card of a first model shows it."""

    show_requested = Signal(str)  # repository

    def __init__(self, downloads: Downloads, first: FirstModel) -> None:
        self._downloads, self._first = downloads, first
        self._failed: Download | None = None
        self._dismissed: Download | None = None
        again = push_button("Try Again", "Try the download again")
        show = push_button("Show", "Show the download in Models")
        close = IconButton("close", "Dismiss this message", size=16)
        super().__init__(again, show, close)
        again.clicked.connect(self._try_again)
        show.clicked.connect(self._show)
        close.clicked.connect(self._dismiss)
        downloads.changed.connect(self.refresh)

    def refresh(self) -> None:
        """Show the newest failure that was not dismissed."""
        failed = next((item for item in self._downloads.items if item.stage == "failed"), None)
        self._failed = failed
        if failed is None:
            self._dismissed = None
        else:
            self.sentence.setText(f"{display_name(failed.repository)} couldn’t be downloaded.")
            self.detail.setText(as_sentence(failed.message))
        is_elsewhere = failed is None or self._first.offers(failed.repository)
        self.setVisible(not is_elsewhere and failed is not self._dismissed)

    def _try_again(self) -> None:
        if self._failed is not None:
            self._downloads.resume(self._failed)

    def _show(self) -> None:
        if self._failed is not None:
            self.show_requested.emit(self._failed.repository)
            self._dismiss()

    def _dismiss(self) -> None:
        self._dismissed = self._failed
        self.refresh()


class MissingModelBar(NoticeBar):
    """Names a missing model, and offers other models."""

    switch_requested = Signal()

    def __init__(self, model: ModelSelection) -> None:
        self._model = model
        self.use = push_button("", "Use the loaded model")
        self.choose = push_button("Choose Another…", "Choose another model for this conversation")
        super().__init__(self.use, self.choose)
        self.use.clicked.connect(self._use_loaded)
        self.choose.clicked.connect(self.switch_requested)
        model.changed.connect(self._refresh)
        self._refresh()

    def _refresh(self) -> None:
        state, loaded = self._model.state, self._model.models.status().info
        answers = state.has_lost_folder
        is_missing = answers or state.stage == "missing"
        self.setVisible(is_missing)
        if not is_missing:
            return
        folder, name = state.folder, state.title
        if loaded is not None and folder is not None and loaded.path == folder:
            loaded = None
        where = [] if folder is None else [f"It was in {folder}."]
        if answers:
            self.sentence.setText(f"{name}’s folder can’t be found.")
            details = [*where, f"{name} stays available until it is unloaded."]
        else:
            self.sentence.setText(f"{name} is not on {THIS_COMPUTER}.")
            details = [*where, "Choose another model to continue this conversation."]
        self.detail.setText(" ".join(details))
        self.use.setVisible(loaded is not None)
        if loaded is not None:
            self.use.setText(f"Use {display_name(loaded.id)}")
            self.use.setAccessibleName(f"{self.use.text()} for this conversation")

    def _use_loaded(self) -> None:
        loaded = self._model.models.status().info
        if loaded is not None:
            self._model.choose(loaded.path)
