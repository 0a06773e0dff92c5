"""An answer: reasoning, text, calls, why it ended, and what can be done with it. Main thread."""

import time
from collections.abc import Sequence
from functools import cached_property

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QColor, QResizeEvent, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QBoxLayout, QButtonGroup, QLabel, QPushButton, QWidget

from engine.stopping.record import StopKind
from engine.values.figures import figures
from engine.wording import quoted, seconds, visible
from ui.chat.composer.attachments import file_lines
from ui.chat.messages.message_foot import ReasonLine, ShownMessage
from ui.chat.messages.tool_cards import ToolCards, call_lines
from ui.kit.buttons import copy_on_click, fold_button, push_button, with_keys
from ui.kit.flow_text import FlowText, SearchedPart, SearchedText
from ui.kit.labels import ElidedLabel, label, thin_bar
from ui.kit.layouts import STRETCH, column, row
from ui.kit.markdown.style import markdown_style
from ui.kit.markdown.view import MarkdownView
from ui.kit.motion import Shimmer
from ui.kit.theme import current_theme, sized_font
from ui.models.model_words import passed
from ui.records.attachments import Attachment
from ui.records.messages import ConversationMessage
from ui.records.runs import Run, progress_label
from ui.words import CONTINUE_PAST, display_name, lines_of

_LINE_CHARS = 240
_LEFT = Qt.AlignmentFlag.AlignLeft
_CONTINUE = "Ctrl+Shift+Return"


class PromptProgressBar(QWidget):
    """Says what the run is doing, with a bar while the prompt is read.

    A slow model takes many seconds for a step. The time that has passed shows that it is at work.
    """

    def __init__(self) -> None:
        super().__init__()
        self._run: Run | None = None
        self._ticks = QTimer(self, interval=1000)
        self._ticks.timeout.connect(self._show_progress)
        self._caption = label("", "muted", 0.95)
        self._shimmer = Shimmer(self._caption)
        self._bar = thin_bar("Prompt read")
        self._bar.setMaximumWidth(260)
        column(self._caption, self._bar, spacing=6, margins=(0, 2, 0, 2), on=self)

    def show_run(self, run: Run) -> None:
        """Show how much of the prompt is read; hide once there is text."""
        waits = not run.is_over and not (run.text or run.thinking or run.tool_calls)
        self.setVisible(waits)
        self._run = run
        self._shimmer.show_active(waits)
        if not waits:
            self._ticks.stop()
            return
        if not self._ticks.isActive():
            self._ticks.start()
        self._show_progress()
        if run.prompt_total:
            self._bar.setRange(0, run.prompt_total)
            self._bar.setValue(run.prompt_processed)

    def _show_progress(self) -> None:
        assert self._run is not None
        run, took_s = self._run, time.time() - self._run.started_at
        reads = run.state == "prefill" and not run.live.is_cancelling
        has_figures, text = run.shows_prompt_progress, progress_label(run)
        shows_time = took_s >= 1 and (has_figures or not reads)
        self._caption.setText(f"{text} · {passed(took_s)}" if shows_time else text)
        self._bar.setVisible(reads and has_figures and run.prompt_total > 0)


class RawText(FlowText):
    """Shows the text without Markdown, then the text that was cut off, or the end token."""

    def __init__(self) -> None:
        super().__init__()
        self._run: Run | None = None
        self.setObjectName("answer_text")
        self.setAccessibleName("Raw text of the answer")
        self.show_spaces()
        self.hide()
        current_theme().changed.connect(self._fill)

    def show_run(self, run: Run) -> None:
        self._run = run
        self._fill()

    def _fill(self) -> None:
        run = self._run
        self.clear()
        self.setFont(current_theme().code_font())
        if run is None:
            return
        colors = current_theme().colors
        cursor = QTextCursor(self.document())
        if run.thinking:
            self._write(cursor, run.thinking, colors.muted)
            cursor.insertBlock()
        self._write(cursor, run.text, colors.text)
        stop = None if run.finished is None else run.finished.stop
        if stop is None:
            return
        if stop.dropped:
            self._write(cursor, stop.dropped, colors.fault, is_struck=True)
        elif stop.kind is StopKind.EOS and stop.token_text:
            self._write(cursor, stop.token_text, colors.tool)

    @staticmethod
    def _write(cursor: QTextCursor, text: str, color: str, *, is_struck: bool = False) -> None:
        form = QTextCharFormat()
        form.setForeground(QColor(color))
        form.setFontStrikeOut(is_struck)
        # A line feed is shown and breaks the line; at a space, which Qt shows, a line may wrap.
        shown = visible(text).replace("⏎", "⏎\u2028").replace("·", " ")
        cursor.insertText(shown, form)


class ThinkingView(QWidget):
    """A heading that unfolds the reasoning on a click."""

    def __init__(self) -> None:
        super().__init__()
        self.head = fold_button("Thinking…")
        self.head.setAccessibleName("Show the thinking")
        self._shimmer = Shimmer(self.head)
        self._tail = ""
        self.preview = ElidedLabel("", "faint", 0.95, mode=Qt.TextElideMode.ElideLeft)
        self.text_view = FlowText()
        self.text_view.follow_message_font()
        self.text_view.setObjectName("thinking_text")
        self.text_view.setAccessibleName("Thinking")
        self.text_view.hide()
        column(
            row((self.head, 0, _LEFT), (self.preview, 1), spacing=8),
            row((self.text_view, 0, _LEFT), margins=(17, 0, 0, 0)),  # below the words of the head
            spacing=6,
            margins=(0, 0, 0, 4),
            on=self,
        )
        self.head.toggled.connect(self._fold)
        self.hide()

    def append(self, text: str) -> None:
        if text:
            self.show()
            cursor = self.text_view.textCursor()
            cursor.movePosition(cursor.MoveOperation.End)
            cursor.insertText(text)
            self._tail = (self._tail + text)[-4 * _LINE_CHARS :]
            # The last line with words; of a long line, the newest part.
            self.preview.setText(self._tail.rstrip().rpartition("\n")[2].strip()[-_LINE_CHARS:])

    def show_stage(self, run: Run) -> None:
        finished = run.finished
        end = None if finished is None else finished.details.budget_end
        is_cycle = end is not None and end.repetition is not None
        until = ", until it repeated itself" if is_cycle else ""
        self._shimmer.show_active(run.thinking_s is None and not run.is_over)
        if run.thinking_s is not None:
            self.head.setText(f"Thought for {seconds(run.thinking_s)}{until}")
        elif run.is_over:
            self.head.setText(f"Thought{until}")

    def _fold(self, is_open: bool) -> None:
        self.text_view.setVisible(is_open)
        self.preview.setVisible(not is_open)
        self.head.setAccessibleName("Hide the thinking" if is_open else "Show the thinking")


def answer_lines(run: Run, rendered: Sequence[str]) -> list[str]:
    """Return the lines in which an answer is searched, in the order of its parts."""
    thought = lines_of(run.thinking) if run.thinking else []
    pictures = (line for picture in run.pictures for line in file_lines(picture))
    return [*thought, *rendered, *call_lines(run), *pictures]


class AnswerView(ShownMessage):
    """Shows the thinking, the text, and the line with the reason why the answer stopped."""

    regenerate_requested = Signal()
    rewritten = Signal(str)  # text

    def __init__(
        self,
        message: ConversationMessage,
        reasons: QButtonGroup,
        parent: QWidget | None = None,
    ) -> None:
        assert message.run is not None
        run = self.run = message.run
        self.text_view = MarkdownView(markdown_style())
        self.text_view.setObjectName("answer_text")
        self.pace = label("", "faint")
        self.pace.setFont(sized_font(self.pace.font(), 13))  # as in the line that follows
        self.proceed = push_button("Continue", kind="link")
        self.proceed.setProperty("is_flush", True)
        self.reason = ReasonLine(self.proceed)
        reasons.addButton(self.reason)
        self._retry = push_button("Try Again", "Ask this question again")
        pictures = [(picture, None) for picture in run.pictures]
        super().__init__(message, pictures, (self.reason, self.proceed, self._retry), parent)
        self.reason.row = self.action_row
        add = self.action_row.add
        self._copy = add("copy", "Copy this answer as Markdown")
        self._regenerate = add("regenerate", "Regenerate", "Ctrl+Alt+G")
        self.raw = add("report", "Show the raw text of this answer")
        self.raw.setCheckable(True)
        self.add_common_buttons("answer")
        foot = self._foot = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        foot.setSpacing(8)
        foot.addWidget(self.pace)
        foot.addWidget(self.reason, 1)
        foot.addStretch()  # while there is no reason yet, nothing else takes its room
        top = Qt.AlignmentFlag.AlignTop
        foot.addLayout(row((self._retry, 0, top), STRETCH, (self.action_row, 0, top), spacing=8))
        self.calls = ToolCards()
        layout = self._parts = column(self.text_view, self.calls, spacing=8, on=self)
        for picture in self.files:
            layout.addWidget(picture)
        layout.addLayout(foot)
        self._connect_signals()
        self.append_thinking(run.thinking)
        self.text_view.set_markdown(run.text)
        self.refresh()

    # -- parts that few answers have are created when they are shown -------------------------

    @cached_property
    def thinking(self) -> ThinkingView:
        thinking = ThinkingView()
        self._parts.insertWidget(0, thinking)
        return thinking

    @cached_property
    def call_head(self) -> QPushButton:
        """The line in place of a tool call that could not be read; it unfolds the text."""
        head = fold_button("The model’s tool call could not be read, so it was not made")
        head.toggled.connect(lambda _: self.show_edited_part())
        self._parts.insertWidget(self._parts.indexOf(self.text_view), head, 0, _LEFT)
        return head

    @cached_property
    def raw_view(self) -> RawText:
        raw = RawText()
        self._parts.insertWidget(self._parts.indexOf(self.text_view) + 1, raw, 0, _LEFT)
        return raw

    @cached_property
    def held(self) -> QLabel:
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

    def show_busy(self, is_busy: bool) -> None:
        for button in (self.proceed, self._regenerate, self._retry):
            button.setEnabled(not is_busy)
        if self.editor is not None:
            self.editor.show_busy(is_busy)
        self.action_row.stop_at()

    def searched_parts(self) -> list[SearchedPart]:
        """Return the views of ``answer_lines``."""
        has_fold = self._has("call_head")
        text = SearchedText(self.text_view, self.call_head if has_fold else self.raw)
        thinking: list[SearchedPart] = []
        if self._has("thinking"):
            thinking.append(SearchedText(self.thinking.text_view, self.thinking.head))
        pictures = [part for picture in self.files for part in picture.searched_parts()]
        return [*thinking, text, *self.calls.searched_parts(), *pictures]

    def mark_last(self, is_last: bool) -> None:
        """Show the figures and buttons of the last answer."""
        if is_last != self.action_row.is_last:
            self.action_row.mark_last(is_last)
            self.refresh()

    def begin_editing(self) -> None:
        self.open_editor(self._parts, self.text_view, self.run.text, accessible_name="answer")

    def append_text(self, text: str) -> None:
        self.text_view.append_markdown(text)
        self.text_view.show()

    def append_thinking(self, text: str) -> None:
        if text:
            self.thinking.append(text)

    def refresh(self) -> None:
        run = self.run
        if self._has("thinking"):
            self.thinking.show_stage(run)
        self.show_edited_part()
        self.calls.show_run(run)
        live = run.live
        if live.held or self._has("held"):
            self.held.setVisible(bool(live.held))
        if live.held:
            self.held.setText(
                f"Holding “{visible(live.held)}” ({live.held_s:.1f} s): possible stop sequence"
            )
        if not run.is_over or self._has("_progress"):
            self._progress.show_run(run)
        # A turn with calls has one foot, below its last answer.
        has_foot = run.is_over and not self.is_step
        self.pace.setVisible(not run.is_over and bool(run.live.pace.label))
        self.pace.setText(run.live.pace.label)
        self._copy.setVisible(has_foot and bool(run.text))
        self.raw.setVisible(has_foot and bool(run.text))
        self._regenerate.setVisible(has_foot)
        self.more.setVisible(has_foot)
        self.pinned.setVisible(self.message.is_pinned)
        has_actions = not self.action_row.isHidden()  # one of several answers has none
        # An answer that ended as usual or of unknown end is continued from the last one alone.
        is_offered = self.action_row.is_last or not run.has_usual_end
        self.proceed.setVisible(has_actions and run.is_over and run.can_be_continued and is_offered)
        if run.is_over and run.can_be_continued:
            self.proceed.setText(continue_title(run).removesuffix(" Answer"))
            self.proceed.setAccessibleName(continue_label(run))
            self.proceed.setToolTip(with_keys(continue_label(run), _CONTINUE))
        self._retry.setVisible(run.state == "refused" or _failed(run))
        if run.is_over:
            self.text_view.finish()
            self.text_view.show_cut(run.cut_text)
        self.reason.setVisible(has_foot)
        if has_foot:
            self._show_reason()
        self._name()
        self._fit_foot()
        self.action_row.stop_at()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_foot()

    def _fit_foot(self) -> None:
        """Put the buttons below a reason that would wrap beside them."""
        buttons = (self._retry, self.action_row)
        shown = [part.sizeHint().width() for part in buttons if not part.isHidden()]
        needed_px = self.reason.line_px + sum(shown) + len(shown) * self._foot.spacing()
        directions = QBoxLayout.Direction
        fits = needed_px <= self.width()
        self._foot.setDirection(directions.LeftToRight if fits else directions.TopToBottom)
        self._foot.setStretchFactor(self.reason, int(fits))

    @property
    def is_step(self) -> bool:
        """Whether its calls run or have run, so that another answer follows."""
        run = self.run
        has_results = bool(run.results) and not self.action_row.is_last
        return bool(run.tool_calls) and (run.live.is_calling or has_results)

    def _show_reason(self) -> None:
        run, model = self.run, display_name(self.run.model_id)
        if run.state == "refused":
            cause = f"{model} could not be loaded." if run.live.is_load_failure else run.refusal
            self.reason.show_reason(f"Not sent: {cause}", (), "fault", "fault")
        elif (verdict := run.verdict) is not None:
            # Other programs' answers have no reason where nobody recorded one.
            word = "" if run.has_usual_end else verdict.text.label
            is_continued = run.continued_chars > 0
            finished = run.finished
            numbers = () if finished is None else figures(finished, is_continued=is_continued)
            speed = [number for number in numbers if number.endswith("tok/s")]
            more = [number for number in numbers if number not in speed]
            shown = list(filter(None, (model, *speed)))
            self.reason.show_reason(word, shown, verdict.icon, verdict.tone, more)
            self.reason.setVisible(bool(word or model))

    def _name(self) -> None:
        """Name the answer for a screen reader: by its model and its first words."""
        text = " ".join(self.run.text[:60].split())
        more = "…" if len(self.run.text) > 60 else ""
        model = display_name(self.run.model_id)
        who = f"Answer of {model}" if model else "Answer"
        cut = f", then cut off: {self.run.cut_text}" if self.run.cut_text else ""
        self.text_view.setAccessibleName(f"{who}: {text}{more}{cut}" if text or cut else who)

    def mark_shown(self, is_shown: bool) -> None:
        group = self.reason.group()
        if group is not None and not is_shown:
            group.setExclusive(False)
            self.reason.setChecked(False)
            group.setExclusive(True)
        else:
            self.reason.setChecked(is_shown)

    def show_edited_part(self) -> None:
        is_raw, is_edited = self.raw.isChecked(), self.editor is not None
        is_folded = self.run.has_unreadable_call and not self.call_head.isChecked()
        has_text = bool(self.run.text or self.run.cut_text)
        self.text_view.setVisible(has_text and not (is_raw or is_edited or is_folded))
        if is_raw or self._has("raw_view"):
            self.raw_view.setVisible(is_raw and not is_edited)
        if is_raw:
            self.raw_view.show_run(self.run)

    def take_edited(self, text: str, files: tuple[Attachment, ...]) -> None:
        if text == self.run.text:
            self.end_editing()
        else:
            self.rewritten.emit(text)

    def _connect_signals(self) -> None:
        self._retry.clicked.connect(self.regenerate_requested)
        self._regenerate.clicked.connect(self.regenerate_requested)
        copy_on_click(self._copy, lambda: self.run.text)
        self.raw.toggled.connect(lambda _: self.show_edited_part())
        current_theme().changed.connect(self._restyle)

    def _restyle(self) -> None:
        self.text_view.set_style(markdown_style())


def continue_title(run: Run) -> str:
    """Return the command that goes on with an answer."""
    is_past = run.stopped_by is not None or run.is_repetitive
    return CONTINUE_PAST if is_past else "Continue Answer"


def continue_label(run: Run) -> str:
    """Return the label of the Continue button: past the stop that ended the answer, if one did."""
    match run.stopped_by:
        case None:
            again = ", and let it repeat itself" if run.is_repetitive else ""
            return f"Continue this answer{again}"
        case str(sequence):
            return f"Continue past {quoted(sequence, 16)}, this once"
        case token_id:
            return f"Continue past token {token_id}, this once"


def _failed(run: Run) -> bool:
    return run.finished is not None and run.finished.error is not None
