"""The tab that tries another stop list on the recorded tokens. Main thread."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QShowEvent, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import (
    QPushButton,
    QSplitter,
    QTextEdit,
    QWidget,
)

from ui.inspector.inspector import Inspector
from ui.inspector.pages import InspectorTab, align
from ui.inspector.shown_run import ShownRun
from ui.kit.dialogs import choose_target
from ui.kit.labels import label
from ui.kit.layouts import FlowLayout, column
from ui.kit.theme import current_theme
from ui.stops.stop_list_editor import StopListEditor

MAX_SHOWN_CHARS = 20_000
_REPLAYING = "Replaying the run…"


class WhatIfTab(InspectorTab):
    """A copy of the list at the left, what it would have done at the right."""

    def __init__(self, inspector: Inspector) -> None:
        super().__init__()
        self._inspector = inspector
        self._what_if = inspector.what_if
        self.editor = StopListEditor()
        self.editor.show_model(self._what_if.stops)
        self.sentence = label("", "title", 1.02, is_wrapped=True)
        self.kept = QTextEdit()
        align(self.kept)
        self.kept.setReadOnly(True)
        self.kept.setAccessibleName("The answer that would have been kept")
        self.reset = QPushButton("Use the Run’s List")
        self.use = QPushButton("Use This List in the Conversation")
        self.save = QPushButton("Save as Case…")
        self.save.setAccessibleName("Save the run with this list as a case for fullstop replay")
        self._lay_out()
        self._what_if.outcome_changed.connect(self._refresh)
        self.editor.input.textChanged.connect(self._what_if.set_typed)
        self.reset.clicked.connect(self._what_if.reset)
        self.use.clicked.connect(self._use)
        self.save.clicked.connect(self._choose_file)
        current_theme().changed.connect(self._refresh)
        self._refresh()

    def show_run(self, shown: ShownRun | None) -> None:
        """Say whether anything can be tried on a run."""
        if self.isVisible():
            self._inspector.try_lists()
        self._refresh()

    def showEvent(self, event: QShowEvent) -> None:
        """Replay the run once the tab is seen."""
        super().showEvent(event)
        self._inspector.try_lists()
        self._refresh()

    def _lay_out(self) -> None:
        right = QWidget()
        actions = FlowLayout()
        for button in (self.reset, self.use, self.save):
            actions.addWidget(button)
        column(self.sentence, (self.kept, 1), actions, spacing=8, margins=(14, 0, 0, 0), on=right)
        splitter = QSplitter(Qt.Orientation.Horizontal)
        splitter.addWidget(self.editor)
        splitter.addWidget(right)
        splitter.setStretchFactor(0, 2)
        splitter.setStretchFactor(1, 3)
        splitter.setChildrenCollapsible(False)
        column(splitter, margins=(0, 12, 0, 0), on=self)

    def _refresh(self) -> None:
        theme = current_theme()
        outcome, recording = self._what_if.outcome, self._what_if.recording
        can_try = recording is not None
        for part in (self.editor, self.reset, self.use, self.save):
            part.setEnabled(can_try)
        self.save.setEnabled(outcome is not None)
        if outcome is None:
            self.kept.clear()
            self.sentence.setText(_REPLAYING if can_try else self._why_not(self._inspector.shown))
            return
        same = " The run itself ended there too." if outcome.is_same else ""
        self.sentence.setText(f"{outcome.sentence}{same}")
        self.kept.clear()
        cursor = QTextCursor(self.kept.document())
        plain, cut = QTextCharFormat(), QTextCharFormat()
        plain.setForeground(QColor(theme.colors.text))
        cut.setForeground(QColor(theme.colors.fault))
        cut.setFontStrikeOut(True)
        text = outcome.text
        if len(text) > MAX_SHOWN_CHARS:
            text = f"… {text[-MAX_SHOWN_CHARS:]}"
        cursor.insertText(text, plain)
        cursor.insertText(outcome.cut, cut)
        self.kept.moveCursor(QTextCursor.MoveOperation.End)

    @staticmethod
    def _why_not(shown: ShownRun | None) -> str:
        if shown is None:
            return "No run is shown."
        if not shown.run.is_over:
            return "Other lists can be tried when the answer has ended."
        if shown.trace is None:
            return "The tokens of this run were not recorded, so nothing can be tried on it."
        if shown.can_be_replayed:
            return _REPLAYING  # its tokens are still being gathered
        return "Only the newest tokens of this run are kept, so it cannot be replayed."

    def _use(self) -> None:
        entries = self._what_if.stops.entries()
        self._inspector.workspace.current.stops.replace_all(entries, "use the tried list")

    def _choose_file(self) -> None:
        save, kinds = self._inspector.save_case, ["Saved runs (*.json)"]
        choose_target(self, "Save as Case", save, name="case.json", filters=kinds)
