"""The file after ``kill -9``: a real process, a real file, a real signal."""

import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.app.store.conftest import opened

ROOT = Path(__file__).parents[3]


def kept_in(path: Path) -> int:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as file:
        (count,) = file.execute(
            "SELECT coalesce(sum(length(text)), 0) FROM messages WHERE role = 'assistant'"
        ).fetchone()
        return int(count)


def killed_once(path: Path, is_due: Callable[[int], bool]) -> str:
    """Let the process answer, kill it once so many characters are kept; return what it had said."""
    command = [sys.executable, "-m", "tests.support.streaming.streaming_process", str(path)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "asked\n"
        ends_at = time.monotonic() + 60
        while not is_due(kept_in(path)):
            assert time.monotonic() < ends_at, "nothing of the running answer was kept"
            time.sleep(0.02)
    finally:
        process.kill()
        said = process.stdout.read()
        process.wait()
        process.stdout.close()
    return "".join(f"{line.strip()} " for line in said.splitlines(keepends=True) if "\n" in line)


@pytest.mark.parametrize("least", [0, 1, 500], ids=["at once", "after a save", "after several"])
async def test_saved_text_survives_kill(path: Path, least: int) -> None:
    seen = 0

    def is_due(kept: int) -> bool:
        nonlocal seen
        seen = kept
        return kept >= least

    said = killed_once(path, is_due)

    async with opened(path) as store:
        assert store.problem is None
        (conversation,) = store.conversations()
        await store.fill(conversation)
    question, answer = conversation.messages
    assert question.text == "Count for ever"
    run = answer.run
    assert run is not None
    assert run.state == "interrupted"
    assert said.startswith(run.text)
    assert len(run.text) >= seen
