"""The card of one call: its arguments, permission, progress and result.

Main thread. A card is changed in place, so that a person who types in it, or whose focus is in it,
is not disturbed while another call continues.
"""

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QPlainTextEdit,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from ui.chat.calling.call_words import fits_card, has_none, shown_result
from ui.chat.calling.permission_row import PermissionRow
from ui.kit.controls.buttons import IconBadge
from ui.kit.controls.copy_button import CopyButton
from ui.kit.controls.own_window import OwnWindow
from ui.kit.look.theme import Theme, fixed_font
from ui.kit.text.flow_text import FlowText
from ui.kit.text.labels import ElidedLabel, label, rescale
from ui.kit.text.searched import SearchedLabel, SearchedPart, SearchedText
from ui.records.tools import CallProgress, CallResult
from ui.words.tones import Tone
from ui.words.visible import lines_of, with_control_pictures, with_directions_shown

_ICON_PX = 26
_SHORT_CHARS, _SHORT_LINES = 600, 8


class ToolCard(QFrame):
    """Shows one tool call.

    Signals:
        decided: The person allowed or denied the call; carries the ``Decision``.
    """

    decided = Signal(object)

    def __init__(self, theme: Theme, name: str, arguments: str) -> None:
        super().__init__()
        self.setObjectName("card")
        self._theme = theme
        self._name = name
        self._arguments = arguments
        self._whole = ""
        self.permission: PermissionRow | None = None
        self._badge = IconBadge(theme, _ICON_PX)
        self._said = ElidedLabel("")
        self._said.setProperty("role", "muted")
        rescale(self._said, 0.92)
        title = self._title = ElidedLabel(name)
        rescale(title, 1.0, QFont.Weight.DemiBold)
        title.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        head = QHBoxLayout()
        head.setSpacing(9)
        head.addWidget(self._badge)
        head.addWidget(title)
        # Shortened if there is no room: a card never makes the chat wider.
        head.addWidget(self._said, 1)
        head.addWidget(CopyButton(theme, f"Copy the arguments of {name}", lambda: arguments))
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setFixedHeight(4)
        self._bar.setRange(0, 1000)
        self._bar.setAccessibleName(f"Progress of {name}")
        self._bar.hide()
        self.result = self._flow_text(f"Result of {name}")
        self.result.hide()
        self.fold = QPushButton("Show All")
        self.fold.setProperty("kind", "fold")
        self.fold.setCheckable(True)
        self.fold.setAccessibleName(f"Show all of the result of {name}")
        self.fold.toggled.connect(lambda _: self._show_text())
        self.fold.hide()
        self.whole = QPushButton("Open the Whole Result…")
        self.whole.setProperty("kind", "fold")
        self.whole.setAccessibleName(f"Open the whole result of {name} in a window")
        self.whole.clicked.connect(self._open_whole)
        self.whole.hide()
        self.sent = label("", "muted", 0.92, is_wrapped=True)
        self.sent.hide()
        self._copy = CopyButton(theme, f"Copy the result of {name}", lambda: self._whole)
        self._copy.hide()
        self._result_head = label("Result", "faint", 0.88)
        self._result_head.hide()
        answer = QHBoxLayout()
        answer.addWidget(self._result_head, 1)
        answer.addWidget(self._copy)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(11, 9, 9, 10)
        self._column.setSpacing(6)
        self._column.addLayout(head)
        self.arguments: FlowText | None = None
        if has_none(arguments):
            self._column.addWidget(label("no arguments", "faint", 0.92))
        else:
            self.arguments = self._flow_text(f"Arguments of {name}")
            self.arguments.setPlainText(arguments)
            self._column.addWidget(self.arguments)
        self._column.addWidget(self._bar)
        self._column.addLayout(answer)
        self._column.addWidget(self.sent)
        self._column.addWidget(self.result)
        folds = QHBoxLayout()
        folds.addWidget(self.fold)
        folds.addWidget(self.whole)
        folds.addStretch(1)
        self._column.addLayout(folds)

    def show_state(self, words: str, tone: Tone) -> None:
        """Show the state of the call."""
        self._said.setText(words)
        self._badge.show_icon("tool", tone)
        self.setAccessibleName(f"Tool call {self._name}, {words}: {self._arguments}")

    def show_progress(self, progress: CallProgress | None, share: float | None) -> None:
        """Ask whether the call may run, or show its progress."""
        asks = progress is not None and progress.asks
        if progress is not None and asks and self.permission is None:
            self.permission = PermissionRow(
                progress.server, progress.tool, self.arguments is not None
            )
            self.permission.decided.connect(self.decided)
            self._column.insertWidget(self._column.indexOf(self._bar), self.permission)
        elif not asks and self.permission is not None:
            self.permission.hide()
            self.permission.deleteLater()
            self.permission = None
        self._bar.setVisible(share is not None)
        if share is not None:
            self._bar.setValue(round(share * 1000))

    def show_result(self, result: CallResult | None) -> None:
        """Show the result of the call."""
        whole = "" if result is None else result.text
        is_cut = result is not None and result.is_cut
        self.sent.setText(f"The model got {result.sent_words}." if result and is_cut else "")
        self.sent.setVisible(is_cut)
        if whole == self._whole and self.result.isHidden() == (result is None):
            return
        self._whole = whole
        self.result.setVisible(result is not None)
        self._result_head.setVisible(result is not None)
        self._copy.setVisible(result is not None)
        self.fold.setVisible(_shortened(whole) != whole)
        self.whole.setVisible(not fits_card(whole))
        self._show_text()

    def searched_parts(self) -> list[SearchedPart]:
        """Return the name, the arguments and the result, for the search."""
        result = SearchedText(
            lambda: self.result,
            lambda: lines_of(shown_result(self._whole)),
            lambda: self.fold.setChecked(True),
        )
        arguments = SearchedText(lambda: self.arguments)
        return [SearchedLabel(self._title), arguments, result]

    def _show_text(self) -> None:
        is_whole = self.fold.isChecked()
        self.fold.setText("Show Less" if is_whole else "Show All")
        whole = shown_result(self._whole)
        self.result.setPlainText(whole if is_whole else _shortened(whole))

    def _open_whole(self) -> None:
        window = OwnWindow(self._theme, f"Result of {self._name}", (760, 560), self)
        window.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        text = QPlainTextEdit(with_directions_shown(with_control_pictures(self._whole)))
        text.setReadOnly(True)
        text.setAccessibleName(f"Whole result of {self._name}")
        text.setFont(fixed_font(text.font(), 0.95))
        column = QVBoxLayout(window)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(text)
        window.show()

    def _flow_text(self, says: str) -> FlowText:
        text = FlowText()
        text.setObjectName("answer_text")
        text.setAccessibleName(says)
        text.setFont(fixed_font(self.font(), 0.95))
        return text


class PausedRow(QWidget):
    """Says that the limit of calls was reached, and offers to continue."""

    def __init__(self) -> None:
        super().__init__()
        self._words = label("", "muted", 0.95, is_wrapped=True)
        self.proceed = QPushButton("Continue")
        self.proceed.setAccessibleName("Continue with more calls")
        self.proceed.setAutoDefault(False)
        row = QHBoxLayout(self)
        row.setContentsMargins(2, 0, 2, 0)
        row.addWidget(self._words, 1)
        row.addWidget(self.proceed)
        self.hide()

    def show_limit(self, limit: int) -> None:
        """Say which limit was reached; 0 for none."""
        self.setVisible(limit > 0)
        calls = "1 call" if limit == 1 else f"{limit:,} calls"
        self._words.setText(f"Paused: the limit of {calls} for one question was reached.")
        self.proceed.setAccessibleName(f"Continue with up to {calls} more")

    def show_cut_off(self) -> None:
        """Say that calls were not run, and let the person go on with them."""
        self.show()
        self._words.setText("These calls were not run.")
        self.proceed.setAccessibleName("Continue with the calls that were not run")


def _shortened(text: str) -> str:
    lines = text.split("\n")
    short = "\n".join(lines[:_SHORT_LINES])
    if len(short) > _SHORT_CHARS:
        short = short[:_SHORT_CHARS]
    return text if short == text else f"{short}…"
