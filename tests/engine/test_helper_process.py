"""Why a helper process ended."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.helper_process import HelperDied, HelperProcess

_READS_ONE = """
import os, signal, sys
from engine.helper_process import serve

def answer(question):
    {then}

serve(answer, 1 << 30)
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

        with pytest.raises(HelperDied) as death:
            made[-1].ask({}, 60, 60)
        return death.value

    yield died
    for one in made:
        one.close()


def test_helper_exit_code_of_failure(helper: Callable[[str], HelperDied]) -> None:
    # Ending takes a moment: longer than this process takes to notice that the other end is closed.
    slow_end = "import atexit, time; atexit.register(time.sleep, 0.3); os.close(int(sys.argv[1]))"
    for then in ("raise RuntimeError('broken')", f"{slow_end}; sys.exit(1)"):
        death = helper(then)
        assert death.code == 1


def test_helper_killed_from_outside_restarts(helper: Callable[[str], HelperDied]) -> None:
    death = helper("os.kill(os.getpid(), signal.SIGKILL)")
    assert (death.code, death.exceeded_time) == (-signal.SIGKILL, False)
