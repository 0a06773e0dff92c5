"""The settings of the C library for memory, and of the interpreter for turns."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.asking import scripted_answer
from tests.support.scripted import Stage

_HOLES = """
from pathlib import Path
from engine.processes import return_freed_memory

def resident_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 // 1_000_000

blocks = [b"x" * 100_000 for _ in range(3_000)]
kept = blocks[::10]
del blocks
before = resident_mb()
return_freed_memory()
print(before, resident_mb())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems take memory back themselves")
def test_the_pages_of_holes_in_used_memory_go_back_to_the_system() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _HOLES], capture_output=True, text=True, check=True, timeout=120
    )
    before, after = map(int, done.stdout.split())
    assert before > 300
    assert after < before - 200


@pytest.mark.parametrize(("before_s", "after_s"), [(0.005, 0.001), (0.0002, 0.0002)])
def test_threads_wait_for_the_interpreter_for_a_millisecond_at_most_once_there_is_an_engine(
    tmp_path: Path, before_s: float, after_s: float
) -> None:
    was_s = sys.getswitchinterval()
    sys.setswitchinterval(before_s)
    try:
        stage = Stage(tmp_path, {"go": ["a"]})
        assert scripted_answer(stage, "go").text == "a"
        assert sys.getswitchinterval() == pytest.approx(after_s, rel=0.02)
    finally:
        sys.setswitchinterval(was_s)
