"""Notifications without a tray: a program of the system shows them and reports clicks."""

from pathlib import Path

from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from app.desktop.window import CommandNotifications


def test_the_program_gets_the_words_and_its_answer_counts_as_a_click(
    tmp_path: Path, qtbot: QtBot
) -> None:
    program, given = tmp_path / "notify-send", tmp_path / "given"
    program.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > "{given}"\n[ "$7" = Quiet ] || echo default\n'
    )
    program.chmod(0o755)
    owner = QObject()
    notifications = CommandNotifications(str(program), owner)
    clicked: list[str] = []
    notifications.show("--title", "Stopped", lambda: clicked.append("shown"))
    qtbot.waitUntil(lambda: clicked == ["shown"], timeout=30_000)
    assert given.read_text().splitlines()[-3:] == ["--", "--title", "Stopped"]
    given.unlink()
    notifications.show("Quiet", "Stopped", lambda: clicked.append("never"))
    qtbot.waitUntil(lambda: not notifications.waiting, timeout=30_000)
    assert clicked == ["shown"]
    owner.deleteLater()


def test_a_program_that_cannot_be_started_does_no_harm(tmp_path: Path, qtbot: QtBot) -> None:
    owner = QObject()
    notifications = CommandNotifications(str(tmp_path / "missing"), owner)
    notifications.show("Title", "Text", lambda: None)
    qtbot.waitUntil(lambda: not notifications.waiting, timeout=30_000)
    owner.deleteLater()
