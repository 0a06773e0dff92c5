"""Help, what is new, About, and how to report a problem."""

import re
from datetime import datetime
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QGuiApplication, QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QWidget

from app.paths import page
from tests.ui.driving import entry
from ui.kit.dates import format_day
from ui.kit.theme import Theme
from ui.window import other_windows
from ui.window.help_window import TOPICS, AboutDialog, HelpFiles, HelpPage, topics_of
from ui.window.main_window import MainWindow
from ui.window.other_windows import ShortcutsDialog
from ui.window.problem_report import ReportDialog


def test_help_has_topics_with_pictures_and_the_sections_of_the_guide() -> None:
    files = HelpFiles(page("HELP.md"), page("WINDOW.md"), page("CHANGELOG.md"))
    topics = {topic.title: topic for topic in topics_of(files)}
    short = [topic for topic in topics.values() if topic.folder is not None]
    assert len(short) > 10
    assert all(len(topic.text) < 1_000 for topic in short)
    for topic in short:
        for name in re.findall(r"!\[.*?\]\((.*?)\)", topic.text):
            assert topic.folder is not None
            assert (topic.folder / name).is_file()
            assert (topic.folder / name.replace("-light.", "-dark.")).is_file(), "in the dark"
    assert "Stop sequences" in topics
    assert "What’s New in Fullstop" in topics
    for topic in topics.values():
        if topic.folder is None:
            assert "![" not in topic.text
            assert "](OPTIONS.md" not in topic.text
    assert page("NONE.md") is None


async def test_help_search_filters_topics_and_shows_the_best_one(window: MainWindow) -> None:
    window.others.help_files = HelpFiles(page("HELP.md"), page("WINDOW.md"), page("CHANGELOG.md"))
    entry(window, "Fullstop Help").trigger()
    shown = window.others.help
    assert shown.isVisible()
    assert shown.topics.currentItem().text() == "Start a chat"
    shown.search.setText("privacy")
    assert shown.topics.currentItem().text() == "Privacy"
    assert "leaves it" in shown.page.toPlainText()
    shown.search.setText("port")
    assert shown.topics.item(0).text() in ("Server", "Serve other apps"), "no exports"
    shown.search.setText("zzqx")
    assert shown.topics.count() == 0
    entry(window, "What’s New in Fullstop").trigger()
    assert shown.topics.currentItem().text() == "What’s New in Fullstop"


async def test_help_has_what_is_there_of_its_pages(window: MainWindow) -> None:
    window.others.help_files = HelpFiles(guide=page("WINDOW.md"), changes=page("CHANGELOG.md"))
    entry(window, "Fullstop Help").trigger()
    assert window.others.help.topics.currentItem().text() == "What’s New in Fullstop"


def test_changes_begin_with_short_points_and_fold_the_rest(tmp_path: Path) -> None:
    changes = tmp_path / "CHANGELOG.md"
    changes.write_text(
        "# Changes\n\n## 0.2.0 (2026-11-04)\n\n### In Short\n\n- One.\n\n### Stops\n\n- Long.\n"
        "\n## 0.1.0\n\nFirst.\n"
    )
    (topic,) = topics_of(HelpFiles(changes=changes))
    page = HelpPage("Help")
    page.show_topic(topic, set(), [])
    text = page.toPlainText()
    assert f"Version 0.2.0 · {format_day(datetime(2026, 11, 4).timestamp())}" in text
    assert "One." in text
    assert "Long." not in text
    assert "First." not in text
    page.show_topic(topic, {"Version 0.1.0"}, ["first"])
    assert "First." in page.toPlainText()
    assert len(page.extraSelections()) == 1


async def test_help_opens_the_topic_of_the_window_in_front(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    window.others.help_files = HelpFiles(page("HELP.md"), page("WINDOW.md"))
    titles = {topic.title for topic in topics_of(window.others.help_files)}
    assert set(TOPICS.values()) <= titles
    monkeypatch.setattr(QApplication, "activeWindow", lambda: window.others.server)
    entry(window, "Fullstop Help").trigger()
    assert window.others.help.topics.currentItem().text() == "Serve other apps"


async def test_about_and_report_have_the_projects_address_if_it_is_known(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_windows, "PROJECT_ADDRESS", "https://project.test")
    entry(window, "About Fullstop").trigger()
    (about,) = window.findChildren(AboutDialog)
    names = [one.accessibleName() for one in about.findChildren(QPushButton) if one.isVisible()]
    assert names == ["Show the MIT License", "Open https://project.test"]
    about.close()
    entry(window, "Report Problem").trigger()
    (report,) = window.findChildren(ReportDialog)
    shown = [one.text() for one in report.findChildren(QPushButton) if one.isVisible()]
    assert "Open Project Page…" in shown


async def test_a_report_has_versions_and_the_reason_and_nothing_of_the_conversation(
    window: MainWindow,
) -> None:
    entry(window, "Report Problem").trigger()
    (report,) = window.findChildren(ReportDialog)
    report.answers[0].setPlainText("I pressed Send.")
    next(one for one in report.findChildren(QPushButton) if one.text() == "Copy Report").click()
    copied = QGuiApplication.clipboard().text()
    assert copied.startswith("## What I did\n\nI pressed Send.\n\n## What I expected\n")
    assert "Fullstop" in copied
    assert "Python" in copied
    assert "Model: scripted" in copied


async def test_shortcuts_are_found_by_command_menu_and_key(window: MainWindow) -> None:
    window.others.show_shortcuts()
    (dialog,) = window.findChildren(ShortcutsDialog)

    def listed() -> set[str]:
        return {one.text() for one in dialog.findChildren(QLabel) if one.isVisible()}

    every = listed()
    assert {"File", "New Chat", "Message Field", "Quit"} <= every
    dialog.search.setText("edit last copy")
    assert listed() == {"Edit", "Copy Last Answer", "Ctrl+Shift+C"}
    dialog.search.setText("ctrl+,")
    assert "Settings" in listed()
    dialog.search.setText("none such")
    assert listed() == {"No Results for “none such”"}
    QTest.keyClick(dialog.search, Qt.Key.Key_Escape)
    assert listed() == every
    QTest.keyClick(dialog.search, Qt.Key.Key_Escape)
    assert not dialog.isVisible()


async def test_shortcuts_stand_below_each_other_in_a_narrow_window(window: MainWindow) -> None:
    window.others.show_shortcuts()
    (dialog,) = window.findChildren(ShortcutsDialog)

    def lefts() -> set[int]:
        titles = [one for one in dialog.findChildren(QLabel) if one.text() in ("File", "Message")]
        return {one.mapTo(dialog, one.rect().topLeft()).x() for one in titles}

    dialog.resize(880, 640)
    QApplication.processEvents()
    assert len(lefts()) == 2
    dialog.resize(480, 640)
    QApplication.processEvents()
    assert len(lefts()) == 1
    dialog.close()


def test_help_page_keeps_its_place_when_resized(theme: Theme, parent: QWidget) -> None:
    files = HelpFiles(page("HELP.md"), page("WINDOW.md"), page("CHANGELOG.md"))
    topic = max(topics_of(files), key=lambda topic: len(topic.text))
    shown = HelpPage("Help")
    shown.resize(500, 300)
    shown.show()
    shown.show_topic(topic, set(), [])
    bar = shown.verticalScrollBar()
    bar.setValue(bar.maximum() // 2)
    shown.resize(520, 300)
    assert abs(bar.value() / bar.maximum() - 0.5) < 0.05
    shown.close()


def test_help_page_does_not_show_a_topic_inside_another(theme: Theme, parent: QWidget) -> None:
    files = HelpFiles(page("HELP.md"), page("WINDOW.md"), page("CHANGELOG.md"))
    topics = {topic.title: topic for topic in topics_of(files)}
    shown = HelpPage("Help")
    shown.resize(590, 600)
    shown.show()
    for _ in range(3):
        for before in ("Tools", "Privacy"):  # with a scroll bar, and without
            shown.show_topic(topics[before], set(), [])
            shown.show_topic(topics["Chat"], set(), [])
            text = shown.document().begin().next()
            assert QTextCursor(text).charFormat().fontWeight() == QFont.Weight.Normal
    shown.close()
