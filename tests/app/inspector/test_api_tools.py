"""Captures and probes as the window shows them, on the real engine and server."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QInputDialog

from api.conformance.captures.values import WireDialect
from api.conformance.probe import detection
from api.conformance.probe.values import (
    CheckOutcome,
    CheckResult,
    Fault,
    LocalServer,
    ProbeFailed,
    ProbeOptions,
    Report,
)
from api.server.server import ServerThread
from api.service.config import ServerConfig
from app.inspector.shown_apis import inspector_tools
from engine.engine import Engine
from tests.support.shown import shown
from tests.ui.driving import eventually
from ui.inspector.capture_window import CaptureWindow
from ui.inspector.probe_window import ProbeWindow, probe_page
from ui.inspector.shown_run import InspectorTools
from ui.kit.theme import Theme

LEAK = """curl http://x/v1/chat/completions -d '{"stop": ["END"]}'
{"object": "chat.completion", "model": "m", "choices": [{"index": 0, "message":
{"role": "assistant", "content": "abc EN"}, "finish_reason": "stop"}]}"""


@pytest.fixture
def tools(engine: Engine) -> InspectorTools:
    return inspector_tools(engine, lambda: "")


@pytest.fixture
def address(engine: Engine) -> Iterator[str]:
    server = ServerThread(engine, ServerConfig())
    yield server.start().url
    server.stop()


async def test_a_pasted_answer_is_shown_with_its_faults(theme: Theme, tmp_path: Path) -> None:
    path = tmp_path / "answer.txt"
    path.write_text(LEAK)

    async with shown(CaptureWindow()) as window:
        assert not window.copy.isVisible()
        assert not window.page.isVisible(), "an empty box"
        window.example.click()
        await eventually(lambda: window.view is not None)
        assert window.title.text() == "Ended by the model or a stop (stop) · 2 faults"
        window.clear.click()
        await eventually(lambda: window.view is None)
        assert window.example.isVisible()
        QGuiApplication.clipboard().setText(LEAK)
        window.activateWindow()
        await eventually(lambda: QApplication.activeWindow() is window)
        keyboard = QApplication.focusWidget()
        assert keyboard is not None
        QTest.keyClick(keyboard, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)
        await eventually(lambda: window.view is not None)
        assert window.title.text().startswith("Ended by the model or a stop (stop) · ")
        assert window.form.text() == "Chat Completions, not streamed"
        assert "abc EN" in window.page.toPlainText()
        window.source.clear()
        await eventually(lambda: window.view is None)
        window.paste.click()
        await eventually(lambda: window.view is not None)
        window.source.clear()
        await eventually(lambda: window.view is None)
        window.open_file(path)
        await eventually(lambda: window.view is not None)
        window.copy.click()
        assert "text      'abc EN'" in QGuiApplication.clipboard().text()
        window.open_file(tmp_path / "missing")
        await eventually(lambda: "could not be read" in window.title.text())


async def test_requested_stops_of_a_capture_may_have_spaces(theme: Theme) -> None:
    async with shown(CaptureWindow()) as window:
        window.stops.setPlainText("END OF")
        window.source.set_capture(LEAK)
        await eventually(lambda: window.view is not None)
        assert "the stop “END·OF”" in window.page.toPlainText()
        assert "(event" not in window.page.toPlainText(), "it was not streamed"
        window.clear.click()
        assert window.stops.toPlainText() == ""


async def test_leaked_stop_of_a_capture_is_marked(theme: Theme) -> None:
    async with shown(CaptureWindow()) as window:
        window.stops.setPlainText("bc E")
        window.source.set_capture(LEAK)
        await eventually(lambda: window.view is not None)
        found = window.page.document().find("bc E")
        assert found.charFormat().background().color().name() == theme.colors.fault_soft


async def test_our_own_server_is_probed_in_the_window_and_passes(
    theme: Theme,
    tools: InspectorTools,
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # tests/api/conformance/probe/own_server runs every check.
    some = partial(ProbeOptions, only=("stop.one_character", "form.*"))
    monkeypatch.setattr("ui.inspector.probe_window.ProbeOptions", some)

    window = ProbeWindow(tools)
    window.show()
    window.url.setText(address)
    window.dialect.setCurrentIndex(window.dialect.findData("messages"))
    QTest.keyClick(window.model, Qt.Key.Key_Return)
    assert not window.start.isVisible()
    await eventually(lambda: window.stage != "running", 300)
    assert window.stage == "done", window.note.text()
    assert re.fullmatch(r"(\d+) of \1 passed", window.score.text())
    assert window.note.text().startswith("Fullstop · ")
    assert "Reasons" in window.page.toPlainText(), "subjects in place of failures"
    assert window.passed.isVisible()
    assert "Stop: one character" in window.passed.toPlainText()
    window.copy.click()
    assert "| check" in QGuiApplication.clipboard().text()
    window._save(tmp_path / "report.html")
    window.picture.click()
    (name,) = window.findChildren(QInputDialog)
    name.setTextValue("Fullstop 1.0")
    name.accept()
    await eventually(lambda: bool(window.findChildren(QFileDialog)))
    (target,) = window.findChildren(QFileDialog)
    target.filesSelected.emit([str(tmp_path / "score.png")])
    await eventually((tmp_path / "score.png").exists)
    await window.finish()
    assert not QImage(str(tmp_path / "score.png")).isNull()
    assert "<!doctype html>" in (tmp_path / "report.html").read_text()
    window.close()
    window.deleteLater()


async def test_incomplete_probe_names_checks_that_were_not_asked(
    theme: Theme, tools: InspectorTools
) -> None:
    passed = CheckResult("stop.a", "Stop: a", CheckOutcome.HELD)
    cut = "The time limit was reached."
    left = [CheckResult(f"c{n}", f"C {n}", CheckOutcome.NOT_RUN, cut) for n in range(4)]
    report = Report(
        "http://127.0.0.1:9/v1", WireDialect.CHAT, "m", "s", True, (passed, *left), 1, 1.0
    )

    async def probe(options: ProbeOptions, on_progress: object) -> Report:
        return report

    async with shown(ProbeWindow(replace(tools, probe=probe))) as window:
        window.url.setText("http://127.0.0.1:9")
        window.start.click()
        await eventually(lambda: window.stage == "done")
        assert window.score.text() == "1 of 1 passed · 4 not asked"
        assert window.page.toPlainText().count(cut) == 1
        assert "Also: C 1; C 2; C 3." in window.page.toPlainText()


async def test_a_probe_can_be_cancelled_and_started_again(
    theme: Theme, tools: InspectorTools, address: str
) -> None:
    async with shown(ProbeWindow(tools)) as window:
        window.url.setText(address)
        window.start.click()
        await eventually(lambda: len(window.results) > 1, 30)
        window.cancel.click()
        await eventually(lambda: window.stage == "cancelled")
        assert window.start.isVisible()
        assert window.passed.toPlainText()
        window.start.click()
        assert window.stage == "running"
        await eventually(lambda: bool(window.results), 30)
        window.close()
        await eventually(lambda: window.stage == "cancelled")


async def test_address_of_own_server_with_key_is_offered(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detection, "_LOCAL_PORTS", {})
    monkeypatch.setattr("app.inspector.shown_apis.DEFAULT_PORT", 9)
    closed = "http://127.0.0.1:9"  # a server that lists nothing without its key
    found = await inspector_tools(engine, lambda: closed).local_servers()
    assert found["Fullstop"] == LocalServer(closed)


async def test_if_nothing_answers_the_window_says_what_to_do(
    theme: Theme, tools: InspectorTools
) -> None:
    async with shown(ProbeWindow(tools)) as window:
        assert window.url.hasFocus() or window.focusWidget() is window.url
        assert "click Probe" in window.note.text()
        assert window.url.text() == ""
        window.url.setText("http://127.0.0.1:9")
        window.start.click()
        await eventually(lambda: window.stage == "failed")
        assert window.note.text() == "http://127.0.0.1:9 does not answer: nothing listens there."
        assert not window.page.isVisible()
        window.url.clear()
        window.start.click()
        await asyncio.sleep(0)
        assert window.note.text().startswith("Enter a server address")


@pytest.mark.parametrize(
    ("advice", "shown_advice"),
    [
        ("401 asks for a key: give --api-key KEY, or --header NAME:VALUE", "enter it in Key."),
        ("404 names the model: give --model NAME", "enter it in Model."),
    ],
)
async def test_refused_probe_names_the_field(
    theme: Theme, tools: InspectorTools, advice: str, shown_advice: str
) -> None:
    async def probe(options: ProbeOptions, on_progress: object) -> Report:
        raise ProbeFailed(f"{options.url} answers no request. {advice}")

    async with shown(ProbeWindow(replace(tools, probe=probe))) as window:
        window.url.setText("http://127.0.0.1:9")
        window.start.click()
        await eventually(lambda: window.stage == "failed")
        assert window.note.text().endswith(shown_advice)


async def test_running_servers_are_offered_as_addresses(
    theme: Theme, engine: Engine, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = {"Ollama": urlsplit(address).port, "vLLM": 9}
    monkeypatch.setattr(detection, "_LOCAL_PORTS", ports)
    monkeypatch.setattr("app.inspector.shown_apis.DEFAULT_PORT", 9)
    tools = inspector_tools(engine, lambda: address)
    found = await tools.local_servers()
    assert found == {"Fullstop": LocalServer(address, found["Fullstop"].models)}
    assert found["Fullstop"].models
    async with shown(ProbeWindow(inspector_tools(engine, lambda: ""))) as window:
        await eventually(lambda: window.url.text() == address)
        assert window.servers.currentItem().text().startswith("Ollama\n127.0.0.1:")
        assert window.model.placeholderText() == found["Fullstop"].models[0]
        window.url.clear()
        assert window.servers.currentRow() == -1
        window.servers.setCurrentRow(0)
        assert window.url.text() == address


def test_expected_text_of_a_failure_has_visible_white_space(theme: Theme) -> None:
    fault = Fault("stop_ignored", "The stop was ignored.", "a b\n", "a b\tc")
    failed = CheckResult("stop.a", "Stop: a", CheckOutcome.FAILED, faults=(fault,))
    page = probe_page([failed], theme.colors)
    assert "<code>a b⏎</code>" in page
    assert "<code>a b⇥c</code>" in page
