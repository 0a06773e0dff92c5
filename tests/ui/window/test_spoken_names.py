"""What a screen reader says in every window: each control is named once, in plain words."""

import json
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog

from engine import quoted
from engine.engine import Engine
from engine.values.request import TraceLevel
from tests.support.outside import exports
from tests.support.outside.tool_hosts import SUMS, DictatedHost
from tests.support.shown import main_window, whole_window
from tests.ui.driving import Enter, Living, eventually, opened
from tests.ui.walks import answered, faults, settled
from ui.chat.import_dialog import ImportDialog
from ui.chat.messages.answer_view import AnswerView
from ui.chat.session.conversation_imports import ImportPreview
from ui.kit.theme import Theme
from ui.records.tool_servers import NamedValue, QuestionField, ServerQuestion, ToolServerConfig
from ui.stops.stop_rows import StopColumn
from ui.tools.question_form import QuestionForm
from ui.tools.servers_window import PasteDialog, ServerForm
from ui.window.main_window import MainWindow

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


async def test_each_control_of_the_main_window_is_named_once(window: MainWindow) -> None:
    assert faults(window) == []
    await answered(window)
    assert faults(window) == []


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
        QuestionField("n", "Number", "", "integer", minimum=1, maximum=9),
        QuestionField("t", "Day", format="date"),
        QuestionField("c", "Choice", "", "choice", choices=choices),
        QuestionField("m", "Choices", "", "choices", choices=choices),
        QuestionField("y", "Yes", "", "boolean"),
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
    window.comparing.ask()
    dialog = window.comparing.dialog
    assert dialog is not None
    await settled()
    assert faults(dialog) == []
    dialog.form.stops.setPlainText("6")
    dialog.buttons.accepted.emit()
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
        "Answer",
        "1 token",
        "Fired 1 time",
    ]
    assert len(set(said)) == len(said)
