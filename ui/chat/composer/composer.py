"""The field for messages with its buttons. Main thread."""

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent, QTextCursor
from PySide6.QtWidgets import QFrame, QToolButton, QWidget

from engine.wording import counted
from ui.chat.composer.attachments import AttachmentRow
from ui.chat.composer.message_editor import READING
from ui.chat.session.context_meter import ContextUsage
from ui.kit.buttons import ChipButton, IconButton, with_keys
from ui.kit.fields import GrowingInput
from ui.kit.icon_engine import themed_icon
from ui.kit.labels import label, show_text
from ui.kit.layouts import STRETCH, column, row
from ui.kit.theme import restyle
from ui.records.attachments import with_attachments

_SETTINGS_HINT = "System prompt, temperature and length"


def row_text(usage: ContextUsage) -> tuple[str, str]:
    """Return the words beside Send: the full ones, and a short form."""
    if usage.is_full:
        return f"Context full: {_surplus(usage)}", "Context full"
    share = f"{usage.share * 100:.0f}%"
    return f"{share} of context", share


def usage_hint(usage: ContextUsage) -> str:
    """Return the same in whole sentences."""
    if usage.is_full:
        return full_text(usage)
    return (
        f"This message has {counted(usage.message, 'token')}. With the conversation, "
        f"{usage.prompt:,} of the {counted(usage.context, 'token')} in the model’s context are "
        f"used.{without_files_text(usage)}{_excerpts_text(usage)}"
    )


def _excerpts_text(usage: ContextUsage) -> str:
    """Return which documents are read by passages; these may be of the folder."""
    excerpts = usage.fit.excerpts or ()
    return "".join(f" Read of {excerpt.name}: {excerpt.extent}." for excerpt in excerpts)


def full_text(usage: ContextUsage) -> str:
    """Return why a message cannot be sent; empty if it can."""
    if not usage.is_full:
        return ""
    is_all = usage.when_full == "ask"
    subject = (
        "With this message the conversation has"
        if is_all
        else ("This message, with the system prompt and pinned messages, has")
    )
    return (
        f"{subject} {'at least ' if usage.fit.is_lower_bound else ''}"
        f"{counted(usage.prompt, 'token')}; the model’s "
        f"context holds {usage.context:,}, the answer included: {_surplus(usage)}."
        f"{without_files_text(usage)} {_remedy(usage).capitalize()}."
    )


def without_files_text(usage: ContextUsage) -> str:
    """Return how many tokens there are without the files, as a sentence; empty without files."""
    if usage.without_files is None:
        return ""
    return f" Without the files it would be {usage.without_files:,}."


def _surplus(usage: ContextUsage) -> str:
    """Return by how many tokens the prompt is too long; at least one is left for the answer."""
    minimum = "at least " if usage.fit.is_lower_bound else ""
    return f"{minimum}{counted(usage.prompt - usage.context + 1, 'token')} too many"


def _remedy(usage: ContextUsage) -> str:
    if usage.without_files is not None and usage.without_files < usage.context:
        shorten = "shorten the file" if len(usage.files) == 1 else "shorten the files"
        return f"{shorten}, choose fewer pages, or remove files"
    if usage.when_full == "ask":
        return "omit the oldest messages, or shorten the message"
    return "shorten the message, unpin messages, or choose a model with a longer context"


class PromptHistory:
    """Steps through earlier prompts; the last step is the user's own draft."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._position = 0

    def step(self, by: int, text: str, prompts: Sequence[str]) -> str | None:
        """Go to the previous (-1) or next (1) prompt."""
        if not self._lines:
            self._lines = [*prompts, text]
            self._position = len(prompts)
        position = self._position + by
        if not 0 <= position < len(self._lines):
            return None
        self._lines[self._position] = text
        self._position = position
        return self._lines[position]

    def draft(self, text: str) -> str:
        """Return the user's draft, given the present text: an unchanged prompt is no draft."""
        return self._lines[-1] if self._lines and text == self._lines[self._position] else text

    def end(self) -> str:
        """End the walk; return the draft at its beginning, empty if there was no walk."""
        is_walking = self._position < len(self._lines) - 1
        draft = self._lines[-1] if is_walking else ""
        self._lines, self._position = [], 0
        return draft


class Composer(QFrame):
    """A card with a growing text field and a row of buttons."""

    submitted = Signal()
    stop_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("composer")
        self._is_running = False
        self._is_ready = False
        self._counted = ("", "")
        self.full_because = ""
        self._not_ready_because = ""
        self._has_queue = False
        self.notice = label("", "muted", 0.93, is_wrapped=True)
        self._row = QWidget()
        self.input = GrowingInput()
        self.input.setAccessibleName("Message")
        self.thinking = ChipButton("thinking", "Thinking", is_toggle=True)
        self.thinking.setToolTip("Let the model reason before it answers")
        self.stops = ChipButton("stop-match", "")
        self.stops.setToolTip("The stop sequences of this conversation")
        self.tools = ChipButton("tool", "")
        self.tools.hide()
        self.settings = ChipButton("sliders", "Settings")
        self.settings.setToolTip(with_keys(_SETTINGS_HINT, "Ctrl+Shift+S"))
        # Thinking is the last: it comes with a model, and must not move the others.
        self._chips = (self.stops, self.tools, self.settings, self.thinking)
        self.attach = IconButton(
            "attach", "Attach files: pictures, text, PDF or Word", keys="Ctrl+Shift+O"
        )
        self.attachments = AttachmentRow()
        self.meter = label("", "faint", 0.9)
        self.action = QToolButton()
        self.action.setProperty("kind", "send")
        self.action.setFixedSize(32, 32)
        self.action.setIconSize(QSize(19, 19))
        self.action.setCursor(Qt.CursorShape.PointingHandCursor)
        self._history = PromptHistory()
        self._lay_out()
        self._connect_signals()
        self._refresh()

    @property
    def text(self) -> str:
        return self.input.toPlainText()

    @property
    def draft(self) -> str:
        """The text that the user has written; an unchanged earlier prompt does not count."""
        return self._history.draft(self.text)

    @property
    def message(self) -> str:
        """The message as it would be sent: the text with its files."""
        return with_attachments(self.text, self.attachments.files)

    def set_text(self, text: str) -> None:
        self._history.end()
        self.input.setPlainText(text)
        self.input.moveCursor(QTextCursor.MoveOperation.End)

    def recall(self, by: int, prompts: Sequence[str]) -> None:
        """Show the previous or next of some prompts, in one step that can be undone."""
        text = self._history.step(by, self.text, prompts)
        if text is None:
            return
        cursor = self.input.textCursor()
        cursor.select(cursor.SelectionType.Document)
        cursor.insertText(text)
        if by < 0:  # the next press goes further up, even from a text of several lines
            cursor.movePosition(cursor.MoveOperation.Start)
            cursor.movePosition(cursor.MoveOperation.EndOfBlock)
        self.input.setTextCursor(cursor)

    def quote(self, quotation: str) -> None:
        """Insert a quotation at the caret, on lines of its own, with the caret below it."""
        cursor = self.input.textCursor()
        before = self.text[: cursor.position()]
        gap = "" if not before.strip() else "\n" * max(0, 2 - _line_ends(before))
        cursor.insertText(gap + quotation)
        self.input.setTextCursor(cursor)
        self.input.setFocus()

    def clear(self) -> None:
        """Clear the field and remove the files; a draft from before the history returns."""
        self.attachments.clear()
        self.set_text(self._history.end())

    def show_usage(self, usage: ContextUsage | None) -> None:
        self.full_because = "" if usage is None else full_text(usage)
        excerpts = () if usage is None else usage.fit.excerpts or ()
        self.attachments.show_tokens({} if usage is None else usage.files, excerpts)
        self.attachments.offer_cuts({} if usage is None else usage.cuts)
        self._refresh()
        if usage is None:
            self._counted = ("", "")
            self.meter.setToolTip("")
            self.meter.setAccessibleName("")
            self._fit()
            return
        self._counted = row_text(usage)
        self._fit()
        self.meter.setToolTip(usage_hint(usage))
        self.meter.setAccessibleName(self.meter.toolTip())
        role = "fault" if usage.is_full else "muted" if usage.share > 0.8 else "faint"
        restyle(self.meter, "role", role)

    def show_stage(self, is_ready: bool, is_running: bool, placeholder: str) -> None:
        if (is_ready, is_running) != (self._is_ready, self._is_running):
            self.show_notice("")
        self._is_ready, self._is_running = is_ready, is_running
        self._not_ready_because = placeholder
        self.input.setPlaceholderText(placeholder)
        self._refresh()

    def show_queue(self, has_queue: bool) -> None:
        """Let Return and the button send the first message that waits."""
        if has_queue != self._has_queue:
            self._has_queue = has_queue
            self._refresh()

    def show_notice(self, text: str) -> None:
        """Say below the text why it was not sent; empty for nothing."""
        show_text(self.notice, text)

    def show_stops(self, count: int) -> None:
        text = counted(count, "Stop") if count else ""
        self.stops.set_label(text, f"{text or 'No Stops'}: show the stop sequences")
        self._fit()

    def show_thinking(self, can_think: bool, is_thinking: bool) -> None:
        self.thinking.setVisible(can_think)
        self.thinking.setChecked(is_thinking)
        self.thinking.set_label("Thinking" if is_thinking else "", "Thinking")
        self._fit()

    def show_tools(self, text: str, accessible_name: str) -> None:
        self.tools.setVisible(True)
        self.tools.set_label(text, accessible_name)
        self.tools.setToolTip(with_keys(accessible_name, "Ctrl+T"))
        self._fit()

    def show_settings(self, text: str) -> None:
        name = f"Conversation settings: {text or 'the defaults'}"
        self.settings.set_label("Settings" if text else "", name, has_dot=bool(text))
        self.settings.setToolTip(with_keys(text or _SETTINGS_HINT, "Ctrl+Shift+S"))

    def _lay_out(self) -> None:
        line = self._row
        row(self.attach, *self._chips, STRETCH, self.meter, self.action, spacing=6, on=line)
        self.show_notice("")
        column(
            self.attachments,
            self.input,
            self.notice,
            line,
            spacing=7,
            margins=(15, 11, 10, 9),
            on=self,
        )

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Shorten the buttons if there is no room for their words."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Shorten the row of buttons to the width of the field: first the count, then the chips."""
        chips = [chip for chip in self._chips if not chip.isHidden()]
        row = self._row.layout()
        if row is None:
            return
        is_compact = bool(chips) and chips[0].is_compact
        long, short = self._counted
        count = self.meter.fontMetrics().horizontalAdvance
        needed = row.minimumSize().width() - count(self.meter.text())
        if is_compact:
            needed += sum(chip.saved_px for chip in chips)
        available = self.contentsRect().width() - 25  # the margins
        wants_compact = needed + count(short) > available
        if wants_compact:
            needed -= sum(chip.saved_px for chip in chips)
        fitting = (text for text in (long, short) if needed + count(text) <= available)
        self.meter.setText(next(fitting, ""))
        for chip in self._chips:
            chip.set_compact(wants_compact)

    def _connect_signals(self) -> None:
        self.input.submitted.connect(self._submit)
        self.input.textChanged.connect(self._refresh)
        self.attachments.take_from(self.input)
        self.attach.clicked.connect(self.attachments.choose)
        self.attachments.changed.connect(self._refresh)
        self.input.focus_changed.connect(self.show_drop)
        self.action.clicked.connect(self._act)

    def _act(self) -> None:
        if self._is_running:
            self.stop_requested.emit()
        else:
            self._submit()

    def _submit(self) -> None:
        if not (self._is_written or self._has_queue):
            return
        if self.attachments.is_reading:
            self.show_notice(READING)
        elif not self._is_ready:
            self.show_notice(self._not_ready_because)
        else:
            self.submitted.emit()

    @property
    def _is_written(self) -> bool:
        return bool(self.text.strip()) or bool(self.attachments.files)

    def _refresh(self) -> None:
        why_not = READING if self.attachments.is_reading else self.full_because
        has_message = self._is_written or self._has_queue
        can_send = self._is_ready and has_message and not why_not
        self.action.setEnabled(self._is_running or can_send)
        accessible_name, keys = (
            ("Stop the answer", "Esc") if self._is_running else ("Send", "Enter")
        )
        if why_not and not self._is_running:
            accessible_name, keys = f"Can’t send yet. {why_not}", ""
        self.action.setAccessibleName(accessible_name)
        self.action.setToolTip(with_keys(accessible_name, keys))
        name = "square" if self._is_running else "send"
        self.action.setIcon(themed_icon(name, "on_accent", disabled_color="faint"))

    def show_drop(self, is_hovering: bool) -> None:
        restyle(self, "focused", is_hovering or self.input.hasFocus())


def _line_ends(text: str) -> int:
    return len(text) - len(text.rstrip("\n"))
