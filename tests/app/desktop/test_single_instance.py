"""One window per user: a later start brings the first window forward."""

import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.desktop.single_instance import SingleInstance, only_instance
from app.exits import CommandError

ROOT = Path(__file__).parents[3]


def test_single_instance_passes_files(tmp_path: Path, qtbot: QtBot) -> None:
    first, second = SingleInstance(tmp_path), SingleInstance(tmp_path)
    opened: list[Path] = []
    attached: list[Path] = []
    first.file_requested.connect(opened.append)
    first.attachments_requested.connect(attached.extend)
    assert first.claim()
    with qtbot.waitSignal(first.file_requested, timeout=30_000):
        assert second.ask_to_show(tmp_path / "a.run", [tmp_path / "a b.txt", tmp_path / "c.pdf"])
    first.release()
    assert opened == [tmp_path / "a.run"]
    assert attached == [tmp_path / "a b.txt", tmp_path / "c.pdf"]


def test_single_instance_passes_many_files(tmp_path: Path, qtbot: QtBot) -> None:
    first, second = SingleInstance(tmp_path), SingleInstance(tmp_path)
    attached: list[Path] = []
    first.attachments_requested.connect(attached.extend)
    assert first.claim()
    files = [tmp_path / f"{number:04}{'x' * 200}" for number in range(400)]
    assert second.ask_to_show(attached=files)
    qtbot.waitUntil(lambda: len(attached) == len(files), timeout=30_000)
    first.release()
    assert attached == files


HOLD = """
import sys, time
from pathlib import Path
from PySide6.QtCore import QCoreApplication
from app.desktop.single_instance import SingleInstance
application = QCoreApplication([])
instance = SingleInstance(Path(sys.argv[1]))
print(instance.claim(), flush=True)
time.sleep(60)
"""


def test_single_instance_stale_lock(
    tmp_path: Path, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = SingleInstance(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        assert not instance.claim()
        monkeypatch.setattr("app.paths.config_folder", lambda: tmp_path)
        monkeypatch.setattr(SingleInstance, "ask_to_show", lambda *_: False)  # its socket is gone
        with pytest.raises(CommandError, match="is open already"), only_instance():
            pass
        other.kill()
    assert instance.claim()
    instance.release()
