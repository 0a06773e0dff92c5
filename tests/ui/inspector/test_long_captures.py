"""Captures of any length: read on another thread, and shown as far as a page can show them."""

import json
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.shown import shown
from tests.ui.driving import Enter, Living, eventually
from ui.inspector.capture_window import (
    SHOWN_CHARS,
    CapturedAnswers,
    CaptureWindow,
    read_capture,
)
from ui.kit.theme import Theme

COUNT = 3_000


def chunk(text: str = "", reason: str | None = None) -> str:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason}
    value = {"id": "x", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
    return f"data: {json.dumps(value)}\n\n"


LONG = "".join(chunk(f"w{n} ") for n in range(COUNT)) + chunk(reason="stop") + "data: [DONE]\n\n"


class WatchedReading:
    """Reads captures; notes on which thread, and can delay it."""

    def __init__(self) -> None:
        self.threads: list[int] = []
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, text: str, stops: Sequence[str] = ()) -> CapturedAnswers:
        self.threads.append(threading.get_ident())
        assert self.gate.wait(30)
        return read_capture(text, stops)


@pytest.fixture
def window(enter: Enter, theme: Theme, tools: WatchedReading) -> Living[CaptureWindow]:
    return enter(lambda: shown(CaptureWindow()))


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> WatchedReading:
    reading = WatchedReading()
    monkeypatch.setattr("ui.inspector.capture_window.read_capture", reading)
    return reading


async def test_a_long_capture_is_read_whole_on_another_thread_and_shown_in_part(
    window: CaptureWindow, tools: WatchedReading, tmp_path: Path
) -> None:
    assert len(LONG) > 4 * SHOWN_CHARS
    path = tmp_path / "long.txt"
    path.write_text(LONG)

    window.open_file(path)
    await eventually(lambda: window.view is not None)
    assert threading.get_ident() not in tools.threads
    assert window.view is not None
    assert window.view.capture.text.endswith(f"w{COUNT - 1} ")
    assert len(window.source.toPlainText()) < 2 * SHOWN_CHARS
    assert window.source.capture == LONG
    assert window.source.isReadOnly()
    page = window.page.toPlainText()
    assert "more characters" in page
    assert "events" in page
    assert f"{COUNT + 2:,}" in page, "the last events are shown, too"
    window.clear.click()
    assert not window.source.isReadOnly()
    await eventually(lambda: window.view is None)


async def test_the_window_goes_on_while_a_capture_is_read_and_a_newer_one_takes_over(
    window: CaptureWindow,
    tools: WatchedReading,
) -> None:
    tools.gate.clear()
    window.source.set_capture(LONG)
    await eventually(lambda: len(tools.threads) == 1)
    assert window.title.text().startswith("Reading ")
    window.source.set_capture('{"done": true, "message": {"content": "new"}, "model": "m"}')
    await eventually(lambda: len(tools.threads) == 2)
    tools.gate.set()
    await eventually(lambda: window.view is not None)
    await window.finish()
    assert window.view is not None
    assert window.view.capture.text == "new"


def test_of_several_answers_the_first_with_a_fault_is_shown() -> None:
    fine = json.dumps(
        {"id": "a", "choices": [{"message": {"content": "A"}, "finish_reason": "stop"}]}
    )
    wrong = fine.replace('"a"', '"b"').replace('"stop"', "null")
    view = read_capture(f"{fine}\n{wrong}\n")
    assert view.title.startswith("Answer 2 of 2: Chat Completions")
    assert any(one.sentence.startswith("Answer 2: ") for one in view.findings)
