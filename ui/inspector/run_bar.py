"""The bar above the inspector: where a run comes from, what is recorded, files. Main thread."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from engine import TraceLevel
from ui.inspector.run.inspector import Inspector
from ui.inspector.run.shown_run import RunSource, ShownRun
from ui.kit.controls.choice import Choice
from ui.kit.look.theme import Theme
from ui.kit.system.clipboard import copy_from
from ui.kit.system.file_dialogs import choose_file, choose_target
from ui.kit.text.labels import label
from ui.records.runs import markdown_report

_LEVELS = (
    (TraceLevel.OFF, "The Reason Only", "No tokens are recorded"),
    (TraceLevel.STOPS, "Tokens and Stops", "Each token, and what was held back or cut"),
    (TraceLevel.FULL, "Everything", "Also the probability and alternatives of each token"),
)
_OPENED = "Saved runs (*.json *.fullstop-run)"


class RunBar(QWidget):
    """Says which run is shown, and offers what can be done with it and with the next ones."""

    def __init__(self, theme: Theme, inspector: Inspector) -> None:
        super().__init__()
        self._inspector = inspector
        self.source = label("", "muted", 0.95)
        self.choice = Choice(theme, "Which of the answers is shown")
        self.level = Choice(theme, "How much of the next answers is recorded")
        self.open = QPushButton("Open…")
        self.open.setAccessibleName("Open a saved run")
        self.save = QPushButton("Save Run…")
        self.back = QPushButton("Back to the Conversation")
        self.copy = QPushButton("Copy Report")
        self.forget = QPushButton("Forget All")
        self.forget.setAccessibleName("Forget the recorded tokens of all runs")
        for _, words, tip in _LEVELS:
            self.level.addItem(words)
            self.level.setItemData(self.level.count() - 1, tip, Qt.ItemDataRole.ToolTipRole)
        self._show_level()
        bar = QHBoxLayout(self)
        bar.setContentsMargins(0, 0, 0, 0)
        bar.setSpacing(8)
        bar.addWidget(self.source)
        bar.addWidget(self.choice)
        bar.addWidget(self.back)
        bar.addStretch(1)
        bar.addWidget(label("Record", "muted", 0.95))
        for part in (self.level, self.open, self.save, self.copy, self.forget):
            bar.addWidget(part)
        inspector.problem_met.connect(self.source.setText)
        inspector.work_begun.connect(self.source.setText)
        inspector.traces.level_changed.connect(self._show_level)
        self.level.currentIndexChanged.connect(self._set_level)
        self.choice.activated.connect(inspector.choose)
        self.open.clicked.connect(self._choose_file)
        self.save.clicked.connect(self._choose_target)
        self.back.clicked.connect(inspector.show_open_conversation)
        self.copy.clicked.connect(self._copy_report)
        self.forget.clicked.connect(inspector.traces.forget_all)

    def show_run(self, shown: ShownRun | None) -> None:
        """Say where a run comes from, and offer what can be done with it."""
        source = "" if shown is None else f"From {shown.source}"
        if shown is not None and shown.name:
            source += f": {shown.name}"
        self.source.setText(source)
        self.choice.clear()
        self.choice.addItems(self._inspector.choices)
        self.choice.setCurrentIndex(self._inspector.choice)
        self.choice.setVisible(self.choice.count() > 1)
        self.back.setVisible(shown is not None and shown.source is not RunSource.CHAT)
        self.copy.setEnabled(shown is not None)
        self.save.setEnabled(shown is not None and shown.can_be_replayed)

    def _show_level(self) -> None:
        levels = [level for level, _, _ in _LEVELS]
        self.level.setCurrentIndex(levels.index(self._inspector.traces.level))

    def _set_level(self, row: int) -> None:
        self._inspector.traces.record(_LEVELS[row][0])

    def _choose_file(self) -> None:
        choose_file(self.window(), "Open a Saved Run", self._inspector.open_file, [_OPENED])

    def _choose_target(self) -> None:
        save, kinds = self._inspector.save_run, ["Saved runs (*.json)"]
        choose_target(self.window(), "Save the Run", save, name="run.json", filters=kinds)

    def _copy_report(self) -> None:
        shown = self._inspector.shown
        if shown is not None:
            copy_from(self.copy, markdown_report(shown.run, shown.question))
