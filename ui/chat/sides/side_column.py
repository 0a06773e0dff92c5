"""One of two answers in its column: its settings, the answer, and the button that keeps it.

Main thread.
"""

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QButtonGroup, QFrame, QPushButton, QVBoxLayout

from engine import StopKind, as_sentence
from ui.chat.messages.answer_view import AnswerView
from ui.chat.session.side_by_side import Side
from ui.kit.look.theme import Theme
from ui.kit.text.labels import label
from ui.records.runs import Run, RunState
from ui.words.differences import Spans


class SideColumn(QFrame):
    """Shows one answer.

    Signals:
        keep_wanted: A person wants to continue with this answer.
        reason_wanted: A person wants to see why the answer ended; carries its ``Run``.
        again_wanted: A person wants this answer again, because it failed.
    """

    keep_wanted = Signal()
    reason_wanted = Signal(object)
    again_wanted = Signal()

    def __init__(
        self, theme: Theme, side: Side, title: str, detail: str, reasons: QButtonGroup
    ) -> None:
        super().__init__()
        assert side.message is not None
        self.setObjectName("card")
        self.side = side
        self._theme = theme
        self._spans: Spans = []
        self.title = label(title, "title", is_wrapped=True, weight=QFont.Weight.DemiBold)
        self.detail = label(detail, "muted", 0.95, is_wrapped=True)
        self.detail.setVisible(bool(detail))
        self.view = AnswerView(theme, side.message, reasons)
        self.view.action_row.hide()
        self.view.show_busy(True)
        self.cause = label("", "fault", is_wrapped=True)
        self.cause.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.keep = QPushButton("Keep This One")
        self.keep.setProperty("kind", "primary")
        self.keep.setAccessibleName(f"Keep this answer: {title}")
        self.keep.setToolTip(
            "The conversation continues with this answer, its model, settings and stops. The other "
            "one stays as a version."
        )
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 13, 16, 13)
        column.setSpacing(8)
        column.addWidget(self.title)
        column.addWidget(self.detail)
        column.addWidget(self.view)
        column.addWidget(self.cause)
        column.addStretch(1)
        column.addWidget(self.keep)
        session = side.session
        # Methods, not lambdas: the session outlives the column if another chat is shown.
        session.text_appended.connect(self._append_text)
        session.thinking_appended.connect(self._append_thinking)
        session.run_changed.connect(self._refresh)
        session.run_finished.connect(self._refresh)
        session.is_running_changed.connect(self.view.show_busy)
        self.view.regenerate_wanted.connect(self.again_wanted)
        self.view.reason.clicked.connect(lambda: self.reason_wanted.emit(side.run))
        self.keep.clicked.connect(self.keep_wanted)
        theme.changed.connect(self._mark)
        self._refresh(side.run)

    @property
    def shown_text(self) -> str:
        """The text of the answer as it is shown."""
        return self.view.text_view.toPlainText()

    def show_differences(self, spans: Spans) -> None:
        """Mark the parts of the shown text that the other answer does not have."""
        self._spans = spans
        self._mark()

    @property
    def has_failed(self) -> bool:
        """Whether there is no whole answer, for a cause that is shown."""
        return bool(_cause(self.side.run))

    def show_busy(self, is_busy: bool) -> None:
        """Enable keeping the answer once both have ended, unless it was never begun."""
        run = self.side.run
        self.keep.setEnabled(not is_busy and run is not None and bool(run.text or run.finished))

    def _append_text(self, _run: Run, text: str) -> None:
        self.view.append_text(text)

    def _append_thinking(self, _run: Run, text: str) -> None:
        self.view.append_thinking(text)

    def _refresh(self, _run: Run | None) -> None:
        self.view.refresh()
        self.cause.setText(_cause(self.side.run))
        self.cause.setVisible(self.has_failed)

    def _mark(self) -> None:
        colors = self._theme.colors
        self.view.text_view.show_spans(self._spans, colors.found, colors.text)


def _cause(run: Run | None) -> str:
    """Return why an answer failed, as sentences; empty if it did not."""
    if run is None or not run.is_over:
        return ""
    if run.state is RunState.REFUSED:
        return run.refusal
    said = run.verdict
    has_failed = run.finished is not None and run.finished.stop.kind is StopKind.ERROR
    return as_sentence(said.words.detail) if said is not None and has_failed else ""
