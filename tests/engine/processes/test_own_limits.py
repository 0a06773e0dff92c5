"""A helper process leaves the processor to the program, also where Linux shares it by sessions."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_SESSION = Path("/proc/self/autogroup")
_GIVES_WAY = """
import os
from pathlib import Path
from engine.processes.own_limits import give_way

give_way()
session = Path("/proc/self/autogroup")
print(os.nice(0), session.read_text() if session.exists() else "")
"""


def given_way(*, has_session: bool) -> list[str]:
    """Return the words of what a helper process prints: its niceness, and its session's state.

    The system names no state for a process that began before sessions shared the processor.
    """
    words = [sys.executable, "-c", _GIVES_WAY]
    run = subprocess.run(
        words, capture_output=True, text=True, check=True, start_new_session=has_session
    )
    return run.stdout.split()


@pytest.mark.skipif(not _SESSION.exists(), reason="this system does not share by sessions")
def test_a_helper_gives_way_with_its_whole_session() -> None:
    before = os.nice(0)
    nice, *state = given_way(has_session=True)

    assert int(nice) == min(19, before + 10)
    assert state[-2:] == ["nice", "10"]


@pytest.mark.skipif(not _SESSION.exists(), reason="this system does not share by sessions")
def test_a_session_that_is_not_the_helper_s_own_stays_as_it_is() -> None:
    before = _SESSION.read_text()
    given_way(has_session=False)

    assert _SESSION.read_text() == before
