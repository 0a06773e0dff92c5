"""One window per person: a later start brings the first window forward."""

import os
import stat
import subprocess
import sys
from pathlib import Path

from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.desktop.single_instance import SingleInstance

ROOT = Path(__file__).parents[3]


def test_a_second_start_brings_the_first_forward(tmp_path: Path, qtbot: QtBot) -> None:
    first, second = SingleInstance(tmp_path), SingleInstance(tmp_path)
    assert first.claim()
    assert not second.claim()
    with qtbot.waitSignal(first.show_requested, timeout=30_000):
        assert second.ask_to_show()
    first.release()


def test_a_second_start_gives_its_files_to_the_first(tmp_path: Path, qtbot: QtBot) -> None:
    first, second = SingleInstance(tmp_path), SingleInstance(tmp_path)
    opened: list[str] = []
    attached: list[str] = []
    first.file_requested.connect(opened.append)
    first.attachment_requested.connect(attached.append)
    assert first.claim()
    with qtbot.waitSignal(first.file_requested, timeout=30_000):
        assert second.ask_to_show(tmp_path / "a.run", [tmp_path / "a b.txt", tmp_path / "c.pdf"])
    first.release()
    assert opened == [str(tmp_path / "a.run")]
    assert attached == [str(tmp_path / "a b.txt"), str(tmp_path / "c.pdf")]


def test_the_next_start_is_the_first_again_after_the_first_has_ended(
    tmp_path: Path, qapp: QApplication
) -> None:
    first, second = SingleInstance(tmp_path), SingleInstance(tmp_path)
    assert first.claim()
    first.release()
    assert second.claim()
    assert not first.claim()
    second.release()


def test_programs_with_different_folders_do_not_disturb_each_other(
    tmp_path: Path, qapp: QApplication
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, second = SingleInstance(tmp_path / "a"), SingleInstance(tmp_path / "b")
    assert first.claim()
    assert second.claim()
    first.release()
    second.release()


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


def test_the_files_of_a_killed_program_do_not_prevent_a_start(
    tmp_path: Path, qapp: QApplication
) -> None:
    instance = SingleInstance(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        assert not instance.claim()
        other.kill()
    assert instance.claim()
    instance.release()


def test_a_first_program_that_does_not_listen_is_not_waited_for(
    tmp_path: Path, qapp: QApplication
) -> None:
    assert not SingleInstance(tmp_path).ask_to_show()


def test_the_lock_is_private_whatever_the_umask(tmp_path: Path, qapp: QApplication) -> None:
    instance = SingleInstance(tmp_path)
    before = os.umask(0)
    try:
        assert instance.claim()
        [lock] = tmp_path.iterdir()
        assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    finally:
        os.umask(before)
        instance.release()


def test_a_second_start_passes_its_file_to_the_first(tmp_path: Path, qtbot: QtBot) -> None:
    first, second = SingleInstance(tmp_path), SingleInstance(tmp_path)
    assert first.claim()
    wanted: list[str] = []
    first.file_requested.connect(wanted.append)
    file = tmp_path / "a run ü\n.fullstop-run"
    assert second.ask_to_show(file)
    qtbot.waitUntil(lambda: wanted == [str(file)], timeout=30_000)
    with qtbot.waitSignal(first.show_requested, timeout=30_000):
        assert second.ask_to_show()
    assert wanted == [str(file)], "a start without a file opens no file"
    first.release()
