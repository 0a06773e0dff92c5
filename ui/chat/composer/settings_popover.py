"""The settings of a conversation, in a small card. Main thread."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Generic, TypeVar

import shiboken6
from PySide6.QtCore import QObject, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QPlainTextEdit,
    QPushButton,
    QWidget,
)

from engine import SAMPLING_OPTIONS, STOP_OPTIONS, StopOption, counted
from ui.chat.composer.preset_menus import PresetButton
from ui.chat.storage.presets import PresetList
from ui.kit.buttons import CheckBox
from ui.kit.fields import NumberField, never_sideways
from ui.kit.labels import label
from ui.kit.layouts import column, row
from ui.kit.theme import current_theme
from ui.kit.windows import move_focus, pop_up_above
from ui.records.conversations import ConversationSettings

Content = TypeVar("Content", bound=QWidget)


class Card(QObject, Generic[Content]):
    """Makes a card when it is first opened, and anew once colors or sizes have changed.

    A hidden card would be styled and laid out again with each step of text zoom.

    Args:
        make: Makes the card.
        parent: Owns this object.
    """

    def __init__(self, make: Callable[[], Content], parent: QObject) -> None:
        super().__init__(parent)
        self._make = make
        self.made: Content | None = None
        current_theme().changing.connect(self._delete_hidden)

    @property
    def content(self) -> Content:
        if self.made is None:
            self.made = self._make()
        return self.made

    def _delete_hidden(self) -> None:
        if self.made is not None and self.made.isHidden():
            made, self.made = self.made, None
            shiboken6.delete(made)


_OPTIONS = {option.name: option for option in SAMPLING_OPTIONS}


def sampling_field(name: str) -> NumberField:
    """Return the control for a sampling option, by its name."""
    option = _OPTIONS[name]
    says = f"{option.title}: {option.help}" if option.help else option.title
    return NumberField(
        says, option.unset, option.least, option.most, option.step, is_whole=option.is_whole
    )


_MOST_TOKENS = 1_000_000
# The settings that most people use; the others are folded away.
_COMMON = ("temperature", "max_tokens")


class SettingsPopover(QFrame):
    """Shows system prompt, sampling and length, and the presets.

    Signals:
        edited: A person changed the settings; carries the ``ConversationSettings``.
    """

    edited = Signal(object)

    def __init__(self, parent: QWidget, presets: PresetList) -> None:
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint)
        self.setObjectName("popover")
        self._settings = ConversationSettings()
        self.presets = PresetButton(presets, parent)
        self.system_prompt = QPlainTextEdit()
        self._shown_prompt = ""
        self.system_prompt.setAccessibleName("System prompt")
        self.system_prompt.setPlaceholderText(
            "Instructions that the model reads before the conversation"
        )
        self.system_prompt.setTabChangesFocus(True)
        never_sideways(self.system_prompt)
        self.sampling = {one.name: sampling_field(one.name) for one in SAMPLING_OPTIONS}
        self.max_tokens = NumberField(
            "Longest answer, in tokens", "No limit", 1, _MOST_TOKENS, 64, is_whole=True
        )
        self.max_tokens.setSuffix(" tokens")
        self.thinking_budget = NumberField(
            "Thinking budget, in tokens", "No limit", 0, _MOST_TOKENS, 64, is_whole=True
        )
        self.thinking_budget.setSuffix(" tokens")
        self.stop_options = {option.name: _stop_field(option) for option in _STOP_OPTIONS}
        self._more = QPushButton("More Settings")
        self._more.setProperty("kind", "fold")
        self._more.setAccessibleName("More settings")
        self._more.setCheckable(True)
        self._rare = QWidget()
        self._rare.hide()
        self._lay_out()
        current_theme().follow(self, self._fit)
        self._more.toggled.connect(self._show_rare)
        for name, field in self._fields().items():
            field.number_edited.connect(lambda value, name=name: self._edit(**{name: value}))
        for option in _STOP_OPTIONS:
            changed = partial(self._edit_stop_option, option)
            control = self.stop_options[option.name]
            if isinstance(control, CheckBox):
                control.toggled.connect(changed)
            else:
                control.number_edited.connect(changed)

    def show_settings(self, settings: ConversationSettings) -> None:
        """Show settings without emitting ``edited``."""
        self._settings = settings
        for name, field in self._fields().items():
            field.show_number(getattr(settings, name))
        for name, control in self.stop_options.items():
            value = getattr(settings.stop_options, name)
            if isinstance(control, CheckBox):
                with QSignalBlocker(control):
                    control.setChecked(value)
            else:
                control.show_number(value or None)
        self.system_prompt.setPlainText(settings.system_prompt)
        self._shown_prompt = self.system_prompt.toPlainText()

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        """Move the focus by Tab in reading order."""
        return move_focus(self, is_next)

    def pop_up(self, anchor: QWidget) -> None:
        """Appear above a widget."""
        pop_up_above(self, anchor)
        self.system_prompt.setFocus()

    def hideEvent(self, event: QHideEvent) -> None:
        """Apply the system prompt when the card closes."""
        super().hideEvent(event)
        # A text field changes some characters, so its text is used only if a person edited it.
        prompt = self.system_prompt.toPlainText()
        if prompt != self._shown_prompt:
            self._shown_prompt = prompt
            self._edit(system_prompt=prompt)

    def _fields(self) -> dict[str, NumberField]:
        """Return the number fields, by the names of their settings."""
        common = {
            "temperature": self.sampling["temperature"],
            "max_tokens": self.max_tokens,
            "thinking_budget": self.thinking_budget,
        }
        return {**common, **self.sampling}

    def _lay_out(self) -> None:
        form, rare = _grid(), _grid()
        titles = {one.name: one.title for one in SAMPLING_OPTIONS}
        titles |= {"max_tokens": "Longest answer", "thinking_budget": "Thinking budget"}
        for name, field in self._fields().items():
            grid = form if name in _COMMON else rare
            line = grid.count() // 2
            grid.addWidget(label(titles[name]), line, 0)
            grid.addWidget(field, line, 1)
        for option in _STOP_OPTIONS:
            control, line = self.stop_options[option.name], rare.rowCount()
            if isinstance(control, CheckBox):
                rare.addWidget(control, line, 0, 1, 2)
            else:
                rare.addWidget(label(option.title), line, 0)
                rare.addWidget(control, line, 1)
        rare.setContentsMargins(0, 0, 0, 0)
        self._grids = (form, rare)
        self._rare.setLayout(rare)
        hint = "Temperature 0 always picks the likeliest token. Changes apply from the next answer."
        column(
            row((label("This conversation", "title"), 1), self.presets),
            label("System prompt", "muted", 0.95),
            self.system_prompt,
            form,
            (self._more, 0, Qt.AlignmentFlag.AlignLeft),
            self._rare,
            label(hint, "faint", 0.9, is_wrapped=True),
            spacing=9,
            margins=(16, 14, 16, 14),
            on=self,
        )

    def _fit(self) -> None:
        # All fields have one left edge, including those that are folded away.
        theme = current_theme()
        names = [name for grid in self._grids for name in _first_column(grid)]
        widest = max(name.sizeHint().width() for name in names)
        for grid in self._grids:
            grid.setColumnMinimumWidth(0, widest)
        self.system_prompt.setFixedHeight(theme.px(96))
        self.setFixedWidth(theme.px(340))

    def _show_rare(self, is_shown: bool) -> None:
        bottom = self.geometry().bottom()
        self._rare.setVisible(is_shown)
        says = "Fewer" if is_shown else "More"
        self._more.setAccessibleName(f"{says} settings")
        self._more.setText(f"{says} Settings")
        self.adjustSize()
        self.move(self.x(), bottom - self.height() + 1)

    def _edit_stop_option(self, option: StopOption, value: Any) -> None:
        options = self._settings.stop_options
        value = option.default if value is None else value
        self._edit(stop_options=replace(options, **{option.name: value}))

    def _edit(self, **fields: Any) -> None:
        settings = replace(self._settings, **fields)
        if settings != self._settings:
            self._settings = settings
            self.edited.emit(settings)


# In the window, each stop has its own scope.
_STOP_OPTIONS = tuple(option for option in STOP_OPTIONS if option.name != "scope")


def _stop_field(option: StopOption) -> CheckBox | NumberField:
    """Return the control of an option of stops."""
    if isinstance(option.default, bool):
        box = CheckBox(option.title)
        box.setToolTip(f"{option.help[0].upper()}{option.help[1:]}")
        return box
    field = NumberField(option.title, "No tokens", 1, _MOST_TOKENS, 1, is_whole=True)
    field.setSuffix(" tokens")
    return field


def _grid() -> QGridLayout:
    grid = QGridLayout()
    grid.setHorizontalSpacing(14)
    grid.setVerticalSpacing(9)
    grid.setColumnStretch(1, 1)
    return grid


def _first_column(grid: QGridLayout) -> Iterator[QWidget]:
    """Yield the labels of the fields; a check box takes the whole width and has its own label."""
    for line in range(grid.rowCount()):
        item = grid.itemAtPosition(line, 0)
        widget = None if item is None else item.widget()
        if widget is not None and not isinstance(widget, CheckBox):
            yield widget


def settings_words(settings: ConversationSettings) -> str:
    """Name the settings that differ from the defaults; empty if none does."""
    parts: list[str] = []
    if settings.system_prompt.strip():
        parts.append("system prompt")
    drawn = {
        option.name: f"{option.title.lower()} {value:g}"
        for option in SAMPLING_OPTIONS
        if (value := getattr(settings, option.name)) is not None
    }
    if "temperature" in drawn:
        parts.append(drawn.pop("temperature"))
    if settings.max_tokens is not None:
        parts.append(counted(settings.max_tokens, "token"))
    if settings.thinking_budget is not None:
        parts.append(f"thinking budget {settings.thinking_budget:,}")
    parts += drawn.values()
    parts += [
        option.title[0].lower() + option.title[1:]
        for option in _STOP_OPTIONS
        if getattr(settings.stop_options, option.name) != option.default
    ]
    return ", ".join(parts).capitalize()
