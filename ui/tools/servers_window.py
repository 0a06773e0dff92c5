"""The window of tool servers: add, switch on and off, edit and delete them. Main thread."""

from collections.abc import Coroutine
from typing import Any

from PySide6.QtCore import QSignalBlocker, Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QHBoxLayout,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from engine import counted
from ui.kit.background.tasks import Tasks
from ui.kit.controls.flow_layout import FlowLayout
from ui.kit.controls.own_window import OwnWindow
from ui.kit.controls.two_lines import TwoLinesDelegate
from ui.kit.look.theme import Theme
from ui.kit.system.boxes import BoxButton, ask
from ui.kit.text.labels import label
from ui.records.tools import ServerStage, ServerState
from ui.tools.server_detail import ServerDetail
from ui.tools.server_dialogs import PasteDialog, ServerForm
from ui.tools.tool_host import ToolsRefused
from ui.tools.toolbox import Toolbox

_LIST_PX = 240
_SHORT_STAGES = {
    ServerStage.OFF: "off",
    ServerStage.STOPPED: "on",
    ServerStage.STARTING: "starting…",
    ServerStage.READY: "running",
    ServerStage.FAILED: "failed",
}


class ToolServersWindow(OwnWindow):
    """All tool servers of this person.

    Args:
        theme: The look.
        toolbox: The tool servers, their limits and approvals.
        parent: The window that it belongs to.

    Attributes:
        list: The servers.
        detail: The chosen one.
        add: Shows an empty form.
        paste: Shows the field for JSON.
        from_claude: Imports the servers of Claude Desktop.
        said: The result of the last action, or why it failed.
    """

    def __init__(self, theme: Theme, toolbox: Toolbox, parent: QWidget | None = None) -> None:
        super().__init__(theme, "Tool Servers", (860, 600), parent)
        self._theme = theme
        self._toolbox = toolbox
        self._tasks = Tasks()
        self.add = QPushButton("Add…")
        self.paste = QPushButton("Paste JSON…")
        self.from_claude = QPushButton("Import from Claude Desktop")
        self.add.setAccessibleName("Add a tool server")
        self.paste.setAccessibleName("Add tool servers by pasting JSON")
        self.from_claude.setAccessibleName("Import the tool servers of Claude Desktop")
        self.said = label("", "muted", is_wrapped=True)
        self.said.hide()
        self._notice = label("", "muted", 0.92, is_wrapped=True)
        self.list = QListWidget()
        self.list.setProperty("kind", "rows")
        self.list.setAccessibleName("Tool servers")
        self.list.setItemDelegate(TwoLinesDelegate(theme, self.list))
        theme.follow(self.list, lambda: self.list.setFixedWidth(theme.px(_LIST_PX)))
        self.detail = ServerDetail(theme)
        self._pages = QStackedWidget()
        empty = (
            "Tool servers give the model tools: files, searches, programs. A tool server is a "
            "program on this computer or a service at an address, and uses MCP. Add one, or paste "
            "the mcpServers JSON from its page. Nothing runs until you switch it on."
        )
        hint = label(empty, "muted", is_wrapped=True)
        hint.setContentsMargins(24, 24, 24, 24)
        hint.setAlignment(Qt.AlignmentFlag.AlignTop)
        self._pages.addWidget(hint)
        self._pages.addWidget(self.detail)
        self._lay_out()
        self._connect_signals()
        self._refresh()

    async def finish(self) -> None:
        """Wait until the background work has ended."""
        await self._tasks.finish()

    # -- building --------------------------------------------------------------------------

    def _lay_out(self) -> None:
        top = QWidget()
        buttons = FlowLayout(top)
        for button in (self.add, self.paste, self.from_claude):
            buttons.addWidget(button)
        top.setContentsMargins(18, 14, 18, 8)
        # Below the list: what is said now and then moves nothing that a person points at.
        words = QVBoxLayout()
        words.setContentsMargins(18, 10, 18, 0)
        words.setSpacing(6)
        words.addWidget(self.said)
        words.addWidget(self._notice)
        both = QHBoxLayout()
        both.setContentsMargins(18, 0, 0, 0)
        both.addWidget(self.list)
        both.addWidget(self._pages, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 14)
        layout.addWidget(top)
        layout.addLayout(both, 1)
        layout.addLayout(words)

    def _connect_signals(self) -> None:
        host = self._toolbox.host
        self._toolbox.changed.connect(self._refresh)
        self.list.currentRowChanged.connect(lambda _: self._show_chosen())
        self.add.clicked.connect(lambda: self._show_form(None))
        self.paste.clicked.connect(lambda: PasteDialog(self._theme, self, self._paste).open())
        self.from_claude.clicked.connect(lambda: self._begin(self._import()))
        self.detail.switched.connect(self._switch)
        self.detail.restart.clicked.connect(
            lambda: self._with_chosen(lambda one: self._begin(host.restart(one.name)))
        )
        self.detail.edit.clicked.connect(lambda: self._with_chosen(self._show_form))
        self.detail.delete.clicked.connect(lambda: self._with_chosen(self._ask_deletion))
        QShortcut(QKeySequence(Qt.Key.Key_Escape), self, self.close)

    # -- what is shown ---------------------------------------------------------------------

    def _refresh(self) -> None:
        servers = self._toolbox.servers
        chosen = self._chosen()
        name = None if chosen is None else chosen.name
        wanted = [(one.name, f"{one.name}\n{_SHORT_STAGES[one.stage]}") for one in servers]
        shown = [
            (self.list.item(row).data(Qt.ItemDataRole.UserRole), self.list.item(row).text())
            for row in range(self.list.count())
        ]
        if wanted != shown:
            with QSignalBlocker(self.list):
                self.list.clear()
                for key, words in wanted:
                    item = QListWidgetItem(words)
                    item.setData(Qt.ItemDataRole.UserRole, key)
                    self.list.addItem(item)
                names = [one.name for one in servers]
                row = names.index(name) if name in names else (0 if names else -1)
                self.list.setCurrentRow(row)
        self._notice.setText(self._toolbox.host.notice)
        self._notice.setVisible(bool(self._toolbox.host.notice))
        self._show_chosen()

    def _show_chosen(self) -> None:
        chosen = self._chosen()
        self._pages.setCurrentIndex(0 if chosen is None else 1)
        self.list.setVisible(bool(self._toolbox.servers))
        if chosen is not None:
            self.detail.show_server(chosen)

    def _chosen(self) -> ServerState | None:
        item = self.list.currentItem()
        name = None if item is None else item.data(Qt.ItemDataRole.UserRole)
        return next((one for one in self._toolbox.servers if one.name == name), None)

    def _choose(self, name: str) -> None:
        for row in range(self.list.count()):
            if self.list.item(row).data(Qt.ItemDataRole.UserRole) == name:
                self.list.setCurrentRow(row)

    # -- intents ---------------------------------------------------------------------------

    def _with_chosen(self, intent: Any) -> None:
        if (chosen := self._chosen()) is not None:
            intent(chosen)

    def _switch(self, is_on: bool) -> None:
        host = self._toolbox.host
        self._with_chosen(lambda one: self._begin(host.switch(one.name, is_on)))

    def _show_form(self, server: ServerState | None) -> None:
        config = None if server is None else server.config
        form = ServerForm(self._theme, self, config, self._toolbox.host.put)
        form.accepted.connect(lambda: self._choose(form.name.text().strip()))
        form.open()

    def _ask_deletion(self, server: ServerState) -> None:
        delete = BoxButton(
            "Delete", lambda: self._begin(self._toolbox.host.remove(server.name)), True
        )
        ask(
            self,
            f"Delete the tool server “{server.name}”?",
            "Its settings and secrets are deleted. Results in conversations stay.",
            answers=[delete],
            prefers_cancel=True,
        )

    async def _paste(self, text: str) -> None:
        self._tell_added(await self._toolbox.host.add_text(text))

    async def _import(self) -> None:
        self._tell_added(await self._toolbox.host.import_claude_desktop())

    def _tell_added(self, names: list[str]) -> None:
        servers = counted(len(names), "server")
        self._say(f"Added {servers}, switched off: {', '.join(names)}.")
        self._refresh()
        self._choose(names[0])

    def _begin(self, work: Coroutine[Any, Any, object]) -> None:
        self._say("")
        self._tasks.start(self._do(work), "change tool servers")

    async def _do(self, work: Coroutine[Any, Any, object]) -> None:
        try:
            await work
        except ToolsRefused as refused:
            self._say(str(refused))
        self._refresh()

    def _say(self, words: str) -> None:
        self.said.setText(words)
        self.said.setVisible(bool(words))
