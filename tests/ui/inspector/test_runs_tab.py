"""The list of runs in the inspector: this conversation's first, then recent ones of others."""

from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from engine.values.request import TraceLevel
from tests.ui.driving import eventually
from tests.ui.inspector.inspecting import COUNT, ask, run_entry
from ui.inspector.inspector_window import InspectorWindow
from ui.inspector.run_tabs import TimingTab
from ui.window.main_window import MainWindow


def rows(inspector: InspectorWindow) -> list[list[str]]:
    model = inspector.runs.model
    return [
        [str(model.index(row, column).data()) for column in range(1, 6)]
        for row in range(model.rowCount())
    ]


def places(inspector: InspectorWindow) -> list[QPoint]:
    """Return where the head and the tabs are, once all layouts are settled."""
    QApplication.sendPostedEvents(None, int(QEvent.Type.LayoutRequest))
    return [part.mapTo(inspector, QPoint()) for part in (inspector.head, inspector.tabs.tabBar())]


async def listed(inspector: InspectorWindow, count: int) -> None:
    inspector.tabs.setCurrentWidget(inspector.runs)
    await eventually(lambda: inspector.runs.model.rowCount() == count)


async def test_runs_are_listed_and_compared_by_keyboard(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    await ask(window, COUNT, "6")
    first = window.workspace.current.conversation
    window.workspace.new_conversation()
    await ask(window, COUNT)
    await listed(inspector, 2)
    assert inspector.runs.table.selected_rows() == [0]  # the shown run
    own, other = rows(inspector)
    assert own[:2] == ["This conversation", COUNT]
    assert other[:2] == [first.title, COUNT]
    assert "Stopped" in other[4]
    table = inspector.runs.table
    table.selectRow(1)
    inspector.runs.refresh()
    await inspector.runs.finish()
    assert table.selected_rows() == [1]
    QTest.keyClick(table, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    await eventually(lambda: inspector.tabs.currentWidget() is inspector.compare)
    assert inspector.compare.choice.currentText().endswith(f"in “{first.title}”")
    assert inspector.compare.sentence.text().startswith("Both are identical for")
    await listed(inspector, 2)
    table.selectRow(1)
    entries = {action.text(): action for action in table.actions()}
    entries["Copy Report"].trigger()
    assert "“6”" in QGuiApplication.clipboard().text()
    assert entries["Compare with Shown Run"].isEnabled()
    QTest.keyClick(table, Qt.Key.Key_Return)
    shown = inspector.inspector.shown
    assert shown is not None
    assert shown.run is first.messages[-1].run
    assert inspector.head.source.text() == f"From another conversation: {first.title}"
    assert inspector.tokens.model.rowCount() > 0
    inspector.bar.back.click()
    assert inspector.inspector.shown is not shown
    assert not inspector.bar.back.isVisible()
    await listed(inspector, 2)
    table.selectRow(1)
    entries["Inspect"].trigger()
    assert inspector.inspector.shown is not None
    assert inspector.inspector.shown.run is first.messages[-1].run


async def test_a_tab_without_data_offers_to_answer_again_with_everything_recorded(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    inspector.inspector.traces.record(TraceLevel.OFF)
    await ask(window, COUNT, "6")
    inspector.tabs.setCurrentWidget(inspector.tab(TimingTab))
    assert not inspector.again.isVisible()
    before = places(inspector)
    inspector.tabs.setCurrentWidget(inspector.ending)
    assert inspector.ending.empty.isVisible()
    assert not inspector.again.isVisible(), "the empty tab itself offers it"
    inspector.tabs.setCurrentWidget(inspector.tokens)
    assert inspector.again.isVisible()
    assert places(inspector) == before
    assert inspector.lacking.text() == "The tokens of this run were not recorded."
    await eventually(inspector.again.isEnabled)
    inspector.tabs.setCurrentWidget(inspector.ending)
    inspector.ending.again.click()
    await eventually(lambda: not window.workspace.current.is_running)
    await eventually(lambda: "probability" in inspector.ending.empty.detail.text())
    assert not inspector.again.isVisible()
    assert run_entry(inspector, "Everything").isChecked()
    assert len(window.workspace.current.conversation.tree) == 3
