"""The cards of the calls in an answer: arguments, permission, progress, result. Main thread."""

import asyncio
import json
from collections.abc import Collection, Sequence
from functools import cached_property, partial
from pathlib import Path

import shiboken6
from PySide6.QtCore import QSize, QSizeF, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QImage, QMouseEvent, QTextCursor
from PySide6.QtWidgets import (
    QFrame,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QPushButton,
    QSizePolicy,
    QWidget,
)

from engine.wording import seconds
from ui.chat.composer.pictures import picture_button
from ui.kit.buttons import IconBadge, IconButton, copy_button, push_button
from ui.kit.commands import Command, Entry, context_menu, fill_menu
from ui.kit.flow_text import FlowText, SearchedLabel, SearchedPart, SearchedText, selected_text
from ui.kit.icon_engine import themed_icon
from ui.kit.labels import ElidedLabel, label, thin_bar
from ui.kit.layouts import STRETCH, FlowLayout, column, row
from ui.kit.markdown.pictures import picture_from
from ui.kit.menus import copy_text
from ui.kit.tasks import start_task
from ui.kit.theme import current_theme, restyle
from ui.kit.windows import OwnWindow
from ui.kit.wire_text import WireHighlighter
from ui.records.attachments import Attachment
from ui.records.facts import remembered
from ui.records.runs import GrowingCall, Run
from ui.records.tool_calls import (
    DENIAL_REASON,
    CallProgress,
    CallResult,
    CallState,
    Decision,
    Permission,
)
from ui.records.tool_servers import ServerQuestion
from ui.tools.question_form import QuestionForm
from ui.words import (
    Tone,
    lines_of,
    with_control_pictures,
    with_directions_shown,
    with_escapes_for_hidden,
)

UNFINISHED = "Unfinished call"
_MAX_SHOWN_CHARS = 20_000
# A longer result can be shortened to this for the model, by hand.
_LONG_CHARS = 4_000

_ENDINGS = {
    "done": "Done",
    "failed": "Failed",
    "denied": "Denied",
    "cancelled": "Stopped",
}
_TONES: dict[CallState, Tone] = {
    "done": "tool",
    "failed": "fault",
    "denied": "limit",
    "cancelled": "quiet",
}


def call_state(run: Run, call_id: str) -> tuple[str, Tone]:
    """Return the state of a call as a label, with its tone."""
    if (result := run.result_of(call_id)) is not None:
        return _ended(result), _TONES[result.state]
    if (progress := run.live.progress.get(call_id)) is not None:
        return _under_way(progress), "tool"
    if run.live.is_calling:
        return "Waiting", "tool"
    if run.paused_at or run.live.is_cut_off:
        return "Not run yet", "limit"
    if run.results:
        return "Not run", "quiet"
    return "Waiting for its result", "tool"


def share_done(progress: CallProgress | None) -> float | None:
    """Return the share of a call that is done, from 0 to 1; None if it is not known."""
    if progress is None or progress.done is None or not progress.total:
        return None
    share = progress.done / progress.total
    return min(max(share, 0.0), 1.0) if share == share else None


def pretty(arguments: str) -> str:
    """Return arguments with a line for each; if they are not JSON, unchanged.

    Hidden characters are escaped: the user approves these arguments.
    """
    try:
        shown = json.dumps(json.loads(arguments), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        shown = arguments
    return with_escapes_for_hidden(shown)


def has_none(arguments: str) -> bool:
    """Return whether a call has no arguments."""
    return "".join(arguments.split()) in ("", "{}")


def _values_of(arguments: str) -> str:
    """Return the values of arguments in one line; empty if they are not a JSON object."""
    try:
        values = json.loads(arguments)
    except (ValueError, RecursionError):
        return ""
    shown = values.values() if isinstance(values, dict) else ()
    text = ", ".join(str(value) for value in shown if isinstance(value, str | int | float))
    return with_escapes_for_hidden(" ".join(text[:100].split()))


def shown_result(text: str) -> str:
    """Return a result, shortened to what its card shows."""
    shown = with_directions_shown(with_control_pictures(text[:_MAX_SHOWN_CHARS]))
    return shown if len(text) <= _MAX_SHOWN_CHARS else f"{shown}\n…"


def call_lines(run: Run) -> list[str]:
    """Return the lines of the unfolded cards of a run."""
    lines: list[str] = []
    for call in run.tool_calls:
        arguments, result = pretty(call.arguments), run.result_of(call.id)
        lines += [call.name, *([] if has_none(arguments) else lines_of(arguments))]
        lines += [] if result is None else lines_of(shown_result(result.text))
    unfinished = run.finished.unfinished_tool_call if run.finished is not None else ""
    return [*lines, UNFINISHED, *lines_of(unfinished)] if unfinished else lines


def _ended(result: CallResult) -> str:
    parts = [_ENDINGS[result.state]]
    if result.state == "done" and result.server:
        parts = [result.server, *parts, seconds(result.took_s)]
    elif result.state == "failed":
        parts += [line for line in lines_of(shown_result(result.text)) if line.strip()][:1]
    elif result.state == "denied":
        parts += lines_of(result.text.partition(DENIAL_REASON)[2])[:1]
    return " · ".join(filter(None, parts))


def _under_way(progress: CallProgress) -> str:
    if progress.question is not None:
        return f"{progress.server} · Asks you something"
    if progress.needs_user:
        return f"{progress.server} · Needs your approval"
    parts = [progress.server, f"Running for {seconds(progress.running_s)}"]
    if progress.done is not None:
        total = "" if progress.total is None else f" of {progress.total:g}"
        parts.append(f"{progress.done:g}{total}")
    if progress.message:
        parts.append(progress.message)
    return " · ".join(parts)


def _menu_button(name: str, kind: str, *entries: Command) -> QPushButton:
    """Return the right half of a split button, which opens a menu."""
    button = push_button("", name, kind)
    button.setToolTip(name)
    button.setProperty("side", "right")
    color = "on_accent" if kind == "primary" else "muted"
    button.setIcon(themed_icon("chevron-down", color))
    button.setIconSize(QSize(12, 12))
    button.setAutoDefault(False)
    # As high as the left half, whose height comes from its text.
    button.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Ignored)
    menu = QMenu(button)
    menu.setAccessibleName(name)
    fill_menu(menu, entries)
    button.setMenu(menu)
    return button


class PermissionRow(QWidget):
    """The question and its answers; a denial may have a reason, which the model gets."""

    decided = Signal(object)  # Decision

    def __init__(self, server: str, tool: str, has_arguments: bool) -> None:
        super().__init__()
        self._is_decided = False
        self.buttons: dict[Permission, QPushButton] = {}
        self.menus: dict[Permission, QMenu] = {}
        called = f"{tool} of {server}"
        others: tuple[tuple[Permission, str], ...] = (
            ("conversation", "Allow in This Chat"),
            ("always", "Always Allow"),
        )
        ways = [Command(text, partial(self._decide, permission)) for permission, text in others]
        self._answers = QWidget()
        flow = FlowLayout(self._answers)
        flow.setSpacing(8)
        flow.addWidget(self._split("once", "Allow", f"Allow {called} once", "primary", *ways))
        reason = Command("Deny with Reason…", self._begin_denial)
        flow.addWidget(self._split("denied", "Deny", f"Deny {called}", "", reason))
        self.reason = QLineEdit()
        self.reason.setPlaceholderText("Reason (sent to the model)")
        self.reason.setAccessibleDescription("The model reads it. Return denies the call.")
        self.reason.setAccessibleName(f"Reason for not allowing {tool}")
        self.reason.setMaxLength(2_000)
        self.reason.returnPressed.connect(lambda: self._decide("denied"))
        self.deny = push_button("Deny", f"Deny {called} with this reason")
        self.deny.clicked.connect(lambda: self._decide("denied"))
        self.back = push_button("Cancel", "Choose another answer", kind="link")
        self.back.clicked.connect(self._cancel_denial)
        self._denial = QWidget()
        row((self.reason, 1), self.deny, self.back, spacing=8, on=self._denial)
        self._denial.hide()
        how = " with these arguments" if has_arguments else ""
        self.question = label(f"Allow “{server}” to run {tool}{how}?", is_wrapped=True)
        column(
            *(self.question, self._answers, self._denial),
            spacing=8,
            margins=(0, 4, 0, 4),
            on=self,
        )

    def _split(
        self, permission: Permission, text: str, name: str, kind: str, *entries: Command
    ) -> QWidget:
        """Return a button that decides at once, with a menu of other ways beside it."""
        button = self.buttons[permission] = push_button(text, name, kind)
        button.setProperty("side", "left")
        button.setAutoDefault(False)
        button.clicked.connect(partial(self._decide, permission))
        more = _menu_button(f"More Ways to {text}", kind, *entries)
        self.menus[permission] = more.menu()
        both = QWidget()
        row(button, more, spacing=0, on=both)
        return both

    def _begin_denial(self) -> None:
        self._answers.hide()
        self._denial.show()
        self.reason.setFocus()

    def _cancel_denial(self) -> None:
        self.reason.clear()
        self._denial.hide()
        self._answers.show()
        self.buttons["denied"].setFocus()

    def _decide(self, permission: Permission, _: bool = False) -> None:
        # Disabling a button moves the focus to another widget, and the chat would scroll there.
        if not self._is_decided:
            self._is_decided = True
            self.decided.emit(Decision(permission, self.reason.text()))


class _CodeText(FlowText):
    """A text in the font of code; a long one shows its beginning until ``fold`` is checked."""

    def __init__(self, accessible_name: str) -> None:
        super().__init__()
        self.setObjectName("answer_text")
        self.setAccessibleName(accessible_name)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.NoContextMenu)  # its card opens the menu
        self.setFont(current_theme().code_font())
        self.whole = ""
        noun = f"{accessible_name[:1].lower()}{accessible_name[1:]}"
        self.fold = push_button("Show All", f"Show all of the {noun}", kind="fold")
        self.fold.setCheckable(True)
        self.fold.toggled.connect(lambda _: self._show())
        self.fold.hide()

    def show_text(self, whole: str) -> None:
        self.whole = whole
        self.fold.setVisible(_shortened(whole) != whole)
        self._show()

    def _show(self) -> None:
        is_whole = self.fold.isChecked()
        self.fold.setText("Show Less" if is_whole else "Show All")
        self.setPlainText(self.whole if is_whole else _shortened(self.whole))


class _Card(QFrame):
    """A card with the name and the state of a call at its head."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setObjectName("card")
        self._badge = IconBadge(26)
        self._title = ElidedLabel(name, "title")
        self._title.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        # Elided where there is no space: a card never makes the chat wider.
        self._status = ElidedLabel("", "muted", 0.92)
        self._head = row(self._badge, self._title, (self._status, 1), spacing=8)
        self._column = column(self._head, spacing=8, margins=(12, 8, 12, 8), on=self)

    def _show_status(self, text: str, tone: Tone) -> None:
        self._status.setText(text)
        restyle(self._status, "role", "fault" if tone == "fault" else "muted")
        self._badge.show_icon("fault" if tone == "fault" else "tool", tone)


class GrowingCard(_Card):
    """Shows the name of a call, and its arguments so far."""

    def __init__(self, call: GrowingCall) -> None:
        super().__init__(call.name)
        self.setAccessibleName(f"Tool call {call.name}, is being written")
        self._call = call
        self._shown = 0
        self._show_status("Being written…", "tool")
        self._text = _CodeText(f"Arguments of {call.name}")
        self._column.addWidget(self._text)

    def grow(self) -> None:
        """Show the new part of the arguments, without laying out the shown part again."""
        texts = self._call.texts
        if self._shown < len(texts):
            cursor = QTextCursor(self._text.document())
            cursor.movePosition(QTextCursor.MoveOperation.End)
            cursor.insertText("".join(texts[self._shown :]))
            self._shown = len(texts)


class ToolCard(_Card):
    """Shows one tool call; changed in place, which keeps the focus and typed text."""

    replied = Signal(object)  # Decision or QuestionReply
    restart_requested = Signal(str)  # server name
    picture_requested = Signal(object)  # Attachment
    cut_requested = Signal(object)  # characters for the model; None for all
    forget_requested = Signal(str)  # id of a fact

    def __init__(self, name: str, arguments: str) -> None:
        super().__init__(name)
        self._name = name
        self._arguments = arguments
        self._gist = _values_of(arguments)
        self._state: tuple[str, Tone] = ("", "tool")
        self._whole = ""
        self.permission: PermissionRow | None = None
        self.question: QuestionForm | None = None
        self.restart: QPushButton | None = None
        self.undo: QPushButton | None = None
        self.pictures: list[QPushButton] = []
        self._picture_count = 0  # pictures that are being read included
        self._is_finished = False
        self._body = QWidget()
        self.unfold = IconButton("chevron-down", "", size=16)
        self.unfold.clicked.connect(lambda: self._show_body(self._body.isHidden()))
        self._head.addWidget(self.unfold)
        self._bar = thin_bar(f"Progress of {name}")
        self._bar.setRange(0, 1000)
        self._bar.hide()
        self.result = _CodeText(f"Result of {name}")
        self.result.hide()
        self.fold = self.result.fold
        self.whole = push_button(
            "Open Whole Result…", f"Open the whole result of {name} in a window", kind="fold"
        )
        self.whole.clicked.connect(self._open_whole)
        self.whole.hide()
        self.cut = push_button("Shorten", kind="fold")
        self.cut.clicked.connect(self._cut)
        self.cut.hide()
        self._is_cut = False
        self.sent = label("", "muted", 0.92, is_wrapped=True)
        self.sent.hide()
        self._copy = copy_button(f"Copy the result of {name}", lambda: self._whole)
        self._copy.hide()
        self._result_head = label("Result", "faint", 0.88)
        self._result_head.hide()
        self.arguments: _CodeText | None = None
        inside = column(spacing=4, margins=(0, 0, 0, 4), on=self._body)
        if has_none(arguments):
            inside.addWidget(label("No arguments", "faint", 0.88))
        else:
            self.arguments = _CodeText(f"Arguments of {name}")
            WireHighlighter(self.arguments.document())
            self.arguments.show_text(arguments)
            copy = copy_button(f"Copy the arguments of {name}", lambda: arguments)
            inside.addLayout(row((label("Arguments", "faint", 0.88), 1), copy))
            inside.addWidget(self.arguments)
            inside.addLayout(row(self.arguments.fold, STRETCH))
        inside.addLayout(row((self._result_head, 1), self._copy))
        inside.addWidget(self.sent)
        inside.addWidget(self.result)
        inside.addLayout(row(self.fold, self.whole, self.cut, STRETCH))
        for text in filter(None, (self.arguments, self.result)):
            # The search of a conversation clicks it to show the whole text.
            text.fold.clicked.connect(lambda: self._show_body(is_shown=True))
        self._column.addWidget(self._body)
        self._column.addWidget(self._bar)
        self._show_body(is_shown=True)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        fold = "Show Details" if self._body.isHidden() else "Hide Details"
        at = self.childAt(event.pos())
        text = at.parentWidget() if at is not None else None
        within: list[Entry] = []
        if isinstance(text, _CodeText):
            chosen = selected_text(text)
            within = [
                Command("&Copy", partial(copy_text, chosen), enabled=bool(chosen)),
                Command("Select A&ll", text.selectAll),
                None,
            ]
        entries: list[Entry] = [
            *within,
            Command(
                "Copy &Arguments",
                partial(copy_text, self._arguments),
                enabled=self.arguments is not None,
            ),
            Command("Copy &Result", partial(copy_text, self._whole), enabled=bool(self._whole)),
            None,
            Command(fold, self.unfold.click),
        ]
        context_menu(self, f"Call of {self._name}", entries).popup(event.globalPos())

    def show_state(self, text: str, tone: Tone) -> None:
        self._state = text, tone
        self._show_head()
        self.setAccessibleName(f"Tool call {self._name}, {text}: {self._arguments}")

    def show_progress(self, progress: CallProgress | None, share: float | None) -> None:
        self._show_question(None if progress is None else progress.question)
        needs_approval = progress is not None and progress.needs_user and progress.question is None
        if progress is not None and progress.needs_user:
            self._show_body(is_shown=True)
        if progress is not None and needs_approval and self.permission is None:
            self.permission = PermissionRow(
                progress.server, progress.tool, self.arguments is not None
            )
            self.permission.decided.connect(self.replied)
            self._column.insertWidget(self._column.indexOf(self._bar), self.permission)
        elif not needs_approval and self.permission is not None:
            self.permission.hide()
            self.permission.deleteLater()
            self.permission = None
        self._bar.setVisible(share is not None)
        if share is not None:
            self._bar.setValue(round(share * 1000))

    def _show_question(self, question: ServerQuestion | None) -> None:
        if self.question is not None and self.question.question is not question:
            self.question.hide()
            self.question.deleteLater()
            self.question = None
        if question is not None and self.question is None:
            self.question = QuestionForm(question)
            self.question.replied.connect(self.replied)
            self._column.insertWidget(self._column.indexOf(self._bar), self.question)

    def show_pictures(self, result: CallResult | None, folder: Path | None) -> None:
        if result is None or folder is None:
            return
        files = result.pictures[self._picture_count :]
        if files:
            self._picture_count = len(result.pictures)
            start_task(self, self._add_pictures(files, folder), "show a call's pictures")

    async def _add_pictures(self, files: Sequence[Attachment], folder: Path) -> None:
        for file in files:
            path = folder / file.kept_file
            image = await asyncio.to_thread(picture_from, path, QSizeF(420, 280))
            if not shiboken6.isValid(self):
                return
            picture = _picture_button(file, image)
            picture.clicked.connect(partial(self.picture_requested.emit, file))
            self.pictures.append(picture)
            self._column.addWidget(picture)

    def show_result(self, result: CallResult | None) -> None:
        if (result is not None) != self._is_finished:
            self._is_finished = result is not None
            self._show_body(result is None)
        whole = "" if result is None else result.text
        is_cut = result is not None and result.is_cut
        self.sent.setText(f"The model got {result.sent_extent}." if result and is_cut else "")
        self.sent.setVisible(is_cut)
        self._is_cut = is_cut
        self.cut.setVisible(is_cut or len(whole) > _LONG_CHARS)
        self.cut.setText("Send All" if is_cut else "Shorten")
        self.cut.setAccessibleName(
            f"Send the model all of the result of {self._name}"
            if is_cut
            else f"Send the model only the beginning of the result of {self._name}"
        )
        if whole == self._whole and self.result.isHidden() == (not whole):
            return
        self._whole = whole
        for part in (self.result, self._result_head, self._copy):
            part.setVisible(bool(whole))
        self.whole.setVisible(len(whole) > _MAX_SHOWN_CHARS)
        self.result.show_text(shown_result(whole))

    def _cut(self) -> None:
        self.cut_requested.emit(None if self._is_cut else _LONG_CHARS)

    def show_lost(self, server: str) -> None:
        """Offer to start the server of the call again; "" if it runs, or is started by itself."""
        if server and self.restart is None:
            self.restart = push_button(f"Restart “{server}”", f"Restart the MCP server {server}")
            self.restart.clicked.connect(lambda: self.restart_requested.emit(server))
            self._column.addLayout(row(self.restart, STRETCH))
        if self.restart is not None:
            self.restart.setVisible(bool(server))

    def show_fact(self, fact: tuple[str, str], is_kept: bool) -> None:
        """Name the fact that the call has kept, and offer to undo that as long as it is there."""
        fact_id, text = fact
        self._title.setText(f"{'Remembered' if is_kept else 'Forgotten'}: {text}")
        self._gist = ""  # the title has it
        self._show_head()
        if self.undo is None:
            self.undo = push_button("Undo", f"Forget {text}", kind="link")
            self.undo.clicked.connect(lambda: self.forget_requested.emit(fact_id))
            self._head.insertWidget(self._head.indexOf(self.unfold), self.undo)
        self.undo.setVisible(is_kept)

    def searched_parts(self) -> list[SearchedPart]:
        texts = filter(None, (self.arguments, self.result))
        parts = [SearchedText(text, text.fold, whole=text.whole) for text in texts]
        return [SearchedLabel(self._title), *parts]

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Fold and unfold by a click on the head."""
        is_left = event.button() is Qt.MouseButton.LeftButton
        if is_left and event.position().y() <= self._head.geometry().bottom():
            self.unfold.click()

    def _show_head(self) -> None:
        """Show the state, and the arguments where nothing else does."""
        text, tone = self._state
        gist = self._gist if self._body.isHidden() and tone != "fault" else ""
        self._show_status(" · ".join(filter(None, (text, gist))), tone)

    def _show_body(self, is_shown: bool) -> None:
        self._body.setVisible(is_shown)
        self._show_head()
        icon, verb = ("chevron-down", "Hide") if is_shown else ("chevron-right", "Show")
        self.unfold.show_icon(icon, f"{verb} the call of {self._name}")
        if not is_shown:
            for text in filter(None, (self.arguments, self.result)):
                text.fold.setChecked(False)

    def _open_whole(self) -> None:
        window = OwnWindow(f"Result of {self._name}", (760, 560), self.window())
        window.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        text = QPlainTextEdit(with_directions_shown(with_control_pictures(self._whole)))
        text.setReadOnly(True)
        text.setAccessibleName(f"Whole result of {self._name}")
        text.setFont(current_theme().code_font())
        column(text, on=window)
        window.show()


class PausedRow(QWidget):
    """Says that the limit of calls was reached, and offers to continue."""

    def __init__(self) -> None:
        super().__init__()
        self._text = label("", "muted", 0.95, is_wrapped=True)
        self.proceed = push_button("Continue", "Continue with more calls")
        row((self._text, 1), self.proceed, margins=(2, 0, 2, 0), on=self)
        self.hide()

    def show_limit(self, limit: int) -> None:
        self.setVisible(limit > 0)
        calls = "1 call" if limit == 1 else f"{limit:,} calls"
        self._text.setText(f"Paused: the limit of {calls} for one question was reached.")
        self.proceed.setAccessibleName(f"Continue with up to {calls} more")

    def show_cut_off(self) -> None:
        self.show()
        self._text.setText("These calls were not run.")
        self.proceed.setAccessibleName("Continue with the calls that were not run")


def _shortened(text: str) -> str:
    short = "\n".join(text.split("\n")[:8])[:600]
    return text if short == text else f"{short}…"


def _picture_button(file: Attachment, image: QImage | None) -> QPushButton:
    """Return a picture that a tool made."""
    if image is not None:
        return picture_button(file.name, image)
    button = push_button("A picture that cannot be shown here", f"Picture {file.name}")
    button.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
    return button


class ToolCards(QWidget):
    """Shows the calls of a run, including a call that the end cut short.

    A call that is being written has a card that grows.
    """

    replied = Signal(str, object)  # call id, Decision or QuestionReply
    continue_requested = Signal()
    restart_requested = Signal(str)  # server name
    picture_requested = Signal(object)  # Attachment
    cut_requested = Signal(str, object)  # call id, characters for the model or None
    forget_requested = Signal(str)  # id of a fact

    def __init__(self) -> None:
        super().__init__()
        self.cards: dict[str, ToolCard] = {}
        self._growing: dict[str, GrowingCard] = {}
        self._unfinished: ToolCard | None = None
        self._run: Run | None = None
        self._lost: Collection[str] = ()
        self._facts: Collection[str] = ()
        self._pictures_folder: Path | None = None
        self._column = column(spacing=8, on=self)
        self.hide()

    @cached_property
    def paused(self) -> PausedRow:
        paused = PausedRow()
        paused.proceed.clicked.connect(self.continue_requested)
        self._column.addWidget(paused)
        return paused

    def show_run(self, run: Run) -> None:
        unfinished = run.finished.unfinished_tool_call if run.finished is not None else ""
        if not (run.tool_calls or run.live.growing_calls or self._growing or unfinished):
            return
        self._drop_growing({call.call_id for call in run.live.growing_calls})
        for call in run.tool_calls:
            card = self.cards.get(call.id)
            if card is None:
                card = self.cards[call.id] = ToolCard(call.name, pretty(call.arguments))
                card.replied.connect(partial(self.replied.emit, call.id))
                card.restart_requested.connect(self.restart_requested)
                card.picture_requested.connect(self.picture_requested)
                card.cut_requested.connect(partial(self.cut_requested.emit, call.id))
                card.forget_requested.connect(self.forget_requested)
                self._add(card)
            progress = run.live.progress.get(call.id)
            card.show_state(*call_state(run, call.id))
            card.show_progress(progress, share_done(progress))
            card.show_result(run.result_of(call.id))
            card.show_pictures(run.result_of(call.id), self._pictures_folder)
        for growing in run.live.growing_calls:
            if (grown := self._growing.get(growing.call_id)) is None:
                grown = self._growing[growing.call_id] = GrowingCard(growing)
                self._add(grown)
            grown.grow()
        if unfinished and self._unfinished is None:
            self._unfinished = ToolCard(UNFINISHED, unfinished)
            self._unfinished.show_state("Cut short", "limit")
            self._add(self._unfinished)
        self.paused.show_limit(0 if run.live.is_calling else run.paused_at)
        if run.live.is_cut_off:
            self.paused.show_cut_off()
        self.setVisible(bool(self.cards or self._growing or self._unfinished))
        self._run = run
        self.show_lost(self._lost)
        self.show_facts(self._facts)

    def show_facts(self, kept: Collection[str]) -> None:
        """Show which of the facts that calls have kept are still there."""
        self._facts = kept
        for call_id, card in self.cards.items():
            result = None if self._run is None else self._run.result_of(call_id)
            if (fact := remembered(result)) is not None:
                card.show_fact(fact, fact[0] in kept)

    def show_pictures(self, folder: Path | None) -> None:
        self._pictures_folder = folder
        if self._run is not None:
            for call_id, card in self.cards.items():
                card.show_pictures(self._run.result_of(call_id), folder)

    def show_lost(self, servers: Collection[str]) -> None:
        """Offer to start servers again that died, each in the card of its last call."""
        self._lost = servers
        results = [] if self._run is None else self._run.results
        last = {result.server: result.call_id for result in results}
        offered = {last[server]: server for server in servers if server in last}
        for call_id, card in self.cards.items():
            card.show_lost(offered.get(call_id, ""))

    def searched_parts(self) -> list[SearchedPart]:
        """Return the views of ``call_lines``."""
        cards = [*self.cards.values(), *([self._unfinished] if self._unfinished else [])]
        return [part for card in cards for part in card.searched_parts()]

    def _drop_growing(self, kept: Collection[str]) -> None:
        for call_id in self._growing.keys() - kept:
            card = self._growing.pop(call_id)
            card.hide()
            card.deleteLater()

    def _add(self, card: QWidget) -> None:
        # Above the row about the limit, which is there once a call was made.
        self._column.insertWidget(self._column.indexOf(self.paused), card)
