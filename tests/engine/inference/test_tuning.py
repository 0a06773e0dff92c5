"""What the C library is told about memory."""

import subprocess
import sys

import pytest

_HOLES = """
from pathlib import Path
from engine.inference.tuning import return_freed_memory

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
def test_the_pages_of_holes_between_what_lives_on_go_back_to_the_system() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _HOLES], capture_output=True, text=True, check=True, timeout=120
    )
    before, after = map(int, done.stdout.split())
    assert before > 300
    assert after < before - 200
