"""The presets of settings: a menu, and offers in the message field. Main thread."""

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import QEvent, QObject, QPoint, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QMenu,
    QPushButton,
    QWidget,
    QWidgetAction,
)

from ui.chat.composer.composer import Composer
from ui.chat.session.presets import PresetList
from ui.kit.commands import Command, Entry, Submenu, fill_menu, popup_below
from ui.kit.dialogs import choose_file, choose_target
from ui.kit.icon_engine import themed_icon
from ui.kit.layouts import column
from ui.kit.menus import escape_mnemonics
from ui.records.codec import Preset

_FILTERS = ["Presets (*.json)"]
_KEYS_OF_LIST = (Qt.Key.Key_Up, Qt.Key.Key_Down)
_KEYS_OF_CHOICE = (Qt.Key.Key_Tab, Qt.Key.Key_Return, Qt.Key.Key_Enter)


class PresetButton(QPushButton):
    """Opens a menu of presets."""

    chosen = Signal(object)  # Preset
    save_requested = Signal(str)  # name

    def __init__(self, presets: PresetList) -> None:
        super().__init__("Presets\u2009")
        self.setLayoutDirection(Qt.LayoutDirection.RightToLeft)  # the arrow after the word
        self.setIconSize(QSize(12, 12))
        self.setIcon(themed_icon("chevron-down"))
        self._presets = presets
        self.setAccessibleName("Presets: use, save, delete, import or export")
        self.setToolTip("Saved system prompts, sampling, limits and stop lists")
        self.menu_of_presets = QMenu(self)
        self.menu_of_presets.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        self.name = QLineEdit()
        self.name.setAccessibleName("Name of a new preset")
        self.name.setPlaceholderText("Save Settings As…")
        self.name.setMinimumWidth(168)
        self.name.setToolTip(
            "Return saves the system prompt, sampling, limits and the stop list. "
            "A preset with the same name is replaced."
        )
        self.name.returnPressed.connect(self._save)
        self._add_field()
        fill_menu(self.menu_of_presets, (), self._entries)
        self.menu_of_presets.aboutToShow.connect(self._begin)
        # With setMenu, the menu of a button from right to left would end at its right edge.
        self.clicked.connect(lambda: popup_below(self, self.menu_of_presets))

    def _add_field(self) -> None:
        holder = QWidget()
        column(self.name, margins=(8, 4, 8, 6), on=holder)
        holder.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        holder.setFocusProxy(self.name)
        action = QWidgetAction(self.menu_of_presets)
        action.setDefaultWidget(holder)
        self.menu_of_presets.addAction(action)

    def _entries(self) -> list[Entry]:
        delete = self._presets.delete
        names = [(escape_mnemonics(preset.name), preset) for preset in self._presets.all()]
        if not names:
            return [None, Command("Import…", self._import)]
        return [
            *(Command(name, partial(self.chosen.emit, preset)) for name, preset in names),
            None,
            Submenu("Delete", [Command(n, partial(delete, preset.name)) for n, preset in names]),
            Command("Import…", self._import),
            Command("Export All…", self._export),
        ]

    def _begin(self) -> None:
        self.name.clear()
        QTimer.singleShot(0, self.name, self.name.setFocus)  # once the menu is shown

    def _save(self) -> None:
        if name := self.name.text().strip():
            self.save_requested.emit(name)
            self.menu_of_presets.close()

    def _import(self) -> None:
        choose_file(self.window(), "Import Presets", self._presets.import_from, _FILTERS)

    def _export(self) -> None:
        choose_target(
            self.window(),
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
