"""Text that could not be saved when a signal ended the window is offered at the next start."""

import json
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.lab.endurance.kills import Window

pytestmark = pytest.mark.long

# The text of the answer before the file is locked, and after that.
BEFORE, AFTER = 30, 200


def end(window: Window, number: int) -> int:
    """Send a signal; return the exit code."""
    window._process.send_signal(number)
    try:
        return window._process.wait(120)
    finally:
        window.kill()


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)]
)
def test_a_signal_loses_no_text_that_a_locked_file_could_not_take(
    tmp_path: Path, number: int
) -> None:
    data, config = tmp_path / "data", tmp_path / "config"
    window = Window(data, config)
    window.has_said(BEFORE)
    file = data / "conversations.db"
    with closing(sqlite3.connect(file, isolation_level=None, timeout=60)) as other:
        other.execute("BEGIN IMMEDIATE")  # nobody else writes from now on
        window.has_said(BEFORE + AFTER)
        assert end(window, number) == 0
        said = window.spoken[-1][0]
        other.execute("ROLLBACK")

    [rescued] = data.glob("conversations-rescued-*.json")
    assert rescued.stat().st_mode & 0o077 == 0
    [conversation] = json.loads(rescued.read_text())["conversations"]
    question, answer = conversation["messages"]
    assert question["text"] == "Count for ever"
    # The window takes text in steps: the newest may not have arrived yet.
    assert f" {said - 50} " in answer["text"]


def test_a_signal_leaves_no_file_if_everything_was_saved(tmp_path: Path) -> None:
    data = tmp_path / "data"
    window = Window(data, tmp_path / "config")
    window.has_said(BEFORE)
    assert end(window, signal.SIGTERM) == 0
    assert not list(tmp_path.rglob("conversations-rescued-*"))
