"""Stop lists as files and on the clipboard, remarks with their fixes, counts, applying at once."""

import json
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from engine.engine import Engine
from engine.stopping.rules import StopScope
from tests.support.kept import model_library, saved_stop_lists
from tests.support.memory_store import MemoryConversationStore
from tests.support.outside.tool_hosts import no_tools
from tests.ui.driving import eventually
from tests.ui.stops.test_stop_list import of, sequences
from ui.chat.session.workspace import Workspace
from ui.kit.buttons import UndoBar
from ui.records.stop_entries import StopEntry
from ui.records.stop_files import stops_from_file, stops_to_file
from ui.stops.stop_list import StopListModel
from ui.stops.stop_list_editor import StopListEditor
from ui.stops.stop_list_menu import StopListMenu
from ui.stops.stop_rows import StopColumn, StopHistory

ODD = ["\n\nUser:", " a ", "a,b", "\\n", "é", "👍", '"']


def choose(menu: StopListMenu, words: str) -> None:
    next(entry for entry in menu.actions() if entry.text() == words).trigger()


@pytest.fixture
def menu(qtbot: QtBot) -> StopListMenu:
    holder = QWidget()
    qtbot.addWidget(holder)
    made = StopListMenu(holder, saved_stop_lists(), UndoBar())
    made.show_model(of())
    return made


def test_the_clipboards_list_is_added_as_one_change(menu: StopListMenu) -> None:
    model = of("END")
    menu.show_model(model)
    QApplication.clipboard().setText(json.dumps(["END", *ODD]))
    choose(menu, "Paste List")
    assert sequences(model) == ["END", *ODD]
    model.undo_stack.undo()
    assert sequences(model) == ["END"]


def test_copied_list_keeps_scopes_and_disabled_rows(menu: StopListMenu) -> None:
    entries = [
        StopEntry.of("END"),
        StopEntry.of("tool").within(StopScope.ALL),
        StopEntry.of("off", is_enabled=False),
    ]
    menu.show_model(StopListModel(entries))
    choose(menu, "Copy List")
    model = of()
    menu.show_model(model)
    choose(menu, "Paste List")
    assert model.entries() == entries


async def test_files_are_written_and_read_and_errors_reported(
    menu: StopListMenu, tmp_path: Path
) -> None:
    menu.show_model(of(*ODD))
    menu.export_to(tmp_path / "stops.json")
    await menu.finish()
    model, heard = of(), []
    menu.show_model(model)
    menu.refused.connect(heard.append)
    menu.import_from(tmp_path / "stops.json")
    await menu.finish()
    assert sequences(model) == ODD
    (tmp_path / "picture").write_bytes(b"\x89PNG\xff\xfe")
    (tmp_path / "large").write_bytes(b" " * 2_000_000)
    for name in ("picture", "missing", "large"):
        menu.import_from(tmp_path / name)
        await menu.finish()
    menu.export_to(tmp_path / "no" / "folder.json")
    await menu.finish()
    (tmp_path / "bad.json").write_text("[1]")
    menu.import_from(tmp_path / "bad.json")
    await menu.finish()
    assert heard.pop().startswith("bad.json: Entry 1 of the list is not a string")
    assert heard == [
        "“picture” is not UTF-8 text.",
        "“missing” could not be read: there is no such file or folder.",
        "“large” is too large: such a file has at most 1 MB.",
        "“folder.json” could not be written: there is no such file or folder.",
    ]


@pytest.mark.parametrize(
    ("entries", "after"),
    [
        (["END", "END"], ["END"]),
        ([" a"], ["a"]),
        ([r"\nUser"], ["\nUser"]),
    ],
)
def test_a_remark_can_be_fixed_with_one_button(entries: list[str], after: list[str]) -> None:
    model = of(*entries)
    model.fix(len(entries) - 1)
    assert sequences(model) == after
    model.undo_stack.undo()
    assert sequences(model) == entries


def test_of_two_equal_sequences_the_fix_removes_the_one_with_the_remark() -> None:
    model = StopListModel([StopEntry.of("END").within(StopScope.ALL), StopEntry.of("END")])
    model.fix(1)
    assert [entry.scope for entry in model.entries()] == [StopScope.ALL]


def test_the_conversation_is_looked_at_for_remarks_and_counts() -> None:
    history = StopHistory("say END", ("one END two", "EN", "nothing"), ("END", "END"))
    model = of("END")
    model.set_history(history)
    said = "\n".join(remark.text for remark in model.remarks_on(0))
    assert "Occurs in your own text" in said
    assert "Would have ended 1 of the last 3 answers." in said
    fired = model.index(0, StopColumn.FIRED)
    assert fired.data() == "2×"
    sequence = model.index(0, StopColumn.SEQUENCE)
    assert "1 near miss in the last 3 answers" in str(model.data(sequence, 3))


async def test_a_running_answer_goes_on_with_the_list_as_it_is_now(
    engine: Engine, demo_model_path: Path, qapp: QApplication
) -> None:
    library = model_library(engine)
    workspace = Workspace(engine, library, MemoryConversationStore(), no_tools())
    workspace.models.load(demo_model_path)
    await eventually(lambda: workspace.models.stage == "ready")
    workspace.send("Count from 1 to 100, one number per line")
    session = workspace.current
    await eventually(lambda: session.run is not None and "4" in session.run.text)
    first = session.run
    workspace.current.stops.add_sequence("30")
    workspace.current.apply_stops()
    await eventually(lambda: session.run is not None and session.run is not first)
    await eventually(lambda: not session.is_running)
    answer = workspace.current.conversation.messages[-1]
    assert answer.run is not None
    assert answer.run.stops == ("30",)
    assert answer.run is workspace.current.shown_run
    assert first is not None
    assert answer.text.startswith(first.text)
    await workspace.finish()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.json", "END\nSTOP", "Paste as Lines"),
        ("a.json", '{"stop": []}', "a JSON list of strings"),
        ("a.json", '["a", 1]', "Entry 2 of the list is not a string"),
        (
            "a.json",
            '[{"sequence": "x", "scope": "here"}]',
            "Entry 1 of the list: “scope” must be one of",
        ),
        ("a.json", '["x", {"scope": "all"}]', "Entry 2 of the list is not a string"),
        ("a.json", '["x", ""]', "Entry 2 of the list is empty; remove it"),
        ("a.json", json.dumps(["y", "x" * 4_097]), "Entry 2 of the list: .* 4097. Shorten"),
        (
            "a.txt",
            "\n".join(map(str, range(70))),
            "at most 64 sequences, this one has 70. Remove 6",
        ),
    ],
)
def test_stop_file_error_names_row_and_remedy(name: str, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        stops_from_file(name, text)


def test_plain_lines_refuse_rows_that_would_lose_something() -> None:
    plain, scoped = StopEntry.of(" END "), StopEntry.of("x").within(StopScope.ALL)
    assert stops_from_file("a.txt", stops_to_file("a.txt", [plain])) == [plain]
    for lost in (scoped, StopEntry.of("x", is_enabled=False), StopEntry.of("a\nb")):
        with pytest.raises(ValueError, match=r"Row 2 .* Export the list as a \.json file"):
            stops_to_file("a.txt", [plain, lost])
        assert stops_from_file("a.json", stops_to_file("a.json", [plain, lost])) == [plain, lost]


def test_problem_of_a_list_is_shown_until_the_list_changes(qtbot: QtBot) -> None:
    editor, model = StopListEditor(saved_stop_lists()), of()
    qtbot.addWidget(editor)
    editor.show_model(model)
    QApplication.clipboard().setText("[1]")
    choose(editor.menu, "Paste List")
    assert editor.message.text().startswith("Entry 1 of the list is not a string")
    assert not editor.message.isHidden()
    model.add_sequence("END")
    assert editor.message.isHidden()
