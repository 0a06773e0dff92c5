import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QModelIndex, QPoint, QRect, Qt
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu

from engine.files.json_fields import Fields
from engine.stopping.rules import Stop, StopRules, StopScope
from tests.support.random_cases import cases
from tests.ui.driving import ScriptedEngine, eventually
from ui.kit.theme import Theme
from ui.records.codec import stops_from, stops_values
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage
from ui.records.runs import Run
from ui.records.stop_entries import StopEntry, rules_of
from ui.stops.stop_list import EMPTY_MESSAGE, StopListModel
from ui.stops.stop_list_editor import StopTable
from ui.stops.stop_rows import ENDED_ANSWER, StopColumn, history_of

DISPLAY, TOOL_TIP = Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole
CHECK, EDIT = Qt.ItemDataRole.CheckStateRole, Qt.ItemDataRole.EditRole


def sequences(model: StopListModel) -> list[str]:
    return [entry.stop.text for entry in model.entries()]


def of(*values: str) -> StopListModel:
    return StopListModel([StopEntry.of(value) for value in values])


def cell(
    model: StopListModel, row: int, column: StopColumn, role: Qt.ItemDataRole = DISPLAY
) -> Any:
    return model.data(model.index(row, column), int(role))


def test_a_sequence_as_typed_is_kept_exactly() -> None:
    model = of()
    model.set_with_escapes(False)
    for typed in ("  a ", r"\n", "a,b", "\t", '"x"'):
        assert model.add(typed)
    assert sequences(model) == ["  a ", r"\n", "a,b", "\t", '"x"']


@settings(max_examples=cases(25))
@given(st.text(min_size=1, max_size=30))
def test_editing_a_row_and_pressing_enter_changes_nothing(sequence: str) -> None:
    model = of(sequence)
    index = model.index(0, StopColumn.SEQUENCE)
    assert model.setData(index, model.data(index, int(EDIT)))
    assert sequences(model) == [sequence]
    assert not model.undo_stack.canUndo()


@pytest.mark.parametrize(
    ("typed", "said"),
    [("", EMPTY_MESSAGE), ("\\", "write \\\\ for a backslash"), ("x" * 5000, "4096 characters")],
)
def test_input_that_cannot_work_is_refused_in_words(typed: str, said: str) -> None:
    model, heard = of(), []
    model.refused.connect(heard.append)
    assert not model.add(typed)
    assert sequences(model) == []
    assert said in heard[0]


def test_every_change_can_be_undone_and_redone() -> None:
    model = of("a", "b", "c")
    model.add("d")
    model.setData(model.index(0, StopColumn.SEQUENCE), "A")
    model.set_enabled(1, False)
    model.move(2, 0)
    model.remove([3])
    after = model.entries()
    while model.undo_stack.canUndo():
        model.undo_stack.undo()
    assert model.entries() == [StopEntry.of("a"), StopEntry.of("b"), StopEntry.of("c")]
    while model.undo_stack.canRedo():
        model.undo_stack.redo()
    assert (
        model.entries() == after == [StopEntry.of("c"), StopEntry.of("A"), StopEntry.of("b", False)]
    )


@pytest.mark.parametrize(
    ("row", "gap", "order"),
    [(0, 3, "bca"), (0, 2, "bac"), (2, 0, "cab"), (1, 1, "abc"), (1, 2, "abc"), (0, -1, "bca")],
)
def test_a_dragged_row_lands_in_the_gap_where_it_was_dropped(
    row: int, gap: int, order: str
) -> None:
    model = of("a", "b", "c")
    data = model.mimeData([model.index(row, StopColumn.SEQUENCE)])
    model.dropMimeData(data, Qt.DropAction.MoveAction, gap, 0, QModelIndex())
    assert "".join(sequences(model)) == order


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        (["END", "END"], "Duplicate of row 1"),
        (["EN", "ENDING"], "Never matches: “EN” (row 1) always matches first."),
        ([" "], "White space only"),
        (["a "], "Begins or ends with a space"),
        ([r"\n"], "a backslash and a letter as two characters"),
    ],
)
def test_a_possible_problem_with_a_sequence_is_remarked_on(entries: list[str], said: str) -> None:
    assert said in cell(of(*entries), len(entries) - 1, StopColumn.REMARK, TOOL_TIP)


async def test_tokens_of_a_sequence_appear_when_a_model_is_there(scripted: ScriptedEngine) -> None:
    model = of("END")
    assert "token" not in cell(model, 0, StopColumn.SEQUENCE, TOOL_TIP)
    model.set_tokenizer(scripted.tokenize)
    await eventually(lambda: "3 tokens" in cell(model, 0, StopColumn.SEQUENCE, TOOL_TIP))
    assert "E (69)  N (78)  D (68)" in cell(model, 0, StopColumn.SEQUENCE, TOOL_TIP)
    model.add("STOP")
    await eventually(lambda: "4 tokens" in cell(model, 1, StopColumn.SEQUENCE, TOOL_TIP))
    model.set_tokenizer(None)
    await asyncio.sleep(0)
    assert "token" not in cell(model, 0, StopColumn.SEQUENCE, TOOL_TIP)


def test_where_a_sequence_counts_is_chosen_shown_kept_and_undone() -> None:
    model = of("END", "x")
    assert cell(model, 0, StopColumn.SCOPE) == ""
    model.set_scope(0, StopScope.TEXT_AND_THINKING)
    assert cell(model, 0, StopColumn.SCOPE) == "Answer and Thinking"
    assert rules_of(model.entries()) == StopRules(
        (Stop("END", StopScope.TEXT_AND_THINKING), Stop("x"))
    )
    kept = stops_from(Fields({"stops": stops_values(model.entries())}, ""))
    assert kept == model.entries()
    model.undo_stack.undo()
    assert rules_of(model.entries()) == StopRules.of("END", "x")


def test_menu_of_a_row_has_all_that_it_can_do(theme: Theme, qapp: QApplication) -> None:
    model = of("END", "x")
    table = StopTable()
    table.setModel(model)
    table.show()
    table.selectRow(1)
    event = QContextMenuEvent(QContextMenuEvent.Reason.Keyboard, QPoint(0, 0), QPoint(0, 0))
    QApplication.sendEvent(table.viewport(), event)
    menu = table.findChild(QMenu)
    assert isinstance(menu, QMenu)
    entries = {action.text(): action for action in menu.actions()}
    assert entries["Move Up"].isEnabled()
    assert not entries["Move Down"].isEnabled()
    scopes = entries["Applies To"].menu().actions()
    assert [action.isChecked() for action in scopes] == [True, False, False]
    scopes[2].trigger()
    assert [entry.scope for entry in model.entries()] == [StopScope.TEXT, StopScope.ALL]
    entries["On"].trigger()
    assert not model.entries()[1].is_enabled


def test_row_that_ended_the_shown_answer_says_so_with_its_remark_below(
    theme: Theme, qapp: QApplication
) -> None:
    model = of("END", "six ", "a\\nb")
    table = StopTable()
    table.setModel(model)
    usual = table.rowHeight(0)
    for row, (fired, shown) in enumerate((("END", ""), ("six ", ""), ("a\\nb", "backslash"))):
        model.show_fired(fired)
        table.fit_rows()
        assert cell(model, row, StopColumn.FIRED) == ENDED_ANSWER
        remarks = [remark.text for remark, _, _ in table.shown_remarks(row, 0)]
        assert shown in "".join(remarks)
        assert (table.rowHeight(row) > usual) == bool(remarks) == bool(shown)
    table.close()
    table.deleteLater()


def test_remark_is_fixed_by_a_click_in_its_row(theme: Theme, qapp: QApplication) -> None:
    model, table = of("END", "STOP "), StopTable()
    table.setModel(model)
    table.resize(300, 300)
    table.show()
    assert table.shown_remarks(1, 0) == []
    table.setCurrentIndex(model.index(1, StopColumn.SEQUENCE))
    table.fit_rows()
    row = table.visualRect(model.index(1, StopColumn.SEQUENCE))
    [(remark, _, link)] = table.shown_remarks(1, row.top())
    assert remark.fix == "Remove Space"
    whole = table.viewport().grab().toImage()
    left = QRect(0, 0, row.right() + 1, table.height())  # without the last column
    assert table.viewport().grab(left).toImage() == whole.copy(left)
    assert row.top() < link.top() < link.bottom() <= row.bottom()
    below = [
        whole.pixelColor(x, y)
        for x in range(link.right())
        for y in range(link.top(), link.bottom())
    ]
    assert len({color.rgb() for color in below}) > 3, "the link is drawn"
    QTest.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=link.center())
    assert sequences(model) == ["END", "STOP"]
    table.deleteLater()


def test_menu_at_mouse_leaves_remarks_folded(theme: Theme, qapp: QApplication) -> None:
    model, table = of("END", "STOP "), StopTable()
    table.setModel(model)
    table.resize(300, 300)
    table.show()
    at = table.visualRect(model.index(1, StopColumn.SEQUENCE)).center()
    QTest.mouseClick(table.viewport(), Qt.MouseButton.RightButton, pos=at)
    table.show_menu(model.index(1, StopColumn.SEQUENCE), table.viewport().mapToGlobal(at))
    assert table.currentIndex().row() == 1
    assert table.shown_remarks(1, 0) == []
    QTest.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=at)
    assert table.shown_remarks(1, 0)
    table.close()
    table.deleteLater()


def test_each_remark_has_its_own_fix_below_it(theme: Theme, qapp: QApplication) -> None:
    model, table = of("END", "END "), StopTable()
    table.setModel(model)
    table.resize(300, 300)
    table.setCurrentIndex(model.index(1, StopColumn.SEQUENCE))
    shown = table.shown_remarks(1, 0)
    assert [remark.fix for remark, _, _ in shown] == ["Remove", "Remove Space"]
    (_, first, remove), (_, second, _) = shown
    assert first.bottom() < remove.top() < remove.bottom() < second.top()
    table.deleteLater()


def test_history_leaves_out_answers_without_text() -> None:
    texts = ("one END", "")
    runs = [Run(text=text, state="unrecorded") for text in texts]
    messages = [ConversationMessage("assistant", run=run) for run in runs]
    assert history_of(Conversation(messages=messages)).answers == ("one END",)
