"""The dialog of preferences. Main thread."""

import asyncio
import itertools
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol, get_origin

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QHideEvent, QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QButtonGroup,
    QComboBox,
    QFrame,
    QLabel,
    QPushButton,
    QScrollArea,
    QStackedWidget,
    QToolButton,
    QWidget,
)

from engine.wording import format_size
from ui.kit.buttons import Choice, ToggleSwitch, push_button
from ui.kit.commands import Command
from ui.kit.dialogs import confirm
from ui.kit.fields import NumberField, SearchLineEdit, TextArea
from ui.kit.html import colored, joined
from ui.kit.icon_engine import themed_icon
from ui.kit.labels import label, show_text
from ui.kit.layouts import STRETCH, FlowLayout, Item, column, row, scrolling
from ui.kit.tasks import cancel_tasks, restart_task
from ui.kit.theme import current_theme, restyle
from ui.kit.windows import OwnDialog, fit_to_screen, in_reading_order, lay_out_hidden
from ui.preferences import (
    APPEARANCE,
    GENERAL,
    KEPT_PROMPTS,
    KEPT_TRACES,
    MEMORY,
    NEW_CHATS,
    PANES,
    SERVER,
    STOPS,
    STORAGE,
    TOOLS,
    Declaration,
    Preferences,
    declared,
)
from ui.preferences_state import PreferencesState
from ui.server.local_server import LocalServerState
from ui.server.server_settings import RemovableTexts, ServerSettings, titled_card
from ui.stops.stop_lists import StopLists
from ui.stops.stop_lists_page import StopListsPage
from ui.tools.memory import Memory
from ui.tools.memory_page import MemoryPage
from ui.words import TRACES_DELETED

_ICONS = {
    GENERAL: "sliders",
    APPEARANCE: "appearance",
    NEW_CHATS: "chat",
    STOPS: "stop-match",
    MEMORY: "thinking",
    SERVER: "server",
    TOOLS: "tool",
    STORAGE: "storage",
}
_PROMPTS_DELETED = "The model reads a conversation again when you continue it."


class KeptFiles(Protocol):
    """The files that are kept on disk: cached prompts, or recorded tokens."""

    def measured(self) -> "Future[int]":
        """Return their size in bytes, after all earlier calls are done."""
        ...

    def forget_all(self) -> object:
        """Delete them, before any later call is done."""
        ...


class KeptFilesRow(QWidget):
    """The size of the kept files, and a button that deletes them. Reads the disk while visible."""

    def __init__(
        self,
        kept: KeptFiles,
        preferences: PreferencesState,
        what: str,
        consequence: str,
    ) -> None:
        super().__init__()
        self._kept = kept
        self._consequence = consequence
        self.size_label = label("…", "muted")
        self._what = what.replace("&", "")
        self.forget = push_button(f"Delete {what}…", f"Delete {self._what} of conversations")
        self.forget.setEnabled(False)
        self.forget.clicked.connect(self._confirm_deletion)
        row(self.size_label, self.forget, spacing=14, on=self)
        preferences.changed.connect(self._refresh)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._refresh()

    def hideEvent(self, event: QHideEvent) -> None:
        """Stop reading the disk: the widget may be deleted now."""
        super().hideEvent(event)
        cancel_tasks(self)

    def _confirm_deletion(self) -> None:
        confirm(
            self,
            f"Delete all {self._what.lower()}?",
            f"This frees {self.size_label.text()} and cannot be undone. {self._consequence}",
            answers=[Command("Delete", self._delete, is_destructive=True)],
            prefers_cancel=True,
        )

    def _delete(self) -> None:
        self._kept.forget_all()
        self._refresh()

    def _refresh(self) -> None:
        if self.isVisible():
            restart_task(self, self._look(), "size of kept files")

    async def _look(self) -> None:
        self.forget.setEnabled(False)
        size = await asyncio.wrap_future(self._kept.measured())
        self.size_label.setText(format_size(size))
        self.size_label.setAccessibleName(f"{self._what} on Disk: {format_size(size)}")
        self.forget.setEnabled(size > 0)


class PreferencesDialog(OwnDialog):
    """Panes below a bar of icons, and a search over all of them; changes act at once."""

    servers_requested = Signal()

    def __init__(
        self,
        preferences: PreferencesState,
        parent: QWidget,
        kept: KeptFiles | None = None,
        traces: KeptFiles | None = None,
        stop_lists: StopLists | None = None,
        server: LocalServerState | None = None,
        memory: Memory | None = None,
    ) -> None:
        super().__init__("Settings", parent)
        self._preferences = preferences
        self._take_texts: list[Callable[[], None]] = []
        self._follow: dict[str, Callable[[Any], object]] = {}
        self.controls: dict[str, QWidget] = {}
        self.kept = self.traces = None
        if kept is not None:
            self.kept = KeptFilesRow(kept, preferences, "Cached Prompts", _PROMPTS_DELETED)
        if traces is not None:
            self.traces = KeptFilesRow(traces, preferences, "Recorded Tokens", TRACES_DELETED)
        self.servers = push_button("MCP Servers", "Show the MCP servers")
        self.servers.clicked.connect(self.servers_requested)
        self.search = SearchLineEdit("Search settings", "Clear Search")
        self.search.setPlaceholderText("Search")
        self.search.setFixedWidth(176)
        QShortcut(QKeySequence.StandardKey.Find, self, self.search.setFocus)
        self.panes = QStackedWidget()
        self.buttons = QButtonGroup(self)
        self._rows: list[tuple[QAbstractButton, QWidget]] = []
        self._cards: list[QWidget] = []
        self._notes: dict[str, QLabel] = {}
        self._names: list[tuple[QLabel, QWidget]] = []  # of settings, each with its row
        self._problem = label("", "fault", 0.95, is_wrapped=True)
        bar, icons = QFrame(), FlowLayout()
        bar.setObjectName("chat_header")
        row((icons, 1), self.search, margins=(12, 8, 16, 8), on=bar)
        texts = row(self._problem, margins=(24, 0, 24, 0))
        column(bar, (self.panes, 1), texts, spacing=0, margins=(0, 0, 0, 12), on=self)
        self._problem.hide()
        # Build panes in place; reparenting re-polishes the subtree.
        for title, hint in PANES.items():
            button = QToolButton()
            button.setText(title)
            button.setIcon(themed_icon(_ICONS[title], checked_color="match"))
            button.setIconSize(QSize(22, 22))
            button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextUnderIcon)
            button.setCheckable(True)
            button.setProperty("kind", "pane")
            rows: list[QWidget] = []
            self.buttons.addButton(button, self.panes.count())
            icons.addWidget(button)
            cards: list[Item] = []
            for heading, settings in self._setting_rows(title):
                restyle(settings[0], "is_first", True)
                card = titled_card(heading, *settings, spacing=0, margins=1)
                self._cards.append(card)
                cards.append(card)
                rows += settings
            if title == STOPS and stop_lists is not None:
                self.stops = StopListsPage(stop_lists)
                cards.append(self.stops)
                rows.append(self.stops)
            if title == MEMORY and memory is not None:
                self.memory = MemoryPage(memory)
                cards.append(self.memory)
                rows.append(self.memory)
            if title == SERVER and server is not None:
                self.server = ServerSettings(server)
                cards.append(self.server)
                switches = {one.accessibleName() for one in self.server.findChildren(ToggleSwitch)}
                for named in self.server.findChildren(QLabel):
                    if named.text() in switches or named.property("role") == "title":
                        self._mark_later(named, named.parentWidget() or self.server)
                rows += self.server.findChildren(QWidget, "group")
            if hint:
                note = label(hint, "faint", 0.92, is_wrapped=True)
                cards.append(row((note, 1), self.servers) if title == TOOLS else note)
            inside = column(*cards, STRETCH, spacing=16, margins=(24, 16, 24, 16))
            pane = scrolling(inside, title, goes_sideways=False)
            pane.setFocusPolicy(Qt.FocusPolicy.NoFocus)
            self.panes.addWidget(pane)
            self._rows += [(button, each) for each in rows]
        self.empty, self._no_result = QWidget(), label("", "title", 1.08)
        clear = push_button("Clear Search")
        clear.clicked.connect(self.search.clear)
        center = Qt.AlignmentFlag.AlignHCenter
        column(
            STRETCH,
            (self._no_result, 0, center),
            (label("Try another word, such as “theme” or “key”.", "muted"), 0, center),
            (clear, 0, center),
            STRETCH,
            spacing=12,
            on=self.empty,
        )
        self.panes.addWidget(self.empty)
        self.buttons.idClicked.connect(self._show_pane_at)
        self.search.textChanged.connect(self._find)
        self.search.returnPressed.connect(self._jump)
        preferences.keeping_failed.connect(self._show_problem)
        preferences.changed.connect(self._show_values)
        for each in self.findChildren(QPushButton):
            each.setAutoDefault(False)  # Return in the search is not for them
        lay_out_hidden(self)
        fit_to_screen(self, max(720, bar.sizeHint().width()), 540)
        self.show_pane(GENERAL)
        self.panes.setFocus()  # not the search, which is the first control

    def show_pane(self, title: str) -> None:
        position = list(PANES).index(title)
        self.search.clear()
        self.buttons.button(position).setChecked(True)
        self._show_pane_at(position)

    def _show_pane_at(self, position: int) -> None:
        """Show a pane; without a search the window is as high as it needs.

        A pane without results of the search ends it.
        """
        if self.search.text() and not self.buttons.button(position).property("is_found"):
            self.search.clear()
        self.panes.setCurrentIndex(position)
        pane = self.panes.currentWidget()
        inside = pane.widget() if isinstance(pane, QScrollArea) else None
        if inside is not None and not self.search.text() and not self.isMaximized():
            lay_out_hidden(self)
            at_width = inside.heightForWidth(self.panes.width())  # -1 without text that wraps
            needed = max(at_width, inside.minimumSizeHint().height())
            around = self.height() - self.panes.height()
            fit_to_screen(self, self.width(), around + min(max(needed, 280), 560))

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        for take in self._take_texts:
            take()

    def _find(self, text: str) -> None:
        """Show only the settings that contain all words, in the first pane that has some."""
        words = text.casefold().split()
        found = [button for button, each in self._rows if _show_if_found(each, words)]
        for button in self.buttons.buttons():
            restyle(button, "is_found", bool(words) and button in found)
        for card in self._cards:
            lines = card.findChildren(QFrame, "setting")
            shown = [line for line in lines if not line.isHidden()]
            card.setVisible(bool(shown))
            for line in shown:  # the first one has no line above it
                restyle(line, "is_first", line is shown[0])
        for name, _ in self._names:
            name.setText(_marked(name.accessibleName(), words))
        self._no_result.setText(f"No Results for “{text.strip()}”")
        if not found:
            self.panes.setCurrentWidget(self.empty)
        elif (checked := self.buttons.checkedButton()) in found:
            self._show_pane_at(self.buttons.id(checked))
        else:
            found[0].click()

    def _jump(self) -> None:
        """Show the first setting found among all of its pane, and enter it."""
        pane = self.panes.currentWidget()
        shown = (line for name, line in self._names if name.isVisible() and self.search.text())
        line = next(shown, None)
        self.search.clear()
        if line is None or not isinstance(pane, QScrollArea):
            return
        lay_out_hidden(self)
        pane.ensureWidgetVisible(line, 0, pane.height() // 3)
        if (control := next(in_reading_order(line), None)) is not None:
            control.setFocus(Qt.FocusReason.TabFocusReason)

    def disable(self, path: str, reason: str) -> None:
        """Disable a setting, and show why below its name."""
        self.controls[path].setEnabled(False)
        show_text(self._notes[path], reason)

    def _setting_rows(self, title: str) -> Iterator[tuple[str, list[QWidget]]]:
        """Yield each group of a pane with its rows."""
        settings = (one for one in declared(Preferences) if one.section == title)
        for heading, group in itertools.groupby(settings, key=lambda one: one.group):
            rows: list[QWidget] = []
            for preference in group:
                path, name = preference.path, preference.label
                control = self.controls[path] = self._control(preference)
                self._notes[path] = label("", "muted", 0.92, is_wrapped=True)
                show_text(self._notes[path], preference.note)
                rows.append(self._setting(name, control, self._notes[path]))
                measured = {KEPT_PROMPTS: self.kept, KEPT_TRACES: self.traces}.get(path)
                if measured is not None:
                    rows.append(self._setting(f"{name} on disk", measured))
            yield heading, rows

    def _setting(self, name: str, control: QWidget, note: QLabel | None = None) -> QWidget:
        """Return a line of a card: a name with its control at the right, or a text field below."""
        line, named = QFrame(), label(name)
        line.setObjectName("setting")
        self._mark_later(named, line)
        if isinstance(control, TextArea | RemovableTexts):
            column(named, control, spacing=8, margins=(16, 12, 16, 12), on=line)
        else:
            texts = column(named, *filter(None, (note,)), spacing=2)
            row((texts, 1), control, spacing=16, margins=(16, 6, 16, 6), on=line)
            line.setMinimumHeight(44)
        return line

    def _mark_later(self, named: QLabel, part: QWidget) -> None:
        """Let a search mark its words in the name of a setting."""
        name = named.text()
        named.setTextFormat(Qt.TextFormat.RichText)
        named.setText(_marked(name, []))
        named.setAccessibleName(name)
        self._names.append((named, part))

    def _control(self, preference: Declaration) -> QWidget:
        """Return a control that changes a preference, and that follows it."""
        path, name = preference.path, preference.label
        now = self._preferences.value_of(path)
        change = partial(self._preferences.change_value, path)
        if get_origin(preference.kind) is tuple:
            texts = RemovableTexts(name, "None")
            entries = partial(self._preferences.value_of, path)
            texts.edited.connect(
                lambda kept: change(tuple(one for one in entries() if _entry_text(one) in kept))
            )
            self._follow[path] = lambda value: texts.show_texts(tuple(map(_entry_text, value)))
            self._follow[path](now)
            return texts
        if preference.kind is str and not preference.choices:
            text = TextArea(name, preference.unset, 92, now)
            self._take_texts.append(lambda: change(text.text))
            return text
        if preference.choices:
            values = {str(value): value for value in preference.choices}
            choice = Choice(name, [(str(value), one) for value, one in preference.choices.items()])
            choice.setMinimumWidth(240)
            choice.choose(str(now))
            choice.currentIndexChanged.connect(lambda row: change(values[choice.itemData(row)]))
            self._follow[path] = lambda value: choice.choose(str(value))
            return choice
        if preference.kind is bool:
            switch = ToggleSwitch(name)
            switch.setChecked(now)
            switch.toggled.connect(lambda is_on: change(is_on))
            self._follow[path] = switch.setChecked
            return switch
        number = self._number(preference, name)
        number.show_number(now)
        number.number_edited.connect(lambda value: change(value))
        self._follow[path] = number.show_number
        return number

    def _number(self, preference: Declaration, name: str) -> NumberField:
        assert preference.minimum is not None
        assert preference.maximum is not None
        # A type such as ``int | None`` holds whole numbers.
        is_whole = float not in getattr(preference.kind, "__args__", (preference.kind,))
        limits = preference.minimum, preference.maximum, preference.step
        control = NumberField(name, preference.unset, *limits, is_whole=is_whole)
        control.setFixedWidth(144)
        control.setSuffix(f" {preference.unit}" if preference.unit else "")
        # A number without a unit may be a port.
        control.setGroupSeparatorShown(bool(preference.unit))
        return control

    def _show_problem(self, problem: str) -> None:
        show_text(self._problem, problem)

    def _show_values(self) -> None:
        """Show changes made elsewhere, as the order of conversations in the sidebar."""
        for path, show in self._follow.items():
            show(self._preferences.value_of(path))


def _entry_text(entry: tuple[str, ...]) -> str:
    return " · ".join(entry[:2])  # the later parts are only for the program


def _begins(typed: str) -> str:
    """Return a pattern for words that begin with a text: "port" is not in "Export"."""
    return rf"(?<!\w){re.escape(typed)}"


def _marked(name: str, words: list[str]) -> str:
    """Return the HTML of a name with the words of a search marked."""
    if not words:
        return joined(name)
    colors, pattern = current_theme().colors, "|".join(map(_begins, words))
    parts = re.split(f"({pattern})", name, flags=re.IGNORECASE)
    marked = (
        colored(part, colors.text, colors.found) if at % 2 else part
        for at, part in enumerate(parts)
    )
    return joined(*marked)


def _show_if_found(part: QWidget, words: list[str]) -> bool:
    """Show a setting if its texts contain all words; return whether they do."""
    texts = [part.accessibleName()]
    for inner in part.findChildren(QWidget):
        texts.append(inner.accessibleName())
        if isinstance(inner, QLabel) and inner.textFormat() is Qt.TextFormat.RichText:
            continue  # a name with marks; its accessible name is without them
        if isinstance(inner, QLabel | QAbstractButton):
            texts.append(inner.text())
        elif isinstance(inner, QComboBox):
            texts += [inner.itemText(number) for number in range(inner.count())]
    text = " ".join(texts)
    is_found = all(re.search(_begins(word), text, re.IGNORECASE) for word in words)
    part.setVisible(is_found)
    return is_found
