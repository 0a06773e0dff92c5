"""Captures and probes as the window shows them, on the real engine and server."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtGui import QGuiApplication

from api.config import ServerConfig
from api.thread import ServerThread
from app.inspecting.captures import read_capture
from app.inspecting.tools import ApiTools
from engine.service import Engine
from tests.ui.driving import eventually
from ui.inspector.capture_window import CaptureWindow
from ui.inspector.probe_window import ProbeWindow
from ui.theme import Theme

LEAK = """curl http://x/v1/chat/completions -d '{"stop": ["END"]}'
{"object": "chat.completion", "model": "m", "choices": [{"index": 0, "message":
{"role": "assistant", "content": "abc EN"}, "finish_reason": "stop"}]}"""

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture
def tools(engine: Engine) -> ApiTools:
    return ApiTools(engine, lambda: "")


@pytest.fixture
def address(engine: Engine) -> Iterator[str]:
    server = ServerThread(engine, ServerConfig())
    yield server.start().url
    server.stop()


def test_a_capture_is_read_with_what_is_wrong_in_it() -> None:
    view = read_capture(LEAK)
    assert view.is_answer
    assert view.text == "abc EN"
    assert ("Asked stops", '"END"') in view.facts
    assert any("END" in finding.sentence for finding in view.findings)


def test_what_is_no_answer_is_said() -> None:
    view = read_capture("<html>404</html>")
    assert not view.is_answer
    assert view.title


def test_a_pasted_answer_is_shown_with_its_faults(
    run: Run, theme: Theme, tools: ApiTools, tmp_path: Path
) -> None:
    path = tmp_path / "answer.txt"
    path.write_text(LEAK)

    async def steps() -> None:
        window = CaptureWindow(theme, tools)
        window.show()
        assert not window.copy.isEnabled()
        QGuiApplication.clipboard().setText(LEAK)
        window.paste.click()
        await eventually(lambda: window.view is not None)
        assert "in the words of chat" in window.title.text()
        assert "abc EN" in window.page.toPlainText()
        window.source.clear()
        await eventually(lambda: window.view is None)
        window.open_file(path)
        await eventually(lambda: window.view is not None)
        window.copy.click()
        assert "text      'abc EN'" in QGuiApplication.clipboard().text()
        window.open_file(tmp_path / "missing")
        await eventually(lambda: "cannot be read" in window.title.text())
        await window.finish()
        window.close()
        window.deleteLater()

    run(steps())


def test_our_own_server_is_probed_in_the_window_and_holds(
    run: Run, theme: Theme, tools: ApiTools, address: str, tmp_path: Path
) -> None:
    async def steps() -> None:
        window = ProbeWindow(theme, tools)
        window.show()
        window.url.setText(address)
        window.dialect.setCurrentIndex(window.dialect.findData("messages"))
        window.start.click()
        assert not window.start.isEnabled()
        await eventually(lambda: window.probing.stage != "running", 50)
        assert window.probing.stage == "done", window.note.text()
        assert window.note.text().startswith("All ")
        window.copy.click()
        assert "| check" in QGuiApplication.clipboard().text()
        window._save(tmp_path / "report.html")
        assert "<!doctype html>" in (tmp_path / "report.html").read_text()
        window.close()
        window.deleteLater()

    run(steps())


def test_a_probe_can_be_cancelled_and_begun_anew(
    run: Run, theme: Theme, tools: ApiTools, address: str
) -> None:
    async def steps() -> None:
        window = ProbeWindow(theme, tools)
        window.show()
        window.url.setText(address)
        window.start.click()
        await eventually(lambda: len(window.probing.rows) > 1, 30)
        window.cancel.click()
        await eventually(lambda: window.probing.stage == "cancelled")
        assert window.start.isEnabled()
        assert window.page.toPlainText()
        window.start.click()
        assert window.probing.stage == "running"
        await window.finish()
        window.close()
        window.deleteLater()

    run(steps())


def test_where_nothing_answers_the_window_says_what_to_do(
    run: Run, theme: Theme, tools: ApiTools
) -> None:
    async def steps() -> None:
        window = ProbeWindow(theme, tools)
        window.show()
        window.url.setText("http://127.0.0.1:9")
        window.start.click()
        await eventually(lambda: window.probing.stage == "failed")
        assert "127.0.0.1:9" in window.note.text()
        window.url.clear()
        window.start.click()
        await asyncio.sleep(0)
        assert window.note.text().startswith("Type the address")
        await window.finish()
        window.close()
        window.deleteLater()

    run(steps())
