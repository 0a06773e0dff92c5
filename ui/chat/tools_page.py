"""The tools that the model may use in a conversation. Main thread."""

from collections.abc import Awaitable
from contextlib import suppress
from functools import partial

from PySide6.QtCore import QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QCheckBox,
    QFrame,
    QHBoxLayout,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from engine.wording import counted
from ui.kit.buttons import IconButton, ToggleSwitch, fold_button, push_button
from ui.kit.commands import Command, Entry, context_menu
from ui.kit.labels import ElidedLabel, clear_layout, label, plain_tooltip, show_text
from ui.kit.layouts import BAR_PX, STRETCH, card, column, row, scrolling
from ui.kit.menus import escape_mnemonics
from ui.kit.tasks import start_task
from ui.records.facts import MEMORY_SERVER
from ui.records.tool_choice import ToolsInUse, approval_of
from ui.records.tool_servers import (
    ServerState,
    ToolInfo,
    ToolsRefused,
    stage_text,
)
from ui.tools.known_servers import known_servers
from ui.tools.toolbox import Toolbox


class ToolsPage(QWidget):
    """Switches servers and their tools on and off."""

    edited = Signal(object)  # ToolsInUse
    servers_requested = Signal()
    adding_requested = Signal(str)  # title of a known server, or empty
    resource_requested = Signal(object)  # ResourceInfo
    prompt_requested = Signal(object)  # PromptInfo

    def __init__(self, toolbox: Toolbox, owner: object) -> None:
        super().__init__()
        self._toolbox = toolbox
        self._owner = owner
        self._choice = ToolsInUse()
        self._can_call = True
        self._folder_without_memory = ""
        self.boxes: dict[tuple[str, ...], QAbstractButton] = {}
        self.approved: dict[tuple[str, str], QPushButton] = {}
        self._unfolded: set[str] = set()  # the servers whose many tools are listed
        self._shown: object = None
        self._hint = label("", "muted", 0.92, is_wrapped=True)
        self._list = QWidget()
        column(spacing=8, margins=(16, 0, 16 - BAR_PX, 16), on=self._list)
        self._scroll = scrolling(
            self._list, "Servers and tools", goes_sideways=False, keeps_width=True
        )
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.attach = IconButton("attach", "Attach a resource or a prompt of an MCP server")
        self.attach.clicked.connect(self._offer)
        self.manage = IconButton("gear", "Show the MCP servers")
        self.manage.clicked.connect(self.servers_requested)
        self.more = IconButton("plus", "Add an MCP server")
        self.more.clicked.connect(lambda: self.adding_requested.emit(""))
        self.add = push_button("Add Server…", "Add an MCP server")
        self.add.clicked.connect(lambda: self.adding_requested.emit(""))
        self._empty = self._introduction()
        heading = label("MCP Servers", "heading")
        heading.setMinimumHeight(self.more.sizeHint().height())
        buttons = row(self.more, self.attach, self.manage, spacing=4)
        column(
            row(heading, STRETCH, buttons, margins=(16, 16, 16, 0)),
            row((self._hint, 1), margins=(16, 0, 16, 8)),
            row((self._empty, 1), margins=(16, 0, 16, 0)),
            (self._scroll, 1),
            spacing=0,
            on=self,
        )
        toolbox.changed.connect(self._refresh)

    def show_choice(
        self, choice: ToolsInUse, can_call: bool, folder_without_memory: str = ""
    ) -> None:
        self._choice, self._can_call = choice, can_call
        self._folder_without_memory = folder_without_memory
        self._refresh()
        if self.isVisible():
            self._start_chosen()

    def focus(self) -> None:
        """Move the keyboard to the first server that can be switched."""
        first = next((box for box in self.boxes.values() if box.isEnabled()), None)
        (first or (self.manage if self._toolbox.servers else self.add)).setFocus()

    def showEvent(self, event: QShowEvent) -> None:
        """Start the servers of the conversation, so that their tools are listed."""
        super().showEvent(event)
        self._start_chosen()

    # -- inside ----------------------------------------------------------------------------

    def _introduction(self) -> QFrame:
        """Return the card shown without servers: their purpose, and examples."""
        about = "Servers give the model tools, such as files and web pages. You allow each call."
        texts = [label("No Servers Yet", "title"), label(about, "muted", 0.92, is_wrapped=True)]
        examples: list[QHBoxLayout] = []
        for title, purpose, _ in known_servers():
            name = push_button(title, f"Add {title}", "link")
            name.setProperty("is_flush", True)
            name.setMinimumWidth(72)
            name.clicked.connect(partial(self._request, title))
            examples.append(row(name, (ElidedLabel(purpose, "muted", 0.92), 1), spacing=8))
        steps = row(self.add, STRETCH)
        return card(*texts, 4, *examples, 4, steps, spacing=8, margins=(16, 12, 12, 16))

    def _request(self, title: str, _: bool = False) -> None:
        self.adding_requested.emit(title)

    def _start_chosen(self) -> None:
        known = (server for server in self._toolbox.servers if server.name in self._choice.servers)
        stopped = [server.name for server in known if server.stage == "stopped"]
        if stopped:
            starting = self._start(self._toolbox.host.ensure_ready(stopped))
            start_task(self._owner, starting, "start MCP servers")

    def _refresh(self) -> None:
        servers = self._toolbox.servers
        memory = self._toolbox.memory
        others = [server for server in servers if server.name != MEMORY_SERVER]
        facts = 0 if memory is None else len(memory.facts)
        shown = (servers, self._choice, self._can_call, self._folder_without_memory, facts)
        if shown == self._shown:
            return
        self._shown = shown
        focused = next((key for key, box in self.boxes.items() if box.hasFocus()), None)
        scrolled = self._scroll.verticalScrollBar().value()
        show_text(self._hint, self._hint_text(servers))
        self._empty.setVisible(not others)
        self.manage.setVisible(bool(others))
        self.more.setVisible(bool(others))
        self.boxes.clear()
        self.approved.clear()
        clear_layout(self._list.layout())
        groups = self._list.layout()
        assert isinstance(groups, QVBoxLayout)
        for server in others:
            groups.addWidget(self._server_card(server))
        if memory is not None:
            built_in = label("Built In", "heading")
            built_in.setContentsMargins(0, 12, 0, 0)
            groups.addWidget(built_in)
            groups.addWidget(self._server_card(memory.server))
        groups.addStretch(1)
        in_use = [server for server in servers if server.name in self._choice.servers]
        self.attach.setVisible(any(server.resources or server.prompts for server in in_use))
        if self.isVisible():
            # New boxes have no size and get no keys before the event loop has shown them.
            QTimer.singleShot(0, self, partial(self._settle, scrolled, focused))

    def _settle(self, scrolled: int, focused: tuple[str, ...] | None) -> None:
        self._scroll.verticalScrollBar().setValue(scrolled)
        if focused is not None and focused in self.boxes:
            self.boxes[focused].setFocus()

    def _hint_text(self, servers: tuple[ServerState, ...]) -> str:
        if not any(server.name != MEMORY_SERVER for server in servers):
            return ""
        if not self._can_call:
            return "This model can’t call tools. Choose another model."
        return "Turn on the tools that this chat may use."

    def _server_card(self, server: ServerState) -> QFrame:
        is_used = server.name in self._choice.servers
        is_memory = server.name == MEMORY_SERVER
        text = self._memory_text() if is_memory else stage_text(server)
        name = "Memory" if is_memory else server.name
        switch = ToggleSwitch(f"{name}, {text}")
        is_on = server.config.is_on or is_memory
        switch.setToolTip(f"Use {name} in this chat" + ("" if is_on else ", and in new ones"))
        switch.setChecked(is_used)
        switch.setEnabled(not self._folder_without_memory if is_memory else self._can_call)
        switch.toggled.connect(partial(self._use_server, server.name))
        self.boxes[(server.name,)] = switch
        is_fault = bool(server.problem) and is_used and switch.isEnabled()
        status = label(text, "fault" if is_fault else "faint", 0.9, is_wrapped=True)
        # Its minimum height is that of its narrowest shape; what counts is the one at this width.
        status.setMinimumHeight(1)
        head = row((ElidedLabel(name, "title"), 1), switch, spacing=8)
        lines = column(head, status, spacing=4)
        whole = card(lines, margins=(16, 8, 12, 12))
        if server.stage == "failed":
            retry = push_button("Try Again", f"Start {server.name} again", kind="link")
            retry.setProperty("is_flush", True)
            retry.clicked.connect(partial(self._restart, server.name))
            lines.addLayout(row(retry, STRETCH))
        if not (is_used and self._can_call and switch.isEnabled()):
            return whole
        tools = server.tools
        if len(tools) > 5:  # all servers stay in view
            in_use = sum(self._choice.uses(tool) for tool in tools)
            fold = fold_button(
                f"{'All' if in_use == len(tools) else f'{in_use} of {len(tools)}'} Tools"
            )
            fold.setAccessibleName(f"Tools of {name}")
            fold.setChecked(server.name in self._unfolded)
            fold.toggled.connect(partial(self._unfold, server.name))
            self.boxes[server.name, ""] = fold
            lines.addLayout(row(fold, STRETCH))
            tools = tools if fold.isChecked() else ()
        for tool in tools:
            lines.addSpacing(4)
            box = QCheckBox(tool.title)
            box.setAccessibleName(f"{tool.title} of {server.name}")
            box.setToolTip(plain_tooltip(tool.description[:300]))
            box.setChecked(self._choice.uses(tool))
            box.toggled.connect(
                lambda is_on, chosen=tool: self._take(self._choice.with_tool(chosen, is_on))
            )
            self.boxes[tool.key] = box
            if approval_of(tool) in self._choice.approved:
                lines.addLayout(self._with_approval(tool, box))
            else:
                lines.addWidget(box)
        return whole

    def _memory_text(self) -> str:
        memory = self._toolbox.memory
        if self._folder_without_memory:
            return f"Off in the folder “{self._folder_without_memory}”"
        facts = 0 if memory is None else len(memory.facts)
        kept = f"{counted(facts, 'fact')} kept." if facts else "No facts kept yet."
        if not self._can_call:
            return f"{kept} Search needs a model that can call tools."
        return f"Keeps facts and searches your conversations. {kept}"

    def _with_approval(self, tool: ToolInfo, box: QCheckBox) -> QHBoxLayout:
        """Return the row of a tool that runs here without asking, and a button that revokes it."""
        again = self.approved[tool.key] = QPushButton("Ask Again")
        again.setProperty("kind", "link")
        again.setToolTip("It is allowed in this conversation and runs without asking.")
        again.setAccessibleName(f"Ask again before running {tool.title} of {tool.server}")
        again.clicked.connect(lambda: self._ask_again(tool))
        again.setProperty("is_flush", True)
        return row((box, 1), again)

    def _ask_again(self, tool: ToolInfo) -> None:
        # The button disappears, so the tool's check box gets the focus.
        self.boxes[tool.key].setFocus()
        self._take(self._choice.without_approval(tool))

    def _restart(self, name: str) -> None:
        start_task(self._owner, self._toolbox.restart(name), "restart an MCP server")

    def _unfold(self, name: str, is_unfolded: bool) -> None:
        (self._unfolded.add if is_unfolded else self._unfolded.discard)(name)
        self._shown = None
        self._refresh()

    def _use_server(self, name: str, is_on: bool) -> None:
        self._take(self._choice.with_server(name, is_on))
        if is_on and name != MEMORY_SERVER:
            starting = self._start(self._toolbox.host.switch(name, True))
            start_task(self._owner, starting, "start an MCP server")

    async def _start(self, starting: Awaitable[None]) -> None:
        with suppress(ToolsRefused):  # the program is ending
            await starting

    def _take(self, choice: ToolsInUse) -> None:
        self._choice = choice
        self.edited.emit(choice)
        self._refresh()

    def _offer(self) -> None:
        entries: list[Entry] = []
        for server in self._toolbox.servers:
            if server.name not in self._choice.servers:
                continue
            for resource in server.resources:
                text = escape_mnemonics(f"{resource.title}  ({server.name})")
                entries.append(Command(text, partial(self.resource_requested.emit, resource)))
            for prompt in server.prompts:
                text = escape_mnemonics(f"Prompt: {prompt.title}  ({server.name})")
                entries.append(Command(text, partial(self.prompt_requested.emit, prompt)))
        menu = context_menu(self, "What can be attached", entries)
        menu.popup(self.attach.mapToGlobal(QPoint(0, self.attach.height())))
