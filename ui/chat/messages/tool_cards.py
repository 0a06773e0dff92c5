"""The tool calls of an answer, a card each. Main thread."""

import json

from PySide6.QtGui import QFont
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from ui.kit.controls.buttons import IconBadge
from ui.kit.controls.copy_button import CopyButton
from ui.kit.look.theme import Theme, fixed_font
from ui.kit.text.flow_text import FlowText
from ui.kit.text.labels import ElidedLabel, clear_layout_of, label, rescale
from ui.records.runs import Run
from ui.words.tones import Tone

_ICON_PX = 26


class ToolCards(QWidget):
    """Shows what a run called; a call that the end cut short is shown as such."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._shown: tuple[object, ...] = ()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        self.hide()

    def show_run(self, run: Run) -> None:
        """Show a run's calls as they are now."""
        unfinished = run.finished.unfinished_tool_call if run.finished is not None else ""
        wanted = (*run.tool_calls, unfinished)
        if wanted == self._shown:
            return
        self._shown = wanted
        clear_layout_of(self)
        layout = self.layout()
        assert layout is not None
        for call in run.tool_calls:
            layout.addWidget(self._card(call.name, pretty(call.arguments), "waits for its result"))
        if unfinished:
            layout.addWidget(self._card("Unfinished call", unfinished, "cut short", Tone.LIMIT))
        self.setVisible(bool(run.tool_calls or unfinished))

    def _card(self, name: str, arguments: str, state: str, tone: Tone = Tone.TOOL) -> QFrame:
        card = QFrame()
        card.setObjectName("card")
        card.setAccessibleName(f"Tool call {name}, {state}: {arguments}")
        badge = IconBadge(self._theme, _ICON_PX)
        badge.show_icon("tool", tone)
        head = QHBoxLayout()
        head.setSpacing(9)
        head.addWidget(badge)
        title = ElidedLabel(name)
        rescale(title, 1.0, QFont.Weight.DemiBold)
        title.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        head.addWidget(title)
        # Cut short where there is no room: a card never makes the chat wider.
        said = ElidedLabel(state)
        said.setProperty("role", "muted")
        rescale(said, 0.92)
        head.addWidget(said, 1)
        head.addWidget(CopyButton(self._theme, f"Copy the arguments of {name}", lambda: arguments))
        layout = QVBoxLayout(card)
        layout.setContentsMargins(11, 9, 9, 10)
        layout.setSpacing(6)
        layout.addLayout(head)
        if arguments.strip() in ("", "{}"):
            layout.addWidget(label("no arguments", "faint", 0.92))
        else:
            layout.addWidget(self._arguments(name, arguments))
        return card

    def _arguments(self, name: str, arguments: str) -> QWidget:
        text = FlowText()
        text.setObjectName("answer_text")
        text.setAccessibleName(f"Arguments of {name}")
        text.setFont(fixed_font(self.font(), 0.95))
        text.setPlainText(arguments)
        return text

    def words(self) -> str:
        """Return all that the cards say."""
        parts = [item.text() for item in self.findChildren(QLabel)]
        parts += [item.toPlainText() for item in self.findChildren(FlowText)]
        return "\n".join(part for part in parts if part)


def pretty(arguments: str) -> str:
    """Return arguments with a line for each, or as they are if they are not JSON."""
    try:
        return json.dumps(json.loads(arguments), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return arguments
