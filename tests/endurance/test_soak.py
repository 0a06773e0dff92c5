"""A taste of the soak, so that the long one can be started at any time."""

import os
import subprocess
import sys


def test_a_short_soak_finds_every_answer_right_and_nothing_left_over() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.endurance.soak", "--minutes", "0.1", "--clients", "6"],
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 faults in" in done.stdout
