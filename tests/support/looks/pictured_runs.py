"""The states of kept runs for the tour: their list, a comparison, a run that was not recorded."""

from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QMenu, QWidget

from app.agents.commands import CopiedLines
from engine.values.request import TraceLevel
from tests.support.looks.pictured_chat import Show, Until
from tests.support.outside.tool_hosts import SUMS_ON
from ui.kit.commands import fill_menu
from ui.records.stop_entries import StopEntry
from ui.server.agent_menu import AgentMenu
from ui.window.main_window import MainWindow

COUNT = "Count from 1 to 10, one number per line"


class LastingRuns:
    """Walks a window with a loaded model through the states of its runs."""

    def __init__(self, window: MainWindow, show: Show, until: Until) -> None:
        self._window = window
        self._show = show
        self._until = until

    async def walk(self) -> None:
        window = self._window
        for stop in ("6", "8", ""):
            await self._ask(COUNT, stop)
        window.others.show_inspector()
        inspector = window.others.inspector
        inspector.tabs.setCurrentWidget(inspector.runs)
        table = inspector.runs.table
        await self._until(lambda: inspector.runs.model.rowCount() >= 3)
        table.selectRow(1)
        await self._show("runs", inspector)
        inspector.runs.compare.click()
        await self._until(lambda: inspector.tabs.currentWidget() is inspector.compare)
        await self._until(lambda: bool(inspector.compare.sentence.text()))
        await self._show("runs-compared", inspector)
        inspector.compare.choice.showPopup()
        await self._show("runs-choice", _list_of(inspector.compare.choice))
        inspector.compare.choice.hidePopup()
        inspector.inspector.traces.record(TraceLevel.OFF)
        await self._ask(COUNT, "6")
        inspector.tabs.setCurrentWidget(inspector.tokens)
        await self._until(inspector.again.isVisible)
        await self._show("not-recorded", inspector)
        inspector.inspector.traces.record(TraceLevel.FULL)
        inspector.close()
        await self._menus()
        await self._sides()

    async def _menus(self) -> None:
        window = self._window
        menu = QMenu("Copy Setup Command", window)
        model = window.workspace.models
        agents = AgentMenu(window.local_server, CopiedLines(), lambda: model.status().info, window)
        fill_menu(menu, agents.entries())
        menu.popup(window.mapToGlobal(QPoint(300, 120)))
        await self._show("copy-lines", menu)
        menu.close()
        menu.deleteLater()

    async def _sides(self) -> None:
        window = self._window
        window.workspace.change_tools(SUMS_ON)
        window.comparing.ask()
        dialog = window.comparing.dialog
        assert dialog is not None
        await self._show("side-by-side-sheet", dialog)
        dialog.reject()

    async def _ask(self, question: str, stop: str) -> None:
        workspace = self._window.workspace
        workspace.new_conversation()
        workspace.current.stops.replace_all([StopEntry.of(stop)] if stop else [], "set")
        workspace.send(question)
        await self._until(lambda: not workspace.current.is_running)


def _list_of(choice: QWidget) -> QWidget:
    """Return the window in which a choice shows its list."""
    windows = (one for one in choice.findChildren(QWidget) if one.isWindow() and one.isVisible())
    return next(windows, choice)
