"""The window of a model's chat template: edited, checked, and compared with the model's own."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import (
    QColor,
    QHideEvent,
    QKeySequence,
    QShortcut,
    QShowEvent,
    QTextCharFormat,
    QTextCursor,
    QTextFormat,
)
from PySide6.QtWidgets import QPlainTextEdit, QSplitter, QTextEdit, QWidget

from engine import SAMPLE_REQUEST, TemplatePreview
from engine.errors import InvalidTemplate
from engine.library.local_models import FoundModel
from engine.library.template_files import chat_template, read_template
from engine.values.request import GenerationRequest
from engine.wording import as_sentence, counted
from ui.differences import Span
from ui.kit.buttons import Choice, IconButton, UndoBar, push_button
from ui.kit.dialogs import choose_file, show_error
from ui.kit.fields import FileDrops
from ui.kit.flow_text import utf16_length
from ui.kit.labels import ElidedLabel, StatusPill, label
from ui.kit.layouts import STRETCH, column, row
from ui.kit.tasks import start_task
from ui.kit.theme import current_theme, fixed_font, restyle
from ui.kit.windows import OwnWindow, bring_forward
from ui.models.model_library import ModelLibrary
from ui.models.template_comparison import Comparison, compare_templates, describe_report
from ui.words import display_name

# A text view lays this much out within a frame.
_MAX_SHOWN_CHARS = 300_000
_SAMPLE, _OPEN = "sample", "open"
_NO_TEMPLATE = "This model has no chat template of its own."


class _Text(QPlainTextEdit):
    """A text in a fixed font, with marked parts."""

    def __init__(self, accessible_name: str) -> None:
        super().__init__()
        self.setAccessibleName(accessible_name)
        self.setFont(fixed_font(self.font(), 0.95))
        self.setTabChangesFocus(True)
        self._marks: list[QTextEdit.ExtraSelection] = []
        self._spans: list[Span] = []

    def text(self) -> str:
        """Return the text as it is; ``toPlainText`` makes spaces of non-breaking ones."""
        return self.document().toRawText().replace("\u2029", "\n").replace("\u2028", "\n")

    def show_marked(self, text: str, spans: Iterable[Span], background: str) -> None:
        """Show a text; ``spans`` of it have a background and a line below."""
        shown = text[:_MAX_SHOWN_CHARS].replace("\r", "\u240d")
        if shown != self.text():
            self.setPlainText(shown)
        look = QTextCharFormat()
        look.setBackground(QColor(background))
        look.setFontUnderline(True)
        self._spans = [
            (utf16_length(text[:begin]), utf16_length(text[:end])) for begin, end in spans
        ]
        self._marks = [self._selection(look, *span) for span in self._spans]
        self.setExtraSelections(self._marks)

    def mark_line(self, number: int | None) -> None:
        """Mark a line, counted from 1, and scroll to it; None marks nothing."""
        if number is None:
            self.setExtraSelections([])
            return
        look = QTextCharFormat()
        look.setBackground(QColor(current_theme().colors.fault_soft))
        look.setProperty(QTextFormat.Property.FullWidthSelection, True)
        begin = self.document().findBlockByNumber(number - 1).position()
        self.setExtraSelections([self._selection(look, begin, begin)])

    def show_difference(self, index: int) -> None:
        """Scroll to a marked part, and frame it."""
        begin, end = self._spans[index]
        self.scroll_to_difference(index)
        look = QTextCharFormat()
        look.setBackground(QColor(current_theme().colors.found))
        self.setExtraSelections([*self._marks, self._selection(look, begin, end)])

    def scroll_to_difference(self, index: int) -> None:
        cursor = QTextCursor(self.document())
        cursor.setPosition(min(self._spans[index][0], self.document().characterCount() - 1))
        self.setTextCursor(cursor)
        self.centerCursor()

    def _selection(self, look: QTextCharFormat, begin: int, end: int) -> QTextEdit.ExtraSelection:
        last = self.document().characterCount() - 1
        selection = QTextEdit.ExtraSelection()
        cursor = QTextCursor(self.document())
        cursor.setPosition(min(begin, last))
        cursor.setPosition(min(end, last), QTextCursor.MoveMode.KeepAnchor)
        selection.cursor, selection.format = cursor, look
        return selection


class TemplateEditor(QWidget):
    """The template of one model as text, and its problem or report."""

    file_given = Signal(object)  # path

    def __init__(self) -> None:
        super().__init__()
        self.field = _Text("Chat template in Jinja")
        self.field.setPlaceholderText("A chat template in Jinja. Open or drop a file, or type.")
        self.field.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.verdict = label("", "muted", 0.95, is_wrapped=True)
        # The text area takes the drags over its inner part, before its parents.
        drops = FileDrops(self.field.viewport())
        drops.files_given.connect(lambda paths: self.file_given.emit(paths[0]))
        column((self.field, 1), self.verdict, spacing=6, on=self)

    def show_problem(self, problem: InvalidTemplate | None, report: str) -> None:
        text = as_sentence(str(problem)) if problem is not None else report
        restyle(self.verdict, "role", "muted" if problem is None else "fault")
        self.verdict.setText(text)
        self.field.mark_line(None if problem is None else problem.line)


class PromptPanes(QWidget):
    """The prompts of one conversation side by side; their differences are marked."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.users = (
            _Text("Prompt by the model’s template"),
            _Text("Prompt by your template"),
        )
        self.conversation = Choice("Conversation whose prompts are compared")
        self.summary = label("", "muted", 0.95)
        self.previous = IconButton("up", "Previous Difference")
        self.next = IconButton("down", "Next Difference")
        self._count, self._at = 0, -1
        for pane in (self.own, self.users):
            pane.setReadOnly(True)
        self.users.setPlaceholderText("The prompt appears once the template can be used.")
        sides = QSplitter(Qt.Orientation.Horizontal)
        sides.setChildrenCollapsible(False)
        for title, pane in (("The model’s own", self.own), ("Yours", self.users)):
            side = QWidget()
            column(label(title, "heading"), (pane, 1), spacing=4, on=side)
            sides.addWidget(side)
        column(
            row(self.conversation, self.summary, self.previous, self.next, STRETCH, spacing=8),
            (sides, 1),
            spacing=8,
            margins=(0, 8, 0, 0),
            on=self,
        )
        self.previous.clicked.connect(lambda: self._step(-1))
        self.next.clicked.connect(lambda: self._step(1))
        for button in (self.previous, self.next):
            button.setEnabled(False)

    def show_comparison(self, compared: Comparison, *, has_own: bool) -> None:
        colors = current_theme().colors
        own, users = _text_of(compared.own), _text_of(compared.users)
        pairs = compared.differences
        self.own.show_marked(
            own if has_own else _NO_TEMPLATE, [one for one, _ in pairs], colors.fault_soft
        )
        if compared.problem is None:
            self.users.show_marked(users, [other for _, other in pairs], colors.done_soft)
        else:
            self.users.show_marked("", [], colors.done_soft)
        self._count, self._at = len(pairs), -1
        is_shown = compared.problem is None and has_own
        same = "The prompts are the same." if users == own else ""
        text = counted(self._count, "difference") if self._count else same
        self.summary.setText(text if is_shown else "")
        for button in (self.previous, self.next):
            button.setEnabled(bool(self._count))
        if self._count:
            for pane in (self.own, self.users):
                pane.scroll_to_difference(0)

    def _step(self, by: int) -> None:
        # From no difference, one step back is the last.
        self._at = (max(self._at, -1 if by > 0 else 0) + by) % self._count
        self.summary.setText(f"Difference {self._at + 1:,} of {self._count:,}")
        for pane in (self.own, self.users):
            pane.show_difference(self._at)


def _text_of(preview: TemplatePreview) -> str:
    return preview.prompt if preview.problem is None else as_sentence(str(preview.problem))


class TemplateWindow(OwnWindow):
    """Edits the user's template for one model at a time; unused text stays until it is used."""

    def __init__(
        self,
        library: ModelLibrary,
        open_request: Callable[[], GenerationRequest | None],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__("Chat Template", (1120, 820), parent)
        self._library, self._open_request = library, open_request
        # The folder of the model, and the one with its files: an adapter's base.
        self._folder: Path | None = None
        self._files = Path()
        self._own = self._used = ""
        # The text that was checked last, and whether it can be used.
        self._checked = ("", False)
        self._is_comparing = self._is_stale = self._is_use_due = False
        self.name = ElidedLabel()
        self.pill = StatusPill("Chat template")
        self.open_file = push_button("Open…", "Open a template file")
        self.copy_own = push_button("Copy Model’s", "Replace the text by the model’s template")
        self.use_own = push_button("Use Model’s Own")
        self.use = push_button("Use This Template", kind="primary")
        self.editor, self.panes = TemplateEditor(), PromptPanes()
        self.undo_bar = UndoBar()
        self._delay = QTimer(self, singleShot=True, interval=250)
        # A template may take seconds; most are checked before this is shown.
        self._slow = QTimer(self, singleShot=True, interval=1_000)
        self._slow.timeout.connect(lambda: self.editor.show_problem(None, "Checking…"))
        self._lay_out()
        self._connect_signals()

    @property
    def _text(self) -> str:
        return self.editor.field.text()

    def show_model(self, found: FoundModel) -> None:
        """Show the template of a model, or the text that is not used yet."""
        self._keep_draft()
        self.name.setText(display_name(found.name))
        self.setWindowTitle(f"Chat Template of {self.name.text()}")
        self.undo_bar.hide()
        # Equal to another model's text, it is still another template.
        self._folder, self._files = found.folder, found.model_folder
        self._own = _normal(chat_template(self._files))
        self._checked, self._is_use_due = ("", False), False
        choices = self._library.choices.of(found.folder)
        self._used = choices.template or self._own
        self.editor.field.setPlainText(choices.template_draft or self._used)
        self._compare()
        bring_forward(self)
        self.editor.field.setFocus()

    def changeEvent(self, event: QEvent) -> None:
        """Show the open conversation as it is when the user comes back."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.ActivationChange and self.isActiveWindow():
            self._offer_conversations()
            self._compare()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._offer_conversations()
        self._compare()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._keep_draft()

    # -- building --------------------------------------------------------------------------

    def _lay_out(self) -> None:
        parts = QSplitter(Qt.Orientation.Vertical)
        parts.setChildrenCollapsible(False)
        parts.addWidget(self.editor)
        parts.addWidget(self.panes)
        buttons = (self.open_file, self.copy_own, self.use_own, self.use)
        column(
            row(self.pill, (self.name, 1), *buttons, spacing=8),
            (parts, 1),
            self.undo_bar,
            spacing=12,
            margins=(18, 14, 18, 14),
            on=self,
        )

    def _connect_signals(self) -> None:
        self.editor.field.textChanged.connect(self._on_edited)
        self.editor.file_given.connect(self._read)
        FileDrops(self).files_given.connect(lambda paths: self._read(paths[0]))
        self.panes.conversation.currentIndexChanged.connect(self._compare)
        self._delay.timeout.connect(self._compare)
        self.open_file.clicked.connect(self._choose_file)
        self.copy_own.clicked.connect(lambda: self._replace_text(self._own))
        self.use_own.clicked.connect(lambda: self._apply("", "The model’s own template is used."))
        self.use.clicked.connect(self._use_text)
        QShortcut(QKeySequence.StandardKey.Save, self, self._use_text)
        QShortcut(QKeySequence.StandardKey.Open, self, self.open_file.click)
        QShortcut(QKeySequence(Qt.Key.Key_Escape), self, self.close)

    def _offer_conversations(self) -> None:
        """Offer the open conversation if it has messages."""
        choice = self.panes.conversation
        chosen = choice.currentData()
        choice.blockSignals(True)
        choice.clear()
        choice.addItem("Sample Conversation", _SAMPLE)
        if self._open_request() is not None:
            choice.addItem("Open Conversation", _OPEN)
        choice.choose(chosen or _OPEN)
        choice.setCurrentIndex(max(0, choice.currentIndex()))
        choice.blockSignals(False)

    # -- text ------------------------------------------------------------------------------

    def _replace_text(self, text: str) -> None:
        """Replace the text by one command of the field’s own undo."""
        cursor = self.editor.field.textCursor()
        cursor.select(QTextCursor.SelectionType.Document)
        cursor.insertText(text)
        self.editor.field.setFocus()

    def _choose_file(self) -> None:
        kinds = ["Chat templates (*.jinja *.jinja2 *.j2 *.json *.txt)"]
        choose_file(self, "Open Chat Template", self._read, kinds)

    def _read(self, path: Path) -> None:
        try:
            self._replace_text(_normal(read_template(path)))
        except InvalidTemplate as error:
            show_error(self, f"{path.name} was not opened", as_sentence(error.reason))

    def _on_edited(self) -> None:
        self._refresh_state()
        self._delay.start()

    def _keep_draft(self) -> None:
        if self._folder is None:
            return
        draft = "" if self._text == self._used else self._text
        if draft != self._library.choices.of(self._folder).template_draft:
            self._library.choices.change(self._folder, template_draft=draft)

    # -- comparing -------------------------------------------------------------------------

    def _compare(self) -> None:
        self._delay.stop()
        if self._folder is None or not self.isVisible():
            return
        if self._is_comparing:
            self._is_stale = True
            return
        self._is_comparing = True
        self._slow.start()
        start_task(self, self._run_comparison(), "compare chat templates")

    async def _run_comparison(self) -> None:
        try:
            while self._folder is not None:
                self._is_stale = False
                request = self._open_request() if self._is_open_chosen else None
                given = self._files, self._own, self._text
                compared = await asyncio.to_thread(
                    compare_templates, *given, request or SAMPLE_REQUEST
                )
                if not self._is_stale and given == (self._files, self._own, self._text):
                    break
        finally:
            self._is_comparing = False
            self._slow.stop()
        self._checked = given[2], compared.problem is None
        report = "" if compared.report is None else describe_report(compared.report)
        # A model without a template begins with an empty text, which is no fault.
        problem = compared.problem if self._text.strip() else None
        self.editor.show_problem(problem, report)
        self.panes.show_comparison(compared, has_own=bool(self._own))
        self._refresh_state()
        if self._is_use_due:
            self._is_use_due = False
            self._use_text()

    @property
    def _is_open_chosen(self) -> bool:
        return bool(self.panes.conversation.currentData() == _OPEN)

    def _refresh_state(self) -> None:
        is_users = self._used != self._own
        if self._text != self._used:
            self.pill.show_state("Not used yet", "pencil", "limit")
        elif is_users:
            self.pill.show_state("Yours", "check", "done")
        else:
            whose = "The model’s own" if self._own else "None"
            self.pill.show_state(whose, "mark", "quiet")
        self.use.setEnabled(self._checked == (self._text, True) and self._text != self._used)
        self.use_own.setEnabled(is_users)
        self.copy_own.setEnabled(self._text != self._own and bool(self._own))

    # -- using -----------------------------------------------------------------------------

    def _use_text(self) -> None:
        """Use the text, also if it is still being checked."""
        text = self._text
        if self.use.isEnabled():
            self._apply("" if text == self._own else text, "Your template is used.")
        else:
            self._is_use_due = text not in (self._used, self._checked[0])

    def _apply(self, template: str, message: str) -> None:
        """Use a template, empty for the model’s own; the text stays as it is."""
        assert self._folder is not None
        before = self._library.choices.of(self._folder).template
        self._choose(self._folder, template)
        self.undo_bar.offer(message, partial(self._choose, self._folder, before))

    def _choose(self, folder: Path, template: str) -> None:
        self._library.choose_template(folder, template)
        if folder == self._folder:
            self._used = template or self._own
            self._refresh_state()


def _normal(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
