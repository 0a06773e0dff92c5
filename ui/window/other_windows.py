"""The windows beside the main one, made when first shown, and the Help pages. Main thread."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QAction, QKeySequence, QResizeEvent
from PySide6.QtWidgets import (
    QApplication,
    QBoxLayout,
    QMainWindow,
    QMenu,
    QMenuBar,
    QWidget,
)

from engine.stopping.rules import StopRules
from engine.values.request import GenerationRequest
from ui.inspector.inspector import Inspector
from ui.inspector.shown_run import InspectorTools, ShownRun
from ui.kit.fields import ListSearchField
from ui.kit.labels import label, show_text
from ui.kit.layouts import STRETCH, Item, column, row, scrolling
from ui.kit.tasks import cancel_tasks, start_task
from ui.kit.windows import OwnDialog, OwnWindow, bring_forward, fit_to_screen
from ui.models.model_library import ModelLibrary
from ui.preferences import SERVER
from ui.preferences_state import PreferencesState
from ui.records.requests import request_for
from ui.records.runs import Run
from ui.server.agent_menu import AgentMenu
from ui.server.local_server import LocalServerState
from ui.server.requests import RequestEntry
from ui.server.server_window import ServerWindow
from ui.tools.toolbox import Toolbox
from ui.window.help_window import CHANGES, LICENSE, TOPICS, AboutDialog, HelpFiles, HelpWindow
from ui.window.preferences_dialog import KeptFiles, PreferencesDialog
from ui.window.problem_report import ReportDialog, program_version, report_details
from ui.window.updates import Release, UpdateDialog, UpdateFailed, Updates

if TYPE_CHECKING:
    from ui.inspector.capture_window import CaptureWindow
    from ui.inspector.ends_window import EndsWindow
    from ui.inspector.inspector_window import InspectorWindow
    from ui.inspector.probe_window import ProbeWindow
    from ui.models.models_window import ModelsWindow
    from ui.models.template_window import TemplateWindow
    from ui.tools.servers_window import ToolServersWindow

PROJECT_ADDRESS = ""
"""Where the project is published; About shows it, and problems are reported there."""


_NUMBERED = "Go to Conversation"
_OR = "  or  "  # between two shortcuts of a command
_FIELD_KEYS = [
    ("Send", "Return"),
    ("New Line", "Shift+Return"),
    ("Stop Generating", "Esc"),
    ("Earlier Prompt", "↑"),
    ("Use Preset", "/"),
]
"""What keys do in the message field, beside the menus' shortcuts."""


class ShortcutsDialog(OwnDialog):
    """Lists each menu with its actions that have a shortcut, and finds them by name or key."""

    def __init__(self, menus: QMenuBar, parent: QWidget) -> None:
        super().__init__("Keyboard Shortcuts", parent)
        self.search = ListSearchField("Search shortcuts", "Clear Search")
        self.search.setPlaceholderText("Search by command or key")
        self._groups: list[tuple[QWidget, list[tuple[QWidget, str]]]] = []
        self._empty = label("", "title", 1.08)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._empty.hide()
        holder = QWidget()
        groups = [(title, _rows_of(title, actions)) for title, actions in shortcuts_of(menus)]
        groups.insert(5, ("Message Field", _FIELD_KEYS))
        half, before = sum(len(rows) + 2 for _, rows in groups) / 2, 0
        sides: tuple[list[Item], list[Item]] = ([], [])
        for title, rows in groups:
            sides[before >= half - len(rows) / 2].append(self._group(title, rows))
            before += len(rows) + 2
        self._columns = [QWidget(), QWidget()]
        for side, items in zip(self._columns, sides, strict=True):
            column(*items, STRETCH, spacing=24, on=side)
        self._sides = row(
            *((side, 1) for side in self._columns),
            spacing=48,
            margins=(24, 8, 12, 24),
            on=holder,
        )
        self._sides.addStretch()  # takes room only beside columns of their greatest width
        self._area = scrolling(holder, "Keyboard shortcuts", goes_sideways=False)
        top = row(self.search, margins=(24, 16, 24, 8))
        column(top, (self._empty, 1), (self._area, 1), spacing=0, on=self)
        self.search.textChanged.connect(self._find)
        self.search.step_requested.connect(self._scroll)
        self.search.left.connect(self._leave)
        fit_to_screen(self, 880, 640)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the menus below each other where two columns have no room."""
        super().resizeEvent(event)
        is_wide = event.size().width() >= 680
        directions = QBoxLayout.Direction
        self._sides.setDirection(directions.LeftToRight if is_wide else directions.TopToBottom)
        self._sides.setSpacing(48 if is_wide else 24)
        for side in self._columns:  # keys beside their command also where the other side is hidden
            side.setMaximumWidth(
                (event.size().width() - 96) // 2 if is_wide else event.size().width()
            )

    def _group(self, title: str, rows: list[tuple[str, str]]) -> QWidget:
        """Return a menu's title above its commands and their shortcuts."""
        group = QWidget()
        lines: list[tuple[QWidget, str]] = []
        for text, written in rows:
            line, caps = QWidget(), []
            for number, keys in enumerate(written.split(_OR)):
                caps += [label("or", "faint", 0.92)] if number else []
                caps.append(label(keys, "chip", 0.92))
                caps[-1].setAccessibleName(f"{text}: {keys}")
            middle = Qt.AlignmentFlag.AlignVCenter
            row(label(text), STRETCH, *((cap, 0, middle) for cap in caps), spacing=8, on=line)
            line.setMinimumHeight(28)
            lines.append((line, f"{title} {text} {written}".casefold()))
        heading = label(title, "title")
        column(heading, 4, *(line for line, _ in lines), spacing=0, on=group)
        self._groups.append((group, lines))
        return group

    def _find(self, typed: str) -> None:
        """Show only the shortcuts that have all words in their menu, command or keys."""
        words, has_any = typed.casefold().split(), False
        for group, lines in self._groups:
            found = [all(word in text for word in words) for _, text in lines]
            for (line, _), is_found in zip(lines, found, strict=True):
                line.setVisible(is_found)
            group.setVisible(any(found))
            has_any |= any(found)
        for side in self._columns:
            groups = [group for group, _ in self._groups if group.parent() is side]
            side.setVisible(any(not group.isHidden() for group in groups))
        show_text(self._empty, "" if has_any else f"No Results for “{typed.strip()}”")
        self._area.setVisible(has_any)
        self._scroll(-(10**6))

    def _scroll(self, rows: int) -> None:
        bar = self._area.verticalScrollBar()
        bar.setValue(bar.value() + rows * 28)

    def _leave(self) -> None:
        """Clear the search; close the window if there is none."""
        if self.search.text():
            self.search.clear()
        else:
            self.close()


def _rows_of(title: str, actions: list[QAction]) -> list[tuple[str, str]]:
    """Return each command with its keys; the numbered ones of a submenu are one row."""
    rows: list[tuple[str, str]] = []
    for action in actions:
        text, menu = plain(action.text()), action.parent()
        path = plain(menu.title()) if isinstance(menu, QMenu) else title
        if path == _NUMBERED:
            first = rows.pop()[1] if rows[-1][0] == path else keys_of(action)
            rows.append((path, f"{first.partition(' to ')[0]} to {keys_of(action)}"))
        elif path == title or text.startswith(path):
            rows.append((text, keys_of(action)))
        else:
            rows.append((f"{path} ▸ {text}", keys_of(action)))
    return rows


def shortcuts_of(bar: QMenuBar) -> Iterator[tuple[str, list[QAction]]]:
    """Yield each menu's title with its actions that have a shortcut, submenus included."""
    for action in bar.actions():
        menu = action.menu()
        if isinstance(menu, QMenu):
            actions = list(_with_shortcut(menu))
            if actions:
                yield plain(action.text()), actions


def _with_shortcut(menu: QMenu) -> Iterator[QAction]:
    for action in menu.actions():
        inner = action.menu()
        if isinstance(inner, QMenu):
            yield from _with_shortcut(inner)
        elif action.shortcuts():
            yield action


def keys_of(action: QAction) -> str:
    """Return an action's shortcuts as this system writes them."""
    form = QKeySequence.SequenceFormat.NativeText
    return _OR.join(sequence.toString(form) for sequence in action.shortcuts())


def plain(text: str) -> str:
    """Return a menu's words without the access key's ampersand and without an ellipsis."""
    return text.replace("&", "").removesuffix("…")


class OtherWindows(QObject):
    """Shows the windows and dialogs of the program that are not the main window."""

    chat_requested = Signal()
    model_ready = Signal()
    writing_requested = Signal()

    def __init__(
        self,
        main: QMainWindow,
        preferences: PreferencesState,
        inspector: Inspector,
        models: ModelLibrary,
        local_server: LocalServerState,
        setups: AgentMenu,
        toolbox: Toolbox,
        *,
        make_tools: Callable[[], InspectorTools],
        kept: tuple[KeptFiles | None, KeptFiles | None],
        help_files: HelpFiles,
        updates: Updates,
    ) -> None:
        super().__init__(main)
        self.help_files, self.updates = help_files, updates
        self._main = main
        self._make_tools = make_tools
        self._preferences, self._inspected, self._models = preferences, inspector, models
        self._local_server, self._setups, self._toolbox = local_server, setups, toolbox
        self._kept = kept

    @cached_property
    def tools(self) -> InspectorTools:
        """The API's part of the inspector, made on first use."""
        return self._make_tools()

    # The modules of these windows are imported when they are first shown: the main window must
    # not wait for windows that few users open at the start.

    @cached_property
    def inspector(self) -> InspectorWindow:
        from ui.inspector.inspector_window import InspectorWindow

        window = InspectorWindow(self._inspected, self.tools, self._main)
        window.several_requested.connect(self._answer_several)
        window.writing_requested.connect(self.writing_requested)
        return window

    @cached_property
    def ends(self) -> EndsWindow:
        from ui.inspector.ends_window import EndsWindow

        window = EndsWindow(self._inspected, self._main)
        window.run_requested.connect(self._inspect)
        return window

    @cached_property
    def capture(self) -> CaptureWindow:
        from ui.inspector.capture_window import CaptureWindow

        return CaptureWindow(self._main)

    @cached_property
    def probe(self) -> ProbeWindow:
        from ui.inspector.probe_window import ProbeWindow

        return ProbeWindow(self.tools, self._main)

    @cached_property
    def models(self) -> ModelsWindow:
        from ui.models.models_window import ModelsWindow

        window = ModelsWindow(self._models, self._main)
        window.chat_requested.connect(self.chat_requested)
        window.model_ready.connect(self.model_ready)
        window.template_requested.connect(lambda model: self.template.show_model(model.found))
        chosen = self._inspected.workspace.model_selection
        chosen.changed.connect(lambda: window.entries.mark_chat(chosen.state.folder))
        window.entries.mark_chat(chosen.state.folder)
        return window

    @cached_property
    def template(self) -> TemplateWindow:
        from ui.models.template_window import TemplateWindow

        return TemplateWindow(self._models, self._open_request, self._main)

    @cached_property
    def server(self) -> ServerWindow:
        window = ServerWindow(self._local_server, self._setups, self._main)
        self._inspected.workspace.model_selection.changed.connect(window.show_model)
        window.detail.inspector_requested.connect(self._inspect_request)
        window.settings_requested.connect(lambda: self.show_preferences(SERVER))
        return window

    @cached_property
    def help(self) -> HelpWindow:
        return HelpWindow(self.help_files, self._main)

    @cached_property
    def tool_servers(self) -> ToolServersWindow:
        from ui.tools.servers_window import ToolServersWindow

        return ToolServersWindow(self._toolbox, self._main)

    def _open_request(self) -> GenerationRequest | None:
        """Return the open conversation as the next answer would read it; None for an empty one."""
        conversation = self._inspected.workspace.current.conversation
        if not conversation.messages:
            return None
        facts = self._toolbox.facts_for(conversation)
        request = request_for(conversation, None, conversation.messages[-1], facts=facts)
        tools = self._toolbox.offered_to(conversation)
        thinking = conversation.settings.is_thinking
        return replace(request, tools=tools, thinking=thinking, continues_last=False)

    def show_inspector(self) -> None:
        bring_forward(self.inspector)

    def inspect_answer(self) -> None:
        """Inspect the shown answer of the open conversation."""
        self._inspected.show_open_conversation()
        self.show_inspector()

    def inspect_run(self, run: Run) -> None:
        """Inspect an answer of the open conversation."""
        self._inspected.workspace.show_run(run)
        self.inspect_answer()

    def answer_several(self, run: Run) -> None:
        """Offer to answer the question of a run of the open conversation several times."""
        self._inspected.workspace.show_run(run)
        self._inspected.show_open_conversation()
        self._answer_several(self._inspected.shown)

    def choose_fork(self, run: Run) -> None:
        """Show the tokens of an answer of the open conversation, to fork it at one of them."""
        self.inspect_run(run)
        self.inspector.choose_fork()

    def show_comparison(self, run: Run, other: Run) -> None:
        self.inspect_run(run)
        self.inspector.compare_with(other)

    def show_capture(self) -> None:
        bring_forward(self.capture)

    def show_probe(self) -> None:
        bring_forward(self.probe)

    def show_models(self) -> None:
        bring_forward(self.models)

    def show_model(self, name: str) -> None:
        """Show the row of a model in Models."""
        self.show_models()
        self.models.show_model(name)

    def find_models(self, text: str = "") -> None:
        self.show_models()
        self.models.show_finding(text)

    def show_server(self) -> None:
        bring_forward(self.server)

    def show_tool_servers(self) -> None:
        bring_forward(self.tool_servers)

    def add_tool_server(self, title: str = "") -> None:
        self.tool_servers.show_gallery(title)
        bring_forward(self.tool_servers)

    def show_preferences(self, pane: str = "") -> None:
        dialog = self._main.findChild(PreferencesDialog)
        if dialog is None:
            workspace = self._inspected.workspace
            dialog = PreferencesDialog(
                self._preferences,
                self._main,
                *self._kept,
                workspace.stop_lists,
                self._local_server,
                workspace.memory,
            )
            dialog.servers_requested.connect(self.show_tool_servers)
            if self.updates.look is None:
                dialog.disable("checks_for_updates", self.updates.reason)
        if pane:
            dialog.show_pane(pane)
        bring_forward(dialog)

    def show_shortcuts(self) -> None:
        ShortcutsDialog(self._main.menuBar(), self._main).open()

    def show_help(self) -> None:
        """Show help; on the topic of the window in front, if it has one."""
        front = QApplication.activeWindow()
        title = "" if front is None else front.windowTitle()
        if title in TOPICS:
            self._show_topic(TOPICS[title])
        else:
            bring_forward(self.help)

    def show_changes(self) -> None:
        self._show_topic(CHANGES)

    def _show_topic(self, title: str) -> None:
        self.help.choose(title)
        bring_forward(self.help)

    def report_problem(self) -> None:
        workspace = self._inspected.workspace
        run = workspace.current.shown_run
        verdict = "" if run is None or run.verdict is None else run.verdict.text.label
        model = workspace.model_selection.state.name
        details = report_details(program_version(), self._main, model, verdict)
        log_folder = self.help_files.log_folder
        ReportDialog(details, PROJECT_ADDRESS, log_folder, self._main).open()

    def check_for_updates(self) -> None:
        UpdateDialog(self.updates, self._preferences, self._main).open()

    def start(self) -> None:
        """Look for a newer version, if the user has allowed that."""
        if self.updates.look is not None and self._preferences.now.checks_for_updates:
            start_task(self, self._announce_update(self.updates.look), "check for updates")

    async def _announce_update(self, look: Callable[[], Release]) -> None:
        """Show a newer version; a failure of a check that nobody waits for is not shown."""
        with contextlib.suppress(UpdateFailed):
            release = await asyncio.to_thread(look)
            if release.is_newer:
                dialog = UpdateDialog(self.updates, self._preferences, self._main, release)
                dialog.open()

    def show_about(self) -> None:
        about = AboutDialog(program_version(), PROJECT_ADDRESS, self._main)
        about.license_requested.connect(lambda: self._show_topic(LICENSE))
        about.open()

    def close_all(self) -> None:
        for window in self._opened():
            window.close()

    async def finish(self) -> None:
        cancel_tasks(self)
        for window in self._opened():
            await window.finish()

    def _opened(self) -> list[OwnWindow]:
        direct = Qt.FindChildOption.FindDirectChildrenOnly
        return self._main.findChildren(OwnWindow, options=direct)

    def _answer_several(self, shown: ShownRun | None, tried: StopRules | None = None) -> None:
        self.ends.show_question(shown, tried)
        bring_forward(self.ends)

    def _inspect(self, shown: ShownRun) -> None:
        self.show_inspector()
        self._inspected.show(shown)

    def _inspect_request(self, entry: RequestEntry) -> None:
        self.show_inspector()
        self._inspected.show_request(entry)
