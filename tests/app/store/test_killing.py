"""What is left after ``kill -9``: a real process, a real file, a real signal."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.store.store import SqliteConversationStore
from tests.app.store.conftest import Use
from ui.viewmodels.messages import ChatMessage
from ui.viewmodels.runs import RunState

ROOT = Path(__file__).parents[3]


def killed_after(path: Path, wait_s: float) -> tuple[float, list[tuple[float, str]]]:
    """Let the process answer for a while after it has asked, kill it, and return when, and what
    it had said by then with the time of each piece.
    """
    command = [sys.executable, "-m", "tests.support.streaming_process", str(path)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "asked\n"
        time.sleep(wait_s)
    finally:
        process.kill()
        killed_at = time.time()
        said = process.stdout.read()
        process.wait()
        process.stdout.close()
    lines = [line.split() for line in said.splitlines(keepends=True) if line.endswith("\n")]
    return killed_at, [(float(at), f"{piece} ") for at, piece in lines]


@pytest.mark.parametrize("wait_s", [0.0, 1.3, 2.1])
def test_after_a_kill_at_most_a_second_of_the_answer_is_missing(
    use: Use, path: Path, wait_s: float
) -> None:
    killed_at, said = killed_after(path, wait_s)

    async def read(store: SqliteConversationStore) -> list[ChatMessage]:
        assert store.problem is None
        (conversation,) = store.load_all()
        await store.fill(conversation)
        return conversation.messages

    question, answer = use(read)
    assert question.text == "Count for ever"
    run = answer.run
    assert run is not None
    assert run.state is RunState.INTERRUPTED
    whole = "".join(piece for _, piece in said)
    assert whole.startswith(run.text)
    must_be_there = "".join(piece for at, piece in said if at <= killed_at - 1)
    assert run.text.startswith(must_be_there)
    assert bool(must_be_there) is (wait_s > 1)
