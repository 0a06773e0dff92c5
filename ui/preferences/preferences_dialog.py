"""The dialog of the preferences: a page for each group, a control for each preference.

It is made from the declarations. Main thread.
"""

from collections.abc import Callable
from typing import Any, get_origin

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QGridLayout,
    QPlainTextEdit,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from ui.kit.controls.check_box import CheckBox
from ui.kit.controls.choice import Choice
from ui.kit.controls.growing_input import never_sideways
from ui.kit.controls.number_field import NumberField
from ui.kit.controls.reading_order import move_focus
from ui.kit.look.theme import Theme
from ui.kit.text.labels import label
from ui.preferences.declaring import Declared, declared
from ui.preferences.kept_prompts import KeptPrompts, KeptPromptsRow
from ui.preferences.pages import KEPT_PROMPTS, KEPT_TRACES, PAGES
from ui.preferences.preferences import Preferences
from ui.preferences.preferences_state import PreferencesState
from ui.preferences.removable_rows import RemovableRows

_NAMES_PX = 150
_FIELD_PX = 190
_TEXT_PX = 92


class PreferencesDialog(QDialog):
    """Appearance, server, and what new conversations begin with; changes act at once.

    Args:
        theme: The look.
        preferences: The preferences to show and change.
        parent: The window that it belongs to.
        kept: The cached prompts on disk, which the dialog can delete; None if none are kept.
            traces: The recorded tokens on disk, which it can delete; None if none are kept.

    Attributes:
        controls: The control of each preference, by its path.
        kept: The row with the size of the cached prompts; None if none are kept.
        traces: The row with the size of the recorded tokens; None if none are kept.
    """

    def __init__(
        self,
        theme: Theme,
        preferences: PreferencesState,
        parent: QWidget,
        kept: KeptPrompts | None = None,
        traces: KeptPrompts | None = None,
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("Preferences")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._theme = theme
        self._preferences = preferences
        self._take_texts: list[Callable[[], None]] = []
        self.controls: dict[str, QWidget] = {}
        self.kept = None if kept is None else KeptPromptsRow(kept, preferences, "Cached &Prompts")
        self.traces = None
        if traces is not None:
            self.traces = KeptPromptsRow(traces, preferences, "Recorded &Tokens")
        self.tabs = QTabWidget()
        self.tabs.setAccessibleName("Preferences")
        for title, hint in PAGES.items():
            self.tabs.addTab(self._page(title, hint), title)
        self._problem = label("", "fault", 0.95, is_wrapped=True)
        self._problem.hide()
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.close)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(18, 16, 18, 16)
        layout.setSpacing(14)
        layout.addWidget(self.tabs, 1)
        layout.addWidget(self._problem)
        layout.addWidget(buttons)
        theme.follow(self, self._fit)
        preferences.keeping_failed.connect(self._say)

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        """Move the focus by Tab in reading order."""
        return move_focus(self, is_next)

    def _fit(self) -> None:
        self.setMinimumWidth(self._theme.px(500))
        # After the layout has measured the larger text.
        QTimer.singleShot(0, self, self._take_width)

    def _take_width(self) -> None:
        """Grow to the longest row; ``adjustSize`` alone stops at a part of the screen."""
        self.setMinimumWidth(max(self._theme.px(500), self.minimumSizeHint().width()))
        self.adjustSize()

    def hideEvent(self, event: QHideEvent) -> None:
        """Apply the typed text when the window closes."""
        super().hideEvent(event)
        for take in self._take_texts:
            take()

    def _page(self, title: str, hint: str) -> QWidget:
        page = _Page(self._theme)
        for one in declared(Preferences):
            if one.setting.place == title:
                control = self.controls[one.path] = self._control(one)
                page.add(one.setting.label, control)
                measured = {KEPT_PROMPTS: self.kept, KEPT_TRACES: self.traces}.get(one.path)
                if measured is not None:
                    page.add(f"{one.setting.label} on disk", measured)
        if hint:
            page.add_hint(hint)
        return page

    def _control(self, one: Declared) -> QWidget:
        """Return a control for a preference, chosen by its type, with its value."""
        now = self._preferences.value_of(one.path)
        if one.setting.choices:
            return self._choice(one, now)
        if one.kind is bool:
            return self._check_box(one, now)
        if one.kind is str:
            return self._text(one, now)
        if get_origin(one.kind) is tuple:
            return self._rows(one)
        return self._number(one, now)

    def _rows(self, one: Declared) -> RemovableRows:
        return RemovableRows(
            one.setting.says or one.setting.label,
            lambda: self._preferences.value_of(one.path),
            # The later parts of an entry are only for the program.
            lambda entry: " · ".join(entry[:2]),
            lambda left: self._change(one, left),
        )

    def _choice(self, one: Declared, now: Any) -> Choice:
        says = one.setting.says or one.setting.label
        values = {str(value): value for value in one.setting.choices}
        words = [(str(value), said) for value, said in one.setting.choices.items()]
        control = Choice(self._theme, says, words)
        control.choose(str(now))
        control.currentIndexChanged.connect(
            lambda row: self._change(one, values[control.itemData(row)])
        )
        return control

    def _check_box(self, one: Declared, now: bool) -> CheckBox:
        control = CheckBox(self._theme, one.setting.says or one.setting.label)
        control.setChecked(now)
        control.toggled.connect(lambda is_on: self._change(one, is_on))
        return control

    def _number(self, one: Declared, now: float | None) -> NumberField:
        said = one.setting
        assert said.least is not None
        assert said.most is not None
        # A type such as ``int | None`` holds whole numbers.
        is_whole = float not in getattr(one.kind, "__args__", (one.kind,))
        control = NumberField(
            said.says or said.label, said.unset, said.least, said.most, said.step, is_whole=is_whole
        )
        if said.unit:
            control.setSuffix(f" {said.unit}")
        control.show_number(now)
        control.number_edited.connect(lambda number: self._change(one, number))
        return control

    def _text(self, one: Declared, now: str) -> QPlainTextEdit:
        control = QPlainTextEdit(now)
        control.setAccessibleName(one.setting.says or one.setting.label)
        control.setPlaceholderText(one.setting.unset)
        control.setTabChangesFocus(True)
        never_sideways(control)
        self._theme.follow(control, lambda: control.setFixedHeight(self._theme.px(_TEXT_PX)))
        # A text field changes some characters, so its text is used only if a person edited it.
        shown = control.toPlainText()

        def take() -> None:
            nonlocal shown
            if control.toPlainText() != shown:
                shown = control.toPlainText()
                self._change(one, shown)

        self._take_texts.append(take)
        return control

    def _change(self, one: Declared, value: Any) -> None:
        self._preferences.change_value(one.path, value)

    def _say(self, problem: str) -> None:
        self._problem.setText(problem)
        self._problem.show()


class _Page(QWidget):
    """Rows of a name and a control."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(20)
        self._grid.setVerticalSpacing(11)
        self._grid.setColumnStretch(1, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 16, 0, 6)
        layout.addLayout(self._grid)
        layout.addStretch(1)

    def add(self, name: str, control: QWidget) -> None:
        """Add a row; a control of several lines has its name at its top."""
        row = self._grid.rowCount()
        is_tall = isinstance(control, QPlainTextEdit | RemovableRows)
        if isinstance(control, Choice | NumberField):
            self._theme.follow(control, lambda: control.setFixedWidth(self._theme.px(_FIELD_PX)))
        title = label(name, is_wrapped=True)
        self._theme.follow(title, lambda: title.setFixedWidth(self._theme.px(_NAMES_PX)))
        title.setContentsMargins(0, 6 if is_tall else 0, 0, 0)
        # Without an alignment, a widget of fixed width would be centered in its cell.
        left, middle = Qt.AlignmentFlag.AlignLeft, Qt.AlignmentFlag.AlignVCenter
        top = Qt.AlignmentFlag.AlignTop
        self._grid.addWidget(title, row, 0, left | (top if is_tall else middle))
        self._grid.addWidget(control, row, 1, Qt.AlignmentFlag(0) if is_tall else left | middle)

    def add_hint(self, words: str) -> None:
        """Add an explanation."""
        row = self._grid.rowCount()
        self._grid.addWidget(label(words, "faint", 0.92, is_wrapped=True), row, 0, 1, 2)
