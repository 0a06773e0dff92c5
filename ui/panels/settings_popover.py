"""What belongs to a conversation beside its messages, in a small card. Main thread."""

from PySide6.QtCore import QPoint, QSize, Qt, Signal
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import (
    QDoubleSpinBox,
    QFrame,
    QGridLayout,
    QPlainTextEdit,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from ui.viewmodels.conversations import ConversationSettings
from ui.widgets.labels import label

_MOST_TOKENS = 1_000_000
_UNSET_TEMPERATURE = -0.05


class SettingsPopover(QFrame):
    """System prompt, temperature and length.

    Signals:
        edited: The settings are others now; carries the ``ConversationSettings``.
    """

    edited = Signal(object)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint)
        self.setObjectName("popover")
        self._settings = ConversationSettings()
        self.system_prompt = QPlainTextEdit()
        self.system_prompt.setAccessibleName("System prompt")
        self.system_prompt.setPlaceholderText("Instructions that precede the conversation")
        self.system_prompt.setTabChangesFocus(True)
        self.system_prompt.setFixedHeight(96)
        self.temperature = QDoubleSpinBox()
        self.temperature.setAccessibleName("Temperature")
        self.temperature.setRange(_UNSET_TEMPERATURE, 2.0)
        self.temperature.setSingleStep(0.05)
        self.temperature.setSpecialValueText("The model’s own")
        self.max_tokens = QSpinBox()
        self.max_tokens.setAccessibleName("Longest answer, in tokens")
        self.max_tokens.setRange(0, _MOST_TOKENS)
        self.max_tokens.setSingleStep(64)
        self.max_tokens.setSuffix(" tokens")
        self.max_tokens.setSpecialValueText("No limit")
        form = QGridLayout()
        form.setHorizontalSpacing(14)
        form.setVerticalSpacing(9)
        form.setColumnStretch(1, 1)
        form.addWidget(label("Temperature"), 0, 0)
        form.addWidget(self.temperature, 0, 1)
        form.addWidget(label("Longest answer"), 1, 0)
        form.addWidget(self.max_tokens, 1, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 14, 16, 14)
        layout.setSpacing(9)
        layout.addWidget(label("This conversation", "title"))
        layout.addWidget(label("System prompt", "muted", 0.95))
        layout.addWidget(self.system_prompt)
        layout.addLayout(form)
        hint = "Temperature 0 always takes the likeliest token. Changes count from the next answer."
        layout.addWidget(label(hint, "faint", 0.9, is_wrapped=True))
        self.setFixedWidth(340)
        for spin in (self.temperature, self.max_tokens):
            spin.setKeyboardTracking(False)
            # A styled spin box leaves no room before its text.
            spin.lineEdit().setTextMargins(8, 0, 8, 0)
        self.temperature.valueChanged.connect(self._edit)
        self.max_tokens.valueChanged.connect(self._edit)

    def show_settings(self, settings: ConversationSettings) -> None:
        """Show settings without telling of a change."""
        self._settings = settings
        for field in (self.temperature, self.max_tokens):
            field.blockSignals(True)
        temperature = settings.temperature
        self.temperature.setValue(_UNSET_TEMPERATURE if temperature is None else temperature)
        self.max_tokens.setValue(settings.max_tokens or 0)
        self.system_prompt.setPlainText(settings.system_prompt)
        for field in (self.temperature, self.max_tokens):
            field.blockSignals(False)

    def pop_up(self, anchor: QWidget) -> None:
        """Appear above a widget."""
        self.adjustSize()
        size: QSize = self.sizeHint()
        corner = anchor.mapToGlobal(QPoint(0, -size.height() - 8))
        self.move(corner)
        self.show()
        self.system_prompt.setFocus()

    def hideEvent(self, event: QHideEvent) -> None:
        """Take over the system prompt when the card closes."""
        super().hideEvent(event)
        self._edit()

    def _edit(self) -> None:
        temperature = self.temperature.value()
        settings = ConversationSettings(
            system_prompt=self.system_prompt.toPlainText(),
            temperature=None if temperature < 0 else round(temperature, 3),
            max_tokens=self.max_tokens.value() or None,
            is_thinking=self._settings.is_thinking,
        )
        if settings != self._settings:
            self._settings = settings
            self.edited.emit(settings)


def settings_words(settings: ConversationSettings) -> str:
    """Name what differs from the usual; empty where nothing does."""
    parts: list[str] = []
    if settings.system_prompt.strip():
        parts.append("system prompt")
    if settings.temperature is not None:
        parts.append(f"temperature {settings.temperature:g}")
    if settings.max_tokens is not None:
        parts.append(f"{settings.max_tokens:,} tokens")
    return ", ".join(parts).capitalize()
