"""The button with the presets: choose, save, delete, import, export. Main thread."""

from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QFileDialog, QInputDialog, QMenu, QPushButton, QWidget

from ui.chat.composing.preset_list import PresetList
from ui.kit.look import icons
from ui.kit.look.theme import Theme

_ARROW = 12
_FILTER = "Presets (*.json)"


class PresetButton(QPushButton):
    """Opens a menu of presets.

    Signals:
        chosen: A preset is to be used; carries the ``Preset``.
        save_wanted: The present settings are to be kept; carries the name.
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
        menu.clear()
        for old in menu.findChildren(QMenu):
            old.deleteLater()  # a cleared menu keeps the menus that were in it
        for preset in presets.all():
            action = menu.addAction(preset.name.replace("&", "&&"))
            action.triggered.connect(lambda _=False, chosen=preset: self.chosen.emit(chosen))
        if not presets.all():
            menu.addAction("No presets yet").setEnabled(False)
        menu.addSeparator()
        menu.addAction("Save as Preset…").triggered.connect(self._ask_for_name)
        deleting = menu.addMenu("Delete")
        deleting.setEnabled(bool(presets.all()))
        for preset in presets.all():
            action = deleting.addAction(preset.name.replace("&", "&&"))
            action.triggered.connect(lambda _=False, name=preset.name: presets.delete(name))
        menu.addSeparator()
        menu.addAction("Import…").triggered.connect(self._import)
        menu.addAction("Export All…").triggered.connect(self._export)

    def _ask_for_name(self) -> None:
        dialog = QInputDialog(self._dialogs_on)
        dialog.setWindowTitle("Save as Preset")
        dialog.setLabelText(
            "Name. A preset with the same name is replaced. It holds the system prompt, sampling, "
            "limits and the stop list."
        )
        dialog.textValueSelected.connect(
            lambda name: self.save_wanted.emit(name.strip()) if name.strip() else None
        )
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()

    def _import(self) -> None:
        dialog = QFileDialog(self._dialogs_on, "Import presets")
        dialog.setNameFilters([_FILTER, "All files (*)"])
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.fileSelected.connect(lambda path: self._presets.import_from(Path(path)))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()

    def _export(self) -> None:
        dialog = QFileDialog(self._dialogs_on, "Export all presets")
        dialog.setNameFilters([_FILTER])
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix("json")
        dialog.selectFile("presets.json")
        dialog.fileSelected.connect(lambda path: self._presets.export_to(Path(path)))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()
