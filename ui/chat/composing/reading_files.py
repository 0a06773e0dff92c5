"""Reads files for a message on another thread. Main thread."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from ui.kit.background.tasks import Tasks
from ui.records.attachments import Attachment, AttachmentRefused
from ui.records.documents import FileReader, ReadingEnded


class ReadingFile(QObject):
    """A file that is being read.

    Signals:
        progressed: Pages have been read; carries their number and the number of all pages.
    """

    progressed = Signal(int, int)

    def __init__(self, path: Path, owner: object) -> None:
        # It has no parent, because the reading thread may outlive the widget that shows the file.
        super().__init__()
        self.owner = owner
        self.is_given_up = False
        # Called on the reading thread; the signal crosses to the main thread.
        self.reader = FileReader(path, self.progressed.emit)
        self.name = self.reader.name

    def give_up(self) -> None:
        """Stop reading, without a signal."""
        self.is_given_up = True
        self.reader.close()


class ReadingFiles(QObject):
    """Reads files one after another, in their order.

    Signals:
        changed: The files being read have changed.
        read: A file has been read; carries its owner and the ``Attachment``.
        refused: A file cannot be attached; carries its owner and the reason.
    """

    changed = Signal()
    read = Signal(object, object)
    refused = Signal(object, str)

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.files: list[ReadingFile] = []
        self._tasks = Tasks()
        self._is_reading = False
        files = self.files
        self.destroyed.connect(lambda: _give_up(files))

    def begin(self, paths: Iterable[Path], owner: object) -> None:
        """Read files for an owner."""
        self.files.extend(ReadingFile(path, owner) for path in paths)
        self.changed.emit()
        if self.files and not self._is_reading:
            self._is_reading = True
            self._tasks.start(self._read_all(), "read attached files")

    def give_up(self, file: ReadingFile) -> None:
        """Stop reading a file."""
        file.give_up()
        self._forget(file)

    def end(self) -> None:
        """Stop reading all files, without a signal."""
        _give_up(self.files)

    async def finish(self) -> None:
        """Stop all reading, and wait for its end."""
        self.end()
        await self._tasks.finish()

    async def _read_all(self) -> None:
        try:
            while self.files:
                file = self.files[0]
                found: Attachment | None = None
                refusal = ""
                try:
                    found = await asyncio.to_thread(file.reader.read)
                except AttachmentRefused as error:
                    refusal = str(error)
                except ReadingEnded:
                    pass
                if file.is_given_up:
                    continue
                self._forget(file)
                if found is not None:
                    self.read.emit(file.owner, found)
                elif refusal:
                    self.refused.emit(file.owner, refusal)
        finally:
            self._is_reading = False

    def _forget(self, file: ReadingFile) -> None:
        if file in self.files:
            self.files.remove(file)
            self.changed.emit()


def _give_up(files: list[ReadingFile]) -> None:
    for file in files:
        file.give_up()
    files.clear()
