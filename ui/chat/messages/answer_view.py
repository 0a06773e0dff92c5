"""The view of an answer: thinking, text, and the line with the reason of its end.

Main thread. A signal of the session leads to one edit of the document, at most 30 times a second.
"""

from functools import cached_property

from PySide6.QtCore import QPoint, Signal
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from engine import figures, quoted, visible
from ui.chat.composing.message_editor import MessageEditor
from ui.chat.messages.attached_file import AttachedFile
from ui.chat.messages.message_actions import MessageActions, below
from ui.chat.messages.prompt_progress import PromptProgressBar
from ui.chat.messages.raw_text import RawText
from ui.chat.messages.reason_line import ReasonLine
from ui.chat.messages.thinking_view import ThinkingView
from ui.chat.messages.tool_cards import ToolCards
from ui.kit.look.theme import Theme
from ui.kit.markdown.view.markdown_view import MarkdownView
from ui.kit.markdown.view.themed_style import markdown_style
from ui.kit.system.clipboard import copy_text
from ui.kit.text.labels import label
from ui.kit.text.searched import SearchedPart, SearchedText
from ui.records.messages import ConversationMessage
from ui.records.runs import Run, RunState
from ui.words.tones import Tone


class AnswerView(QWidget):
    """Shows the thinking, the text, and the line that says why the answer stopped.

    Signals:
        regenerate_wanted: A person pressed "Try Again" or "Regenerate".
            rewritten: A person replaced the text; carries the new text.
        left: A person cancelled the editing.
        menu_wanted: A person wants its menu; carries the place on the screen.
        picture_wanted: A person wants to see a picture; carries the ``Attachment``.
    """

    regenerate_wanted = Signal()
    rewritten = Signal(str)
    left = Signal()
    menu_wanted = Signal(QPoint)
    picture_wanted = Signal(object)

    def __init__(
        self,
        theme: Theme,
        message: ConversationMessage,
        reasons: QButtonGroup,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        assert message.run is not None
        self.message = message
        self.editor: MessageEditor | None = None
        run = self.run = message.run
        self._theme = theme
        layout = self._parts = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        self.text_view = MarkdownView(markdown_style(theme, self.font()))
        self.text_view.setObjectName("answer_text")
        self.text_view.setAccessibleName("Answer")
        self.pace = label("", "faint", 0.92)
        self.reason = ReasonLine(theme)
        reasons.addButton(self.reason)
        self._retry = QPushButton("Try Again")
        self._retry.setAccessibleName("Ask this question again")
        self.action_row = MessageActions(theme, self, is_quiet=False)
        self.proceed = self.action_row.add("continue", "Continue this answer (Ctrl+Shift+Return)")
        self._regenerate = self.action_row.add("regenerate", "Regenerate (Ctrl+Alt+G)")
        self.raw = self.action_row.add("report", "Show the raw text of this answer")
        self.raw.setCheckable(True)
        self._copy = self.action_row.add("copy", "Copy this answer as Markdown")
        self.more = self.action_row.add("more", "More actions for this answer")
        foot = QHBoxLayout()
        foot.setSpacing(8)
        foot.addWidget(self.pace)
        foot.addWidget(self.reason, 1)
        foot.addStretch()  # while there is no reason yet, nothing else takes its room
        foot.addWidget(self._retry)
        foot.addWidget(self.action_row)
        self.calls = ToolCards(theme)
        layout.addWidget(self.text_view)
        layout.addWidget(self.calls)
        self.pictures = [AttachedFile(theme, picture) for picture in run.pictures]
        for picture in self.pictures:
            picture.picture_wanted.connect(self.picture_wanted)
            layout.addWidget(picture)
        layout.addLayout(foot)
        self._connect_signals()
        self.append_thinking(run.thinking)
        self.text_view.set_markdown(run.text)
        self.refresh()

    # -- parts that few answers have: each would take time where many answers are shown ----

    @cached_property
    def thinking(self) -> ThinkingView:
        """Its reasoning."""
        thinking = ThinkingView(self._theme)
        self._parts.insertWidget(0, thinking)
        return thinking

    @cached_property
    def raw_view(self) -> RawText:
        """Its raw text, hidden until a person wants to see it."""
        raw = RawText(self._theme)
        self._parts.insertWidget(self._parts.indexOf(self.text_view) + 1, raw)
        return raw

    @cached_property
    def _held(self) -> QLabel:
        held = label("", "faint", 0.95, is_wrapped=True)
        self._parts.insertWidget(self._parts.indexOf(self.calls), held)
        return held

    @cached_property
    def _progress(self) -> PromptProgressBar:
        progress = PromptProgressBar()
        self._parts.insertWidget(self._parts.indexOf(self.calls) + 1, progress)
        return progress

    def _has(self, part: str) -> bool:
        return part in self.__dict__

    @property
    def held_words(self) -> str:
        """The note about text that is held back; empty if there is none."""
        return self._held.text() if self._has("_held") and self._held.isVisible() else ""

    def show_busy(self, is_busy: bool) -> None:
        """Disable actions that begin an answer while one is running."""
        for button in (self.proceed, self._regenerate, self._retry):
            button.setEnabled(not is_busy)
        if self.editor is not None:
            self.editor.show_busy(is_busy)

    def searched_parts(self) -> list[SearchedPart]:
        """Return the thinking, the text, the calls and the pictures, for the search."""
        text = SearchedText(self._whole_text, None, lambda: self.raw.setChecked(False))
        thinking = [self.thinking.searched_part()] if self._has("thinking") else []
        pictures = [part for picture in self.pictures for part in picture.searched_parts()]
        return [*thinking, text, *self.calls.searched_parts(), *pictures]

    def _whole_text(self) -> MarkdownView:
        self.text_view.render_rest()
        return self.text_view

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Ask for the message's menu."""
        self.menu_wanted.emit(event.globalPos())
        event.accept()

    def begin_editing(self) -> None:
        """Replace the text by an editor."""
        if self.editor is None:
            self.editor = MessageEditor(self._theme, self.run.text, says="answer", sends="Save")
            self.editor.submitted.connect(lambda text, _: self._submit(text))
            self.editor.left.connect(self.end_editing)
            self._parts.insertWidget(self._parts.indexOf(self.text_view), self.editor)
        self._show_text()
        self.editor.input.setFocus()

    def end_editing(self) -> None:
        """Show the text again."""
        if self.editor is not None:
            self.editor.hide()
            self.editor.deleteLater()
            self.editor = None
        self._show_text()
        self.left.emit()

    def append_text(self, text: str) -> None:
        """Show more of the answer."""
        self.text_view.append_markdown(text)
        self.text_view.show()

    def append_thinking(self, text: str) -> None:
        """Show more of the reasoning."""
        if text:
            self.thinking.append(text)

    def refresh(self) -> None:
        """Show the run's stage, or the reason of its end."""
        run = self.run
        if self._has("thinking"):
            self.thinking.show_stage(run)
        self._show_text()
        self.calls.show_run(run)
        if run.held or self._has("_held"):
            self._held.setVisible(bool(run.held))
        if run.held:
            self._held.setText(
                f"{visible(run.held)}   held back for {run.held_s:.1f} s, because it could become "
                "a stop sequence"
            )
        if not run.is_over or self._has("_progress"):
            self._progress.show_run(run)
        self.reason.setVisible(run.is_over)
        self.pace.setVisible(not run.is_over and bool(run.pace.words))
        self.pace.setText(run.pace.words)
        self._copy.setVisible(run.is_over and bool(run.text))
        self.raw.setVisible(run.is_over and bool(run.text))
        self._regenerate.setVisible(run.is_over)
        self.more.setVisible(run.is_over)
        self.proceed.setVisible(run.is_over and run.can_be_continued)
        if run.is_over and run.can_be_continued:
            self.proceed.show_icon("continue", f"{continue_words(run)} (Ctrl+Shift+Return)")
        self._retry.setVisible(run.state is RunState.REFUSED or _failed(run))
        if run.is_over:
            self.text_view.finish()
        if run.state is RunState.REFUSED:
            self.reason.show_reason([], f"Not sent: {run.refusal}", "fault", Tone.FAULT)
        elif (said := run.verdict) is not None:
            words = [run.model_id] if run.is_from_elsewhere and run.model_id else []
            words += [] if run.finished is None else figures(run.finished)
            self.reason.show_reason(words, said.words.label, said.icon, said.tone)

    def mark_shown(self, is_shown: bool) -> None:
        """Mark this run as the one that the stop panel shows."""
        group = self.reason.group()
        if group is not None and not is_shown:
            group.setExclusive(False)
            self.reason.setChecked(False)
            group.setExclusive(True)
        else:
            self.reason.setChecked(is_shown)

    def _show_text(self) -> None:
        is_raw, is_edited = self.raw.isChecked(), self.editor is not None
        self.text_view.setVisible(bool(self.run.text) and not is_raw and not is_edited)
        if is_raw or self._has("raw_view"):
            self.raw_view.setVisible(is_raw and not is_edited)
        if is_raw:
            self.raw_view.show_run(self.run)

    def _submit(self, text: str) -> None:
        if text == self.run.text:
            self.end_editing()
        else:
            self.rewritten.emit(text)

    def _connect_signals(self) -> None:
        self.more.clicked.connect(lambda: self.menu_wanted.emit(below(self.more)))
        self._retry.clicked.connect(self.regenerate_wanted)
        self._regenerate.clicked.connect(self.regenerate_wanted)
        self._copy.clicked.connect(lambda: copy_text(self.run.text))
        self.raw.toggled.connect(lambda _: self._show_text())
        self._theme.changed.connect(self._restyle)

    def _restyle(self) -> None:
        self.text_view.set_style(markdown_style(self._theme, self.font()))


def continue_words(run: Run) -> str:
    """Return the words of the Continue button: past the stop that ended the answer, if one did."""
    match run.stopped_by:
        case None:
            return "Continue this answer"
        case str(sequence):
            return f"Continue past {quoted(sequence, 16)}, this once"
        case token_id:
            return f"Continue past token {token_id}, this once"


def _failed(run: Run) -> bool:
    return run.finished is not None and run.finished.error is not None
