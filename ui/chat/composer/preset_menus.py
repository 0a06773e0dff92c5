"""The presets in a menu, and as offers after a slash. Main thread."""

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import QEvent, QObject, QPoint, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QListWidget, QListWidgetItem, QMenu, QPushButton, QWidget

from ui.chat.composer.composer import Composer
from ui.chat.session.presets import PresetList
from ui.kit import icons
from ui.kit.dialogs import ask_text, choose_file, choose_target
from ui.kit.menus import add_entry, empty_menu, literal
from ui.kit.theme import current_theme
from ui.records.codec import Preset

_ARROW = 12
_FILTERS = ["Presets (*.json)"]


class PresetButton(QPushButton):
    """Opens a menu of presets.

    Signals:
        chosen: A person wants to use a preset; carries the ``Preset``.
        save_wanted: A person wants to save the present settings; carries the name.
    """

    chosen = Signal(object)
    save_wanted = Signal(str)

    def __init__(self, presets: PresetList, dialogs_on: QWidget) -> None:
        super().__init__("Presets\u2009")
        self.setLayoutDirection(Qt.LayoutDirection.RightToLeft)  # the arrow after the word
        current_theme().follow(self, self._tint)
        self._presets = presets
        self._dialogs_on = dialogs_on
        self.setAccessibleName("Presets: use, save, delete, import or export")
        self.setToolTip("Saved system prompts, sampling, limits and stop lists")
        self.menu_of_presets = QMenu(self)
        self.menu_of_presets.aboutToShow.connect(self._fill)
        self.setMenu(self.menu_of_presets)

    def _tint(self) -> None:
        theme = current_theme()
        size = theme.px(_ARROW)
        self.setIconSize(QSize(size, size))
        self.setIcon(icons.icon("chevron-down", theme.colors.muted, size))

    def _fill(self) -> None:
        menu, presets = self.menu_of_presets, self._presets
        empty_menu(menu)
        for preset in presets.all():
            add_entry(menu, literal(preset.name), partial(self.chosen.emit, preset))
        if not presets.all():
            menu.addAction("No Presets Yet").setEnabled(False)
        menu.addSeparator()
        add_entry(menu, "Save as Preset…", self._ask_for_name)
        deleting = menu.addMenu("Delete")
        deleting.setEnabled(bool(presets.all()))
        for preset in presets.all():
            add_entry(deleting, literal(preset.name), partial(presets.delete, preset.name))
        menu.addSeparator()
        add_entry(menu, "Import…", self._import)
        add_entry(menu, "Export All…", self._export)

    def _ask_for_name(self) -> None:
        question = (
            "Name of the preset. A preset with the same name is replaced. A preset contains the "
            "system prompt, sampling, limits and the stop list."
        )
        ask_text(self._dialogs_on, "Save as Preset", question, self.save_wanted.emit)

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


# The focus stays in the field; further typing filters the list.

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
        width = min(self._composer.width(), current_theme().px(_WIDEST_PX))
        corner = self._composer.mapTo(around, QPoint(0, 0))
        self.setGeometry(corner.x(), max(0, corner.y() - height - _GAP_PX), width, height)


def fitting(presets: Sequence[Preset], typed: str) -> list[Preset]:
    """Return the presets whose names contain the typed text, those that begin with it first."""
    wanted = typed.strip().casefold()
    found = [preset for preset in presets if wanted in preset.name.casefold()]
    return sorted(found, key=lambda one: not one.name.casefold().startswith(wanted))
