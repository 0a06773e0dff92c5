"""The settings of a conversation. Main thread."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QCheckBox, QGridLayout, QLabel, QPushButton, QWidget

from engine.stopping.rules import STOP_OPTIONS, StopOption
from engine.values.request import SAMPLING_OPTIONS
from engine.wording import counted
from ui.chat.composer.presets import PresetButton
from ui.chat.session.presets import PresetList
from ui.kit.buttons import IconButton, push_button
from ui.kit.fields import NumberField, Slider, TextArea
from ui.kit.labels import label
from ui.kit.layouts import BAR_PX, STRETCH, column, row, scrolling
from ui.records.conversations import ConversationSettings

_OPTIONS = {option.name: option for option in SAMPLING_OPTIONS}
_DOT_PX, _NUMBER_PX, _ROW_PX = 16, 88, 28
_LIMITS = {"max_tokens": "Maximum length", "thinking_budget": "Thinking budget"}
# The defaults where neither the user nor the model's own files set a value.
_OFF = {"temperature": 0.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
# Where a slider begins and ends; the field beside it takes other numbers, too.
_SLIDER_ENDS = {"top_k": (0.0, 100.0), "repetition_penalty": (1.0, 2.0)}
_NOT_SLID = ("seed", "thinking_budget")
# In the window, each stop has its own scope.
_STOP_OPTIONS = {option.name: option for option in STOP_OPTIONS if option.name != "scope"}
_PROMPT = "system_prompt"
_TITLES = {
    _PROMPT: "System Prompt",
    **{option.name: option.title for option in (*SAMPLING_OPTIONS, *_STOP_OPTIONS.values())},
    **_LIMITS,
}


def _value(settings: ConversationSettings, name: str) -> Any:
    return getattr(settings.stop_options if name in _STOP_OPTIONS else settings, name)


def _with_value(settings: ConversationSettings, name: str, value: Any) -> ConversationSettings:
    if name in _STOP_OPTIONS:
        return replace(settings, stop_options=replace(settings.stop_options, **{name: value}))
    return replace(settings, **{name: value})


def sampling_field(name: str) -> NumberField:
    """Return the control for a sampling option, by its name."""
    option = _OPTIONS[name]
    accessible_name = f"{option.title}: {option.help}" if option.help else option.title
    return NumberField(
        accessible_name,
        option.unset,
        option.min,
        option.max,
        option.step,
        is_whole=option.is_whole,
    )


def tokens_field(
    accessible_name: str, unset: str = "No limit", minimum: int = 1, step: int = 64
) -> NumberField:
    """Return the control for a number of tokens."""
    field = NumberField(accessible_name, unset, minimum, 1_000_000, step, is_whole=True)
    field.setSuffix(" tokens")
    field.setGroupSeparatorShown(True)
    return field


@dataclass(frozen=True, slots=True)
class SettingsBasis:
    """The values with which a conversation's settings are compared."""

    model: str = ""
    own: Mapping[str, float] = field(default_factory=dict)
    context_length: int = 0
    can_think: bool = True
    has_template_end: bool = True  # an end token that only the chat template names
    saved: ConversationSettings | None = None
    usual: ConversationSettings = field(default_factory=ConversationSettings)

    @property
    def beginning(self) -> ConversationSettings:
        """The settings of a new conversation with the model."""
        return self.usual if self.saved is None else self.saved

    def own_number(self, name: str) -> float | int | None:
        """Return the model's own default; None if there is no such number."""
        return self.own.get(name, _OFF.get(name))

    def unset_text(self, name: str, usual: str) -> str:
        number = self.own_number(name)
        if number is None:
            return usual
        if self.model and name in _OFF and number == _OFF[name] and name != "temperature":
            return "Off"
        return f"{number:g}" if self.model else "Default"

    def source(self, name: str, value: Any) -> str:
        """Return where a value comes from, in short; empty for the model's own."""
        if value is None:
            return "" if self.own_number(name) is None else "Model default"
        if self.saved is not None and value == getattr(self.saved, name):
            return f"For new chats with {self.model}"
        if value == getattr(self.usual, name):
            return "From Settings"
        return "Set in this chat"


class SettingsPage(QWidget):
    """Shows system prompt, sampling and limits, and the presets."""

    edited = Signal(object, str)  # ConversationSettings, text for undo
    kept = Signal(object)  # ConversationSettings for new chats with the model, or None

    def __init__(self, presets: PresetList) -> None:
        super().__init__()
        self._settings = ConversationSettings()
        self._basis = SettingsBasis()
        self.limits = label("", "muted", 0.95)  # beside the heading
        self.sliders: dict[str, Slider] = {}
        self.resets: dict[str, IconButton] = {}
        self.keep = QPushButton("Use for New Chats")
        self.keep.clicked.connect(lambda: self.kept.emit(self._settings))
        self.forget = push_button(
            "Remove", "Remove the settings of new chats with this model", kind="link"
        )
        self.forget.clicked.connect(lambda: self.kept.emit(None))
        self.reset = push_button("Reset", "Reset the settings of this conversation")
        self.reset.clicked.connect(self._reset)
        self.presets = PresetButton(presets)
        self.system_prompt = TextArea(
            "System prompt", "Instructions that the model reads before the conversation", 80
        )
        self.sampling = {option.name: sampling_field(option.name) for option in SAMPLING_OPTIONS}
        self.max_tokens = tokens_field("Maximum length, in tokens")
        self.thinking_budget = tokens_field("Thinking budget, in tokens", minimum=0)
        # The controls of all numbers, by their names.
        self.fields: dict[str, NumberField] = {
            **self.sampling,
            "max_tokens": self.max_tokens,
            "thinking_budget": self.thinking_budget,
        }
        # Numbers first: they are in one column with the limits above them.
        options = sorted(_STOP_OPTIONS.values(), key=lambda option: option.kind is bool)
        self.stop_options = {option.name: _stop_field(option) for option in options}
        self._controls = {_PROMPT: self.system_prompt, **self.fields, **self.stop_options}
        self._lay_out()
        self._show_basis()
        self._show_sources()
        self.system_prompt.textChanged.connect(lambda: self._edit(_PROMPT, self.system_prompt.text))
        for name, control in self.fields.items():
            # A number that is typed counts at once: Send does not take the focus.
            control.setKeyboardTracking(True)
            control.number_edited.connect(lambda value, name=name: self._edit(name, value))
        for name, option in _STOP_OPTIONS.items():
            stop_control = self.stop_options[name]
            if isinstance(stop_control, QCheckBox):
                stop_control.toggled.connect(partial(self._edit, name))
            else:
                stop_control.number_edited.connect(
                    lambda value, name=name, default=option.default: self._edit(
                        name, default if value is None else value
                    )
                )

    def show_settings(self, basis: SettingsBasis, settings: ConversationSettings) -> None:
        """Show settings without emitting ``edited``; a field that is being edited stays."""
        if (basis, settings) == (self._basis, self._settings):
            return
        if basis != self._basis:
            self._basis = basis
            self._show_basis()
        self._settings = settings
        for name, control in self.fields.items():
            if control.number != getattr(settings, name):
                control.show_number(getattr(settings, name))
        for name, stop_control in self.stop_options.items():
            value = getattr(settings.stop_options, name)
            if isinstance(stop_control, QCheckBox):
                with QSignalBlocker(stop_control):
                    stop_control.setChecked(value)
            elif stop_control.number != (value or None):
                stop_control.show_number(value or None)
        if self.system_prompt.text != settings.system_prompt:
            with QSignalBlocker(self.system_prompt):
                self.system_prompt.show_text(settings.system_prompt)
        self._show_sources()

    def _lay_out(self) -> None:
        grid = QGridLayout()
        grid.setHorizontalSpacing(0)
        grid.setVerticalSpacing(4)
        grid.setColumnMinimumWidth(0, _DOT_PX)
        grid.setColumnStretch(2, 1)
        prompt, dot = label("Prompt", "title"), self._dot(_PROMPT)
        dot.setFixedHeight(prompt.sizeHint().height())  # or the heading would move
        grid.addWidget(prompt, 0, 1, 1, 2)
        grid.addWidget(dot, 0, 0)
        grid.addWidget(self.system_prompt, 1, 1, 1, 2)
        limits = row(label("Limits", "title"), STRETCH, self.limits)
        for heading, names in ((row(label("Sampling", "title")), self.sampling), (limits, _LIMITS)):
            heading.setContentsMargins(0, 12, 0, 0)
            grid.addLayout(heading, grid.rowCount(), 1, 1, 2)
            for name in names:
                self._add_number(grid, name)
        for name, stop_control in self.stop_options.items():
            if isinstance(stop_control, QCheckBox):
                stop_control.setMinimumHeight(_ROW_PX)
                grid.addWidget(stop_control, grid.rowCount(), 1, 1, 2)
            else:
                _add_row(grid, _TITLES[name], stop_control)
                stop_control.setSuffix(" tokens")
            grid.addWidget(self._dot(name), grid.rowCount() - 1, 0)
        area = scrolling(
            column(grid, STRETCH, margins=(0, 0, 16 - BAR_PX, 8)),
            "Settings",
            goes_sideways=False,
            keeps_width=True,
        )
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        column(
            row(self.presets, STRETCH, margins=(16, 16, 16, 12)),
            (area, 1),
            row(self.keep, self.forget, STRETCH, self.reset, spacing=6, margins=(16, 8, 16, 16)),
            spacing=0,
            on=self,
        )

    def _add_number(self, grid: QGridLayout, name: str) -> None:
        title, control = _TITLES[name], self.fields[name]
        control.setSuffix("")  # no room beside the slider
        if name not in _NOT_SLID:
            slider = self.sliders[name] = Slider(f"{title}, slider")
            slider.moved.connect(lambda share: self._slide(name, share))
        named = _add_row(grid, title, control, self.sliders.get(name))
        if name == "thinking_budget":
            self._budget_title = named
        grid.addWidget(self._dot(name), grid.rowCount() - 1, 0)

    def _dot(self, name: str) -> IconButton:
        """Return a button that resets a value; it is shown where the value differs."""
        text = f"Reset {_TITLES[name].lower()}"
        dot = self.resets[name] = IconButton("mark", text, "accent", size=16)
        dot.setProperty("kind", "dot")
        dot.setFixedSize(_DOT_PX, _ROW_PX)
        dot.clicked.connect(lambda: self._reset_value(name))
        return dot

    def _ends(self, name: str) -> tuple[float, float]:
        if name == "max_tokens":
            return 1, float(self._basis.context_length or 32_768)
        option = _OPTIONS[name]
        return _SLIDER_ENDS.get(name, (option.min, option.max))

    def _slide(self, name: str, share: float) -> None:
        minimum, limit = self._ends(name)
        control = self.fields[name]
        if name == "max_tokens" and share == 1.0:
            value: float = control.minimum()  # no limit
        elif name == "max_tokens":  # as many steps from 64 to 128 as from 4,096 to 8,192
            value = round(16 * (limit / 16) ** share)
        else:
            step = control.singleStep()
            value = round(round((minimum + share * (limit - minimum)) / step) * step, 6)
        control.setValue(value)

    def _share(self, name: str, value: float) -> float:
        minimum, limit = self._ends(name)
        if name == "max_tokens":
            return math.log(max(value, 16) / 16) / math.log(limit / 16) if limit > 16 else 1.0
        return (value - minimum) / (limit - minimum)

    def _show_basis(self) -> None:
        basis = self._basis
        context = counted(basis.context_length, "token")
        self.limits.setText(f"Context of {context}" if basis.context_length else "In tokens")
        for name, control in self.fields.items():
            control.setSpecialValueText(basis.unset_text(name, control.unset_text))

    def _show_sources(self) -> None:
        basis, settings = self._basis, self._settings
        for name, control in self.fields.items():
            value = getattr(settings, name)
            source = basis.source(name, value)
            control.setToolTip(". ".join(filter(None, (control.accessibleName(), source))))
            control.setAccessibleDescription(source)
            if name in self.sliders:
                shown = basis.own_number(name) if value is None else value
                # None means the context length.
                share = 1.0 if shown is None else self._share(name, float(shown))
                self.sliders[name].show_share(share, is_set=value is not None)
        self._hide_useless()
        for name, dot in self.resets.items():
            dot.setVisible(_value(settings, name) != _value(basis.beginning, name))
        is_kept = settings == basis.beginning
        self.keep.setVisible(bool(basis.model) and not is_kept)
        self.keep.setAccessibleName(f"Use these settings for new chats with {basis.model}")
        self.keep.setToolTip(self.keep.accessibleName())
        self.forget.setVisible(basis.saved is not None)
        self.reset.setVisible(not is_kept)

    def _hide_useless(self) -> None:
        """Hide unset options that change nothing with the model."""
        basis, options = self._basis, self._settings.stop_options
        has_budget = basis.can_think or self._settings.thinking_budget is not None
        for part in (self._budget_title, self.thinking_budget):
            part.setVisible(has_budget)
        has_end = basis.has_template_end or options.ignore_template_eos
        self.stop_options["ignore_template_eos"].setVisible(has_end)

    def _reset_value(self, name: str) -> None:
        self._controls[name].setFocus()  # the dot disappears
        value = _value(self._basis.beginning, name)
        self._change(f"Reset {_TITLES[name]}", _with_value(self._settings, name, value))

    def _reset(self) -> None:
        if self.reset.hasFocus():
            self.presets.setFocus()  # the button disappears
        self._change("Reset Settings", self._basis.beginning)

    def _edit(self, name: str, value: Any) -> None:
        self._change(f"Change {_TITLES[name]}", _with_value(self._settings, name, value))

    def _change(self, undo_text: str, settings: ConversationSettings) -> None:
        """Emit settings that differ, and show them."""
        if settings != self._settings:
            self.edited.emit(settings, undo_text)
            self.show_settings(self._basis, settings)


def _stop_field(option: StopOption) -> QCheckBox | NumberField:
    """Return the control of an option of stops."""
    if isinstance(option.default, bool):
        box = QCheckBox(option.title)
        box.setToolTip(f"{option.help[0].upper()}{option.help[1:]}")
        return box
    return tokens_field(f"{option.title}: {option.help}", "0 tokens", step=1)


def _add_row(
    grid: QGridLayout, title: str, control: NumberField, slider: Slider | None = None
) -> QLabel:
    """Add a title, which is returned, a slider and a number; the numbers are in one column."""
    line, named = grid.rowCount(), label(title)
    named.setContentsMargins(0, 0, 8, 0)
    for part in (named, control):
        part.setToolTip(control.accessibleName())
    control.setFixedSize(_NUMBER_PX, _ROW_PX)
    grid.addWidget(named, line, 1)
    if slider is None:
        grid.addWidget(control, line, 2, Qt.AlignmentFlag.AlignRight)
    else:
        slider.setMinimumWidth(_NUMBER_PX // 2)
        grid.addLayout(row((slider, 1), control, spacing=8), line, 2)
    return named


def settings_summary(settings: ConversationSettings) -> str:
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
        for option in _STOP_OPTIONS.values()
        if getattr(settings.stop_options, option.name) != option.default
    ]
    return ", ".join(parts).capitalize()
