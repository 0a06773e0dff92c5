"""What belongs to a conversation beside its messages, in a small card. Main thread."""

from collections.abc import Iterator
from dataclasses import replace

from PySide6.QtCore import QPoint, QSize, Qt, Signal
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import (
    QDoubleSpinBox,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QPlainTextEdit,
    QPushButton,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from engine.verdict import counted
from ui.panels.preset_button import PresetButton
from ui.theme import Theme
from ui.viewmodels.conversations import ConversationSettings
from ui.viewmodels.preset_list import PresetList
from ui.widgets.growing_input import never_sideways
from ui.widgets.labels import label

_MOST_TOKENS = 1_000_000
_MOST_SEED = 2_147_483_647
_UNSET = "The model’s own"


class SettingsPopover(QFrame):
    """System prompt, sampling and length, and the presets that hold them.

    Signals:
        edited: The settings are others now; carries the ``ConversationSettings``.
    """

    edited = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget, presets: PresetList) -> None:
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint)
        self.setObjectName("popover")
        self._theme = theme
        self._settings = ConversationSettings()
        self.presets = PresetButton(theme, presets, parent)
        self.system_prompt = QPlainTextEdit()
        self.system_prompt.setAccessibleName("System prompt")
        self.system_prompt.setPlaceholderText("Instructions that precede the conversation")
        self.system_prompt.setTabChangesFocus(True)
        never_sideways(self.system_prompt)
        self.temperature = _number("Temperature", 2.0, 0.05)
        self.max_tokens = QSpinBox()
        self.max_tokens.setAccessibleName("Longest answer, in tokens")
        self.max_tokens.setRange(0, _MOST_TOKENS)
        self.max_tokens.setSingleStep(64)
        self.max_tokens.setSuffix(" tokens")
        self.max_tokens.setSpecialValueText("No limit")
        self.top_p = _number("Top p: share of the probability that is drawn from", 1.0, 0.05)
        self.min_p = _number("Min p: least probability beside the likeliest token", 1.0, 0.01)
        self.repetition = _number("Repetition penalty: 1 is none", 3.0, 0.05)
        self.top_k = _whole("Top k: number of tokens that are drawn from, 0 for all", 100_000)
        self.seed = _whole("Seed: makes answers repeatable", _MOST_SEED)
        self.seed.setSpecialValueText("Another each time")
        self._more = QPushButton("More sampling settings")
        self._more.setProperty("kind", "fold")
        self._more.setAccessibleName("More sampling settings")
        self._more.setCheckable(True)
        self._rare = QWidget()
        self._rare.hide()
        self._lay_out()
        theme.follow(self, self._fit)
        self._more.toggled.connect(self._show_rare)
        for field in self._fields():
            field.setKeyboardTracking(False)
            # A styled spin box leaves no room before its text.
            field.lineEdit().setTextMargins(8, 0, 8, 0)
            field.valueChanged.connect(self._edit)

    def show_settings(self, settings: ConversationSettings) -> None:
        """Show settings without telling of a change."""
        self._settings = settings
        for field in self._fields():
            field.blockSignals(True)
        values = (
            (self.temperature, settings.temperature),
            (self.top_p, settings.top_p),
            (self.min_p, settings.min_p),
            (self.repetition, settings.repetition_penalty),
        )
        for number, value in values:
            number.setValue(number.minimum() if value is None else value)
        self.max_tokens.setValue(settings.max_tokens or 0)
        self.top_k.setValue(-1 if settings.top_k is None else settings.top_k)
        self.seed.setValue(-1 if settings.seed is None else settings.seed)
        self.system_prompt.setPlainText(settings.system_prompt)
        for field in self._fields():
            field.blockSignals(False)

    def pop_up(self, anchor: QWidget) -> None:
        """Appear above a widget."""
        self.adjustSize()
        size: QSize = self.sizeHint()
        corner = anchor.mapToGlobal(QPoint(0, -size.height() - 8))
        room = anchor.screen().availableGeometry()
        corner.setX(max(room.left(), min(corner.x(), room.right() - size.width())))
        corner.setY(max(room.top(), corner.y()))
        self.move(corner)
        self.show()
        self.system_prompt.setFocus()

    def hideEvent(self, event: QHideEvent) -> None:
        """Take over the system prompt when the card closes."""
        super().hideEvent(event)
        self._edit()

    def _fields(self) -> "tuple[QSpinBox | QDoubleSpinBox, ...]":
        rare = (self.top_p, self.top_k, self.min_p, self.repetition, self.seed)
        return (self.temperature, self.max_tokens, *rare)

    def _lay_out(self) -> None:
        form, rare = _grid(), _grid()
        for row, (words, field) in enumerate(
            (("Temperature", self.temperature), ("Longest answer", self.max_tokens))
        ):
            form.addWidget(label(words), row, 0)
            form.addWidget(field, row, 1)
        for row, (words, field) in enumerate(
            (
                ("Top p", self.top_p),
                ("Top k", self.top_k),
                ("Min p", self.min_p),
                ("Repetition penalty", self.repetition),
                ("Seed", self.seed),
            )
        ):
            rare.addWidget(label(words), row, 0)
            rare.addWidget(field, row, 1)
        rare.setContentsMargins(0, 0, 0, 0)
        self._grids = (form, rare)
        self._rare.setLayout(rare)
        head = QHBoxLayout()
        head.addWidget(label("This conversation", "title"), 1)
        head.addWidget(self.presets)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 14, 16, 14)
        layout.setSpacing(9)
        layout.addLayout(head)
        layout.addWidget(label("System prompt", "muted", 0.95))
        layout.addWidget(self.system_prompt)
        layout.addLayout(form)
        layout.addWidget(self._more, 0, Qt.AlignmentFlag.AlignLeft)
        layout.addWidget(self._rare)
        hint = "Temperature 0 always takes the likeliest token. Changes count from the next answer."
        layout.addWidget(label(hint, "faint", 0.9, is_wrapped=True))

    def _fit(self) -> None:
        # One left edge for all fields, also for those that are folded away.
        names = [name for grid in self._grids for name in _first_column(grid)]
        widest = max(name.sizeHint().width() for name in names)
        for grid in self._grids:
            grid.setColumnMinimumWidth(0, widest)
        self.system_prompt.setFixedHeight(self._theme.px(96))
        self.setFixedWidth(self._theme.px(340))

    def _show_rare(self, is_shown: bool) -> None:
        bottom = self.geometry().bottom()
        self._rare.setVisible(is_shown)
        says = "Fewer" if is_shown else "More"
        self._more.setAccessibleName(f"{says} sampling settings")
        self._more.setText(f"{says} sampling settings")
        self.adjustSize()
        self.move(self.x(), bottom - self.height() + 1)

    def _edit(self) -> None:
        settings = replace(
            self._settings,
            system_prompt=self.system_prompt.toPlainText(),
            temperature=_value(self.temperature),
            max_tokens=self.max_tokens.value() or None,
            top_p=_value(self.top_p),
            top_k=None if self.top_k.value() < 0 else self.top_k.value(),
            min_p=_value(self.min_p),
            repetition_penalty=_value(self.repetition),
            seed=None if self.seed.value() < 0 else self.seed.value(),
        )
        if settings != self._settings:
            self._settings = settings
            self.edited.emit(settings)


def _number(says: str, most: float, step: float) -> QDoubleSpinBox:
    """Return a field whose lowest value stands for the model's own."""
    field = QDoubleSpinBox()
    field.setAccessibleName(says)
    field.setToolTip(says)
    field.setRange(-step, most)
    field.setSingleStep(step)
    field.setSpecialValueText(_UNSET)
    return field


def _whole(says: str, most: int) -> QSpinBox:
    """Return a field whose lowest value, -1, stands for the model's own."""
    field = QSpinBox()
    field.setAccessibleName(says)
    field.setToolTip(says)
    field.setRange(-1, most)
    field.setSpecialValueText(_UNSET)
    return field


def _value(field: QDoubleSpinBox) -> float | None:
    return None if field.value() < 0 else round(field.value(), 3)


def _grid() -> QGridLayout:
    grid = QGridLayout()
    grid.setHorizontalSpacing(14)
    grid.setVerticalSpacing(9)
    grid.setColumnStretch(1, 1)
    return grid


def _first_column(grid: QGridLayout) -> Iterator[QWidget]:
    for row in range(grid.rowCount()):
        item = grid.itemAtPosition(row, 0)
        widget = None if item is None else item.widget()
        if widget is not None:
            yield widget


def settings_words(settings: ConversationSettings) -> str:
    """Name what differs from the usual; empty where nothing does."""
    parts: list[str] = []
    if settings.system_prompt.strip():
        parts.append("system prompt")
    if settings.temperature is not None:
        parts.append(f"temperature {settings.temperature:g}")
    if settings.max_tokens is not None:
        parts.append(counted(settings.max_tokens, "token"))
    rare = {
        "top p": settings.top_p,
        "top k": settings.top_k,
        "min p": settings.min_p,
        "repetition penalty": settings.repetition_penalty,
        "seed": settings.seed,
    }
    parts += [f"{name} {value:g}" for name, value in rare.items() if value is not None]
    return ", ".join(parts).capitalize()
