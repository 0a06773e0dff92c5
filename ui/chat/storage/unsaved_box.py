"""Asks before a window closes over conversations that are in no file. Main thread."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QMessageBox, QPushButton, QWidget


class UnsavedBox(QMessageBox):
    """Offers to export, to close all the same, or to stay.

    Signals:
        export_wanted: The conversations are to be written to a file first.
        close_wanted: The window is to close although they are lost.
    """

    export_wanted = Signal()
    close_wanted = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("Fullstop")
        self.setIcon(QMessageBox.Icon.Warning)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setText("Some of what you wrote is not saved.")
        self.setInformativeText(
            "The file of your conversations cannot be written, and what it lacks is lost when "
            "Fullstop ends. Make room on the disk and stay a moment, or export your "
            "conversations to another place."
        )
        self.export: QPushButton = self.addButton("Export…", QMessageBox.ButtonRole.ActionRole)
        self.leave: QPushButton = self.addButton(
            "Quit Without Saving", QMessageBox.ButtonRole.DestructiveRole
        )
        stay = self.addButton(QMessageBox.StandardButton.Cancel)
        self.setDefaultButton(self.export)
        self.setEscapeButton(stay)
        self.export.clicked.connect(self.export_wanted)
        self.leave.clicked.connect(self.close_wanted)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
