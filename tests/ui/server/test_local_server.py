import errno

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QMenu, QMessageBox

from app.agents.commands import CopiedLines
from tests.support.kept import preferences_state
from tests.support.shown import shown
from tests.ui.driving import eventually
from tests.ui.server.test_request_log import Running, began, ended
from ui.kit.tasks import finish_tasks
from ui.kit.theme import Theme
from ui.preferences import KeyLocation, Preferences, ServerPreferences
from ui.server.agent_menu import AgentMenu
from ui.server.local_server import ApiKeyState, LocalServerState
from ui.server.request_log import RequestColumn
from ui.server.requests import RequestBody, RequestEntry, RequestLog
from ui.server.server_row import ServerRow
from ui.server.server_switch import AddressRefused, pill_of
from ui.server.server_window import ServerWindow


def server_window(state: LocalServerState) -> ServerWindow:
    setups = AgentMenu(state, CopiedLines(), lambda: None, state)
    return ServerWindow(state, setups, None)


class Control:
    """Notes what it is told; answers no requests."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.error: Exception | None = None

    async def start(self) -> str:
        self.calls.append("start")
        if self.error is not None:
            raise self.error
        return "http://127.0.0.1:8642"

    async def apply(self) -> str:
        self.calls.append("apply")
        if self.error is not None:
            raise self.error
        return "http://127.0.0.1:8643"

    async def stop(self) -> None:
        self.calls.append("stop")

    async def replay(self, entry: RequestEntry) -> None:
        self.calls.append(f"replay {entry.id}")


class Keeper:
    """Keeps a key in memory."""

    def __init__(self, place: KeyLocation = "none") -> None:
        self.kept: KeyLocation = place
        self.error: OSError | None = None

    async def location(self) -> KeyLocation:
        return self.kept

    async def renew(self) -> str:
        if self.error is not None:
            raise self.error
        self.kept = "keychain"
        return "fs-new"

    async def forget(self) -> None:
        self.kept = "none"


def state_with(
    control: Control, keeper: Keeper | None = None, server: ServerPreferences | None = None
) -> LocalServerState:
    preferences = preferences_state(Preferences(server=server or ServerPreferences()))
    key = ApiKeyState(keeper or Keeper())
    return LocalServerState(preferences, key, RequestLog(), control)


async def on(state: LocalServerState) -> None:
    await eventually(lambda: state.switch.stage == "on")


async def test_the_switch_is_remembered_but_not_that_the_program_turned_it_off() -> None:
    state = state_with(Control())
    state.switch.turn(True)
    await on(state)
    assert state.preferences.now.server.was_on
    await state.finish()
    assert state.switch.stage == "off"
    assert state.preferences.now.server.was_on


async def test_a_port_that_is_taken_is_named_and_does_not_change_what_is_remembered(
    theme: Theme,
) -> None:
    control = Control()
    control.error = OSError(errno.EADDRINUSE, "port 8642 is taken")
    state = state_with(control, server=ServerPreferences(was_on=True))
    state.start()
    await eventually(lambda: state.switch.stage == "failed")
    assert pill_of(state.switch)[0] == "Port taken"
    row = ServerRow(state)
    assert row.state.text() == "Port taken"
    assert row.state.toolTip().startswith(state.switch.message)
    row.deleteLater()
    assert state.preferences.now.server.was_on
    control.error = None
    window = server_window(state)
    offered = window.other_port
    assert offered.isVisibleTo(window)
    port = int(offered.text().removeprefix("Use Port "))
    assert port > 8642
    offered.click()
    await on(state)
    assert state.preferences.now.server.port == port
    assert pill_of(state.switch)[0] == "On"
    assert not offered.isVisibleTo(window)
    window.deleteLater()


@pytest.mark.parametrize(
    "change",
    [
        ("port", 9),
        ("allowed_hosts", ("a",)),
        ("allowed_origins", ("*",)),
        ("is_on_network", True),
        ("is_key_required", True),
    ],
)
async def test_a_server_that_is_on_follows_other_settings_and_stays_on(
    change: tuple[str, object],
) -> None:
    control = Control()
    state = state_with(control)
    state.switch.turn(True)
    await on(state)
    stages: list[str] = []
    state.switch.changed.connect(lambda: stages.append(state.switch.stage))
    state.preferences.change_value(f"server.{change[0]}", change[1])
    await eventually(lambda: control.calls == ["start", "apply"])
    await finish_tasks(state.switch)
    assert set(stages) == {"on"}
    assert state.switch.url == "http://127.0.0.1:8643"


async def test_a_server_whose_new_port_is_taken_says_so_and_stays_at_the_earlier_one() -> None:
    control = Control()
    state = state_with(control, server=ServerPreferences(was_on=True))
    state.switch.turn(True)
    await on(state)
    control.error = AddressRefused("Port 9 is taken by another program.")
    state.preferences.change_value("server.port", 9)
    await eventually(lambda: bool(state.switch.message))
    assert (state.switch.stage, state.switch.url) == ("on", "http://127.0.0.1:8642")
    assert state.switch.message == "Port 9 is taken by another program."
    control.error = None
    state.preferences.change_value("server.port", 10)
    await eventually(lambda: not state.switch.message)
    assert (state.switch.stage, control.calls) == ("on", ["start", "apply", "apply"])


async def test_route_filter_offers_every_route_of_the_log_whatever_is_filtered(
    theme: Theme,
) -> None:
    state = state_with(Control())
    async with shown(server_window(state)) as window:
        routes = window.log.dialects
        state.log.take([began(1)])
        await eventually(lambda: routes.count() == 2)
        routes.setCurrentIndex(1)
        state.log.take([began(2, dialect="Ollama")])  # comes in while another route is filtered
        await eventually(lambda: routes.count() == 3)
        assert window.log.table.rowCount() == 1
        window.log.search.setText("no such request")
        state.log.take([began(3, dialect="Chat Completions")])
        await eventually(lambda: routes.count() == 4)
        assert routes.currentData() == "Messages"


async def test_a_running_answer_is_stopped_in_its_pane(theme: Theme) -> None:
    state, running = state_with(Control()), Running()
    async with shown(server_window(state)) as window:
        state.log.take([began(1, running=(running,))])
        await eventually(lambda: window.log.table.rowCount() == 1)
        window.log.view.selectRow(0)
        window.detail.stop.click()
        assert running.is_cancelled


async def test_a_request_whose_pane_was_closed_stays_closed(theme: Theme) -> None:
    state = state_with(Control())
    async with shown(server_window(state)) as window:
        log, table, view = state.log, window.log.table, window.log.view

        async def seen() -> None:
            await eventually(lambda: table.rowCount() == len(log))

        def click(row: int) -> None:
            place = view.visualRect(table.index(row, RequestColumn.STOP)).center()
            QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=place)

        log.take([began(1)])
        await seen()
        click(0)
        assert window.detail.isVisible()
        buttons = window.detail.findChildren(QAbstractButton)
        next(one for one in buttons if one.accessibleName() == "Close the request").click()
        assert not window.detail.isVisible()
        # Neither more of it, nor other requests, nor a filter bring it back.
        log.take([ended(began(1))])
        log.take([began(2)])
        await seen()
        window.log.search.setText("python")
        window.log.search.setText("")
        log.take([ended(began(2))])
        log.take([began(3)])
        await seen()
        assert not window.detail.isVisible()
        # Whoever wants it clicks it, the same row or another.
        click(0)
        assert window.detail.isVisible()
        assert window.detail.entry is not None
        assert (window.detail.entry.id, window.detail.entry.status) == ("req_1", 200)
        click(2)
        log.take([ended(began(3))])
        await eventually(lambda: getattr(window.detail.entry, "status", 0) == 200)
        assert window.detail.entry.id == "req_3"


@pytest.mark.parametrize("is_whole", [True, False])
async def test_cut_request_body_is_named_and_offers_no_curl(theme: Theme, is_whole: bool) -> None:
    text = "x" * 70_000
    body = RequestBody(text, len(text) if is_whole else 400_000, is_whole)
    state = state_with(Control())
    async with shown(server_window(state)) as window:
        state.log.take([began(1)])
        state.log.take([ended(began(1, request_body=body))])
        await eventually(lambda: window.log.table.rowCount() == 1)
        window.log.view.selectRow(0)
        window.detail.show_entry(ended(began(1, request_body=body)))
        note = window.detail.request_body.note.text()
        assert ("the copy is complete" in note) is is_whole
        assert ("70.0 kB" in note) is not is_whole
        assert window.detail.curl.isEnabled() is is_whole
        view = window.log.view
        view.customContextMenuRequested.emit(view.visualRect(window.log.table.index(0, 1)).center())
        (menu,) = [one for one in window.findChildren(QMenu) if one.isVisible()]
        entries = {one.text(): one for one in menu.actions()}
        menu.close()
        assert entries["Copy as curl"].isEnabled() is is_whole
        assert ("Copy Request Body" in entries) is is_whole


async def test_the_menu_of_a_row_stops_its_answer_and_sends_it_again(theme: Theme) -> None:
    control = Control()
    state = state_with(control)
    async with shown(server_window(state)) as window:
        view, running = window.log.view, Running()

        def menu() -> dict[str, QAction]:
            """Open the menu as the key for it does, and return its entries."""
            place = view.rect().bottomRight()  # below the rows
            view.customContextMenuRequested.emit(place)
            opened = [one for one in window.findChildren(QMenu) if one.isVisible()]
            (shown_menu,) = opened
            entries = {
                one.text(): one for one in shown_menu.actions() if one.text() and one.isVisible()
            }
            shown_menu.close()
            return entries

        state.log.take([began(1, running=(running,))])
        await eventually(lambda: view.model().rowCount() == 1)
        view.selectRow(0)
        entries = menu()
        assert not entries["Send Again"].isEnabled()
        entries["Stop"].trigger()
        assert running.is_cancelled
        state.log.take([ended(began(1, request_body=RequestBody("{}", 2)))])
        window.log.table.refresh()
        entries = menu()
        assert "Stop" not in entries
        entries["Copy Request Body"].trigger()
        assert QGuiApplication.clipboard().text() == "{}"
        entries["Send Again"].trigger()
        await eventually(lambda: "replay req_1" in control.calls)


async def test_narrow_server_window_leaves_out_parts_of_its_head(theme: Theme) -> None:
    state = state_with(Control())
    async with shown(server_window(state)) as window:
        for width, are_shown in ((1200, True), (860, False), (640, False)):
            window.resize(width, 560)
            await eventually(lambda: window.setup.isVisible() == are_shown)  # noqa: B023
            assert window.minimumSizeHint().width() <= width


async def test_reach_of_the_server_changes_in_its_window(theme: Theme) -> None:
    state = state_with(Control())
    async with shown(server_window(state)) as window:
        asked: list[None] = []
        window.settings_requested.connect(lambda: asked.append(None))
        window.reach.activated.emit(1)
        (question,) = window.findChildren(QMessageBox)
        assert question.text() == "Create an API key first."
        question.defaultButton().click()
        assert asked == [None], "the network needs a key"
        assert not state.preferences.now.server.is_on_network
        state.key.location = "file"
        window.reach.activated.emit(1)
        assert state.preferences.now.server.is_on_network
        assert window.reach.currentText() == "My Network"
        titles = [action.text() for action in window.setup.menu().actions()]
        assert "Claude Code" in titles
