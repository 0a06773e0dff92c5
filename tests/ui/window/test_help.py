"""The Help menu shows the guide and what is new, and says how to report a problem."""

from pathlib import Path

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMessageBox, QPushButton

from app.paths import page
from tests.ui.driving import entry
from ui.window.main_window import MainWindow
from ui.window.other_windows import HelpFiles, page_text


def test_the_pages_of_the_program_are_found_and_shown_without_pictures() -> None:
    for name, heading in (("WINDOW.md", "# The window in detail"), ("CHANGELOG.md", "# Changes")):
        path = page(name)
        assert path is not None
        text = page_text(path)
        assert text.startswith(heading)
        assert "![" not in text
        assert "](OPTIONS.md" not in text
    assert page("NONE.md") is None


async def test_the_guide_opens_in_a_window_of_its_own(window: MainWindow, tmp_path: Path) -> None:
    guide = tmp_path / "guide.md"
    guide.write_text("# How to\n\nSee [options](OPTIONS.md)\nand [below](#how-to).\n")
    window.others.help_files = HelpFiles(guide)
    window.others.show_guide()
    shown = window.others.pages["Fullstop Guide"]
    assert shown.isVisible()
    assert "See options and below." in shown.page.toPlainText()
    window.others.show_changes()
    assert list(window.others.pages) == ["Fullstop Guide"], "there is no other page here"


async def test_a_report_has_versions_and_the_reason_and_nothing_of_the_conversation(
    window: MainWindow,
) -> None:
    entry(window, "Report a Problem").trigger()
    (box,) = window.findChildren(QMessageBox)
    copy = next(one for one in box.findChildren(QPushButton) if one.text() == "Copy Details")
    copy.click()
    copied = QGuiApplication.clipboard().text()
    assert "Fullstop" in copied
    assert "Python" in copied
    assert "Model: scripted" in copied
