"""The window of MCP servers: the list, and the chosen one beside it. Main thread."""

from collections.abc import Collection, Coroutine, Iterable
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from PySide6.QtCore import QSignalBlocker, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QFrame,
    QListWidget,
    QListWidgetItem,
    QPlainTextEdit,
    QPushButton,
    QStackedWidget,
    QTabWidget,
    QWidget,
)

from engine.wording import counted
from ui.kit.buttons import Choice, ToggleSwitch, push_button
from ui.kit.commands import Command
from ui.kit.dialogs import choose_folder, confirm, show_error
from ui.kit.fields import disable_horizontal_scrolling
from ui.kit.labels import ElidedLabel, clear_layout, label, plain_tooltip, show_text
from ui.kit.layouts import STRETCH, card, column, row, scrolling
from ui.kit.rows import Index, RowContent, RowDelegate
from ui.kit.tasks import start_task
from ui.kit.theme import current_theme, fixed_font, restyle
from ui.kit.windows import OwnWindow
from ui.records.tool_choice import Approval, approval_of
from ui.records.tool_servers import (
    AddedServers,
    ServerState,
    ToolInfo,
    ToolServerConfig,
    ToolsRefused,
    no_tools_text,
    problem_text,
    stage_text,
)
from ui.tools.known_servers import known_servers, needs_folder, runtime_text
from ui.tools.server_dialogs import PasteDialog, ServerForm
from ui.tools.toolbox import Toolbox
from ui.words import THIS_COMPUTER

_SHORT_STAGES = {
    "off": "Off",
    "stopped": "On",
    "starting": "Starting…",
    "ready": "Running",
    "restarting": "Starting again…",
}
_STAGE = Qt.ItemDataRole.UserRole + 1
# Icon and color of a stage in the list.
_LOOKS = {"ready": ("mark", "done"), "failed": ("fault", "fault")}


class _ServerDelegate(RowDelegate):
    """Draws whether a server runs or has failed, with an icon."""

    def content(self, index: Index) -> RowContent | None:
        content = super().content(index)
        icon, name = _LOOKS.get(index.data(_STAGE), ("", ""))
        if content is None or not icon:
            return content
        color = getattr(current_theme().colors, name)
        return replace(content, subtitle=replace(content.subtitle, color=color, icon=icon))


def _list_text(server: ServerState) -> str:
    """Return the two lines of a server's row; a failed one names the reason."""
    if server.stage != "failed":
        return f"{server.name}\n{_SHORT_STAGES[server.stage]}"
    reason, _, cause = problem_text(server).partition(". ")
    if cause and reason.casefold().endswith("could not be started"):
        reason = cause.partition(". ")[0]
    return f"{server.name}\n{reason.removesuffix('.') or 'Failed'}"


class ToolRow(QFrame):
    """A tool of a server, and whether it may run without asking in every chat."""

    permitted = Signal(bool)

    def __init__(self, tool: ToolInfo, is_allowed: bool) -> None:
        super().__init__()
        self.setObjectName("setting")
        self.title = label(tool.title)
        line = " ".join(tool.description.split())[:200]
        about = ElidedLabel(line, "muted", 0.92)
        about.setToolTip(plain_tooltip(tool.description[:1_000]))
        self.permission = Choice(
            f"Permission of {tool.title}", [("ask", "Ask First"), ("always", "Always Allow")]
        )
        self.permission.choose("always" if is_allowed else "ask")
        self.permission.currentIndexChanged.connect(
            lambda _: self.permitted.emit(self.permission.currentData() == "always")
        )
        texts = column(self.title, *([about] if line else []), spacing=2)
        row((texts, 1), self.permission, spacing=12, margins=(16, 8, 12, 8), on=self)


class ServerDetail(QWidget):
    """Shows one server."""

    permitted = Signal(object, bool)  # ToolInfo, whether it may run without asking

    def __init__(self) -> None:
        super().__init__()
        self._shown: ServerState | None = None
        self._allowed: Collection[Approval] = ()
        self._name = label("", "title", 1.15)
        self.switch = ToggleSwitch("Use in new chats")
        self.switch.setToolTip("New chats begin with it; while it is off, no chat can use it")
        self.status = label("", "muted", is_wrapped=True)
        self._reached = ElidedLabel("", "faint")
        self._remarks = label("", "muted", 0.92, is_wrapped=True)
        self.restart = push_button("Restart", "Restart this MCP server")
        self.sign_in = push_button("Sign In…", kind="primary")
        self.sign_in.setToolTip("Opens the server’s page in the browser")
        self.edit = push_button("Edit…", "Edit this MCP server")
        self.delete = push_button("Delete…", "Delete this MCP server")
        self.rows = column(spacing=0, margins=1)
        self.tool_rows: list[ToolRow] = []
        self.tools = scrolling(self.rows, "Tools", goes_sideways=False)
        self.tools.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.no_tools = label("", "muted", is_wrapped=True)
        self.no_tools.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._tools_page = QStackedWidget()
        self._tools_page.addWidget(card(self.no_tools))
        self._tools_page.addWidget(card(self.tools, margins=1))
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
            row((self._name, 1), label("Use in New Chats", "muted"), self.switch, spacing=10),
            self.status,
            self._reached,
            self._remarks,
            row(self.sign_in, self.restart, self.edit, self.delete, STRETCH, spacing=8),
            (self.tabs, 1),
            spacing=8,
            margins=(0, 0, 16, 0),
            on=self,
        )

    def show_server(self, server: ServerState, allowed: Collection[Approval] = ()) -> None:
        before, self._shown = self._shown, server
        known, self._allowed = self._allowed, allowed
        self._name.setText(server.name)
        self.switch.setChecked(server.config.is_on)
        self.switch.setAccessibleName(f"Use {server.name} in new chats")
        self.status.setText(stage_text(server))
        restyle(self.status, "role", "fault" if server.problem else "muted")
        version = f"{server.version} · " if server.version else ""
        self._reached.setText(f"{version}{server.config.target}")
        self._remarks.setText(" ".join(server.remarks))
        self._remarks.setVisible(bool(server.remarks))
        self.sign_in.setVisible(server.needs_sign_in)
        self.sign_in.setAccessibleName(f"Sign in to {server.name}")
        self.restart.setEnabled(server.config.is_on and server.stage != "starting")
        has_failed = server.stage == "failed"
        self.restart.setText("Try Again" if has_failed else "Restart")
        is_next = has_failed and not server.needs_sign_in
        restyle(self.restart, "kind", "primary" if is_next else "")
        if before is None or before.name != server.name or before.stage is not server.stage:
            self.tabs.setCurrentWidget(self.log if has_failed and server.log else self._tools_page)
            self.no_tools.setText(no_tools_text(server))
        was = None if before is None else (before.name, before.tools, known)
        if was != (server.name, server.tools, allowed):
            self._show_tools(server)
        if before is None or before.log != server.log or before.name != server.name:
            bar = self.log.verticalScrollBar()
            is_at_end = bar.value() == bar.maximum()
            self.log.setPlainText("\n".join(server.log))
            if is_at_end:
                bar.setValue(bar.maximum())

    def _show_tools(self, server: ServerState) -> None:
        self._tools_page.setCurrentIndex(1 if server.tools else 0)
        focused = [line.permission.hasFocus() for line in self.tool_rows]
        clear_layout(self.rows)
        self.tool_rows.clear()
        for number, tool in enumerate(server.tools):
            line = ToolRow(tool, approval_of(tool) in self._allowed)
            self.tool_rows.append(line)
            line.setProperty("is_first", number == 0)
            line.permitted.connect(partial(self.permitted.emit, tool))
            self.rows.addWidget(line)
            if focused[number : number + 1] == [True]:
                line.permission.setFocus()
        self.rows.addStretch(1)


class KnownServerRow(QFrame):
    """Offers a server; the folder that one needs is chosen beforehand."""

    folder_chosen = Signal()

    def __init__(self, title: str, purpose: str, config: ToolServerConfig) -> None:
        super().__init__()
        self.setObjectName("setting")
        self.title = title
        self._config = config
        self._folder = Path.home() / "Documents"
        self.folder = QPushButton()
        self.folder.setVisible(needs_folder(config))
        self.folder.clicked.connect(
            lambda: choose_folder(self, "Folder for the Model", self._use_folder)
        )
        self._use_folder(self._folder)
        self.add = push_button("Add", f"Add {title}")
        runtime = runtime_text(config)
        details = f"{purpose} · {runtime}" if runtime else purpose
        texts = column(label(title), label(details, "muted", 0.92), spacing=2)
        row((texts, 1), self.folder, self.add, spacing=8, margins=(16, 8, 12, 8), on=self)

    def show_added(self, configs: Iterable[ToolServerConfig]) -> None:
        """Show whether one of these servers is this one."""
        own = self.config
        targets = [(config.command, config.args, config.url) for config in configs]
        is_added = (own.command, own.args, own.url) in targets
        self.add.setText("Added" if is_added else "Add")
        self.add.setEnabled(not is_added)

    @property
    def config(self) -> ToolServerConfig:
        folder = (str(self._folder),) if needs_folder(self._config) else ()
        return replace(self._config, args=(*self._config.args, *folder), is_on=True)

    def _use_folder(self, folder: Path) -> None:
        self._folder = folder
        self.folder.setText(f"{folder.name or folder}…")
        self.folder.setAccessibleName(f"Folder: {folder}")
        self.folder.setToolTip(str(folder))
        self.folder_chosen.emit()


def _way(title: str, details: str, button: QPushButton) -> QFrame:
    """Return a line with another way to add servers."""
    line = QFrame()
    line.setObjectName("setting")
    texts = column(label(title), label(details, "muted", 0.92), spacing=2)
    row((texts, 1), button, spacing=8, margins=(16, 8, 12, 8), on=line)
    return line


class ToolServersWindow(OwnWindow):
    """All MCP servers."""

    def __init__(self, toolbox: Toolbox, parent: QWidget | None = None) -> None:
        super().__init__("MCP Servers", (880, 640), parent)
        self._toolbox = toolbox
        self.add = push_button("Add Server…", "Add an MCP server")
        self.other = push_button("Add…", "Add Other Server")
        self.paste = push_button("Paste…", "Add MCP servers by pasting JSON")
        self.from_claude = push_button("Import", "Import the MCP servers of Claude Desktop")
        self.status = label("", "muted", is_wrapped=True)
        self.status.hide()
        self._notice = label("", "fault", 0.92, is_wrapped=True)
        self.list = QListWidget()
        self.list.setProperty("kind", "rows")
        self.list.setAccessibleName("MCP servers")
        self.list.setItemDelegate(_ServerDelegate(self.list))
        self.list.setFixedWidth(240)
        self.detail = ServerDetail()
        self._pages = QStackedWidget()
        self.gallery = scrolling(self._gallery(), "Known MCP servers", goes_sideways=False)
        self.gallery.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._pages.addWidget(self.gallery)
        self._pages.addWidget(self.detail)
        self._lay_out()
        self._connect_signals()
        self._refresh()

    # -- building --------------------------------------------------------------------------

    def _gallery(self) -> QWidget:
        """Return a card with a line for each known server, and one for other ways."""
        lines = self.known = [KnownServerRow(*known) for known in known_servers()]
        for line in lines:
            line.folder_chosen.connect(self._refresh)
            line.add.clicked.connect(lambda _=False, line=line: self._begin(self._add(line.config)))
        about = f"A program on {THIS_COMPUTER}, or a service"
        ways = [
            _way("Other Server", about, self.other),
            _way("JSON", "The mcpServers text that a server’s page shows", self.paste),
            _way("Claude Desktop", "The servers of its settings", self.from_claude),
        ]
        for first in (lines[0], ways[0]):
            first.setProperty("is_first", True)
        hint = "You allow each call. Added servers are on in this chat and in new ones."
        page = QWidget()
        column(
            label("Add Server", "title", 1.15),
            label(hint, "muted", is_wrapped=True),
            card(*lines, spacing=0, margins=1),
            8,
            label("Other Ways", "heading"),
            card(*ways, spacing=0, margins=1),
            STRETCH,
            spacing=8,
            margins=(0, 0, 16, 8),
            on=page,
        )
        return page

    def _lay_out(self) -> None:
        # Below the list, so that a message does not move the rows under the pointer.
        text = column(self.status, self._notice, spacing=8, margins=(16, 8, 16, 0))
        self._left = QWidget()
        column((self.list, 1), row(self.add, STRETCH), spacing=8, on=self._left)
        column(
            (row(self._left, (self._pages, 1), spacing=16, margins=(16, 0, 0, 0)), 1),
            text,
            margins=(0, 16, 0, 16),
            on=self,
        )

    def _connect_signals(self) -> None:
        host = self._toolbox.host
        self._toolbox.changed.connect(self._refresh)
        self.list.currentRowChanged.connect(lambda _: self._show_chosen())
        self.add.clicked.connect(self.show_gallery)
        self.other.clicked.connect(lambda: self._show_form(ToolServerConfig("")))
        self.detail.permitted.connect(self._toolbox.allow)
        self.paste.clicked.connect(self._paste)
        self.from_claude.clicked.connect(lambda: self._begin(self._import()))
        self.detail.switch.clicked.connect(self._switch)
        self.detail.restart.clicked.connect(
            lambda: self._with_chosen(lambda server: self._begin(host.restart(server.name)))
        )
        self.detail.sign_in.clicked.connect(lambda: self._with_chosen(self._sign_in))
        self.detail.edit.clicked.connect(lambda: self._with_chosen(self._edit))
        self.detail.delete.clicked.connect(lambda: self._with_chosen(self._ask_deletion))
        QShortcut(QKeySequence(Qt.Key.Key_Escape), self, self.close)

    # -- showing --------------------------------------------------------------------------

    def _refresh(self) -> None:
        servers = self._toolbox.host.servers
        chosen = self._chosen()
        name = None if chosen is None else chosen.name
        items = [(server.name, _list_text(server)) for server in servers]
        shown = [
            (self.list.item(row).data(Qt.ItemDataRole.UserRole), self.list.item(row).text())
            for row in range(self.list.count())
        ]
        if items != shown:
            with QSignalBlocker(self.list):
                self.list.clear()
                for (key, text), server in zip(items, servers, strict=True):
                    item = QListWidgetItem(text)
                    item.setData(Qt.ItemDataRole.UserRole, key)
                    item.setData(_STAGE, server.stage)
                    self.list.addItem(item)
                names = [server.name for server in servers]
                is_adding = name is None and bool(shown)
                row = names.index(name) if name in names else -1 if is_adding else 0
                self.list.setCurrentRow(row)
        for line in self.known:
            line.show_added(server.config for server in servers)
        show_text(self._notice, self._toolbox.host.notice)
        self._show_chosen()

    def _show_chosen(self) -> None:
        chosen = self._chosen()
        self._pages.setCurrentIndex(0 if chosen is None else 1)
        self._left.setVisible(bool(self._toolbox.host.servers))
        if chosen is not None:
            self.detail.show_server(chosen, self._toolbox.preferences.now.tools.allowed)

    def _chosen(self) -> ServerState | None:
        item = self.list.currentItem()
        name = None if item is None else item.data(Qt.ItemDataRole.UserRole)
        return next((server for server in self._toolbox.host.servers if server.name == name), None)

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

    def show_gallery(self, title: str = "") -> None:
        """Offer the known servers; add the one with a title unless its folder is to be chosen."""
        line = next((line for line in self.known if line.title == title), None)
        if line is not None and line.folder.isHidden() and line.add.isEnabled():
            line.add.click()
            return
        self.list.setCurrentRow(-1)
        self.gallery.findChildren(QPushButton)[0].setFocus()

    def _edit(self, server: ServerState) -> None:
        self._show_form(server.config, replaced=server.name)

    def _show_form(self, config: ToolServerConfig, replaced: str = "") -> None:
        form = ServerForm(self, config, self._toolbox.host, replaced)
        form.accepted.connect(lambda: self._choose(form.name.text().strip()))
        if not replaced:
            start = self._toolbox.start_added
            form.accepted.connect(lambda: self._begin(start(form.name.text().strip())))
        form.open()

    async def _add(self, config: ToolServerConfig) -> None:
        taken = {server.name for server in self._toolbox.servers}
        names = (config.name if n == 1 else f"{config.name}-{n}" for n in count(1))
        config = replace(config, name=next(name for name in names if name not in taken))
        await self._toolbox.host.put(config)
        self._choose(config.name)
        await self._toolbox.start_added(config.name)

    def _ask_deletion(self, server: ServerState) -> None:

        def remove() -> None:
            self.list.setFocus()  # not on the button that deletes the next one
            self._begin(self._toolbox.host.remove(server.name))

        delete = Command("Delete", remove, is_destructive=True)
        confirm(
            self,
            f"Delete the MCP server “{server.name}”?",
            "Its settings and secrets are deleted. Results in conversations stay.",
            answers=[delete],
            prefers_cancel=True,
        )

    def _paste(self) -> None:
        dialog = PasteDialog(self, self._toolbox.host)
        dialog.added.connect(self._show_added)
        dialog.open()

    async def _import(self) -> None:
        try:
            added = await self._toolbox.host.import_claude_desktop()
        except ToolsRefused as refused:
            show_error(self, "No server of Claude Desktop could be imported.", str(refused))
        else:
            self._show_added(added)

    def _show_added(self, added: AddedServers) -> None:
        names, errors = added
        servers = counted(len(names), "server")
        text = [f"Added {servers}: {', '.join(names)}."]
        if errors:
            others = counted(len(errors), "other")
            text.append(f"{others} cannot be used. {' '.join(errors)}")
        self._show_message(" ".join(text))
        self._refresh()
        self._choose(names[0])
        for name in names:
            start_task(self, self._do(self._toolbox.start_added(name)), "start an MCP server")

    def _begin(self, work: Coroutine[Any, Any, object]) -> None:
        self._show_message("")
        start_task(self, self._do(work), "change MCP servers")

    async def _do(self, work: Coroutine[Any, Any, object]) -> None:
        try:
            await work
        except ToolsRefused as refused:
            self._show_message(str(refused))
        self._refresh()

    def _show_message(self, text: str) -> None:
        show_text(self.status, text)
