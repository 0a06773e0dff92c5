"""The states of daily work for the tour: reading, tools, order, import. No model answers."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QItemSelectionModel, QPoint
from PySide6.QtWidgets import QDialog, QMenu, QWidget

from app.mcp.configuration import BadConfiguration, parse_servers
from engine.values.events import BudgetEnd, EndDetails
from engine.values.request import ToolCall
from tests.support.answers.said import FINISHED, finished_run
from tests.support.outside.tool_hosts import ADD, SUMS, SUMS_ON, DictatedHost
from ui.chat.import_dialog import ImportDialog
from ui.chat.messages.message_column import MessageColumn
from ui.chat.sidebar import FolderDialog
from ui.kit.commands import fill_menu
from ui.records.attachments import Attachment
from ui.records.codec import Preset
from ui.records.conversations import Conversation, ConversationFolder, ConversationSettings
from ui.records.exchange.contents import FileContents, ListedConversation
from ui.records.messages import ConversationMessage, question
from ui.records.runs import GrowingCall, LiveRun, Run
from ui.records.tool_calls import CallProgress, CallResult
from ui.records.tool_servers import (
    AddedServers,
    ServerState,
    ToolServerConfig,
    ToolsRefused,
)
from ui.tools.server_dialogs import PasteDialog, ServerForm
from ui.window.main_window import MainWindow

Show = Callable[..., Awaitable[None]]
Until = Callable[[Callable[[], bool]], Awaitable[None]]
LOOK = replace(ADD, name="look_up", title="look_up", description="Look a word up in the manual.")
FAILED = ServerState(
    ToolServerConfig(
        "files", "npx", ("-y", "@modelcontextprotocol/server-filesystem", "/home/me"), is_on=True
    ),
    "failed",
    problem="“npx” was not found. Install Node.js, or give the whole path of the program.",
    log=("npm error code ENOENT", "npm error syscall spawn npx"),
)
WORDS = "A stop sequence ends an answer. The **stop** itself is cut.\n\n"


class PicturedHost(DictatedHost):
    """Reads pasted JSON as the program does, and starts nothing."""

    async def add_text(self, text: str) -> AddedServers:
        """Add nothing; refuse what the program refuses."""
        try:
            servers, errors = parse_servers(text)
            return [one.name for one in servers], errors
        except BadConfiguration as error:
            raise ToolsRefused(str(error)) from error

    def show(self, *servers: ServerState) -> None:
        self.servers = servers
        self._listener()


class DailyWork:
    """Walks a window through the states of daily work."""

    def __init__(self, window: MainWindow, host: PicturedHost, show: Show, until: Until) -> None:
        self._window = window
        self._host = host
        self._show = show
        self._until = until

    async def walk(self) -> None:
        await self.reading()
        await self.calls()
        await self.tools()
        await self.order()
        await self.importing()

    async def reading(self) -> None:
        """Find, the menu of a message, a quotation, presets, the way to the end."""
        window = self._window
        window.workspace.take_in(_long())
        column, composer = window.chat.column, window.chat.composer
        bar = column.verticalScrollBar()
        await self._until(lambda: bar.maximum() > 500 and bar.value() == bar.maximum())
        find = window.chat.find_bar
        find.begin("stop")
        await self._until(lambda: not find.finder.is_counting and find.finder.count > 0)
        await self._show("find", window)
        find.field.setText("nowhere")
        await self._until(lambda: not find.finder.is_counting and find.finder.count == 0)
        await self._show("find-nothing", window)
        find.put_away()
        await self.unfolding()
        window.workspace.take_in(_long())
        await self._until(lambda: bar.maximum() > 500 and bar.value() == bar.maximum())
        bar.setValue(bar.maximum() // 2)
        await self._until(lambda: _has_views(column))
        await self._show("jump-to-latest", window)
        column.jump_to_latest()
        await self._until(lambda: bar.value() == bar.maximum())
        with _popped(window) as menu:
            fill_menu(menu, window.chat.handling.entries(column.views[-1]))
            menu.popup(window.mapToGlobal(QPoint(500, 200)))
            await self._show("message-menu", menu)
        window.chat.handling.quote("The stop itself is cut.")
        await self._show("quotation", window)
        composer.set_text("")
        for name in ("Brief answers", "Bulleted list", "Translate to French"):
            window.workspace.presets.keep(Preset(name, ConversationSettings()))
        composer.input.setFocus()
        composer.set_text("/b")
        await self._show("slash-presets", window)
        composer.set_text("")

    async def unfolding(self) -> None:
        """Find in a file, in thinking and in a call, and the verdict of a thinking budget."""
        window = self._window
        window.workspace.take_in(_folded())
        bar = window.chat.find_bar
        bar.begin("budget")
        await self._until(lambda: not bar.finder.is_counting and bar.finder.count > 3)
        for _ in range(4):
            bar.step(1)
        await self._show("find-unfolded", window)
        bar.put_away()
        await self._show("thinking-budget", window)

    async def calls(self) -> None:
        """The cards of calls in every state."""
        await self._show_run("call-growing", _growing())
        await self._show_run("call-permission", _asking())
        await self._show_run("call-progress", _running())
        await self._show_run("call-results", _ended())
        await self._show_run("call-limit", _paused())

    async def tools(self) -> None:
        """The card of the Tools button, and the window of MCP servers."""
        window, host = self._window, self._host
        host.become(tools=(ADD, LOOK), version="sums 1.2")
        window.workspace.change_tools(SUMS_ON)
        for page, name in (
            (window.chat.settings, "settings-page"),
            (window.chat.tools.page, "tools-page"),
        ):
            window.pane.open(page)
            await self._show(name, window)
        window.pane.hide()
        window.others.show_tool_servers()
        servers = window.others.tool_servers
        await self._show("tool-servers-running", servers)
        servers.list.setCurrentRow(1)
        await self._show("tool-servers-failed", servers)
        servers.detail.edit.click()
        await self._show_dialog("tool-servers-form", servers, ServerForm)
        servers.paste.click()
        (paste,) = servers.findChildren(PasteDialog)
        paste.text.setPlainText('{"mcpServers": {"files": {"comand": "npx"}}}')
        paste.save.click()
        await self._until(paste.problem.isVisible)
        await self._show_dialog("tool-servers-pasted", servers, PasteDialog)
        all_of_them = host.servers
        host.show()
        await self._show("tool-servers-empty", servers)
        host.show(*all_of_them)
        servers.close()

    async def order(self) -> None:
        """Folders, several chosen, the archive."""
        window, sidebar = self._window, self._window.sidebar
        conversations = window.workspace.conversations
        names = ("Apples and pears", "Bananas", "Cherries", "Dates", "Elderberries", "Figs")
        for name in names:
            conversations.insert(_said(name, WORDS))
        folder = ConversationFolder("Fruit of the week", is_open=True)
        conversations.folders.keep(folder)
        listed = {one.title: one for one in conversations.every()}
        sidebar.conversation_actions.move([listed["Bananas"], listed["Dates"]], folder)
        sidebar.conversation_actions.toggle_archived([listed["Elderberries"]])
        await self._show("folders", window)
        sidebar.list.setCurrentIndex(sidebar.rows.index_of(listed["Bananas"]))
        rows = sidebar.list.selectionModel()
        for name in ("Dates", "Figs"):
            index = sidebar.rows.index_of(listed[name])
            rows.select(index, QItemSelectionModel.SelectionFlag.Select)
        await self._show("several-chosen", window)
        with _popped(window) as menu:
            fill_menu(menu, sidebar.conversation_actions.entries(sidebar.chosen))
            menu.popup(window.mapToGlobal(QPoint(100, 300)))
            await self._show("order-menu", menu)
        sidebar.rows.show_archive(True)
        await self._show("archive", window)
        sidebar.rows.show_archive(False)
        sidebar.edit_folder(folder)
        await self._show_dialog("folder-settings", window, FolderDialog)

    async def importing(self) -> None:
        names = [
            *(f"Talk {number} about stop sequences" for number in range(1, 9)),
            "Known already",
        ]
        listed = [
            ListedConversation(number, name, 2, 1.7e9, f"chatgpt:{number}", "")
            for number, name in enumerate([*names, "Known already"])
        ]
        damaged = ["conversations.json, item 7: the message has no author"]
        left_out = Counter({"picture": 3, "hidden message": 1})
        found = FileContents(
            "ChatGPT",
            Path("conversations.json"),
            listed[:-1],
            listed[-1:],
            listed=listed,
            damaged=damaged,
            left_out=left_out,
        )
        ImportDialog(found, self._window.workspace.files.transfers, self._window).open()
        await self._show_dialog("import-preview", self._window, ImportDialog)

    # -- inside ----------------------------------------------------------------------------

    async def _show_run(self, name: str, run: Run) -> None:
        messages = [
            ConversationMessage("user", "What is 2 + 3? Look it up, too."),
            ConversationMessage("assistant", run=run),
        ]
        self._window.workspace.take_in(Conversation("Sums", messages))
        await self._show(name, self._window)

    async def _show_dialog(self, name: str, parent: QWidget, kind: type[QDialog]) -> None:
        (dialog,) = (one for one in parent.findChildren(kind) if one.isVisible())
        await self._show(name, dialog)
        dialog.reject()
        await asyncio.sleep(0)


@contextmanager
def _popped(window: MainWindow) -> Iterator[QMenu]:
    menu = QMenu(window)
    yield menu
    menu.close()
    menu.deleteLater()


def _has_views(column: MessageColumn) -> bool:
    return bool(column.views)


def _said(title: str, answer: str) -> Conversation:
    run = finished_run(answer, thinking="", thinking_s=None, tool_calls=[])
    said = [ConversationMessage("user", title), ConversationMessage("assistant", run=run)]
    one = Conversation(title, said)
    one.updated_at = time.time()
    return one


def _long() -> Conversation:
    one = _said("How does a stop sequence work?", WORDS * 6)
    more = [_said(f"Question {number}", WORDS * 4) for number in range(2, 9)]
    said = [message for each in (one, *more) for message in each.messages]
    return Conversation("Stop sequences", said)


def _folded() -> Conversation:
    thinking = "The budget of the house comes first.\nThen the garden.\n" * 6
    finished = replace(FINISHED, details=EndDetails(budget_end=BudgetEnd(3, 2, 3)))
    results = [CallResult("c1", "done", "budget.txt: 12,000", "files", "read_file", 0.02)]
    run = _run(
        thinking=thinking,
        thinking_s=3.2,
        finished=finished,
        tool_calls=[ToolCall("c1", "read_file", '{"path": "budget.txt"}')],
        results=results,
    )
    asked = question("What can we spend?", [Attachment("budget.txt", "house 9,000\nbudget\n")])
    return Conversation("Spending", [asked, ConversationMessage("assistant", run=run)])


def _run(**fields: object) -> Run:
    calls = [
        ToolCall("c1", "add", '{"a": 2, "b": 3}'),
        ToolCall("c2", "look_up", '{"word": "stop sequence"}'),
    ]
    values: dict[str, object] = {"thinking": "", "thinking_s": None, "tool_calls": calls}
    return finished_run("I add them.", **(values | fields))


def _growing() -> Run:
    call = GrowingCall("c1", "add", ['{"a": 2, ', '"b": '])
    return _run(tool_calls=[], live=LiveRun(growing_calls=[call]), finished=None)


def _asking() -> Run:
    run = _run(live=LiveRun(is_calling=True))
    run.live.progress["c1"] = CallProgress("sums", "add", needs_user=True)
    return run


def _running() -> Run:
    run = _run(live=LiveRun(is_calling=True))
    run.live.progress["c1"] = CallProgress("sums", "add", False, 2.5, 1, 4, "counting")
    return run


def _ended() -> Run:
    text = "\n".join(f"line {number}" for number in range(1, 40))
    results = [
        CallResult("c1", "done", text, "sums", "add", 0.02),
        CallResult("c2", "failed", "The server ended: exit code 1.", "sums", "look_up", 1),
    ]
    return _run(results=results)


def _paused() -> Run:
    results = [CallResult("c1", "denied", "The user did not allow this call.", "sums")]
    return _run(results=results, paused_at=20)


def daily_host() -> PicturedHost:
    """Return a host with a server that runs and one that failed."""
    return PicturedHost(SUMS, FAILED)
