"""Why a helper process ended, and how it leaves the processor to the program."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.processes import HelperDied, HelperProcess

# As every helper does, it keeps its output to itself; so its end closes it.
_READS_ONE = """
import os, signal, sys
from engine.processes import read_frame

def main():
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    read_frame(sys.stdin.buffer)
    {then}

main()
"""


@pytest.fixture
def helper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], HelperDied]]:
    """Asks a helper that does something else than to answer; returns how it died."""
    monkeypatch.syspath_prepend(tmp_path)
    made: list[HelperProcess] = []

    def died(then: str) -> HelperDied:
        (tmp_path / "one_helper.py").write_text(_READS_ONE.format(then=then))
        made.append(HelperProcess("one_helper"))
        made[-1].start()
        with pytest.raises(HelperDied) as death:
            made[-1].ask(1, (b"x",), 60)
        return death.value

    yield died
    for one in made:
        one.close()


def test_a_helper_that_fails_is_not_taken_for_one_that_was_killed(
    helper: Callable[[str], HelperDied],
) -> None:
    # Ending takes a moment: longer than this process takes to notice that the output is closed.
    slow_end = "import atexit, time; atexit.register(time.sleep, 0.3); answers.close()"
    for then in ("raise RuntimeError('broken')", f"{slow_end}; sys.exit(1)"):
        death = helper(then)
        assert (death.code, death.is_foreign) == (1, False)


def test_a_helper_that_was_killed_from_outside_may_be_asked_again(
    helper: Callable[[str], HelperDied],
) -> None:
    death = helper("os.kill(os.getpid(), signal.SIGKILL)")
    assert (death.code, death.signal_name, death.is_foreign) == (-signal.SIGKILL, "SIGKILL", True)


_SESSION = Path("/proc/self/autogroup")
_GIVES_WAY = """
import os
from pathlib import Path
from engine.processes import give_way

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
