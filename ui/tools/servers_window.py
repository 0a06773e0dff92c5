"""The window of tool servers: the list, the chosen one beside it, and the dialogs that add one.

Main thread.
"""

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QSignalBlocker, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QPlainTextEdit,
    QPushButton,
    QStackedWidget,
    QTabWidget,
    QWidget,
)

from engine import counted
from ui.kit.buttons import Choice, IconButton, ToggleSwitch
from ui.kit.dialogs import BoxButton, confirm
from ui.kit.fields import disable_horizontal_scrolling
from ui.kit.labels import ElidedLabel, label, plain_tooltip
from ui.kit.layouts import STRETCH, FlowLayout, column, form, row, scrolling
from ui.kit.rows import RowDelegate
from ui.kit.tasks import finish_tasks, start_task
from ui.kit.theme import fixed_font, restyle
from ui.kit.windows import OwnWindow, fit_to_screen, move_focus
from ui.preferences import declaration
from ui.records.tool_servers import (
    AddedServers,
    NamedValue,
    ServerStage,
    ServerState,
    ToolServerConfig,
    ToolsRefused,
    no_tools_text,
    stage_text,
)
from ui.tools.toolbox import Toolbox


class NamedValueRows(QWidget):
    """A row for each value, and a button that adds one."""

    def __init__(self, noun: str) -> None:
        super().__init__()
        self._noun = noun
        self.rows: list[_Row] = []
        self._added = 0
        self.more = QPushButton(f"Add {noun.capitalize()}")
        self.more.setAccessibleName(f"Add a {noun}")
        self.more.setAutoDefault(False)
        self.more.clicked.connect(lambda: self._add(NamedValue("")).name.setFocus())
        self._column = column(row(self.more, STRETCH), STRETCH, spacing=6, on=self)

    def show_values(self, values: Iterable[NamedValue]) -> None:
        for value in values:
            self._add(value)

    def values(self) -> tuple[NamedValue, ...]:
        """Return the edited values; rows without a name are left out."""
        return tuple(row.value() for row in self.rows if row.name.text().strip())

    def _add(self, value: NamedValue) -> "_Row":
        self._added += 1
        row = _Row(f"{self._noun} {self._added}", value)
        row.remove.clicked.connect(lambda: self._remove(row))
        self.rows.append(row)
        self._column.insertWidget(len(self.rows) - 1, row)
        return row

    def _remove(self, row: "_Row") -> None:
        self.rows.remove(row)
        row.hide()
        row.deleteLater()
        self.more.setFocus()


class _Row(QWidget):
    """One name and value.

    Args:
        default_name: Which one it is: "variable 2".
        value: Its name and value.
    """

    def __init__(self, default_name: str, value: NamedValue) -> None:
        super().__init__()
        self._default_name = default_name
        self._is_kept = value.is_secret and not value.value
        self.name = QLineEdit(value.name)
        self.name.setPlaceholderText("Name")
        self.name.setAccessibleName(f"Name of {default_name}")
        self.text = QLineEdit(value.value)
        self.secret = QCheckBox("Secret")
        self.secret.setToolTip("Secrets are kept in the keychain, not in the file")
        self.remove = IconButton("close", "")
        self.name.textChanged.connect(self._show_message)
        self._show_message(value.name)
        self.secret.toggled.connect(self._show_kind)
        self.secret.setChecked(value.is_secret)
        self._show_kind(value.is_secret)
        row((self.name, 2), (self.text, 3), self.secret, self.remove, on=self)

    def _show_message(self, typed: str) -> None:
        """Name the other controls by the name that was typed."""
        called = typed.strip() or self._default_name
        self.text.setAccessibleName(f"Value of {called}")
        self.secret.setAccessibleName(f"{called} is a secret")
        self.remove.show_icon("close", f"Remove {called}")

    def value(self) -> NamedValue:
        return NamedValue(self.name.text().strip(), self.text.text(), self.secret.isChecked())

    def _show_kind(self, is_secret: bool) -> None:
        modes = QLineEdit.EchoMode
        self.text.setEchoMode(modes.Password if is_secret else modes.Normal)
        kept = self._is_kept and is_secret
        self.text.setPlaceholderText("Leave empty to keep the saved value" if kept else "Value")


_EXAMPLE = '{\n  "mcpServers": {\n    "files": {"command": "npx", "args": ["-y", "…"]}\n  }\n}'


class _KeptDialog(QDialog):
    """A dialog that stays open, with the typed text, until its action succeeds."""

    def __init__(self, title: str, done: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self.problem = label("", "fault", 0.95, is_wrapped=True)
        self.problem.hide()
        kinds = QDialogButtonBox.StandardButton
        self.buttons = QDialogButtonBox(kinds.Save | kinds.Cancel)
        self.save = self.buttons.button(kinds.Save)
        self.save.setText(done)
        self.save.setProperty("kind", "primary")
        self.buttons.rejected.connect(self.reject)
        self.finished.connect(lambda _: self.deleteLater())

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        """Move the focus by Tab in reading order."""
        return move_focus(self, is_next)

    def _begin(self, work: Coroutine[Any, Any, object]) -> None:
        self.save.setEnabled(False)
        start_task(self, self._do(work), "keep a tool server")

    async def _do(self, work: Coroutine[Any, Any, object]) -> None:
        try:
            await work
        except ToolsRefused as refused:
            self.problem.setText(str(refused))
            self.problem.show()
            self.save.setEnabled(True)
        else:
            self.accept()


class PasteDialog(_KeptDialog):
    """Takes an ``mcpServers`` JSON."""

    def __init__(
        self,
        parent: QWidget,
        add: Callable[[str], Coroutine[Any, Any, object]],
    ) -> None:
        super().__init__("Paste JSON", "Add", parent)
        self.text = QPlainTextEdit()
        self.text.setAccessibleName("mcpServers JSON")
        self.text.setPlaceholderText(_EXAMPLE)
        self.text.setTabChangesFocus(True)
        self.text.setFont(fixed_font(self.font(), 0.95))
        self.buttons.accepted.connect(lambda: self._begin(add(self.text.toPlainText())))
        hint = (
            "Paste the mcpServers JSON that a server’s page shows. The servers are added, and stay "
            "switched off until you switch them on."
        )
        column(
            label(hint, "muted", is_wrapped=True),
            (self.text, 1),
            self.problem,
            self.buttons,
            spacing=12,
            margins=(18, 16, 18, 16),
            on=self,
        )
        fit_to_screen(self, 560, 420)


class ServerForm(_KeptDialog):
    """Edits one server, or adds one."""

    def __init__(
        self,
        parent: QWidget,
        config: ToolServerConfig | None,
        put: Callable[[ToolServerConfig, str], Coroutine[Any, Any, None]],
    ) -> None:
        super().__init__("Edit Tool Server" if config else "Add Tool Server", "Save", parent)
        self._config = config or ToolServerConfig("")
        self._put = put
        self._is_new = config is None
        shown = self._config
        self.name = _line(shown.name, "Name", "files")
        self.kind = Choice(
            "Type",
            [("program", "Local (stdio)"), ("address", "Remote (HTTP)")],
        )
        self.kind.choose("program" if shown.is_program else "address")
        self.command = _line(shown.command, "Program", "npx")
        self.args = QPlainTextEdit("\n".join(shown.args))
        self.args.setAccessibleName("Arguments, one on each line")
        self.args.setPlaceholderText("One argument on each line")
        self.args.setTabChangesFocus(True)
        self.args.setFixedHeight(84)
        self.cwd = _line(shown.cwd, "Working directory", "The home folder")
        self.env = NamedValueRows("variable")
        self.env.show_values(shown.env)
        self.url = _line(shown.url, "Address", "https://example.org/mcp")
        self.headers = NamedValueRows("header")
        self.headers.show_values(shown.headers)
        inner = QWidget()
        inner.setObjectName("scrolled")
        self._form = form(
            ("Name", self.name),
            ("Kind", self.kind),
            ("Program", self.command),
            ("Arguments", self.args),
            ("Folder", self.cwd),
            ("Variables", self.env),
            ("Address", self.url),
            ("Headers", self.headers),
            spacing=(14, 9),
            on=inner,
            growth=QFormLayout.FieldGrowthPolicy.ExpandingFieldsGrow,
            wraps=True,
        )
        scroll = scrolling(inner, "")
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        column(
            (scroll, 1), self.problem, self.buttons, spacing=12, margins=(18, 16, 18, 16), on=self
        )
        fit_to_screen(self, 620, 460)
        self.kind.currentIndexChanged.connect(lambda _: self._show_kind())
        self.buttons.accepted.connect(self._keep)
        self._show_kind()
        self.name.setFocus()

    def edited(self) -> ToolServerConfig:
        is_program = self.kind.currentData() == "program"
        args = self.args.toPlainText()
        return replace(
            self._config,
            name=self.name.text(),
            command=self.command.text().strip() if is_program else "",
            args=tuple(args.split("\n")) if args and is_program else (),
            cwd=self.cwd.text().strip() if is_program else "",
            env=self.env.values() if is_program else (),
            url="" if is_program else self.url.text().strip(),
            headers=() if is_program else self.headers.values(),
        )

    def _keep(self) -> None:
        self._begin(self._put(self.edited(), "" if self._is_new else self._config.name))

    def _show_kind(self) -> None:
        is_program = self.kind.currentData() == "program"
        for field in (self.command, self.args, self.cwd, self.env):
            self._form.setRowVisible(field, is_program)
        for field in (self.url, self.headers):
            self._form.setRowVisible(field, not is_program)


def _line(text: str, accessible_name: str, example: str) -> QLineEdit:
    field = QLineEdit(text)
    field.setAccessibleName(accessible_name)
    field.setPlaceholderText(example)
    return field


class ServerDetail(QWidget):
    """Shows one server.

    Signals:
        switched: The server was switched on or off.
        default_toggled: Its use in new conversations was switched on or off.
    """

    switched = Signal(bool)
    default_toggled = Signal(bool)

    def __init__(self) -> None:
        super().__init__()
        self._shown: ServerState | None = None
        self._name = label("", "title")
        self.switch = ToggleSwitch("Enabled")
        self.status = label("", "muted", is_wrapped=True)
        self._reached = ElidedLabel("")
        self._reached.setProperty("role", "faint")
        self._remarks = label("", "muted", 0.92, is_wrapped=True)
        self.in_new = QCheckBox(declaration("tools.in_new_conversations").label)
        self.in_new.setToolTip("Use in new conversations")
        self.restart = QPushButton("Restart")
        self.sign_in = QPushButton("Sign In…")
        self.sign_in.setProperty("kind", "primary")
        self.sign_in.setToolTip("Opens the server’s page in the browser")
        self.edit = QPushButton("Edit…")
        self.delete = QPushButton("Delete…")
        self.restart.setAccessibleName("Restart this tool server")
        self.edit.setAccessibleName("Edit this tool server")
        self.delete.setAccessibleName("Delete this tool server")
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
        self.switch.toggled.connect(self.switched)
        self.in_new.clicked.connect(self.default_toggled)

    def show_server(self, server: ServerState, *, is_in_new: bool) -> None:
        before, self._shown = self._shown, server
        self._name.setText(server.name)
        with QSignalBlocker(self.switch):
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
        self.restart.setEnabled(server.config.is_on and server.stage is not ServerStage.STARTING)
        has_failed = server.stage is ServerStage.FAILED
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


_LIST_PX = 240
_SHORT_STAGES = {
    ServerStage.OFF: "Off",
    ServerStage.STOPPED: "On",
    ServerStage.STARTING: "Starting…",
    ServerStage.READY: "Running",
    ServerStage.RESTARTING: "Starting again…",
    ServerStage.FAILED: "Failed",
}


class ToolServersWindow(OwnWindow):
    """All tool servers.

    Args:
        toolbox: The tool servers, their limits and approvals.
        parent: The window that it belongs to.

    Attributes:
        list: The servers.
        detail: The chosen one.
        add: Shows an empty form.
        paste: Shows the field for JSON.
        from_claude: Imports the servers of Claude Desktop.
        status: The result of the last action, or its failure.
    """

    def __init__(self, toolbox: Toolbox, parent: QWidget | None = None) -> None:
        super().__init__("Tool Servers", (860, 600), parent)
        self._toolbox = toolbox
        self.add = QPushButton("Add…")
        self.paste = QPushButton("Paste JSON…")
        self.from_claude = QPushButton("Import from Claude Desktop")
        self.add.setAccessibleName("Add a tool server")
        self.paste.setAccessibleName("Add tool servers by pasting JSON")
        self.from_claude.setAccessibleName("Import the tool servers of Claude Desktop")
        self.status = label("", "muted", is_wrapped=True)
        self.status.hide()
        self._notice = label("", "muted", 0.92, is_wrapped=True)
        self.list = QListWidget()
        self.list.setProperty("kind", "rows")
        self.list.setAccessibleName("Tool servers")
        self.list.setItemDelegate(RowDelegate(self.list))
        self.list.setFixedWidth(_LIST_PX)
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

    async def finish(self) -> None:
        """Wait until the background work has ended."""
        await finish_tasks(self)

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
        self.paste.clicked.connect(lambda: PasteDialog(self, self._paste).open())
        self.from_claude.clicked.connect(lambda: self._begin(self._import()))
        self.detail.switched.connect(self._switch)
        self.detail.default_toggled.connect(
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
        self._notice.setText(self._toolbox.host.notice)
        self._notice.setVisible(bool(self._toolbox.host.notice))
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
        form = ServerForm(self, config, self._toolbox.host.put)
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

        delete = BoxButton("Delete", remove, True)
        confirm(
            self,
            f"Delete the tool server “{server.name}”?",
            "Its settings and secrets are deleted. Results in conversations stay.",
            answers=[delete],
            prefers_cancel=True,
        )

    async def _paste(self, text: str) -> None:
        self._show_added(await self._toolbox.host.add_text(text))

    async def _import(self) -> None:
        self._show_added(await self._toolbox.host.import_claude_desktop())

    def _show_added(self, added: AddedServers) -> None:
        servers = counted(len(added.names), "server")
        text = [f"Added {servers}, switched off: {', '.join(added.names)}."]
        if added.errors:
            others = counted(len(added.errors), "other")
            text.append(f"{others} cannot be used. {' '.join(added.errors)}")
        self._show_message(" ".join(text))
        self._refresh()
        self._choose(added.names[0])

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
        self.status.setText(text)
        self.status.setVisible(bool(text))
