"""The files that go with the message being written, and why one does not. Main thread."""

from collections.abc import Iterable
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ui.chat.composing.file_chip import FileChip
from ui.kit.controls.flow_layout import FlowLayout
from ui.kit.look.theme import Theme
from ui.kit.system.file_dialogs import choose_files
from ui.kit.text.labels import clear_layout_of, label
from ui.records.attachments import (
    Attachment,
    AttachmentRefused,
    read_attachment,
)


class AttachmentRow(QWidget):
    """One chip for each file, with its size and a button that removes it.

    Signals:
        changed: Other files are attached now.
    """

    changed = Signal()

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self.files: tuple[Attachment, ...] = ()
        self._chips = QWidget()
        self._flow = FlowLayout(self._chips)
        self.refusal = label("", "fault", 0.93, is_wrapped=True)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(5)
        layout.addWidget(self._chips)
        layout.addWidget(self.refusal)
        self._show()

    def attach(self, paths: Iterable[Path]) -> None:
        """Add files; those that cannot be added are named with the reason."""
        refused = []
        files = list(self.files)
        for path in paths:
            try:
                found = read_attachment(path)
            except AttachmentRefused as refusal:
                refused.append(str(refusal))
            else:
                if found not in files:
                    files.append(found)
        self.files = tuple(files)
        self._show("\n".join(refused))
        self.changed.emit()

    def show_files(self, files: Iterable[Attachment]) -> None:
        """Show the files of another message."""
        self.files = tuple(files)
        self._show()
        self.changed.emit()

    def clear(self) -> None:
        """Remove all files."""
        self.show_files(())

    def choose(self) -> None:
        """Ask for files."""
        choose_files(self, "Attach text files", self.attach)

    def _remove(self, file: Attachment) -> None:
        self.files = tuple(one for one in self.files if one != file)
        self._show()
        self.changed.emit()

    def _show(self, refusal: str = "") -> None:
        clear_layout_of(self._chips)
        for file in self.files:
            chip = FileChip(self._theme, file, "close", f"Remove {file.name}")
            chip.button.clicked.connect(lambda _=False, one=file: self._remove(one))
            self._flow.addWidget(chip)
        self._chips.setVisible(bool(self.files))
        self.refusal.setText(refusal)
        self.refusal.setVisible(bool(refusal))
        self.setVisible(bool(self.files) or bool(refusal))
