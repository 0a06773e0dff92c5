import errno

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QLabel

from tests.ui.driving import RunOnLoop, eventually
from tests.ui.server.test_request_log import began, ended
from ui.kit.look.theme import Theme
from ui.preferences.preferences import Preferences, ServerPreferences
from ui.preferences.preferences_state import PreferencesState
from ui.server.api_key import ApiKeyState, KeyPlace
from ui.server.requests import RequestEntry, RequestLog
from ui.server.server_panel import ServerDesk
from ui.server.server_settings import ServerSettings
from ui.server.server_switch import ServerSwitch
from ui.server.server_window import ServerWindow
from ui.server.server_words import pill_of


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

    async def stop(self) -> None:
        self.calls.append("stop")

    async def replay(self, entry: RequestEntry) -> None:
        self.calls.append(f"replay {entry.id}")


class Keeper:
    """Keeps a key in memory."""

    def __init__(self, place: KeyPlace = "none") -> None:
        self.kept: KeyPlace = place
        self.error: OSError | None = None

    async def place(self) -> KeyPlace:
        return self.kept

    async def renew(self) -> str:
        if self.error is not None:
            raise self.error
        self.kept = "keychain"
        return "fs-new"

    async def forget(self) -> None:
        self.kept = "none"


def desk_with(
    control: Control, keeper: Keeper | None = None, server: ServerPreferences | None = None
) -> ServerDesk:
    preferences = PreferencesState(Preferences(server=server or ServerPreferences()))
    key = ApiKeyState(keeper or Keeper())
    return ServerDesk(ServerSwitch(control), preferences, key, RequestLog(), control)


async def on(desk: ServerDesk) -> None:
    await eventually(lambda: desk.switch.stage == "on")


def test_a_server_that_was_on_is_turned_on_at_launch(run: RunOnLoop) -> None:
    async def steps() -> None:
        desk = desk_with(Control(), server=ServerPreferences(was_on=True))
        desk.start()
        await on(desk)
        await desk.finish()

    run(steps())


def test_the_switch_is_remembered_but_not_that_the_program_turned_it_off(run: RunOnLoop) -> None:
    async def steps() -> None:
        desk = desk_with(Control())
        desk.switch.turn(True)
        await on(desk)
        assert desk.preferences.now.server.was_on
        desk.end()
        await desk.switch.finish()
        assert desk.switch.stage == "off"
        assert desk.preferences.now.server.was_on

    run(steps())


def test_turning_it_off_is_remembered(run: RunOnLoop) -> None:
    async def steps() -> None:
        desk = desk_with(Control(), server=ServerPreferences(was_on=True))
        desk.start()
        await on(desk)
        desk.switch.turn(False)
        await eventually(lambda: desk.switch.stage == "off")
        assert not desk.preferences.now.server.was_on

    run(steps())


def test_a_port_that_is_taken_is_named_and_does_not_change_what_is_remembered(
    run: RunOnLoop,
) -> None:
    async def steps() -> None:
        control = Control()
        control.error = OSError(errno.EADDRINUSE, "port 8642 is taken")
        desk = desk_with(control, server=ServerPreferences(was_on=True))
        desk.start()
        await eventually(lambda: desk.switch.stage == "failed")
        assert pill_of(desk.switch)[0] == "Port taken"
        assert desk.preferences.now.server.was_on
        control.error = None
        desk.switch.turn(True)
        await on(desk)
        assert pill_of(desk.switch)[0] == "On"

    run(steps())


@pytest.mark.parametrize(
    "change",
    [{"port": 9}, {"allowed_origins": ("*",)}, {"is_on_network": True}, {"is_key_required": True}],
)
def test_a_server_that_is_on_starts_anew_with_other_settings(
    run: RunOnLoop, change: dict[str, object]
) -> None:
    async def steps() -> None:
        control = Control()
        desk = desk_with(control)
        desk.switch.turn(True)
        await on(desk)
        desk.preferences.change_server(**change)
        await eventually(lambda: control.calls == ["start", "stop", "start"])
        await on(desk)
        assert desk.switch.is_on_network is desk.preferences.now.server.is_on_network

    run(steps())


def test_other_settings_do_not_turn_on_a_server_that_is_off(run: RunOnLoop) -> None:
    async def steps() -> None:
        control = Control()
        desk = desk_with(control)
        desk.preferences.change_server(port=9)
        desk.preferences.change_server(at_launch="on")
        await desk.switch.finish()
        assert control.calls == []

    run(steps())


def test_a_new_key_is_shown_until_it_is_hidden_and_reaches_a_server_that_needs_it(
    run: RunOnLoop,
) -> None:
    async def steps() -> None:
        control = Control()
        desk = desk_with(control, server=ServerPreferences(is_key_required=True))
        desk.switch.turn(True)
        await on(desk)
        desk.key.renew()
        await eventually(lambda: not desk.key.is_busy)
        assert (desk.key.fresh_key, desk.key.place) == ("fs-new", "keychain")
        await eventually(lambda: control.calls == ["start", "stop", "start"])
        desk.key.hide_key()
        assert desk.key.fresh_key == ""
        assert desk.key.has_key
        await on(desk)

    run(steps())


def test_without_a_key_none_is_asked_for_any_longer(run: RunOnLoop) -> None:
    async def steps() -> None:
        server = ServerPreferences(is_key_required=True)
        desk = desk_with(Control(), Keeper("file"), server)
        desk.key.look()
        await desk.key.finish()
        desk.key.forget()
        await desk.key.finish()
        assert not desk.key.has_key
        assert not desk.preferences.now.server.is_key_required

    run(steps())


def test_a_key_that_cannot_be_kept_is_said_in_words(run: RunOnLoop) -> None:
    async def steps() -> None:
        keeper = Keeper()
        keeper.error = OSError("The disk is full.")
        desk = desk_with(Control(), keeper)
        desk.key.renew()
        await desk.key.finish()
        assert (desk.key.message, desk.key.fresh_key) == ("The disk is full.", "")
        assert not desk.key.is_busy

    run(steps())


def test_a_request_whose_pane_was_closed_stays_closed(run: RunOnLoop, theme: Theme) -> None:
    async def steps() -> None:
        desk = desk_with(Control())
        window = ServerWindow(theme, desk)
        window.show()
        log, table, view = desk.log, window.log.table, window.log.view

        async def seen() -> None:
            await eventually(lambda: table.rowCount() == len(log))

        def click(row: int) -> None:
            place = view.visualRect(table.index(row, 0)).center()
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
        window.close()
        await window.finish()
        window.deleteLater()

    run(steps())


def test_who_shows_the_server_to_the_network_is_told_that_others_can_read_along(
    run: RunOnLoop, theme: Theme
) -> None:
    async def steps() -> None:
        desk = desk_with(Control(), Keeper("file"))
        settings = ServerSettings(theme, desk)
        settings.show()

        def warnings() -> list[str]:
            labels = settings.findChildren(QLabel)
            return [one.text() for one in labels if one.isVisible() and "encrypted" in one.text()]

        assert warnings() == []
        desk.preferences.change_server(is_on_network=True)
        assert len(warnings()) == 1
        assert "anyone on it can read the API key, the prompts and the answers" in warnings()[0]
        desk.preferences.change_server(is_on_network=False)
        assert warnings() == []
        settings.close()
        settings.deleteLater()

    run(steps())
