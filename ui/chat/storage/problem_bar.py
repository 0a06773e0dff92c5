"""A line above the chat about a problem with saving conversations. Main thread."""

from PySide6.QtCore import Signal
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout

from ui.kit.controls.buttons import IconBadge, IconButton
from ui.kit.look.theme import Theme
from ui.kit.system.files_shown import show_in_files
from ui.kit.text.labels import label
from ui.records.store import StoreProblem
from ui.words.tones import Tone


class ProblemBar(QFrame):
    """Shows the problem, its cause and the file, with a button that dismisses it.

    Signals:
        solved: The problem is over.
        recovery_declined: The message was dismissed although the file could be recovered.
    """

    solved = Signal()
    recovery_declined = Signal()

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.setObjectName("problem_bar")
        self._problem: StoreProblem | None = None
        badge = IconBadge(theme, 30)
        badge.show_icon("fault", Tone.FAULT)
        self.sentence = label("", "title", is_wrapped=True, weight=QFont.Weight.DemiBold)
        self.detail = label("", "muted", 0.95, is_wrapped=True)
        self.show_file = QPushButton("Show the Folder")
        self.show_file.setAccessibleName("Show the folder of this file")
        self.recover = QPushButton("Recover What Can Be Read")
        self.recover.setAccessibleName("Recover what can be read of the damaged file")
        close = IconButton(theme, "close", "Dismiss this message", size=16)
        words = QVBoxLayout()
        words.setSpacing(2)
        words.addWidget(self.sentence)
        words.addWidget(self.detail)
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 10, 10, 10)
        row.setSpacing(12)
        row.addWidget(badge)
        row.addLayout(words, 1)
        row.addWidget(self.recover)
        row.addWidget(self.show_file)
        row.addWidget(close)
        self.recover.clicked.connect(lambda: self.recover.setEnabled(False))  # not twice
        self.show_file.clicked.connect(self._show_file)
        close.clicked.connect(self._dismiss)
        self.hide()

    def tell(self, problem: StoreProblem | None) -> None:
        """Show a problem; None shows nothing."""
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

    def _dismiss(self) -> None:
        self.hide()
        if self._problem is not None and self._problem.can_be_recovered:
            self.recovery_declined.emit()

    def _show_file(self) -> None:
        if self._problem is not None and self._problem.path is not None:
            path = self._problem.path
            folder = path if path.is_dir() else path.parent
            show_in_files(self, folder)
