"""The server's window with everything behind it: real server, real engine, real settings file."""

import asyncio
import base64
import http.client
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import qasync
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QApplication,
    QLabel,
)
from pytestqt.qtbot import QtBot

import app.desktop.window
from api.service.config import ServerConfig
from app import paths
from app.settings.settings_file import StoredPreferences
from engine.engine import Engine
from tests.support.memory_store import MemoryConversationStore
from tests.ui.driving import eventually
from ui.kit.theme import Theme
from ui.preferences_state import PreferencesState
from ui.server.request_log import RequestColumn
from ui.server.server_window import ServerWindow
from ui.window.main_window import MainWindow
from ui.window.preferences_dialog import PreferencesDialog

COUNT = "Count from 1 to 10, one number per line"

Steps = Callable[[MainWindow, ServerWindow], Awaitable[None]]
Use = Callable[[Steps], None]


@pytest.fixture
def use(qapp: QApplication, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Use:
    monkeypatch.setattr(
        "app.desktop.server.ServerConfig", lambda **given: ServerConfig(**given | {"port": 0})
    )
    qapp.setQuitOnLastWindowClosed(False)

    def run(steps: Steps) -> None:
        async def whole() -> None:
            loop = asyncio.get_running_loop()
            stored = StoredPreferences(paths.config_folder())
            preferences = PreferencesState(stored.preferences(), stored.save)
            theme = Theme(qapp, "light")
            window = app.desktop.window.create_main_window(
                engine, theme, MemoryConversationStore(), preferences, loop
            )
            window.start()
            window.others.show_server()
            server = window.others.server
            assert window.local_server.switch is not None
            window.local_server.switch.turn(True)
            try:
                await eventually(lambda: server.pill.word == "On")
                await asyncio.wait_for(steps(window, server), 120)
            finally:
                window.quit()
                await window.finish()
                window.deleteLater()
                theme.deleteLater()

        with asyncio.Runner(loop_factory=lambda: qasync.QEventLoop(qapp)) as runner:
            runner.run(whole())

    return run


def asked(**more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": COUNT}]
    return {"model": "m", "max_tokens": 60, "messages": messages, "stop_sequences": ["4"], **more}


async def post(server: ServerWindow, body: dict[str, Any], **headers: str) -> tuple[int, str]:
    place = urlsplit(server.address.text())

    def send() -> tuple[int, str]:
        connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=60)
        sent = {"content-type": "application/json", "user-agent": "Tester/1"} | headers
        connection.request("POST", "/v1/messages", json.dumps(body), sent)
        response = connection.getresponse()
        answer = response.read().decode()
        connection.close()
        return response.status, answer

    return await asyncio.to_thread(send)


async def shown(server: ServerWindow, rows: int) -> None:
    table = server.log.table
    await eventually(
        lambda: table.rowCount() == rows and not any(one.is_open for one in table.rows)
    )


def cell(server: ServerWindow, row: int, column: RequestColumn) -> str:
    return str(server.log.table.index(row, column).data())


def test_server_window_shows_request(use: Use) -> None:
    async def steps(window: MainWindow, server: ServerWindow) -> None:
        _, answer = await post(server, asked(stream=True), **{"x-api-key": "sk-mine"})
        await shown(server, 1)
        assert cell(server, 0, RequestColumn.CLIENT) == "Tester"
        assert cell(server, 0, RequestColumn.STOP) == "stop “4”"
        assert cell(server, 0, RequestColumn.STATUS) == "200"
        assert cell(server, 0, RequestColumn.STREAM) == "yes"
        assert server.detail.isHidden()
        server.log.view.selectRow(0)
        assert server.detail.isVisible()
        facts = [one.accessibleName() for one in server.detail.facts.findChildren(QLabel)]
        assert "Why it stopped: Stopped by “4” after 6 characters" in facts
        assert COUNT in server.detail.request_body.text.toPlainText()
        assert answer.strip() in server.detail.response_body.text.toPlainText()
        assert "sk-mine" not in server.detail.request_body.text.toPlainText()

    use(steps)


def test_server_window_sends_request_again(use: Use, qtbot: QtBot) -> None:
    async def steps(window: MainWindow, server: ServerWindow) -> None:
        await post(server, asked())
        await shown(server, 1)
        server.log.view.selectRow(0)
        server.detail.replay.click()
        await shown(server, 2)
        first, second = server.log.table.rows
        assert second.agent.startswith("Fullstop/")
        assert (second.request_body, second.status) == (first.request_body, 200)
        assert second.ends[0].stop == first.ends[0].stop

    use(steps)


def test_server_window_sends_pictures_again(use: Use, qtbot: QtBot) -> None:
    data = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(600_000)).decode()
    part = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    turn = {"role": "user", "content": [part, {"type": "text", "text": COUNT}]}

    async def steps(window: MainWindow, server: ServerWindow) -> None:
        await post(server, asked() | {"messages": [turn], "fullstop": {"images": "note"}})
        await shown(server, 1)
        server.log.view.selectRow(0)
        assert "digest" in server.detail.request_body.note.text()
        server.detail.curl.click()
        assert data in QGuiApplication.clipboard().text()
        server.detail.replay.click()
        await shown(server, 2)
        first, second = server.log.table.rows
        assert (second.request_body, second.status) == (first.request_body, 200)
        bare = first.without_pictures()
        assert bare.whole_body is None
        server.detail.show_entry(bare)
        for button in (server.detail.replay, server.detail.curl):
            assert not button.isEnabled()
            assert "pictures of the request were not kept" in button.toolTip()

    use(steps)


def test_server_window_log_actions(use: Use, qtbot: QtBot, tmp_path: Path) -> None:
    async def steps(window: MainWindow, server: ServerWindow) -> None:
        await post(server, asked())
        await post(server, {"model": "m"})
        await shown(server, 2)
        server.log.errors_only.click()
        assert [one.status for one in server.log.table.rows] == [400]
        server.log.export_to(tmp_path / "out.jsonl")
        await eventually(lambda: (tmp_path / "out.jsonl").exists())
        await server.log.finish()
        (line,) = (tmp_path / "out.jsonl").read_text().splitlines()
        assert json.loads(line)["status"] == 400
        server.log.view.selectRow(0)
        server.detail.curl.click()
        assert QGuiApplication.clipboard().text().startswith(f"curl {server.address.text()}")
        server.log.export_to(tmp_path / "no" / "folder")
        await eventually(lambda: "could not be written" in server.notice.text())
        server.log.clear.click()
        assert server.log.table.rowCount() == 0
        await eventually(lambda: server.detail.isHidden())

    use(steps)


def test_server_window_new_key(use: Use, qtbot: QtBot) -> None:
    async def steps(window: MainWindow, server: ServerWindow) -> None:
        server.settings.click()
        dialog = window.findChild(PreferencesDialog)
        assert dialog is not None
        settings = dialog.server
        assert not settings.network.isEnabled()
        qtbot.mouseClick(settings.renew, Qt.MouseButton.LeftButton)
        await eventually(lambda: bool(settings.key_field.text()))
        key = settings.key_field.text()
        switch = window.local_server.switch
        assert switch is not None
        stages: list[str] = []
        switch.changed.connect(lambda: stages.append(switch.stage))
        settings.requires_key.click()
        await eventually(lambda: stages == ["on"])
        assert (await post(server, asked()))[0] == 401
        assert (await post(server, asked(), authorization=f"Bearer {key}"))[0] == 200
        await shown(server, 2)
        assert all(key not in repr(entry) for entry in server.log.table.rows)
        dialog.close()
        assert window.local_server.key.fresh_key == ""
        assert not settings.key_field.isVisible()

    use(steps)
