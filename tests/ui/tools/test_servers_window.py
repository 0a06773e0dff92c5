"""The window of MCP servers, and the card of a conversation's tools."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog, QInputDialog, QMessageBox, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from engine.engine import Engine
from tests.support.kept import preferences_state
from tests.support.memory_store import MemoryConversationStore
from tests.support.outside.tool_hosts import ADD, SUMS, DictatedHost, NoTools
from tests.support.shown import main_window, shown
from tests.ui.driving import RunOnLoop, eventually, press
from ui.chat.composer.pictures import encode_picture
from ui.chat.tools_page import ToolsPage
from ui.kit.tasks import finish_tasks
from ui.kit.theme import Theme
from ui.records.messages import ConversationMessage
from ui.records.pictures import kept_name
from ui.records.tool_choice import ToolsInUse, approval_of
from ui.records.tool_servers import (
    AddedServers,
    NamedValue,
    PromptInfo,
    QuestionField,
    ResourceInfo,
    ServerState,
    ToolAnswer,
    ToolServerConfig,
    ToolsRefused,
)
from ui.tools.server_dialogs import PasteDialog, ServerForm
from ui.tools.servers_window import ServerDetail, ToolServersWindow
from ui.tools.toolbox import Toolbox


@pytest.fixture
def parent(qtbot: QtBot) -> QWidget:
    parent = QWidget()
    qtbot.addWidget(parent)
    parent.show()
    return parent


def test_tool_servers_refused_json_stays_in_dialog(
    theme: Theme, parent: QWidget, run: RunOnLoop
) -> None:
    class Host(NoTools):
        async def add_text(self, text: str) -> AddedServers:
            raise ToolsRefused("mcpServers.a.args[1]: must be a text.")

    async def steps() -> None:
        dialog = PasteDialog(parent, Host())
        dialog.open()
        dialog.text.setPlainText('{"mcpServers": …}')
        dialog.save.click()
        await eventually(dialog.problem.isVisible)
        assert dialog.problem.text() == "mcpServers.a.args[1]: must be a text."
        assert dialog.text.toPlainText() == '{"mcpServers": …}'
        assert dialog.save.isEnabled()
        dialog.reject()

    run(steps())


def test_dialog_of_a_server_stays_open_while_it_is_saved(
    theme: Theme, parent: QWidget, run: RunOnLoop
) -> None:
    class Host(NoTools):
        answers = asyncio.Event()

        async def add_text(self, text: str) -> AddedServers:
            await self.answers.wait()
            raise ToolsRefused("The keychain is locked.")

    async def steps() -> None:
        host = Host()
        dialog = PasteDialog(parent, host)
        dialog.open()
        dialog.text.setPlainText("{}")
        dialog.save.click()
        QTest.keyClick(dialog, Qt.Key.Key_Escape)
        assert dialog.isVisible()
        host.answers.set()
        await eventually(dialog.problem.isVisible)
        dialog.reject()
        assert not dialog.isVisible()

    run(steps())


def test_tool_server_form_round_trip(theme: Theme, parent: QWidget) -> None:
    config = ToolServerConfig(
        "files",
        "npx",
        ("-y", "some server"),
        (NamedValue("TOKEN", "", is_secret=True), NamedValue("LEVEL", "2")),
        "/tmp",
        is_on=True,
    )

    form = ServerForm(parent, config, NoTools(), config.name)
    assert form.focusWidget() is form.name
    assert form.edited() == config
    assert form.env.rows[0].text.placeholderText() == "Leave empty to keep the saved value"
    form.env.more.click()
    form.env.rows[2].name.setText("NEW")
    form.env.rows[2].text.setText("value")
    form.env.rows[2].secret.click()
    assert form.edited().env[2] == NamedValue("NEW", "value", is_secret=True)
    form.kind.choose("address")
    form.save.click()
    assert (form.problem.text(), form.focusWidget()) == ("Address is required.", form.url)
    form.url.setText("http://localhost:1/mcp")
    edited = form.edited()
    assert (edited.url, edited.command, edited.args, edited.env) == (
        "http://localhost:1/mcp", "", (), (),
    )  # fmt: skip
    form.deleteLater()


async def test_tool_servers_window_lists_and_switches(theme: Theme, parent: QWidget) -> None:
    host = DictatedHost()
    window = ToolServersWindow(Toolbox(host, preferences_state()), parent)
    window.show()
    assert window.list.item(0).text() == "sums\nRunning"
    (line,) = window.detail.tool_rows
    assert line.title.text() == "add"
    assert window._toolbox.is_allowed(ADD) is False
    line.permission.choose("always")
    assert window._toolbox.is_allowed(ADD)
    (line,) = window.detail.tool_rows
    assert line.permission.currentData() == "always"
    line.permission.choose("ask")
    assert not window._toolbox.is_allowed(ADD)
    host.become(stage="failed", problem="It ended.", log=("first", "last"), tools=())
    assert window.list.item(0).text() == "sums\nIt ended"
    assert window.detail.restart.text() == "Try Again"
    row = window.list.itemDelegate().content(window.list.model().index(0, 0))
    assert (row.subtitle.icon, row.subtitle.color) == ("fault", theme.colors.fault)
    assert window.detail.status.text() == "It ended."
    assert window.detail.log.toPlainText() == "first\nlast"
    window.detail.switch.click()
    await eventually(lambda: host.switched == [("sums", False)])
    await window.finish()
    window.close()


@pytest.mark.parametrize(
    ("problem", "shown"),
    [
        ("The MCP server “sums” could not be started. npx was not found. Install it.",
         "npx was not found"),
        ("The MCP server “sums” requires you to sign in. Choose Sign In.",
         "Requires you to sign in"),
        ("", "Failed"),
    ],
)  # fmt: skip
def test_row_of_failed_server_names_reason(
    theme: Theme, parent: QWidget, problem: str, shown: str
) -> None:
    host = DictatedHost(replace(SUMS, stage="failed", problem=problem))
    window = ToolServersWindow(Toolbox(host, preferences_state()), parent)
    assert window.list.item(0).text() == f"sums\n{shown}"
    window.close()


async def test_tools_page_switches_servers_and_tools(theme: Theme, parent: QWidget) -> None:
    edited: list[Any] = []
    host = DictatedHost()
    tasks = object()
    card = ToolsPage(Toolbox(host, preferences_state()), tasks)
    card.edited.connect(edited.append)
    card.show_choice(ToolsInUse(), can_call=True)
    assert list(card.boxes) == [("sums",)]
    card.boxes[("sums",)].click()
    await eventually(lambda: host.switched == [("sums", True)])
    assert edited[-1].uses(ADD)
    card.boxes[ADD.key].click()
    assert edited[-1] == ToolsInUse(("sums",), (ADD.key,))
    card.show_choice(edited[-1], can_call=False)
    assert "can’t call tools" in card._hint.text()
    switch = card.boxes[("sums",)]
    assert switch.isChecked()
    assert not switch.isEnabled()
    assert ADD.key not in card.boxes
    await finish_tasks(tasks)
    card.deleteLater()


async def test_tools_page_starts_failed_server_again(theme: Theme, parent: QWidget) -> None:
    restarted: list[str] = []

    class Failing(DictatedHost):
        async def restart(self, name: str) -> None:
            restarted.append(name)

    tasks = object()
    host = Failing(replace(SUMS, stage="failed", problem="It ended."))
    card = ToolsPage(Toolbox(host, preferences_state()), tasks)
    card.show_choice(ToolsInUse(), can_call=True)
    next(one for one in card.findChildren(QPushButton) if one.text() == "Try Again").click()
    await eventually(lambda: restarted == ["sums"])
    await finish_tasks(tasks)
    card.deleteLater()


async def test_tools_page_revokes_approval(theme: Theme, parent: QWidget) -> None:
    edited: list[ToolsInUse] = []
    allowed = ToolsInUse(("sums",), approved=(approval_of(ADD),))
    tasks = object()
    card = ToolsPage(Toolbox(DictatedHost(), preferences_state()), tasks)
    card.edited.connect(edited.append)
    card.show_choice(allowed, can_call=True)
    card.approved[ADD.key].click()
    assert edited == [ToolsInUse(("sums",))]
    assert card.approved == {}
    for key in (ADD.key, ("sums",)):
        card.show_choice(allowed, can_call=True)
        card.boxes[key].click()
        assert edited[-1].approved == ()
    await finish_tasks(tasks)
    card.deleteLater()


async def test_tools_page_starts_servers(theme: Theme, parent: QWidget) -> None:
    stopped = replace(SUMS, stage="stopped", tools=())
    unused = replace(stopped, config=replace(SUMS.config, name="unused"))
    host = DictatedHost(unused, stopped)
    tasks = object()
    card = ToolsPage(Toolbox(host, preferences_state()), tasks)
    card.show_choice(ToolsInUse(("sums",)), can_call=True)
    assert host.ready_for == []
    card.show()
    await eventually(lambda: host.ready_for == [("sums",)])
    await finish_tasks(tasks)
    card.deleteLater()


def _drawn() -> bytes:
    image = QImage(8, 8, QImage.Format.Format_RGB32)
    image.fill(0)
    return encode_picture(image)


class Offering(DictatedHost):
    """A server with a resource and a prompt."""

    async def read_resource(self, server: str, uri: str) -> ToolAnswer:
        return ToolAnswer(f"text of {uri}", pictures=(_drawn(),) if uri.endswith("png") else ())

    async def get_prompt(self, server: str, name: str, arguments: dict[str, str]) -> ToolAnswer:
        pictures = (_drawn(),) if name == "look" else ()
        return ToolAnswer(f"{name} {arguments}", pictures=pictures)


async def test_mcp_resource_and_prompt_are_attached(engine: Engine, theme: Theme) -> None:
    async with shown(main_window(engine, theme, tool_host=Offering())) as window:
        tools, composer = window.chat.tools, window.chat.composer
        tools.page.resource_requested.emit(ResourceInfo("sums", "sums://1", "Table"))
        await eventually(lambda: composer.attachments.files != ())
        [file] = composer.attachments.files
        assert (file.name, file.text) == ("Table", "text of sums://1")
        tools.page.prompt_requested.emit(PromptInfo("sums", "review", "Review"))
        await eventually(lambda: composer.text == "review {}")
        composer.set_text("")
        asked = (QuestionField("file", "File", is_required=True), QuestionField("focus", "Focus"))
        tools.page.prompt_requested.emit(PromptInfo("sums", "review", "Review", asked))
        for typed in ("a.py", ""):
            [dialog] = (one for one in window.findChildren(QInputDialog) if one.isVisible())
            dialog.setTextValue(typed)
            dialog.accept()
        await eventually(lambda: composer.text == "review {'file': 'a.py'}")
        before = window.workspace.current.conversation
        composer.set_text("")
        tools.page.resource_requested.emit(ResourceInfo("sums", "sums://2", "Other"))
        tools.page.prompt_requested.emit(PromptInfo("sums", "review", "Review"))
        window.workspace.new_conversation()
        await eventually(lambda: len(before.attachments) == 2 and before.draft == "review {}")
        assert (composer.text, composer.attachments.files) == ("", ())


async def test_mcp_image_resource_is_attached_as_picture(
    engine: Engine, theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryConversationStore, "pictures_folder", tmp_path / "pictures")
    async with shown(main_window(engine, theme, tool_host=Offering())) as window:
        tools, composer = window.chat.tools, window.chat.composer
        tools.page.resource_requested.emit(ResourceInfo("sums", "sums://1.png", "A cat"))
        await eventually(lambda: len(composer.attachments.files) == 2)
        text, picture = composer.attachments.files
        assert (text.name, text.text) == ("A cat", "text of sums://1.png")
        assert (picture.name, picture.kept_file) == ("A cat", kept_name(_drawn()))
        tools.page.prompt_requested.emit(PromptInfo("sums", "look", "Look"))
        await eventually(lambda: composer.text == "look {}")
        assert composer.attachments.files[-1].name == "Look"


def test_tool_servers_window_shows_log_of_failed_server(theme: Theme, qtbot: QtBot) -> None:
    detail = ServerDetail()
    qtbot.addWidget(detail)
    off = ServerState(ToolServerConfig("sums", "python"))
    detail.show_server(off)
    assert detail.tabs.tabText(detail.tabs.currentIndex()) == "Tools"
    assert detail.no_tools.isVisibleTo(detail)
    assert detail.no_tools.text() == "Its tools are listed here once it is switched on."
    failed = replace(off, stage="failed", problem="It is not there.", log=("gone",))
    detail.show_server(failed)
    assert detail.tabs.tabText(detail.tabs.currentIndex()) == "Log"
    detail.tabs.setCurrentIndex(0)  # who looks at another tab stays there
    detail.show_server(replace(failed, log=("gone", "really")))
    assert detail.tabs.tabText(detail.tabs.currentIndex()) == "Tools"
    detail.show_server(SUMS)
    assert detail.tools.isVisibleTo(detail)
    detail.show_server(failed)
    assert detail.tabs.tabText(detail.tabs.currentIndex()) == "Log"


async def test_server_that_is_on_is_used_in_new_chats(theme: Theme, engine: Engine) -> None:
    host = DictatedHost(replace(SUMS, config=replace(SUMS.config, is_on=False), stage="off"))
    async with shown(main_window(engine, theme, tool_host=host)) as window:
        conversation = window.workspace.current.conversation  # it has no message yet
        assert conversation.tools == ToolsInUse()
        host.become(config=SUMS.config, stage="ready")
        assert conversation.tools == ToolsInUse(("sums",))
        host.become(config=replace(SUMS.config, is_on=False), stage="off")
        assert conversation.tools == ToolsInUse()


class Growing(DictatedHost):
    """Adds servers; it has none at first."""

    def __init__(self) -> None:
        super().__init__()
        self.servers = ()

    async def put(self, config: ToolServerConfig, replaced: str = "") -> None:
        self.servers = (*self.servers, ServerState(config, "stopped"))
        self._listener()


async def test_known_server_is_added_with_three_clicks(engine: Engine, theme: Theme) -> None:
    host = Growing()
    async with shown(main_window(engine, theme, tool_host=host)) as window:
        workspace = window.workspace

        def tools() -> ToolsInUse:
            return workspace.current.conversation.tools

        message = ConversationMessage("user", "Hello")
        workspace.current.conversation.add(message)  # no longer the beginning of a chat
        for number, title in enumerate(("Web Pages", "Time", "Files"), 1):
            window.pane.hide()
            press(window, "Tools")
            press(window.chat.tools.page, "Add an MCP server")
            press(window.others.tool_servers, f"Add {title}")
            await eventually(lambda number=number: len(tools().servers) == number)
            window.others.tool_servers.hide()
        names = ("fetch", "time", "files")
        assert tools().servers == names
        workspace.new_conversation()
        assert tools().servers == names
        assert all(server.config.is_on for server in host.servers)
        assert host.servers[2].config.args[-1] == str(Path.home() / "Documents")
        added = {row.add.text() for row in window.others.tool_servers.known if row.config.args}
        assert added == {"Added", "Add"}


async def test_known_server_is_added_from_tools_tab(engine: Engine, theme: Theme) -> None:
    async with shown(main_window(engine, theme, tool_host=Growing())) as window:
        press(window, "Tools")
        press(window.chat.tools.page, "Add Time")
        workspace = window.workspace
        await eventually(lambda: workspace.current.conversation.tools.servers == ("time",))


async def test_known_server_is_added_once_for_each_folder(
    theme: Theme, parent: QWidget, tmp_path: Path
) -> None:
    host = Growing()
    window = ToolServersWindow(Toolbox(host, preferences_state()), parent)
    window.show()
    row = next(row for row in window.known if not row.folder.isHidden())
    row.add.click()
    await eventually(lambda: row.add.text() == "Added")
    assert not row.add.isEnabled()
    row._use_folder(tmp_path)
    assert row.add.isEnabled()
    row.add.click()
    await eventually(lambda: len(host.servers) == 2)
    assert [server.name for server in host.servers] == ["files", "files-2"]
    await window.finish()
    window.close()


async def test_pasted_servers_are_on_like_added_ones(theme: Theme, parent: QWidget) -> None:
    host = DictatedHost()
    toolbox = Toolbox(host, preferences_state())
    used: list[str] = []
    toolbox.added.connect(used.append)
    window = ToolServersWindow(toolbox, parent)
    window._show_added((["sums"], []))
    await eventually(lambda: host.switched == [("sums", True)])
    assert used == ["sums"]
    assert window.status.text() == "Added 1 server: sums."
    await window.finish()


async def test_tools_page_turns_on_a_server_that_is_off(theme: Theme, parent: QWidget) -> None:
    off = ServerState(replace(SUMS.config, is_on=False), "off")
    host = DictatedHost(off)
    page = ToolsPage(Toolbox(host, preferences_state()), parent)
    page.show_choice(ToolsInUse(), True)
    switch = page.boxes[("sums",)]
    assert switch.isEnabled()
    assert switch.toolTip() == "Use sums in this chat, and in new ones"
    switch.click()
    await eventually(lambda: host.switched == [("sums", True)])
    await finish_tasks(parent)


async def test_tools_page_folds_many_tools(theme: Theme, parent: QWidget) -> None:
    tools = tuple(replace(ADD, name=f"add{n}") for n in range(14))
    page = ToolsPage(Toolbox(DictatedHost(replace(SUMS, tools=tools)), preferences_state()), parent)
    page.show_choice(ToolsInUse(("sums",)), True)
    fold = page.boxes["sums", ""]
    assert fold.text() == "All Tools"
    assert len(page.boxes) == 2
    fold.click()
    assert len(page.boxes) == 16
    page.boxes["sums", "add3"].click()
    assert page.boxes["sums", ""].text() == "13 of 14 Tools"


async def test_folder_of_known_server_is_chosen(
    theme: Theme, parent: QWidget, tmp_path: Path
) -> None:
    host = Growing()
    window = ToolServersWindow(Toolbox(host, preferences_state()), parent)
    window.show()
    press(window, "Folder: ")
    (dialog,) = window.findChildren(QFileDialog)
    dialog.fileSelected.emit(str(tmp_path))
    dialog.filesSelected.emit([str(tmp_path)])
    dialog.close()
    press(window, "Add Files")
    await eventually(lambda: host.servers != ())
    assert host.servers[0].config.args[-1] == str(tmp_path)
    await window.finish()
    window.close()


async def test_tool_server_sign_in_button(
    theme: Theme, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Asking(DictatedHost):
        """Wants to know who asks."""

        async def sign_in(self, name: str, open_page: Any) -> None:
            open_page("https://e.org/in?client=1")
            self.become(stage="ready", problem="", needs_sign_in=False)

    opened: list[str] = []
    monkeypatch.setattr(
        "ui.tools.servers_window.QDesktopServices.openUrl",
        lambda url: opened.append(url.toString()),
    )
    failed = replace(SUMS, stage="failed", problem="Who are you?", needs_sign_in=True)
    window = ToolServersWindow(Toolbox(Asking(failed), preferences_state()))
    qtbot.addWidget(window)
    window.show()
    button = window.detail.sign_in
    assert button.isVisible()
    assert button.accessibleName() == "Sign in to sums"
    button.click()
    await eventually(lambda: not button.isVisible())
    assert opened == ["https://e.org/in?client=1"]
    assert window.status.text() == "Sign in at e.org, in your browser."


async def test_failed_import_of_claude_desktop_opens_a_message(theme: Theme, qtbot: QtBot) -> None:
    window = ToolServersWindow(Toolbox(NoTools(), preferences_state()))
    qtbot.addWidget(window)
    window.show()
    window.from_claude.click()
    await eventually(lambda: bool(window.findChildren(QMessageBox)))
    (box,) = window.findChildren(QMessageBox)
    assert box.informativeText() == "Tools cannot be used here."
    assert not window.status.isVisible()
    box.close()
    await finish_tasks(window)
