"""The files attached to the message, and why a file could not be attached. Main thread."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QApplication, QVBoxLayout, QWidget

from ui.chat.composing.file_chip import FileChip, words_of
from ui.chat.composing.file_preview import FilePreview
from ui.chat.composing.reading_files import ReadingFile, ReadingFiles
from ui.kit.controls.flow_layout import FlowLayout
from ui.kit.look.theme import Theme
from ui.kit.system.file_dialogs import choose_files
from ui.kit.text.labels import clear_layout_of, label
from ui.records.attachments import Attachment

_PICTURE = (
    "The clipboard holds an image. The model cannot see images: describe it in words, or attach "
    "its text."
)


class AttachmentRow(QWidget):
    """One chip for each file, with its size, its tokens, and a button that removes it.

    Signals:
        changed: The attached files, or the files being read, have changed.
        read_for_another: A file was read, but its owner is no longer shown; carries the owner and
            the ``Attachment``.
        left: The chip with the focus is gone, so another widget should get the focus.
    """

    changed = Signal()
    read_for_another = Signal(object, object)
    left = Signal()

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._owner: object = None
        self._tokens: Mapping[Attachment, int] = {}
        # What could not be read for owners that are not shown now, until they are shown again.
        self._refusals: dict[object, str] = {}
        self.files: tuple[Attachment, ...] = ()
        self.reading = ReadingFiles(self)
        self._preview: FilePreview | None = None
        self._chips = QWidget()
        self._flow = FlowLayout(self._chips)
        self.refusal = label("", "fault", 0.93, is_wrapped=True)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(5)
        layout.addWidget(self._chips)
        layout.addWidget(self.refusal)
        self.reading.changed.connect(self._tell)
        self.reading.read.connect(self._take)
        self.reading.refused.connect(self._note_refusal)
        self._show()

    @property
    def is_reading(self) -> bool:
        """Whether a file for the message is still being read."""
        return any(file.owner is self._owner for file in self.reading.files)

    @property
    def preview(self) -> FilePreview:
        """The card that shows a file."""
        if self._preview is None:
            self._preview = FilePreview(self._theme, self)
            self._preview.chosen.connect(self._choose_pages)
            self._preview.remove_wanted.connect(self._remove_shown)
        return self._preview

    def attach(self, paths: Iterable[Path]) -> None:
        """Add files once they have been read; for the others, show the reasons."""
        self._say("")
        self.reading.begin(paths, self._owner)

    def add(self, file: Attachment) -> None:
        """Add a file that was read already."""
        if file not in self.files:
            self.show_files((*self.files, file), self._owner)

    def refuse(self, why: str) -> None:
        """Show why a file is not attached, below earlier reasons."""
        self._say(_below(self.refusal.text(), why))

    def refuse_picture(self) -> None:
        """Say that a picture on the clipboard cannot be attached."""
        self._say(_PICTURE)

    def show_files(self, files: Iterable[Attachment], owner: object = None) -> None:
        """Show the files of another message."""
        if self._owner is not owner:
            self._refusals[self._owner] = self.refusal.text()
        self.files, self._owner = tuple(files), owner
        self._say(self._refusals.pop(owner, ""))
        self._tell()

    def show_tokens(self, tokens: Mapping[Attachment, int]) -> None:
        """Show how many tokens the files have."""
        self._tokens = tokens
        for number, file in enumerate(self.files):
            if (chip := self.chip(number)) is not None:
                chip.say(words_of(file, tokens.get(file)), file.remark)
        if self._preview is not None and self._preview.isVisible():
            self._preview.show_tokens(tokens.get(self._preview.file))

    def clear(self) -> None:
        """Remove all files."""
        self.show_files((), self._owner)

    def choose(self) -> None:
        """Ask for files."""
        choose_files(self, "Attach Files", self.attach)

    def chip(self, number: int) -> FileChip | None:
        """Return the chip of a file."""
        item = self._flow.itemAt(number)
        widget = None if item is None else item.widget()
        return widget if isinstance(widget, FileChip) else None

    def _note_refusal(self, owner: object, why: str) -> None:
        if owner is self._owner:
            self.refuse(why)
        else:
            self._refusals[owner] = _below(self._refusals.get(owner, ""), why)

    def _take(self, owner: object, file: Attachment) -> None:
        if owner is not self._owner:
            self.read_for_another.emit(owner, file)
        elif file not in self.files:
            self.files = (*self.files, file)
            self._tell()

    def _open(self, number: int) -> None:
        file, chip = self.files[number], self.chip(number)
        if chip is not None:
            self.preview.show_file(file, self._tokens.get(file))
            self.preview.pop_up(chip)

    def _choose_pages(self, chosen: Attachment) -> None:
        self.files = tuple(
            chosen if one.all_pages is chosen.all_pages and one.name == chosen.name else one
            for one in self.files
        )
        self._tell()

    def _remove_shown(self) -> None:
        if self.preview.file in self.files:
            self._remove(self.files.index(self.preview.file))

    def _remove(self, number: int) -> None:
        had_focus = self._has_focus()
        self.files = self.files[:number] + self.files[number + 1 :]
        self._tell()
        following = self.chip(min(number, len(self.files) - 1)) if self.files else None
        if had_focus and following is not None:
            following.setFocus()

    def _tell(self) -> None:
        had_focus = self._has_focus()
        self._show()
        if had_focus and not self._has_focus():
            self.left.emit()  # the chip that had the focus is gone
        self.changed.emit()

    def _has_focus(self) -> bool:
        focused = QApplication.focusWidget()
        return focused is not None and focused.isVisible() and self.isAncestorOf(focused)

    def _say(self, refusal: str) -> None:
        self.refusal.setText(refusal)
        self._show_rows()

    def _show(self) -> None:
        clear_layout_of(self._chips)
        for number, file in enumerate(self.files):
            self._flow.addWidget(self._chip_of(number, file))
        for reading in self.reading.files:
            if reading.owner is self._owner:
                self._flow.addWidget(self._chip_of_reading(reading))
        self._show_rows()

    def _show_rows(self) -> None:
        self._chips.setVisible(self._flow.count() > 0)
        has_refusal = bool(self.refusal.text())
        self.refusal.setVisible(has_refusal)
        self.setVisible(self._flow.count() > 0 or has_refusal)

    def _chip_of(self, number: int, file: Attachment) -> FileChip:
        words = words_of(file, self._tokens.get(file))
        chip = FileChip(self._theme, file.name, words, "close", f"Remove {file.name}")
        chip.say(words, file.remark)
        chip.take_keys()
        chip.opened.connect(lambda: self._open(number))
        chip.removed.connect(lambda: self._remove(number))
        chip.button.clicked.connect(lambda: self._remove(number))
        return chip

    def _chip_of_reading(self, reading: ReadingFile) -> FileChip:
        chip = FileChip(
            self._theme, reading.name, "reading…", "close", f"Stop reading {reading.name}"
        )
        chip.button.clicked.connect(lambda: self.reading.give_up(reading))
        reading.progressed.connect(chip.show_progress)
        return chip


def _below(earlier: str, why: str) -> str:
    return "\n".join(filter(None, (earlier, why)))
