"""The window of tool servers: the list, and the chosen one beside it. Main thread."""

from collections.abc import Coroutine
from typing import Any

from PySide6.QtCore import QSignalBlocker, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QCheckBox,
    QListWidget,
    QListWidgetItem,
    QPlainTextEdit,
    QPushButton,
    QStackedWidget,
    QTabWidget,
    QWidget,
)

from engine.wording import counted
from ui.kit.buttons import ToggleSwitch, push_button
from ui.kit.commands import Command
from ui.kit.dialogs import confirm
from ui.kit.fields import disable_horizontal_scrolling
from ui.kit.labels import ElidedLabel, label, plain_tooltip, show_text
from ui.kit.layouts import STRETCH, FlowLayout, column, row
from ui.kit.rows import RowDelegate
from ui.kit.tasks import start_task
from ui.kit.theme import fixed_font, restyle
from ui.kit.windows import OwnWindow
from ui.preferences import declaration
from ui.records.tool_servers import (
    AddedServers,
    ServerState,
    ToolServerConfig,
    ToolsRefused,
    no_tools_text,
    stage_text,
)
from ui.tools.server_dialogs import PasteDialog, ServerForm
from ui.tools.toolbox import Toolbox

_SHORT_STAGES = {
    "off": "Off",
    "stopped": "On",
    "starting": "Starting…",
    "ready": "Running",
    "restarting": "Starting again…",
    "failed": "Failed",
}


class ServerDetail(QWidget):
    """Shows one server."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: ServerState | None = None
        self._name = label("", "title")
        self.switch = ToggleSwitch("Enabled")
        self.status = label("", "muted", is_wrapped=True)
        self._reached = ElidedLabel("", "faint")
        self._remarks = label("", "muted", 0.92, is_wrapped=True)
        self.in_new = QCheckBox(declaration("tools.in_new_conversations").label)
        self.in_new.setToolTip("Use in new conversations")
        self.restart = push_button("Restart", "Restart this tool server")
        self.sign_in = push_button("Sign In…", kind="primary")
        self.sign_in.setToolTip("Opens the server’s page in the browser")
        self.edit = push_button("Edit…", "Edit this tool server")
        self.delete = push_button("Delete…", "Delete this tool server")
        self.tools = QListWidget()
        self.tools.setProperty("kind", "rows")
        self.tools.setAccessibleName("Tools")
        self.tools.setItemDelegate(RowDelegate(self.tools))
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
        disable_horizontal_scrolling(self.log)
        self.log.setPlaceholderText("Log is empty.")
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.tabs.setAccessibleName("What it offers, and its log")
        self.tabs.addTab(self._tools_page, "Tools")
        self.tabs.addTab(self.log, "Log")
        column(
            row((self._name, 1), self.switch),
            self.status,
            self._reached,
            self._remarks,
            self.in_new,
            row(self.sign_in, self.restart, self.edit, self.delete, STRETCH),
            (self.tabs, 1),
            spacing=9,
            margins=(18, 4, 18, 0),
            on=self,
        )

    def show_server(self, server: ServerState, *, is_in_new: bool) -> None:
        before, self._shown = self._shown, server
        self._name.setText(server.name)
        self.switch.setChecked(server.config.is_on)
        self.switch.setAccessibleName(f"Switch {server.name} on or off")
        text = stage_text(server)
        self.status.setText(text[0].upper() + text[1:])
        restyle(self.status, "role", "fault" if server.problem else "muted")
        version = f"{server.version} · " if server.version else ""
        self._reached.setText(f"{version}{server.config.target}")
        self._remarks.setText(" ".join(server.remarks))
        self._remarks.setVisible(bool(server.remarks))
        self.sign_in.setVisible(server.needs_sign_in)
        self.sign_in.setAccessibleName(f"Sign in to {server.name}")
        self.in_new.setChecked(is_in_new)
        self.in_new.setAccessibleName(f"Use {server.name} in new conversations")
        self.restart.setEnabled(server.config.is_on and server.stage != "starting")
        has_failed = server.stage == "failed"
        if before is None or before.name != server.name or before.stage is not server.stage:
            self.tabs.setCurrentWidget(self.log if has_failed else self._tools_page)
            self.no_tools.setText(no_tools_text(server))
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
            item.setToolTip(plain_tooltip(tool.description[:1_000]))
            self.tools.addItem(item)


class ToolServersWindow(OwnWindow):
    """All tool servers."""

    def __init__(self, toolbox: Toolbox, parent: QWidget | None = None) -> None:
        super().__init__("Tool Servers", (860, 600), parent)
        self._toolbox = toolbox
        self.add = push_button("Add…", "Add a tool server")
        self.paste = push_button("Paste JSON…", "Add tool servers by pasting JSON")
        self.from_claude = QPushButton("Import from Claude Desktop")
        self.from_claude.setAccessibleName("Import the tool servers of Claude Desktop")
        self.status = label("", "muted", is_wrapped=True)
        self.status.hide()
        self._notice = label("", "muted", 0.92, is_wrapped=True)
        self.list = QListWidget()
        self.list.setProperty("kind", "rows")
        self.list.setAccessibleName("Tool servers")
        self.list.setItemDelegate(RowDelegate(self.list))
        self.list.setFixedWidth(240)
        self.detail = ServerDetail()
        self._pages = QStackedWidget()
        empty = (
            "Tool servers give the model tools: files, searches, programs. A tool server is a "
            "program on this computer or a service at an address, and uses MCP. Add one, or paste "
            "the mcpServers JSON from its page. Nothing runs until you switch it on."
        )
        hint = label(empty, "muted", is_wrapped=True)
        hint.setContentsMargins(90, 0, 90, 60)
        hint.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._pages.addWidget(hint)
        self._pages.addWidget(self.detail)
        self._lay_out()
        self._connect_signals()
        self._refresh()

    # -- building --------------------------------------------------------------------------

    def _lay_out(self) -> None:
        top = QWidget()
        buttons = FlowLayout(top)
        for button in (self.add, self.paste, self.from_claude):
            buttons.addWidget(button)
        top.setContentsMargins(18, 14, 18, 8)
        # Below the list, so that a message does not move the rows under the pointer.
        text = column(self.status, self._notice, spacing=6, margins=(18, 10, 18, 0))
        column(
            top,
            (row(self.list, (self._pages, 1), margins=(18, 0, 0, 0)), 1),
            text,
            margins=(0, 0, 0, 14),
            on=self,
        )

    def _connect_signals(self) -> None:
        host = self._toolbox.host
        self._toolbox.changed.connect(self._refresh)
        self.list.currentRowChanged.connect(lambda _: self._show_chosen())
        self.add.clicked.connect(lambda: self._show_form(None))
        self.paste.clicked.connect(self._paste)
        self.from_claude.clicked.connect(lambda: self._begin(self._import()))
        self.detail.switch.clicked.connect(self._switch)
        self.detail.in_new.clicked.connect(
            lambda is_on: self._with_chosen(
                lambda server: self._toolbox.use_in_new_conversations(server.name, is_on)
            )
        )
        self.detail.restart.clicked.connect(
            lambda: self._with_chosen(lambda server: self._begin(host.restart(server.name)))
        )
        self.detail.sign_in.clicked.connect(lambda: self._with_chosen(self._sign_in))
        self.detail.edit.clicked.connect(lambda: self._with_chosen(self._show_form))
        self.detail.delete.clicked.connect(lambda: self._with_chosen(self._ask_deletion))
        QShortcut(QKeySequence(Qt.Key.Key_Escape), self, self.close)

    # -- showing --------------------------------------------------------------------------

    def _refresh(self) -> None:
        servers = self._toolbox.servers
        chosen = self._chosen()
        name = None if chosen is None else chosen.name
        items = [
            (server.name, f"{server.name}\n{_SHORT_STAGES[server.stage]}") for server in servers
        ]
        shown = [
            (self.list.item(row).data(Qt.ItemDataRole.UserRole), self.list.item(row).text())
            for row in range(self.list.count())
        ]
        if items != shown:
            with QSignalBlocker(self.list):
                self.list.clear()
                for key, text in items:
                    item = QListWidgetItem(text)
                    item.setData(Qt.ItemDataRole.UserRole, key)
                    self.list.addItem(item)
                names = [server.name for server in servers]
                row = names.index(name) if name in names else (0 if names else -1)
                self.list.setCurrentRow(row)
        show_text(self._notice, self._toolbox.host.notice)
        self._show_chosen()

    def _show_chosen(self) -> None:
        chosen = self._chosen()
        self._pages.setCurrentIndex(0 if chosen is None else 1)
        self.list.setVisible(bool(self._toolbox.servers))
        if chosen is not None:
            is_in_new = self._toolbox.is_in_new_conversations(chosen.name)
            self.detail.show_server(chosen, is_in_new=is_in_new)

    def _chosen(self) -> ServerState | None:
        item = self.list.currentItem()
        name = None if item is None else item.data(Qt.ItemDataRole.UserRole)
        return next((server for server in self._toolbox.servers if server.name == name), None)

    def _choose(self, name: str) -> None:
        for line in range(self.list.count()):
            if self.list.item(line).data(Qt.ItemDataRole.UserRole) == name:
                self.list.setCurrentRow(line)

    # -- intents ---------------------------------------------------------------------------

    def _with_chosen(self, intent: Any) -> None:
        if (chosen := self._chosen()) is not None:
            intent(chosen)

    def _sign_in(self, server: ServerState) -> None:
        self._begin(self._toolbox.host.sign_in(server.name, self._open_page))

    def _open_page(self, address: str) -> None:
        self._show_message(f"Sign in at {QUrl(address).host()}, in your browser.")
        QDesktopServices.openUrl(QUrl(address))

    def _switch(self, is_on: bool) -> None:
        host = self._toolbox.host
        self._with_chosen(lambda server: self._begin(host.switch(server.name, is_on)))

    def _show_form(self, server: ServerState | None) -> None:
        config = None if server is None else server.config
        form = ServerForm(self, config, self._toolbox.host)
        form.accepted.connect(lambda: self._follow_name(config, form.name.text().strip()))
        form.open()

    def _follow_name(self, before: ToolServerConfig | None, name: str) -> None:
        """Keep what belongs to a server by its name, which may be another one now."""
        if before is not None and self._toolbox.is_in_new_conversations(before.name):
            self._toolbox.use_in_new_conversations(before.name, False)
            self._toolbox.use_in_new_conversations(name, True)
        self._choose(name)

    def _ask_deletion(self, server: ServerState) -> None:
        def remove() -> None:
            self._toolbox.use_in_new_conversations(server.name, False)
            self._begin(self._toolbox.host.remove(server.name))

        delete = Command("Delete", remove, is_destructive=True)
        confirm(
            self,
            f"Delete the tool server “{server.name}”?",
            "Its settings and secrets are deleted. Results in conversations stay.",
            answers=[delete],
            prefers_cancel=True,
        )

    def _paste(self) -> None:
        dialog = PasteDialog(self, self._toolbox.host)
        dialog.added.connect(self._show_added)
        dialog.open()

    async def _import(self) -> None:
        self._show_added(await self._toolbox.host.import_claude_desktop())

    def _show_added(self, added: AddedServers) -> None:
        names, errors = added
        servers = counted(len(names), "server")
        text = [f"Added {servers}, switched off: {', '.join(names)}."]
        if errors:
            others = counted(len(errors), "other")
            text.append(f"{others} cannot be used. {' '.join(errors)}")
        self._show_message(" ".join(text))
        self._refresh()
        self._choose(names[0])

    def _begin(self, work: Coroutine[Any, Any, object]) -> None:
        self._show_message("")
        start_task(self, self._do(work), "change tool servers")

    async def _do(self, work: Coroutine[Any, Any, object]) -> None:
        try:
            await work
        except ToolsRefused as refused:
            self._show_message(str(refused))
        self._refresh()

    def _show_message(self, text: str) -> None:
        show_text(self.status, text)
