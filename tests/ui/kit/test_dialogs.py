"""The helpers that tell and confirm, fill menus, and read chosen files."""

import asyncio
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMessageBox, QPushButton, QWidget

from ui.kit.commands import Command
from ui.kit.dialogs import confirm, show_message
from ui.kit.tasks import read_text
from ui.words import FileRefused


def _button(box: QMessageBox, words: str) -> QPushButton:
    (found,) = [one for one in box.findChildren(QPushButton) if one.text() == words]
    return found


def test_markup_in_a_message_box_is_shown_as_text(parent: QWidget) -> None:
    box = show_message(parent, "<b>x</b>", "<i>y</i>", title="About")
    assert box.isVisible()
    assert box.textFormat() is Qt.TextFormat.PlainText
    assert (box.text(), box.informativeText()) == ("<b>x</b>", "<i>y</i>")
    assert box.windowTitle() == "About" or box.windowTitle() == ""  # macOS shows no title
    assert box.icon() is QMessageBox.Icon.NoIcon
    box.close()


def test_only_the_chosen_answer_is_acted_on(parent: QWidget) -> None:
    done: list[str] = []
    box = confirm(
        parent,
        "Leave?",
        answers=[
            Command("Export…", lambda: done.append("export")),
            Command("Quit", lambda: done.append("quit"), is_destructive=True),
        ],
    )
    assert box.defaultButton() is _button(box, "Export…")
    kinds = [_button(box, words).property("kind") for words in ("Export…", "Quit")]
    assert kinds == ["primary", "destructive"]
    box.show()
    lefts = [_button(box, words).x() for words in ("Quit", "Cancel", "Export…")]
    assert lefts == sorted(lefts), "the default is at the right"
    _button(box, "Quit").click()
    assert done == ["quit"]
    assert not box.isVisible()


def test_escape_cancels_a_question(parent: QWidget) -> None:
    done: list[str] = []
    box = confirm(parent, "Open?", answers=[Command("Open", lambda: done.append("open"))])
    QTest.keyClick(box, Qt.Key.Key_Escape)
    assert not box.isVisible()
    assert not done


def test_a_question_can_prefer_to_do_nothing(parent: QWidget) -> None:
    done: list[str] = []
    answers = [Command("Open", lambda: done.append("open"))]
    box = confirm(parent, "Open?", answers=answers, prefers_cancel=True)
    assert box.defaultButton() is box.escapeButton()
    box.close()
    assert not done


def test_a_file_that_does_not_end_is_refused_in_words() -> None:
    with pytest.raises(FileRefused, match="“zero” could not be read: it is not a regular file"):
        asyncio.run(read_text(Path("/dev/zero"), 1_000_000))
