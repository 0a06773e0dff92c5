import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli import main
from app.commands import self_test
from tests.conftest import ROOT

pytestmark = pytest.mark.long

LINE = re.compile(r"^ok +(.+?)  +\S", re.MULTILINE)


def test_self_test_passes_and_leaves_no_files(tmp_path: Path) -> None:
    home, scratch = tmp_path / "home", tmp_path / "scratch"
    home.mkdir()
    scratch.mkdir()
    hidden = ("FULLSTOP_DATA_DIR", "FULLSTOP_CONFIG_DIR", "QT_QPA_PLATFORM")
    done = subprocess.run(
        [sys.executable, "-m", "app", "--self-test"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name not in hidden}
        | {"HOME": str(home), "TMPDIR": str(scratch)},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert LINE.findall(done.stdout) == ["MLX", "demo model", "ask", "serve", "window"]
    assert done.stderr == ""
    assert [*home.rglob("*"), *scratch.rglob("*")] == []


def test_self_test_failure_names_the_cause(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TMPDIR", "/tmp")
    monkeypatch.setattr(self_test, "COUNTED", "else")
    assert main(["--self-test"]) == 1
    assert "failed: ask: the answer was '1\\n2\\n" in capsys.readouterr().err


def test_self_test_fails_without_qt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TMPDIR", "/tmp")
    monkeypatch.setattr(self_test, "qt_problem", lambda: "Qt cannot be loaded (no libEGL)")
    assert main(["--self-test"]) == 1
    printed = capsys.readouterr()
    assert "failed: window: Qt cannot be loaded (no libEGL)" in printed.err
    assert "window" not in printed.out
