"""Each test that draws random cases, with many times as many cases as usual."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TIMES = 20
IMPORTS = ("from tests.support.random_cases import", "from hypothesis import")


def files() -> list[str]:
    """Return the files of the tests that draw random cases."""
    every = sorted((ROOT / "tests").rglob("test_*.py"))
    mine = Path(__file__)
    return [
        str(one.relative_to(ROOT))
        for one in every
        if one != mine and any(words in one.read_text(encoding="utf-8") for words in IMPORTS)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("file", files())
def test_many_random_cases_pass_like_few(file: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-x", file]
    environment = os.environ | {"FULLSTOP_RANDOM_CASES": str(TIMES)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-20_000:]
