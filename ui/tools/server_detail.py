"""One tool server: its switch, state, tools and log. Main thread."""

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import (
    QHBoxLayout,
    QListWidget,
    QListWidgetItem,
    QPlainTextEdit,
    QPushButton,
    QStackedWidget,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from ui.kit.controls.buttons import ToggleSwitch
from ui.kit.controls.growing_input import never_sideways
from ui.kit.controls.two_lines import TwoLinesDelegate
from ui.kit.look.theme import Theme, fixed_font, restyle
from ui.kit.text.labels import ElidedLabel, label, plain_tool_tip
from ui.records.tools import ServerStage, ServerState
from ui.tools.server_words import no_tools_words, stage_words


class ServerDetail(QWidget):
    """Shows one server.

    Signals:
        switched: A person switched it on or off.
    """

    switched = Signal(bool)

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._shown: ServerState | None = None
        self._name = label("", "title")
        self.switch = ToggleSwitch(theme, "Switched on")
        self.said = label("", "muted", is_wrapped=True)
        self._reached = ElidedLabel("")
        self._reached.setProperty("role", "faint")
        self._remarks = label("", "muted", 0.92, is_wrapped=True)
        self.restart = QPushButton("Restart")
        self.edit = QPushButton("Edit…")
        self.delete = QPushButton("Delete…")
        self.restart.setAccessibleName("Restart this tool server")
        self.edit.setAccessibleName("Edit this tool server")
        self.delete.setAccessibleName("Delete this tool server")
        self.tools = QListWidget()
        self.tools.setProperty("kind", "rows")
        self.tools.setAccessibleName("Tools")
        self.tools.setItemDelegate(TwoLinesDelegate(theme, self.tools))
        self.no_tools = label("", "muted", is_wrapped=True)
        self.no_tools.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.no_tools.setContentsMargins(12, 14, 12, 12)
        self._tools_page = QStackedWidget()
        self._tools_page.addWidget(self.no_tools)
        self._tools_page.addWidget(self.tools)
        self.log = QPlainTextEdit()
        self.log.setReadOnly(True)
        self.log.setAccessibleName("Log")
        self.log.setFont(fixed_font(self.font(), 0.95))
        self.log.setTabChangesFocus(True)
        never_sideways(self.log)
        self.log.setPlaceholderText("It has not written anything.")
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.tabs.setAccessibleName("What it offers, and its log")
        self.tabs.addTab(self._tools_page, "Tools")
        self.tabs.addTab(self.log, "Log")
        head = QHBoxLayout()
        head.addWidget(self._name, 1)
        head.addWidget(self.switch)
        buttons = QHBoxLayout()
        for button in (self.restart, self.edit, self.delete):
            buttons.addWidget(button)
        buttons.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(18, 4, 18, 0)
        layout.setSpacing(9)
        layout.addLayout(head)
        layout.addWidget(self.said)
        layout.addWidget(self._reached)
        layout.addWidget(self._remarks)
        layout.addLayout(buttons)
        layout.addWidget(self.tabs, 1)
        self.switch.toggled.connect(self.switched)

    def show_server(self, server: ServerState) -> None:
        """Show a server as it is now."""
        before, self._shown = self._shown, server
        self._name.setText(server.name)
        with QSignalBlocker(self.switch):
            self.switch.setChecked(server.config.is_on)
        self.switch.setAccessibleName(f"Switch {server.name} on or off")
        words = stage_words(server)
        self.said.setText(words[0].upper() + words[1:])
        restyle(self.said, "role", "fault" if server.problem else "muted")
        version = f"{server.version} · " if server.version else ""
        self._reached.setText(f"{version}{server.config.words}")
        self._remarks.setText(" ".join(server.remarks))
        self._remarks.setVisible(bool(server.remarks))
        self.restart.setEnabled(server.config.is_on and server.stage is not ServerStage.STARTING)
        has_failed = server.stage is ServerStage.FAILED
        if before is None or before.name != server.name or before.stage is not server.stage:
            self.tabs.setCurrentWidget(self.log if has_failed else self._tools_page)
            self.no_tools.setText(no_tools_words(server))
        if before is None or before.tools != server.tools or before.name != server.name:
            self._show_tools(server)
        if before is None or before.log != server.log or before.name != server.name:
            bar = self.log.verticalScrollBar()
            is_at_end = bar.value() == bar.maximum()
            self.log.setPlainText("\n".join(server.log))
            if is_at_end:
                bar.setValue(bar.maximum())

    def _show_tools(self, server: ServerState) -> None:
        self._tools_page.setCurrentWidget(self.tools if server.tools else self.no_tools)
        self.tools.clear()
        for tool in server.tools:
            line = " ".join(tool.description.split())[:200]
            item = QListWidgetItem(f"{tool.title}\n{line}" if line else tool.title)
            item.setToolTip(plain_tool_tip(tool.description[:1_000]))
            self.tools.addItem(item)
