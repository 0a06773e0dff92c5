from PySide6.QtGui import QGuiApplication

from tests.ui.driving import eventually
from ui.kit.theme import Theme
from ui.server.server_switch import ServerSwitch
from ui.window.tray import Tray


class _Control:
    async def start(self) -> str:
        return "http://127.0.0.1:8642"

    async def stop(self) -> None:
        pass


async def test_the_menu_says_how_the_server_is_and_turns_it_on_and_off(theme: Theme) -> None:
    switch = ServerSwitch(_Control())
    tray = Tray(switch, switch)
    words = [action.text() for action in tray.menu.actions() if action.text()]
    assert words[:2] == ["Server off", "Start Local Server"]
    assert not tray.copy.isEnabled()
    tray.turn.trigger()
    await eventually(lambda: switch.stage == "on")
    assert tray.menu.actions()[0].text() == "Server on: http://127.0.0.1:8642"
    assert tray.icon.toolTip() == "Fullstop – server on"
    tray.copy.trigger()
    assert QGuiApplication.clipboard().text() == "http://127.0.0.1:8642"
    tray.show_waiting(2)
    assert "2 conversations need you" in tray.icon.toolTip()
    tray.show_waiting(0)
    assert "need" not in tray.icon.toolTip()
    tray.turn.trigger()
    await eventually(lambda: switch.stage == "off")
    assert tray.turn.text() == "Start Local Server"
    tray.close()


def test_click_on_notification_chooses_the_last_one(theme: Theme) -> None:
    chosen: list[str] = []
    switch = ServerSwitch(_Control())
    tray = Tray(switch, switch)
    tray.notice_chosen.connect(chosen.append)
    tray.notify("Title", "Text", "first")
    tray.notify("Title", "Text", "second")
    tray.icon.messageClicked.emit()
    assert chosen == ["second"]
    tray.close()
