"""The line above the first message that is sent whole, and the summary of those before it.

Main thread.
"""

from PySide6.QtCore import QSize, Signal
from PySide6.QtWidgets import QFrame, QPushButton, QSizePolicy, QWidget

from ui.chat.composer.composer import MessageEditor
from ui.kit import icons
from ui.kit.flow_text import FlowText
from ui.kit.labels import label
from ui.kit.layouts import FlowLayout, column
from ui.kit.theme import current_theme
from ui.records.runs import LeftOut


class PromptLine(QWidget):
    """Says which messages above are not sent, or are sent as a summary.

    Signals:
        send_all_wanted: A person wants all messages to be sent again.
        summary_edited: A person changed the summary; carries its text, empty for none.
        left: The focus should go to another widget.
    """

    send_all_wanted = Signal()
    summary_edited = Signal(str)
    left = Signal()

    def __init__(self, left_out: LeftOut, summary: str) -> None:
        super().__init__()
        is_summarized = left_out.is_summarized and bool(summary.strip())
        self._summary = summary if is_summarized else ""
        self._editor: MessageEditor | None = None
        self.words = label(left_out.sentence, "muted", 0.92, is_wrapped=True)
        self.setAccessibleName(f"The prompt begins here: {left_out.sentence}")
        self.send_all = _link("Send All Again", "Send all earlier messages again")
        self.fold = QPushButton("Show the Summary")
        self.fold.setProperty("kind", "fold")
        self.fold.setCheckable(True)
        self.text = FlowText()
        self.text.setObjectName("answer_text")
        self.text.setAccessibleName("Summary of the earlier messages")
        self.text.setPlainText(self._summary)
        self.text.hide()
        self.edit = _link("Edit", "Edit the summary")
        self.remove = _link("Remove", "Remove the summary; the messages are then left out")
        buttons = QWidget()
        flow = FlowLayout(buttons)
        for button in (self.send_all, self.fold, self.edit, self.remove):
            flow.addWidget(button)
        for part in (self.fold, self.edit, self.remove):
            part.setVisible(is_summarized)
        self._column = column(
            _rule(),
            self.words,
            buttons,
            self.text,
            _rule(),
            spacing=4,
            margins=(0, 0, 0, 12),
            on=self,
        )
        self.send_all.clicked.connect(self.send_all_wanted)
        self.fold.toggled.connect(self._fold)
        self.edit.clicked.connect(self._begin_editing)
        self.remove.clicked.connect(lambda: self.summary_edited.emit(""))
        current_theme().follow(self, self._tint)

    def _begin_editing(self) -> None:
        if self._editor is None:
            self._editor = MessageEditor(self._summary, says="summary", sends="Save")
            self._editor.submitted.connect(lambda text, _files: self.summary_edited.emit(text))
            self._editor.left.connect(self._end_editing)
            self._column.insertWidget(self._column.indexOf(self.text), self._editor)
        self.text.hide()
        self._editor.input.setFocus()

    def _end_editing(self) -> None:
        if self._editor is not None:
            self._editor.hide()
            self._editor.deleteLater()
            self._editor = None
        self.text.setVisible(self.fold.isChecked())
        self.left.emit()

    def _fold(self, is_open: bool) -> None:
        self.text.setVisible(is_open and self._editor is None)
        self.fold.setText("Hide the Summary" if is_open else "Show the Summary")
        self._tint()

    def _tint(self) -> None:
        theme = current_theme()
        name = "chevron-down" if self.fold.isChecked() else "chevron-right"
        size = theme.px(14)
        self.fold.setIconSize(QSize(size, size))
        self.fold.setIcon(icons.icon(name, theme.colors.muted, size))


def _link(words: str, says: str) -> QPushButton:
    button = QPushButton(words)
    button.setProperty("kind", "link")
    button.setProperty("is_flush", True)
    button.setAccessibleName(says)
    button.setAutoDefault(False)
    return button


def _rule() -> QFrame:
    rule = QFrame()
    rule.setObjectName("prompt_rule")
    rule.setFixedHeight(1)
    rule.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
    return rule
