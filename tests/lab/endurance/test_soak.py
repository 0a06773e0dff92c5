"""A short soak; it shows that the long one works."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.long


def _soaked(*options: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.lab.endurance.soak", *options],
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
def test_a_short_soak_finds_only_correct_answers_and_no_leak(size: tuple[str, ...]) -> None:
    _soaked(*size)


@pytest.mark.slow
def test_every_answer_is_correct_during_an_attack() -> None:
    _soaked("--minutes", "1", "--clients", "24", "--attacks", "--patience", "300")
