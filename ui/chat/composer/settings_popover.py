"""The settings of a conversation, in a small card, and the presets of them. Main thread."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

from PySide6.QtCore import QEvent, QObject, QPoint, QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QHideEvent, QKeyEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QGridLayout,
    QListWidget,
    QListWidgetItem,
    QMenu,
    QPushButton,
    QSizePolicy,
    QWidget,
)

from engine.stopping.rules import STOP_OPTIONS, StopOption
from engine.values.request import SAMPLING_OPTIONS
from engine.wording import counted
from ui.chat.composer.composer import Composer
from ui.chat.session.presets import PresetList
from ui.kit.buttons import IconButton, push_button
from ui.kit.commands import Command, Entry, Submenu, fill_menu
from ui.kit.dialogs import choose_file, choose_target, prompt_text
from ui.kit.fields import NumberField, Slider, TextArea
from ui.kit.icon_engine import themed_icon
from ui.kit.labels import ElidedLabel, label, show_text
from ui.kit.layouts import STRETCH, column, row, scrolling
from ui.kit.menus import escape_mnemonics
from ui.kit.windows import Popover, lay_out_hidden, pop_up_above
from ui.records.codec import Preset
from ui.records.conversations import ConversationSettings

_FILTERS = ["Presets (*.json)"]
_KEYS_OF_LIST = (Qt.Key.Key_Up, Qt.Key.Key_Down)
_KEYS_OF_CHOICE = (Qt.Key.Key_Tab, Qt.Key.Key_Return, Qt.Key.Key_Enter)
_OPTIONS = {option.name: option for option in SAMPLING_OPTIONS}
_WIDTH_PX, _SIDE_PX, _MIN_HEIGHT_PX = 420, 16, 120
_NUMBER_PX, _ROW_PX = 132, 28
_LIMITS = ("max_tokens", "thinking_budget")
# The defaults where neither the user nor the model's own files set a value.
_OFF = {"temperature": 0.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
# Where a slider ends; the field beside it takes greater numbers.
_SLIDER_ENDS = {"top_k": 100.0, "repetition_penalty": 2.0}
_NOT_SLID = ("seed", "thinking_budget")
# In the window, each stop has its own scope.
_STOP_OPTIONS = tuple(option for option in STOP_OPTIONS if option.name != "scope")


class PresetButton(QPushButton):
    """Opens a menu of presets."""

    chosen = Signal(object)  # Preset
    save_requested = Signal(str)  # name

    def __init__(self, presets: PresetList, dialogs_on: QWidget) -> None:
        super().__init__("Presets\u2009")
        self.setLayoutDirection(Qt.LayoutDirection.RightToLeft)  # the arrow after the word
        self.setIconSize(QSize(12, 12))
        self.setIcon(themed_icon("chevron-down"))
        self._presets = presets
        self._dialogs_on = dialogs_on
        self.setAccessibleName("Presets: use, save, delete, import or export")
        self.setToolTip("Saved system prompts, sampling, limits and stop lists")
        self.menu_of_presets = QMenu(self)
        self.menu_of_presets.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        fill_menu(self.menu_of_presets, (), self._entries)
        self.setMenu(self.menu_of_presets)

    def _entries(self) -> list[Entry]:
        delete = self._presets.delete
        names = [(escape_mnemonics(preset.name), preset) for preset in self._presets.all()]
        used = [Command(name, partial(self.chosen.emit, preset)) for name, preset in names]
        return [
            *(used or [Command("No Presets Yet", self._ask_for_name, enabled=False)]),
            None,
            Command("Save as Preset…", self._ask_for_name),
            Submenu("Delete", [Command(n, partial(delete, preset.name)) for n, preset in names]),
            None,
            Command("Import…", self._import),
            Command("Export All…", self._export),
        ]

    def _ask_for_name(self) -> None:
        question = (
            "Name of the preset. A preset with the same name is replaced. A preset contains the "
            "system prompt, sampling, limits and the stop list."
        )
        prompt_text(self._dialogs_on, "Save as Preset", question, self.save_requested.emit)

    def _import(self) -> None:
        choose_file(self._dialogs_on, "Import Presets", self._presets.import_from, _FILTERS)

    def _export(self) -> None:
        choose_target(
            self._dialogs_on,
            "Export All Presets",
            self._presets.export_to,
            name="presets.json",
            filters=_FILTERS,
        )


class PresetOffers(QListWidget):
    """Offers presets above the message field.

    Up and Down choose, Tab or Return uses the preset, Escape closes the list.
    """

    chosen = Signal(object)  # Preset

    def __init__(self, presets: PresetList, composer: Composer, around: QWidget) -> None:
        super().__init__(around)
        self._presets = presets
        self._composer = composer
        self._declined = ""
        self._offered: list[Preset] = []
        self.setProperty("kind", "rows")
        self.setAccessibleName("Presets")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.hide()
        self.itemClicked.connect(self._use)
        composer.input.textChanged.connect(self._offer)
        composer.input.installEventFilter(self)
        composer.input.focus_changed.connect(self._on_focus)
        around.installEventFilter(self)

    @property
    def names(self) -> list[str]:
        return [preset.name for preset in self._offered] if self.isVisible() else []

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if self.isHidden():
            return False
        if watched is not self._composer.input:
            if event.type() == QEvent.Type.Resize:
                self._move_above()
            return False
        if not isinstance(event, QKeyEvent) or event.modifiers() != Qt.KeyboardModifier.NoModifier:
            return False
        return event.type() == QEvent.Type.KeyPress and self._take_key(event.key())

    def _take_key(self, key: int) -> bool:
        if key == Qt.Key.Key_Escape:
            self._declined = self._composer.text
            self.hide()
        elif key in _KEYS_OF_LIST and self._offered:
            by = 1 if key == Qt.Key.Key_Down else -1
            self._choose((self.currentRow() + by) % len(self._offered))
        elif key in _KEYS_OF_CHOICE and self._offered:
            self._use(self.currentItem())
        else:
            return False
        return True

    def _offer(self) -> None:
        """Offer the matching presets, if the text begins with a slash."""
        text = self._composer.text
        is_requested = text.startswith("/") and "\n" not in text
        if not is_requested or not self._declined or not text.startswith(self._declined):
            self._declined = ""
        every = self._presets.all() if is_requested else []
        self._offered = fitting(every, text[1:])
        is_empty = is_requested and not every and text == "/"
        self.clear()
        for preset in self._offered:
            QListWidgetItem(preset.name, self)
        if is_empty:
            hint = QListWidgetItem("No presets yet: save one in Settings, Presets", self)
            hint.setFlags(Qt.ItemFlag.NoItemFlags)
        self.setVisible(bool(self._offered or is_empty) and not self._declined)
        if self._offered:
            self._choose(0)
        if self.isVisible():
            self._move_above()
            self.raise_()

    def _choose(self, row: int) -> None:
        self.setCurrentRow(row)
        saved = f"{self._offered[row].name}, preset {row + 1} of {len(self._offered)}"
        self._composer.input.setAccessibleDescription(saved)

    def _use(self, item: QListWidgetItem | None) -> None:
        row = -1 if item is None else self.row(item)
        if 0 <= row < len(self._offered):
            preset = self._offered[row]
            self._composer.set_text("")
            self.chosen.emit(preset)

    def _on_focus(self, has_focus: bool) -> None:
        if not has_focus:
            self.hide()

    def hideEvent(self, event: QEvent) -> None:
        """Stop announcing the chosen preset."""
        self._composer.input.setAccessibleDescription("")

    def _move_above(self) -> None:
        around = self.parentWidget()
        if around is None:
            return
        rows = max(1, min(self.count(), 8))
        around_px = self.height() - self.viewport().height()  # the frame and the padding
        height = rows * max(1, self.sizeHintForRow(0)) + around_px
        width = min(self._composer.width(), 380)
        corner = self._composer.mapTo(around, QPoint(0, 0))
        self.setGeometry(corner.x(), max(0, corner.y() - height - 6), width, height)


def fitting(presets: Sequence[Preset], typed: str) -> list[Preset]:
    """Return the presets whose names contain the typed text, first the names that begin with it."""
    target = typed.strip().casefold()
    matching = [preset for preset in presets if target in preset.name.casefold()]
    return sorted(matching, key=lambda preset: not preset.name.casefold().startswith(target))


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
    return field


@dataclass(frozen=True, slots=True)
class SettingsBasis:
    """What the settings of a conversation stand on."""

    model: str = ""
    own: Mapping[str, float] = field(default_factory=dict)
    context_length: int = 0
    saved: ConversationSettings | None = None
    usual: ConversationSettings = field(default_factory=ConversationSettings)

    @property
    def beginning(self) -> ConversationSettings:
        """The settings of a new conversation with the model."""
        return self.usual if self.saved is None else self.saved

    def own_number(self, name: str) -> float | int | None:
        """Return what the model does by itself; None if there is no such number."""
        return self.own.get(name, _OFF.get(name))

    def unset_text(self, name: str, usual: str) -> str:
        if name == "max_tokens" and self.context_length:
            return f"No limit ({self.context_length:,})"
        number = self.own_number(name)
        if number is None or not self.model:
            return usual
        return f"{number:g} (model)"

    def source(self, name: str, value: Any) -> str:
        """Return where a value comes from, in short; empty for the model's own."""
        if value is None:
            return ""
        if self.saved is not None and value == getattr(self.saved, name):
            return f"For new chats with {self.model}"
        if value == getattr(self.usual, name):
            return "From Settings"
        return "Set in this chat"


class SettingsPopover(Popover):
    """Shows system prompt, sampling and length, and the presets."""

    edited = Signal(object)  # ConversationSettings
    kept = Signal(object)  # ConversationSettings for new chats with the model, or None

    def __init__(self, parent: QWidget, presets: PresetList) -> None:
        super().__init__(parent)
        self._settings = ConversationSettings()
        self._basis = SettingsBasis()
        self.about = ElidedLabel("", "muted", 0.95)
        self.sliders: dict[str, Slider] = {}
        self.resets: dict[str, IconButton] = {}
        self.keep = QPushButton()
        self.keep.clicked.connect(lambda: self.kept.emit(self._settings))
        self.forget = push_button(
            "Remove", "Remove the settings of new chats with this model", kind="link"
        )
        self.forget.clicked.connect(lambda: self.kept.emit(None))
        self.reset = push_button("Reset", "Reset the settings of this conversation")
        self.reset.clicked.connect(self._reset)
        self.presets = PresetButton(presets, parent)
        self.system_prompt = TextArea(
            "System prompt", "Instructions that the model reads before the conversation", 96
        )
        self.sampling = {option.name: sampling_field(option.name) for option in SAMPLING_OPTIONS}
        self.max_tokens = tokens_field("Maximum length, in tokens")
        self.thinking_budget = tokens_field("Thinking budget, in tokens", minimum=0)
        self.stop_options = {option.name: _stop_field(option) for option in _STOP_OPTIONS}
        self._lay_out()
        for name, control in self._fields().items():
            control.number_edited.connect(lambda value, name=name: self._edit(**{name: value}))
        for option in _STOP_OPTIONS:
            changed = partial(self._edit_stop_option, option)
            stop_control = self.stop_options[option.name]
            if isinstance(stop_control, QCheckBox):
                stop_control.toggled.connect(changed)
            else:
                stop_control.number_edited.connect(changed)

    def show_basis(self, basis: SettingsBasis) -> None:
        self._basis = basis
        context = counted(basis.context_length, "token")
        text = f"{basis.model} · context of {context}" if basis.context_length else basis.model
        show_text(self.about, text)
        for name, control in self._fields().items():
            usual = control.unset_text
            control.setSpecialValueText(basis.unset_text(name, usual))
        self._show_sources()

    def show_settings(self, settings: ConversationSettings) -> None:
        """Show settings without emitting ``edited``."""
        self._settings = settings
        for name, control in self._fields().items():
            control.show_number(getattr(settings, name))
        self._show_sources()
        for name, stop_control in self.stop_options.items():
            value = getattr(settings.stop_options, name)
            if isinstance(stop_control, QCheckBox):
                with QSignalBlocker(stop_control):
                    stop_control.setChecked(value)
            else:
                stop_control.show_number(value or None)
        self.system_prompt.show_text(settings.system_prompt)

    def pop_up(self, anchor: QWidget) -> None:
        lay_out_hidden(self)
        self._fit_height(anchor.mapToGlobal(QPoint()).y())
        pop_up_above(self, anchor)
        self.system_prompt.setFocus()

    def hideEvent(self, event: QHideEvent) -> None:
        """Apply the system prompt when the card closes."""
        super().hideEvent(event)
        self._edit(system_prompt=self.system_prompt.text)

    def _fields(self) -> dict[str, NumberField]:
        common = {
            "temperature": self.sampling["temperature"],
            "max_tokens": self.max_tokens,
            "thinking_budget": self.thinking_budget,
        }
        return {**common, **self.sampling}

    def _lay_out(self) -> None:
        grid = QGridLayout()
        grid.setHorizontalSpacing(8)
        grid.setVerticalSpacing(4)
        grid.setColumnStretch(1, 1)
        grid.addWidget(label("Prompt", "muted", 0.95), 0, 0, 1, 4)
        grid.addWidget(self.system_prompt, 1, 0, 1, 4)
        titles = {option.name: option.title for option in SAMPLING_OPTIONS}
        titles |= {"max_tokens": "Maximum length", "thinking_budget": "Thinking budget"}
        for group, names in (("Sampling", tuple(self.sampling)), ("Limits", _LIMITS)):
            heading = label(group, "muted", 0.95)
            heading.setContentsMargins(0, 8, 0, 0)
            grid.addWidget(heading, grid.rowCount(), 0, 1, 4)
            for name in names:
                self._add_number(grid, name, titles[name], self._fields()[name])
        for option in _STOP_OPTIONS:
            stop_control, line = self.stop_options[option.name], grid.rowCount()
            if isinstance(stop_control, QCheckBox):
                grid.addWidget(stop_control, line, 0, 1, 4)
            else:
                grid.addWidget(label(option.title), line, 0)
                stop_control.setFixedSize(_NUMBER_PX, _ROW_PX)
                grid.addWidget(stop_control, line, 2)
        inside = self._inside = QWidget()
        # As wide as the card, also where a field would like more.
        inside.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        column(grid, on=inside)
        self._area = scrolling(inside, "", goes_sideways=False)
        self._area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        column(
            row((label("This Conversation", "title"), 1), self.presets),
            self.about,
            self._area,
            row(self.keep, self.forget, STRETCH, self.reset, spacing=6),
            spacing=8,
            margins=(_SIDE_PX, 14, _SIDE_PX, 14),
            on=self,
        )

    def _add_number(self, grid: QGridLayout, name: str, title: str, control: NumberField) -> None:
        """Add a row: title, slider, field, and a dot where the value is the user's own."""
        line = grid.rowCount()
        reset = IconButton("mark", f"Reset {title.lower()}", "accent", size=16)
        policy = reset.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        reset.setSizePolicy(policy)
        reset.clicked.connect(lambda: self._reset_number(name))
        self.resets[name] = reset
        reset.setFixedSize(24, _ROW_PX)
        control.setFixedSize(_NUMBER_PX, _ROW_PX)
        grid.addWidget(label(title), line, 0)
        if name not in _NOT_SLID:
            slider = self.sliders[name] = Slider(f"{title}, slider")
            slider.moved.connect(lambda share: self._slide(name, share))
            grid.addWidget(slider, line, 1)
        grid.addWidget(control, line, 2)
        grid.addWidget(reset, line, 3)

    def _ends(self, name: str) -> tuple[float, float]:
        if name == "max_tokens":
            return 1, float(self._basis.context_length or 32_768)
        option = _OPTIONS[name]
        return option.min, _SLIDER_ENDS.get(name, option.max)

    def _slide(self, name: str, share: float) -> None:
        minimum, limit = self._ends(name)
        control = self._fields()[name]
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

    def _show_sources(self) -> None:
        basis, settings = self._basis, self._settings
        for name, control in self._fields().items():
            value = getattr(settings, name)
            source = basis.source(name, value)
            control.setToolTip(". ".join(filter(None, (control.accessibleName(), source))))
            control.setAccessibleDescription(source)
            self.resets[name].setVisible(value != getattr(basis.beginning, name))
            if name in self.sliders:
                shown = basis.own_number(name) if value is None else value
                # None means the context length.
                share = 1.0 if shown is None else self._share(name, float(shown))
                self.sliders[name].show_share(share, is_set=value is not None)
        is_kept = settings == basis.beginning
        self.keep.setVisible(bool(basis.model))
        self.keep.setText("Use for New Chats")
        self.keep.setAccessibleName(f"Use these settings for new chats with {basis.model}")
        self.keep.setToolTip(self.keep.accessibleName())
        self.keep.setEnabled(not is_kept)
        self.forget.setVisible(basis.saved is not None)
        self.reset.setEnabled(not is_kept)

    def _reset_number(self, name: str) -> None:
        self._fields()[name].show_number(getattr(self._basis.beginning, name))
        self._edit(**{name: getattr(self._basis.beginning, name)})

    def _reset(self) -> None:
        self._edit(
            **{
                each.name: getattr(self._basis.beginning, each.name)
                for each in fields(ConversationSettings)
            }
        )
        self.show_settings(self._settings)

    def _fit_height(self, bottom: int) -> None:
        """Make all settings visible, or scroll them where the chat has no room for them."""
        chat = self.parentWidget()
        assert chat is not None
        target = self._inside.sizeHint().height()
        self._area.setFixedHeight(0)
        available = bottom - chat.mapToGlobal(QPoint()).y() - 8 - self.sizeHint().height()
        height = min(target, max(available, _MIN_HEIGHT_PX))
        bar_px = self._area.verticalScrollBar().sizeHint().width() if target > height else 0
        self._area.setFixedHeight(height)
        self.setFixedWidth(_WIDTH_PX + bar_px)

    def _edit_stop_option(self, option: StopOption, value: Any) -> None:
        options = self._settings.stop_options
        value = option.default if value is None else value
        self._edit(stop_options=replace(options, **{option.name: value}))

    def _edit(self, **fields: Any) -> None:
        settings = replace(self._settings, **fields)
        if settings != self._settings:
            self._settings = settings
            self._show_sources()
            self.edited.emit(settings)


def _stop_field(option: StopOption) -> QCheckBox | NumberField:
    """Return the control of an option of stops."""
    if isinstance(option.default, bool):
        box = QCheckBox(option.title)
        box.setToolTip(f"{option.help[0].upper()}{option.help[1:]}")
        return box
    return tokens_field(option.title, "No tokens", step=1)


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
        for option in _STOP_OPTIONS
        if getattr(settings.stop_options, option.name) != option.default
    ]
    return ", ".join(parts).capitalize()
