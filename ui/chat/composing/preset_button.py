"""The button with the presets: choose, save, delete, import, export. Main thread."""

from functools import partial

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QMenu, QPushButton, QWidget

from ui.chat.composing.preset_list import PresetList
from ui.kit.look import icons
from ui.kit.look.theme import Theme
from ui.kit.system.boxes import ask_text
from ui.kit.system.file_dialogs import choose_file, choose_target
from ui.kit.system.menus import add_entry, empty_menu, literal

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

    def __init__(self, theme: Theme, presets: PresetList, dialogs_on: QWidget) -> None:
        super().__init__("Presets\u2009")
        self._theme = theme
        self.setLayoutDirection(Qt.LayoutDirection.RightToLeft)  # the arrow after the word
        theme.follow(self, self._tint)
        self._presets = presets
        self._dialogs_on = dialogs_on
        self.setAccessibleName("Presets: use, save, delete, import or export")
        self.setToolTip("Saved system prompts, sampling, limits and stop lists")
        self.menu_of_presets = QMenu(self)
        self.menu_of_presets.aboutToShow.connect(self._fill)
        self.setMenu(self.menu_of_presets)

    def _tint(self) -> None:
        size = self._theme.px(_ARROW)
        self.setIconSize(QSize(size, size))
        self.setIcon(icons.icon("chevron-down", self._theme.colors.muted, size))

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
