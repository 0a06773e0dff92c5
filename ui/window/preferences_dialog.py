"""The dialog of preferences. Main thread."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, get_origin

from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QDialogButtonBox,
    QFormLayout,
    QLabel,
    QPushButton,
    QTabWidget,
    QWidget,
)

from engine.wording import format_size
from ui.kit.buttons import Choice, push_button
from ui.kit.commands import Command
from ui.kit.dialogs import confirm
from ui.kit.fields import NumberField, TextArea
from ui.kit.labels import ElidedLabel, clear_layout, label
from ui.kit.layouts import STRETCH, column, form, row
from ui.kit.tasks import start_task
from ui.kit.windows import OwnDialog
from ui.preferences import (
    KEPT_PROMPTS,
    KEPT_TRACES,
    NEW_CONVERSATIONS,
    PAGES,
    Declaration,
    Preferences,
    declared,
)
from ui.preferences_state import PreferencesState
from ui.stops.stop_lists import StopLists
from ui.stops.stop_lists_page import StopListsPage
from ui.words import TRACES_DELETED

_PROMPTS_DELETED = "The model reads a conversation again when you continue it."


class RemovableRows(QWidget):
    """A row for each entry of a preference, with a button that removes it."""

    def __init__(self, preferences: PreferencesState, preference: Declaration) -> None:
        super().__init__()
        setting = preference
        self.setAccessibleName(setting.accessible_name or setting.label)
        self._preferences = preferences
        self._path = preference.path
        self.buttons: list[QPushButton] = []
        column(spacing=6, on=self)
        self._fill()

    def _fill(self) -> None:
        clear_layout(self.layout())
        self.buttons = []
        column = self.layout()
        assert column is not None
        for entry in self._preferences.value_of(self._path):
            line = QWidget()
            text = " · ".join(entry[:2])  # the later parts are only for the program
            button = push_button("Remove", f"Remove {text}")
            button.setAutoDefault(False)
            button.clicked.connect(lambda _=False, removed=entry: self._remove(removed))
            row((ElidedLabel(text), 1), button, on=line)
            self.buttons.append(button)
            column.addWidget(line)
        if not self.buttons:
            column.addWidget(label("None", "muted"))

    def _remove(self, removed: tuple[str, ...]) -> None:
        entries = self._preferences.value_of(self._path)
        self._preferences.change_value(
            self._path, tuple(entry for entry in entries if entry != removed)
        )
        self._fill()
        if self.buttons:
            self.buttons[0].setFocus()


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
        self._looking: asyncio.Task[None] | None = None
        self.size_label = label("…", "muted")
        self._what = what.replace("&", "")
        self.forget = push_button(f"Delete {what}…", f"Delete {self._what} of conversations")
        self.forget.setEnabled(False)
        self.forget.clicked.connect(self._confirm_deletion)
        row(self.size_label, self.forget, STRETCH, spacing=14, on=self)
        preferences.changed.connect(self._refresh)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._refresh()

    def hideEvent(self, event: QHideEvent) -> None:
        """Stop reading the disk: the widget may be deleted now."""
        super().hideEvent(event)
        if self._looking is not None:
            self._looking.cancel()

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
        if not self.isVisible():
            return
        if self._looking is not None:
            self._looking.cancel()
        self._looking = start_task(self, self._look(), "size of kept files")

    async def _look(self) -> None:
        self.forget.setEnabled(False)
        size = await asyncio.wrap_future(self._kept.measured())
        self.size_label.setText(format_size(size))
        self.size_label.setAccessibleName(f"{self._what} on Disk: {format_size(size)}")
        self.forget.setEnabled(size > 0)


class PreferencesDialog(OwnDialog):
    """Appearance, server, and what new conversations begin with; changes act at once."""

    def __init__(
        self,
        preferences: PreferencesState,
        parent: QWidget,
        kept: KeptFiles | None = None,
        traces: KeptFiles | None = None,
        stop_lists: StopLists | None = None,
    ) -> None:
        super().__init__("Settings", parent)
        self._preferences = preferences
        self._take_texts: list[Callable[[], None]] = []
        self.controls: dict[str, QWidget] = {}
        self.kept = (
            None
            if kept is None
            else KeptFilesRow(kept, preferences, "Cached Prompts", _PROMPTS_DELETED)
        )
        self.traces = None
        if traces is not None:
            self.traces = KeptFilesRow(traces, preferences, "Recorded Tokens", TRACES_DELETED)
        self.tabs = QTabWidget()
        self.tabs.setAccessibleName("Settings")
        self._problem = label("", "fault", 0.95, is_wrapped=True)
        self._problem.hide()
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.close)
        column(
            (self.tabs, 1), self._problem, buttons, spacing=14, margins=(18, 16, 18, 16), on=self
        )
        # Build pages in place; reparenting re-polishes the subtree.
        for title, hint in PAGES.items():
            self.tabs.addTab(self._page(title, hint), title)
            if stop_lists is not None and title == NEW_CONVERSATIONS:
                self.stops = StopListsPage(stop_lists)
                self.tabs.addTab(self.stops, "Stops")
        sizes = self.tabs.tabBar().sizeHint(), self.tabs.minimumSizeHint()
        self.tabs.setMinimumWidth(max(size.width() for size in sizes))
        preferences.keeping_failed.connect(self._show_problem)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        for take in self._take_texts:
            take()

    def _page(self, title: str, hint: str) -> QWidget:
        page, rows = QWidget(), list[tuple[QWidget, QWidget]]()
        for preference in declared(Preferences):
            if preference.section == title:
                control = self.controls[preference.path] = self._control(preference)
                rows.append((_name(preference.label), control))
                measured = {KEPT_PROMPTS: self.kept, KEPT_TRACES: self.traces}.get(preference.path)
                if measured is not None:
                    rows.append((_name(f"{preference.label} on disk"), measured))
        last = [label(hint, "faint", 0.92, is_wrapped=True)] if hint else []
        growth = QFormLayout.FieldGrowthPolicy.ExpandingFieldsGrow
        fields = form(*rows, *last, spacing=(20, 11), growth=growth)
        column(fields, STRETCH, margins=(0, 16, 0, 6), on=page)
        return page

    def _control(self, preference: Declaration) -> QWidget:
        now = self._preferences.value_of(preference.path)
        if preference.choices:
            return self._choice(preference, now)
        if preference.kind is bool:
            return self._check_box(preference, now)
        if preference.kind is str:
            return self._text(preference, now)
        if get_origin(preference.kind) is tuple:
            return RemovableRows(self._preferences, preference)
        return self._number(preference, now)

    def _choice(self, preference: Declaration, now: Any) -> Choice:
        accessible_name = preference.accessible_name or preference.label
        values = {str(value): value for value in preference.choices}
        parts = [(str(value), text) for value, text in preference.choices.items()]
        control = Choice(accessible_name, parts)
        control.setMinimumWidth(230)
        control.choose(str(now))
        control.currentIndexChanged.connect(
            lambda row: self._change(preference, values[control.itemData(row)])
        )
        return control

    def _check_box(self, preference: Declaration, now: bool) -> QCheckBox:
        control = QCheckBox(preference.accessible_name or preference.label)
        control.setChecked(now)
        control.toggled.connect(lambda is_on: self._change(preference, is_on))
        return control

    def _number(self, preference: Declaration, now: float | None) -> NumberField:
        declared_as = preference
        assert declared_as.minimum is not None
        assert declared_as.maximum is not None
        # A type such as ``int | None`` holds whole numbers.
        is_whole = float not in getattr(preference.kind, "__args__", (preference.kind,))
        control = NumberField(
            declared_as.accessible_name or declared_as.label,
            declared_as.unset,
            declared_as.minimum,
            declared_as.maximum,
            declared_as.step,
            is_whole=is_whole,
        )
        control.setMinimumWidth(230)
        if declared_as.unit:
            control.setSuffix(f" {declared_as.unit}")
        control.show_number(now)
        control.number_edited.connect(lambda number: self._change(preference, number))
        return control

    def _text(self, preference: Declaration, now: str) -> TextArea:
        name = preference.accessible_name or preference.label
        control = TextArea(name, preference.unset, 92, now)
        self._take_texts.append(lambda: self._change(preference, control.text))
        return control

    def _change(self, preference: Declaration, value: Any) -> None:
        self._preferences.change_value(preference.path, value)

    def _show_problem(self, problem: str) -> None:
        self._problem.setText(problem)
        self._problem.show()


def _name(text: str) -> QLabel:
    made = label(text)
    made.setMinimumWidth(150)
    return made
