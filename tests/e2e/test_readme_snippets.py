"""What the README tells people to type is typed here, word for word."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import PROGRAM, REPOSITORY, without_display

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8642"
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
SHELL = [
    line
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
    if re.match(r"fullstop (ask|replay) ", line)
]


def typed(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        capture_output=True,
        text=True,
        cwd=cwd,
        env=without_display() | {"PYTHONPATH": str(REPOSITORY), "PYTHONWARNINGS": "ignore"},
        timeout=60,
        check=False,
    )


def test_the_readme_has_snippets_for_both_vendors() -> None:
    assert {re.findall(r"import (\w+)", code)[0] for code in PYTHON} >= {"anthropic", "openai"}


@pytest.mark.parametrize("code", PYTHON, ids=lambda code: str(code.split()[1]))
def test_a_snippet_works_when_pasted(code: str, address: str) -> None:
    assert ADDRESS in code
    done = typed(sys.executable, "-c", code.replace(ADDRESS, address))
    assert done.returncode == 0, done.stderr
    shown = done.stdout.split()
    assert shown[:5] == ["1", "2", "3", "4", "5"], done.stdout
    # Ollama's API has no place for the name of the stop.
    assert shown[-1] == ("stop" if "ollama" in code else "6"), "the stop is named"


def test_the_commands_work_when_typed_one_after_another(tmp_path: Path) -> None:
    assert SHELL
    texts = {}
    for line in SHELL:
        done = typed(*PROGRAM, *shlex.split(line)[1:], cwd=tmp_path)
        assert done.returncode == 0, (line, done.stderr)
        texts[line] = done.stdout
    assert any('"value": "END"' in text for text in texts.values())
    saved = [line for line in SHELL if "--save-run" in line]
    replayed = [line for line in SHELL if line.startswith("fullstop replay")]
    assert saved
    assert texts[replayed[0]].startswith("1\n2\n3\n4\n5\n6\n")
    assert os.listdir(tmp_path) == ["run.json"]
