"""An answer on screen: thinking, text, and the line with the reason of its end.

Main thread. A signal of the session costs one edit block here, thirty times a second at most.
"""

from PySide6.QtCore import QSize, Qt, QUrl, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QButtonGroup,
    QHBoxLayout,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from engine import figures, seconds
from ui.chat.messages.message_actions import MessageActions
from ui.chat.messages.raw_text import RawText
from ui.chat.messages.reason_line import ReasonLine
from ui.chat.messages.tool_cards import ToolCards
from ui.kit.controls.buttons import IconButton
from ui.kit.look import icons
from ui.kit.look.theme import Theme
from ui.kit.markdown.view.markdown_view import MarkdownView
from ui.kit.markdown.view.themed_style import markdown_style
from ui.kit.text.flow_text import FlowText
from ui.kit.text.labels import label
from ui.records.progress import progress_words
from ui.records.runs import Run, RunState
from ui.words.tones import Tone
from ui.words.verdicts import verdict
from ui.words.visible import quoted, visible


class AnswerView(QWidget):
    """What the model wrote: thinking, text, and the line that says why it stopped.

    Signals:
        reason_chosen: The person wants to see why this run stopped; carries the ``Run``.
        regenerate_wanted: The question is to be answered once more.
        continue_wanted: The model is to go on where this answer ends.
        link_chosen: A link was chosen; carries the ``QUrl``.
    """

    reason_chosen = Signal(object)
    regenerate_wanted = Signal()
    continue_wanted = Signal()
    link_chosen = Signal(QUrl)

    def __init__(self, theme: Theme, run: Run, reasons: QButtonGroup) -> None:
        super().__init__()
        self.run = run
        self._theme = theme
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        self._thinking = _ThinkingBlock(theme)
        self._text = MarkdownView(markdown_style(theme, self.font()))
        self._text.setObjectName("answer_text")
        self._text.setAccessibleName("Answer")
        self._text.link_chosen.connect(self.link_chosen)
        self._progress = _Progress()
        self._reason = ReasonLine(theme)
        reasons.addButton(self._reason)
        self._retry = QPushButton("Try again")
        self._retry.setAccessibleName("Ask this question again")
        self.action_row = MessageActions(theme, self, is_quiet=False)
        self._continue = self.action_row.add("continue", "Continue this answer (Ctrl+Shift+Return)")
        self._regenerate = self.action_row.add("regenerate", "Regenerate (Ctrl+Shift+G)")
        self._raw = self.action_row.add("report", "Show the raw text of this answer")
        self._raw.setCheckable(True)
        self._copy = self.action_row.add("copy", "Copy this answer as Markdown")
        foot = QHBoxLayout()
        foot.setSpacing(8)
        foot.addWidget(self._reason, 1)
        foot.addWidget(self._retry)
        foot.addWidget(self.action_row)
        self._raw_text = RawText(theme)
        self._calls = ToolCards(theme)
        self._held = label("", "faint", 0.95, is_wrapped=True)
        self._held.hide()
        for part in (
            self._thinking,
            self._text,
            self._raw_text,
            self._held,
            self._calls,
            self._progress,
        ):
            layout.addWidget(part)
        layout.addLayout(foot)
        self._connect_signals()
        self._thinking.append(run.thinking)
        self._text.set_markdown(run.text)
        self.refresh()

    @property
    def text_view(self) -> MarkdownView:
        """The view of the answer's text."""
        return self._text

    @property
    def calls(self) -> ToolCards:
        """The cards of its tool calls."""
        return self._calls

    @property
    def held_words(self) -> str:
        """What is said of text that is held back; empty while there is nothing to say."""
        return self._held.text() if self._held.isVisible() else ""

    @property
    def raw(self) -> IconButton:
        """The button that shows the answer as it came."""
        return self._raw

    @property
    def raw_view(self) -> RawText:
        """Raw text of the answer, hidden until it is wanted."""
        return self._raw_text

    @property
    def thinking_view(self) -> FlowText:
        """The view of the reasoning, hidden while it is folded."""
        return self._thinking.text_view

    def show_busy(self, is_busy: bool) -> None:
        """Allow no other answer while one is running."""
        for button in (self._continue, self._regenerate, self._retry):
            button.setEnabled(not is_busy)

    def append_text(self, text: str) -> None:
        """Show more of the answer."""
        self._text.append_markdown(text)
        self._text.show()

    def append_thinking(self, text: str) -> None:
        """Show more of the reasoning."""
        self._thinking.append(text)

    def refresh(self) -> None:
        """Show the run's stage, or the reason of its end."""
        run = self.run
        self._thinking.show_stage(run)
        self._show_text()
        self._calls.show_run(run)
        self._held.setVisible(bool(run.held))
        if run.held:
            self._held.setText(
                f"{visible(run.held)}   held back for {run.held_s:.1f} s: it could become a stop"
            )
        self._progress.show_run(run)
        self._reason.setVisible(run.is_over)
        self._copy.setVisible(run.is_over and bool(run.text))
        self._raw.setVisible(run.is_over and bool(run.text))
        self._regenerate.setVisible(run.is_over)
        self._continue.setVisible(run.is_over and run.can_be_continued)
        if run.is_over and run.can_be_continued:
            self._continue.show_icon("continue", f"{continue_words(run)} (Ctrl+Shift+Return)")
        self._retry.setVisible(run.state is RunState.REFUSED or _failed(run))
        if run.is_over:
            self._text.finish()
        if run.state is RunState.REFUSED:
            self._reason.show_reason([], f"Not sent: {run.refusal}", "fault", Tone.FAULT)
        elif run.state is RunState.INTERRUPTED:
            self._reason.show_reason([], "Interrupted", "fault", Tone.FAULT)
        elif run.state is RunState.UNRECORDED:
            self._reason.show_reason([], "End not recorded", "report", Tone.QUIET)
        elif run.finished is not None:
            said = verdict(run.finished, run.max_tokens)
            words = figures(run.finished)
            self._reason.show_reason(words, said.words.label, said.icon, said.tone)

    def mark_shown(self, is_shown: bool) -> None:
        """Mark this run as the one that the stop panel shows."""
        group = self._reason.group()
        if group is not None and not is_shown:
            group.setExclusive(False)
            self._reason.setChecked(False)
            group.setExclusive(True)
        else:
            self._reason.setChecked(is_shown)

    def _show_text(self) -> None:
        is_raw = self._raw.isChecked()
        self._text.setVisible(bool(self.run.text) and not is_raw)
        self._raw_text.setVisible(is_raw)
        if is_raw:
            self._raw_text.show_run(self.run)

    def _connect_signals(self) -> None:
        self._reason.clicked.connect(lambda: self.reason_chosen.emit(self.run))
        self._retry.clicked.connect(self.regenerate_wanted)
        self._regenerate.clicked.connect(self.regenerate_wanted)
        self._continue.clicked.connect(self.continue_wanted)
        self._copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.run.text))
        self._raw.toggled.connect(lambda _: self._show_text())
        self._theme.changed.connect(self._restyle)

    def _restyle(self) -> None:
        self._text.set_style(markdown_style(self._theme, self.font()))


class _ThinkingBlock(QWidget):
    """The reasoning: folded, with its duration; unfolds on a click."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._head = QPushButton("Thinking…")
        self._head.setProperty("kind", "fold")
        self._head.setCheckable(True)
        self._head.setAccessibleName("Show the thinking")
        self.text_view = FlowText()
        self.text_view.setObjectName("thinking_text")
        self.text_view.setAccessibleName("Thinking")
        self.text_view.hide()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 4)
        layout.setSpacing(6)
        layout.addWidget(self._head, 0, Qt.AlignmentFlag.AlignLeft)
        indent = QHBoxLayout()
        indent.setContentsMargins(14, 0, 0, 0)
        indent.addWidget(self.text_view)
        layout.addLayout(indent)
        self._head.toggled.connect(self._fold)
        theme.changed.connect(self._tint)
        self._tint()
        self.hide()

    def append(self, text: str) -> None:
        """Show more reasoning."""
        if text:
            self.show()
            cursor = self.text_view.textCursor()
            cursor.movePosition(cursor.MoveOperation.End)
            cursor.insertText(text)

    def show_stage(self, run: Run) -> None:
        """Say whether it still lasts, or how long it took."""
        if run.thinking_s is not None:
            self._head.setText(f"Thought for {seconds(run.thinking_s)}")
        elif run.is_over:
            self._head.setText("Thought")

    def _fold(self, is_open: bool) -> None:
        self.text_view.setVisible(is_open)
        self._head.setAccessibleName("Hide the thinking" if is_open else "Show the thinking")
        self._tint()

    def _tint(self) -> None:
        name = "chevron-down" if self._head.isChecked() else "chevron-right"
        size = self._theme.px(14)
        self._head.setIconSize(QSize(size, size))
        self._head.setIcon(icons.icon(name, self._theme.colors.muted, size))


class _Progress(QWidget):
    """What an answer waits for before its first word."""

    def __init__(self) -> None:
        super().__init__()
        self._words = label("", "muted", 0.95)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setFixedHeight(4)
        self._bar.setMaximumWidth(260)
        self._bar.setAccessibleName("Prompt read")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 2, 0, 2)
        layout.setSpacing(6)
        layout.addWidget(self._words)
        layout.addWidget(self._bar)

    def show_run(self, run: Run) -> None:
        """Show how far the prompt is read; hide once there is text."""
        waits = not run.is_over and not (run.text or run.thinking or run.tool_calls)
        self.setVisible(waits)
        if not waits:
            return
        self._words.setText(progress_words(run))
        self._bar.setVisible(run.state is RunState.PREFILL and run.prompt_total > 0)
        if run.prompt_total:
            self._bar.setRange(0, run.prompt_total)
            self._bar.setValue(run.prompt_processed)


def continue_words(run: Run) -> str:
    """Return what continuing an answer means: past the stop that ended it, if one did."""
    match run.stopped_by:
        case None:
            return "Continue this answer"
        case str(sequence):
            return f"Continue past {quoted(sequence, 16)}, this once"
        case token_id:
            return f"Continue past token {token_id}, this once"


def _failed(run: Run) -> bool:
    return run.finished is not None and run.finished.error is not None
