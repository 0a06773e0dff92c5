"""What a screen reader says in every window: each control is named once, in plain words."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible, QAccessibleInterface
from PySide6.QtWidgets import QDialog, QTabWidget, QWidget

from engine import quoted
from engine.scheduling.service import Engine
from engine.values.request import TraceLevel
from tests.support.outside import exports
from tests.support.outside.tool_hosts import SUMS, DictatedHost
from tests.support.shown import main_window, whole_window
from tests.ui.driving import Enter, Living, eventually, opened
from ui.chat.columns.conversation_menu import ImportDialog
from ui.chat.columns.import_reports import ImportReportDialog
from ui.chat.messages.answer_view import AnswerView
from ui.chat.storage.conversation_imports import ImportPreview
from ui.kit.theme import Theme
from ui.preferences.preferences_dialog import PreferencesDialog
from ui.records.tools import NamedValue, QuestionField, ServerQuestion, ToolServerConfig
from ui.stops.stop_rows import StopColumn
from ui.tools.question_form import QuestionForm
from ui.tools.server_dialogs import PasteDialog, ServerForm
from ui.window.main_window import MainWindow
from ui.window.other_windows import ShortcutsDialog

ROLES = QAccessible.Role
# What a person acts on. Texts, groups and rows of lists are read by their content.
CONTROLS = frozenset({
    ROLES.Button, ROLES.CheckBox, ROLES.RadioButton, ROLES.ComboBox, ROLES.EditableText,
    ROLES.SpinBox, ROLES.Slider, ROLES.List, ROLES.Table, ROLES.Tree, ROLES.Link, ROLES.PageTab,
    ROLES.ButtonMenu, ROLES.MenuItem, ROLES.ProgressBar,
})  # fmt: skip
SHORTCUT = re.compile(r"\b(Ctrl|Shift|Alt|Meta|Esc|Enter|Return|F\d{1,2})\b[+)]|\((Esc|Enter|Del)")
HTML = re.compile(r"</?(?:b|i|p|br|a|span|div|html|body|table|tr|td|h[1-6]|style)\b[^>]*>", re.I)

CAPTURE = json.dumps({
    "id": "c", "object": "chat.completion", "created": 0, "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "1"},
                 "finish_reason": "stop"}],
})  # fmt: skip


@pytest.fixture
def window(enter: Enter, engine: Engine, theme: Theme) -> Living[MainWindow]:
    def make() -> MainWindow:
        window = whole_window(engine, theme)
        window.workspace.traces.level = TraceLevel.FULL
        window.stop_panel.show()
        window.resize(1400, 950)
        return window

    return enter(lambda: opened(make(), quits=True, is_ready=True))


def inside(top: QWidget) -> Iterator[QAccessibleInterface]:
    """Yield all that a screen reader finds in a window, as it is shown now."""
    root = QAccessible.queryAccessibleInterface(top)
    assert root is not None
    waiting = [root]
    while waiting:
        one = waiting.pop()
        state = one.state()
        if state.invisible and one is not root:
            continue
        yield one
        if one.role() in (ROLES.List, ROLES.Table, ROLES.Tree):
            continue  # rows are content, and there may be many
        waiting += [child for n in range(one.childCount()) if (child := one.child(n)) is not None]


def name_of(one: QAccessibleInterface) -> str:
    return one.text(QAccessible.Text.Name)


def faults(top: QWidget) -> list[str]:
    """Name what is wrong with the names of a window's controls."""
    found = []
    named: Counter[tuple[str, str]] = Counter()
    for one in inside(top):
        name, role = name_of(one), one.role()
        widget = one.object()
        where = type(widget).__name__ if widget is not None else str(role)
        if SHORTCUT.search(name):
            found.append(f"{where} has a shortcut in its name: {name}")
        if HTML.search(name):
            found.append(f"{where} has HTML in its name: {name}")
        is_inner = widget is not None and widget.objectName().startswith("qt_")
        if role in CONTROLS and not is_inner:
            if not name.strip():
                found.append(f"{where} has no name ({role.name})")
            else:
                named[(role.name, name)] += 1
    assert named, "the walk finds the controls"
    return found + [f"{count} times {key}" for key, count in named.items() if count > 1]


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0.02)


async def answered(window: MainWindow) -> None:
    window.workspace.current.stops.ensure("6")
    window.workspace.send("Count from 1 to 10, one number per line")
    await eventually(lambda: not window.workspace.current.session.is_running)
    await settled()


async def test_each_control_of_the_main_window_is_named_once(window: MainWindow) -> None:
    assert faults(window) == []
    await answered(window)
    assert faults(window) == []


@pytest.mark.parametrize("name", ["models", "server", "inspector", "capture", "probe"])
async def test_each_control_of_every_other_window_is_named_once(
    window: MainWindow, name: str
) -> None:
    await answered(window)
    getattr(window.others, f"show_{name}")()
    other = getattr(window.others, name)
    await settled()
    tabs = getattr(other, "tabs", None)
    wrong: list[str] = []
    for index in range(tabs.count() if isinstance(tabs, QTabWidget) else 1):
        if isinstance(tabs, QTabWidget):
            tabs.setCurrentIndex(index)
        await settled()
        wrong += faults(other)
    assert wrong == []


async def test_each_control_of_the_settings_is_named_once(window: MainWindow) -> None:
    preferences = PreferencesDialog(window.preferences, window)
    preferences.show()
    for index in range(preferences.tabs.count()):
        preferences.tabs.setCurrentIndex(index)
        assert faults(preferences) == []
    preferences.close()
    keys = ShortcutsDialog(window.menuBar(), window)
    keys.show()
    assert [one for one in faults(keys) if "shortcut" not in one] == []
    keys.close()


async def test_each_control_of_a_conversations_settings_is_named_once(window: MainWindow) -> None:
    window.chat.show_settings()
    card = window.chat.settings
    card._more.setChecked(True)
    await settled()
    assert faults(card) == []
    card.hide()


@pytest.fixture
def tools_window(enter: Enter, engine: Engine, theme: Theme) -> Living[MainWindow]:
    """A window with a tool server that runs."""
    host = DictatedHost(SUMS)
    return enter(
        lambda: opened(main_window(engine, theme, tool_host=host), quits=True, is_ready=True)
    )


async def test_each_control_of_the_tool_servers_and_their_dialogs_is_named_once(
    tools_window: MainWindow,
) -> None:
    async def nothing(*_: object) -> None:
        """Never asked to."""

    tools_window.others.show_tool_servers()
    servers = tools_window.others.tool_servers
    assert servers is not None
    await settled()
    assert faults(servers) == []
    values = (NamedValue("LEVEL", "2"), NamedValue("TOKEN", "", is_secret=True), NamedValue(""))
    program = ToolServerConfig("files", "npx", ("-y", "x"), values, "/tmp")
    address = ToolServerConfig("web", url="https://e.org", headers=values)
    dialogs: list[QDialog] = [
        PasteDialog(servers, nothing),
        ServerForm(servers, None, nothing),
        ServerForm(servers, program, nothing),
        ServerForm(servers, address, nothing),
    ]
    for dialog in dialogs:
        dialog.open()
        await settled()
        assert faults(dialog) == []
        dialog.reject()


async def test_each_control_of_a_servers_question_is_named_once(window: MainWindow) -> None:
    choices = (("x", "X!"), ("y", "Y!"))
    fields = (
        QuestionField("n", "Number", "", "whole", least=1, most=9),
        QuestionField("t", "Day", form="date"),
        QuestionField("c", "Choice", "", "choice", choices=choices),
        QuestionField("m", "Choices", "", "choices", choices=choices),
        QuestionField("y", "Yes", "", "yes"),
    )
    for question in (
        ServerQuestion("files", "Which one?", fields),
        ServerQuestion("files", "Please sign in", url="https://e.org"),
    ):
        form = QuestionForm(question)
        form.show()
        await settled()
        assert faults(form) == []
        form.close()


async def test_each_control_of_two_answers_side_by_side_is_named_once(window: MainWindow) -> None:
    window.chat.composer.set_text("Count from 1 to 10, one number per line")
    window.twice.ask()
    sheet = window.twice.sheet
    assert sheet is not None
    await settled()
    assert faults(sheet) == []
    sheet.forms[0].stops.setPlainText("6")
    sheet.buttons.accepted.emit()
    await eventually(lambda: bool(window.chat.sides.columns))
    await eventually(lambda: not window.workspace.current.is_running)
    await settled()
    assert faults(window) == []


async def test_each_control_of_an_import_and_its_report_is_named_once(
    window: MainWindow, tmp_path: Path
) -> None:
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([exports.chatgpt()]))
    previews: list[ImportPreview] = []
    window.workspace.files.imports.looked.connect(previews.append)
    window.workspace.files.imports.look_into(path)
    await eventually(lambda: bool(previews))
    await settled()
    (dialog,) = window.findChildren(ImportDialog)
    assert faults(dialog) == []
    dialog.reject()
    window.workspace.files.import_from(path)
    await window.workspace.files.finish()
    report = window.workspace.files.transfers.report
    assert report is not None
    reports = ImportReportDialog([report, replace(report, id="2")], str, window)
    reports.show()
    await settled()
    assert faults(reports) == []
    reports.close()
    # Each answer is a group with a name of its own; what is in it is named once there.
    for answer in window.findChildren(AnswerView):
        assert faults(answer) == []


async def test_each_control_of_a_capture_that_was_read_is_named_once(window: MainWindow) -> None:
    window.others.show_capture()
    capture = window.others.capture
    assert capture is not None
    capture.source.set_capture(CAPTURE)
    await eventually(lambda: capture.view is not None)
    await settled()
    assert faults(capture) == []


async def test_each_cell_of_a_stop_says_its_own_content(window: MainWindow) -> None:
    await answered(window)
    stops = window.workspace.current.stops
    await eventually(lambda: stops.index(0, StopColumn.TOKENS).data().isdecimal())
    said = [
        stops.index(0, column).data(Qt.ItemDataRole.AccessibleTextRole) for column in StopColumn
    ]
    assert said[:-1] == [
        "On",
        f"Stop sequence {quoted('6')}",
        "In the Answer",
        "1 token",
        "Fired 1 time",
    ]
    assert len(set(said)) == len(said)
