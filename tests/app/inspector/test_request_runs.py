"""Requests of other apps in the inspector: the request that ran, and its events."""

import asyncio
import json
import socket
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from engine.engine import Engine
from tests.support.kept import preferences_state
from tests.support.scripted import Stage
from tests.support.shown import whole_window
from tests.ui.driving import eventually
from ui.inspector.inspector_window import InspectorWindow
from ui.inspector.prompt_tab import PromptTab
from ui.inspector.stop_tabs import MatcherTab
from ui.kit.theme import Theme
from ui.window.main_window import MainWindow

pytestmark = pytest.mark.long


LONG = "word " * 400
TOKENS = 2_010
SCRIPT = ["one ", "two "] * (TOKENS // 2)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    pieces = sorted({*SCRIPT, LONG})
    return Stage(tmp_path, {"go": SCRIPT}, context=16_384, pieces=pieces)


@asynccontextmanager
async def served(stage: Stage, theme: Theme) -> AsyncIterator[tuple[MainWindow, str]]:
    engine = Engine(loader=stage.load)
    await engine.load(stage.folder)
    preferences = preferences_state()
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        preferences.change_value("server.port", int(place.getsockname()[1]))
    window = whole_window(engine, theme, preferences)
    window.show()
    switch = window.local_server.switch
    assert switch is not None
    switch.turn(True)
    await eventually(lambda: switch.stage == "on")
    yield window, switch.url
    window.quit()
    await window.finish()
    window.deleteLater()
    await engine.aclose()


async def post(url: str, body: dict[str, Any]) -> bytes:
    def send() -> bytes:
        data = json.dumps(body).encode()
        asked = urllib.request.Request(url, data, {"content-type": "application/json"})
        with urllib.request.urlopen(asked, timeout=120) as answer:
            return bytes(answer.read())

    return await asyncio.to_thread(send)


async def inspected(window: MainWindow) -> InspectorWindow:
    panel = window.local_server
    assert panel is not None
    await eventually(lambda: bool(len(panel.log)) and not list(panel.log)[-1].is_open)
    window.others._inspect_request(list(panel.log)[-1])
    return window.others.inspector


def chat(*, stop: list[str], **more: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": LONG * 150}, {"role": "user", "content": "go"}]
    return {"model": "m", "messages": messages, "stop": stop, "temperature": 0, **more}


async def test_a_large_request_with_a_long_answer_is_shown_whole(
    theme: Theme, stage: Stage
) -> None:
    body = chat(stop=["END", "\n\n"], max_tokens=TOKENS, stream=True)
    assert len(json.dumps(body)) > 290_000

    async with served(stage, theme) as (window, url):
        await post(f"{url}/v1/chat/completions", body)
        inspector = await inspected(window)
        entry = list(window.local_server.log)[-1]  # type: ignore[union-attr]
        assert not entry.request_body.is_whole, "the body alone does not contain the stop list"
        assert not inspector.bar.choice.isVisible(), "there is only one answer"
        shown = window.inspector.shown
        assert shown is not None
        assert shown.trace is not None
        assert shown.run.text == "".join(SCRIPT)
        assert len(shown.trace.tokens) == TOKENS
        assert (shown.run.stops, shown.run.max_tokens) == (("END", "\n\n"), TOKENS)
        assert shown.question == "go"
        note = inspector.tokens.note.text()
        assert note == "the newest 2,000 of 2,010 tokens"
        inspector.tabs.setCurrentWidget(inspector.tab(MatcherTab))
        page = inspector.tab(MatcherTab).page
        await eventually(lambda: "END" in page.toPlainText())
        assert "⏎⏎" in page.toPlainText()
        inspector.tabs.setCurrentWidget(inspector.tab(PromptTab))
        await eventually(lambda: "tokens" in inspector.tab(PromptTab).note.text())
        assert "word word" in inspector.tab(PromptTab).page.toPlainText()


async def test_request_is_forked_beside_its_answer(theme: Theme, tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["one", " two", " three"]})
    body = {"model": "m", "messages": [{"role": "user", "content": "go"}], "temperature": 0}
    async with served(stage, theme) as (window, url):
        await post(f"{url}/v1/chat/completions", body)
        inspector, state = await inspected(window), window.inspector
        original = state.shown
        assert original is not None
        assert inspector.forks.obstacle == ""
        inspector.forks.fork(1, (stage.id(" two"),))
        await eventually(lambda: inspector.tabs.currentWidget() is inspector.compare)
        assert state.shown is not None
        assert state.shown is not original
        assert state.shown.run.text == original.run.text == "one two three"
        assert inspector.compare.sentence.text() == "Both answers are identical."
        assert inspector.head.source.text().startswith("From a fork: ")


async def test_the_request_of_a_client_that_left_is_shown_with_its_text_until_then(
    theme: Theme, tmp_path: Path
) -> None:
    counted = [f"{number} " for number in range(1, 2_000)]
    stage = Stage(tmp_path, {"go": counted}, step_s=0.01)
    body = {"model": "m", "messages": [{"role": "user", "content": "go"}], "stream": True}

    async with served(stage, theme) as (window, url):
        place = url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(place[0], int(place[1]))
        sent = json.dumps({**body, "stop": ["1999"]}).encode()
        head = (
            "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(sent)}\r\n\r\n"
        )
        writer.write(head.encode() + sent)
        await reader.readuntil(b"\r\n\r\n")  # a date may contain the expected text
        await reader.readuntil(b"3 ")
        writer.close()
        await writer.wait_closed()
        await inspected(window)
        shown = window.inspector.shown
        assert shown is not None
        assert shown.run.finished is not None
        assert shown.run.finished.stop.kind == "cancelled"
        assert shown.run.text.startswith("1 2 3 ")
        assert shown.run.stops == ("1999",)
        assert shown.trace is not None
        assert len(shown.trace.tokens) == shown.run.finished.usage.output_tokens


async def test_each_of_several_choices_can_be_shown(theme: Theme, stage: Stage) -> None:
    async with served(stage, theme) as (window, url):
        await post(f"{url}/v1/chat/completions", chat(stop=["END"], max_tokens=40, n=3))
        inspector = await inspected(window)
        assert inspector.bar.choice.isVisible()
        words = [inspector.bar.choice.itemText(row) for row in range(inspector.bar.choice.count())]
        assert words == [f"Answer {n} of 3: Cut off at 40 tokens" for n in (1, 2, 3)]
        seen = []
        for row in range(3):
            inspector.bar.choice.setCurrentIndex(row)
            inspector.bar.choice.activated.emit(row)
            shown = window.inspector.shown
            assert shown is not None
            assert shown.trace is not None
            assert inspector.bar.choice.currentIndex() == row
            seen.append(shown.trace)
        assert len({id(trace) for trace in seen}) == 3
        window.workspace.traces.forget_all()
        assert window.inspector.shown is not None
        assert window.inspector.shown.trace is None
        assert inspector.bar.choice.currentIndex() == 2, "the chosen answer stays"
        window.inspector.show_open_conversation()
        assert not inspector.bar.choice.isVisible()
