"""The list of presets that a slash in the empty message field opens. Main thread.

The focus stays in the field; further typing filters the list.
"""

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QListWidget, QListWidgetItem, QWidget

from ui.chat.composing.composer import Composer
from ui.chat.composing.preset_list import PresetList
from ui.kit.look.theme import Theme
from ui.records.codec import Preset

_MOST_ROWS = 8
_GAP_PX = 6
_WIDEST_PX = 380
_KEYS_OF_LIST = (Qt.Key.Key_Up, Qt.Key.Key_Down)
_KEYS_OF_CHOICE = (Qt.Key.Key_Tab, Qt.Key.Key_Return, Qt.Key.Key_Enter)


class PresetOffers(QListWidget):
    """Offers presets above the message field.

    Up and Down choose, Tab or Return uses the preset, Escape closes the list.

    Signals:
        chosen: A person wants to use a preset; carries the ``Preset``.
    """

    chosen = Signal(object)

    def __init__(
        self, theme: Theme, presets: PresetList, composer: Composer, around: QWidget
    ) -> None:
        super().__init__(around)
        self._theme = theme
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
        composer.input.focus_changed.connect(self._leave)
        around.installEventFilter(self)

    @property
    def names(self) -> list[str]:
        """The names of the offered presets, in their order."""
        return [preset.name for preset in self._offered] if self.isVisible() else []

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Handle the keys of the list while it is open."""
        if self.isHidden():
            return False
        if watched is not self._composer.input:
            if event.type() == QEvent.Type.Resize:
                self._place()
            return False
        if not isinstance(event, QKeyEvent) or event.modifiers() != Qt.KeyboardModifier.NoModifier:
            return False
        if event.type() == QEvent.Type.ShortcutOverride and event.key() == Qt.Key.Key_Escape:
            event.accept()  # otherwise Escape would stop the running answer
            return True
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
        is_asked = text.startswith("/") and "\n" not in text
        if not is_asked or not self._declined or not text.startswith(self._declined):
            self._declined = ""
        every = self._presets.all() if is_asked else []
        self._offered = fitting(every, text[1:])
        is_empty = is_asked and not every and text == "/"
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
            self._place()
            self.raise_()

    def _choose(self, row: int) -> None:
        self.setCurrentRow(row)
        said = f"{self._offered[row].name}, preset {row + 1} of {len(self._offered)}"
        self._composer.input.setAccessibleDescription(said)

    def _use(self, item: QListWidgetItem | None) -> None:
        row = -1 if item is None else self.row(item)
        if 0 <= row < len(self._offered):
            preset = self._offered[row]
            self._composer.set_text("")
            self.chosen.emit(preset)

    def _leave(self, has_focus: bool) -> None:
        if not has_focus:
            self.hide()

    def hideEvent(self, event: QEvent) -> None:
        """Stop announcing the chosen preset."""
        self._composer.input.setAccessibleDescription("")

    def _place(self) -> None:
        """Place the list above the message field."""
        around = self.parentWidget()
        if around is None:
            return
        rows = max(1, min(self.count(), _MOST_ROWS))
        height = rows * max(1, self.sizeHintForRow(0)) + 2 * self.frameWidth() + 8
        width = min(self._composer.width(), self._theme.px(_WIDEST_PX))
        corner = self._composer.mapTo(around, QPoint(0, 0))
        self.setGeometry(corner.x(), max(0, corner.y() - height - _GAP_PX), width, height)


def fitting(presets: Sequence[Preset], typed: str) -> list[Preset]:
    """Return the presets whose names contain the typed text, those that begin with it first."""
    wanted = typed.strip().casefold()
    found = [one for one in presets if wanted in one.name.casefold()]
    return sorted(found, key=lambda one: not one.name.casefold().startswith(wanted))
