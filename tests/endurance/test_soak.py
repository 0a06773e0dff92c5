"""A taste of the soak, so that the long one can be started at any time."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.long


def _soaked(*options: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.endurance.soak", *options],
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 faults in" in done.stdout


@pytest.mark.parametrize(
    "size",
    [
        ("--minutes", "0.025", "--rounds", "5", "--rest", "0", "--clients", "6"),
        pytest.param(("--minutes", "0.5", "--clients", "12"), marks=pytest.mark.slow),
    ],
    ids=["taste", "half a minute"],
)
def test_a_short_soak_finds_every_answer_right_and_nothing_left_over(size: tuple[str, ...]) -> None:
    _soaked(*size)


@pytest.mark.slow
def test_no_answer_is_wrong_while_others_attack() -> None:
    _soaked("--minutes", "1", "--clients", "24", "--attacks", "--patience", "300")
