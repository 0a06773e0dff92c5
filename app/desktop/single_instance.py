"""One window per person: later starts ask the first program to show its window.

A lock file decides which program is first; a local socket next to it carries the request. Main
thread.
"""

import contextlib
import hashlib
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from PySide6.QtCore import QLockFile, QObject, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

from app.folders import paths
from app.folders.privacy import made_private, tighten
from ui.window.main_window import MainWindow

_log = logging.getLogger(__name__)
_LOCK_NAME = "running.lock"
_WISH = b"show\n"
_FILE_WISH = b"open "
_END = b"\0"  # no path has it
_LONGEST_WISH = 65_536
_PATIENCE_MS = 2_000


class SingleInstance(QObject):
    """A lock that only one running program holds.

    Signals:
        show_wanted: Another start wants this program's window.
        file_wanted: Another start wants a file to be opened here; carries its path.
    """

    show_wanted = Signal()
    file_wanted = Signal(str)

    def __init__(self, folder: Path, parent: QObject | None = None) -> None:
        """Programs with the same folder share one lock; the folder must exist."""
        super().__init__(parent)
        self._folder = folder
        self._lock = QLockFile(str(folder / _LOCK_NAME))
        self._lock.setStaleLockTime(0)  # stale only if the process that holds it has ended
        digest = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()
        self._name = f"fullstop-{digest[:16]}"
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._welcome)

    def claim(self) -> bool:
        """Try to take the lock; return whether this program holds it."""
        if not self._lock.tryLock(0) and self._lock.error() == QLockFile.LockError.LockFailedError:
            return False
        tighten(self._folder)  # Qt creates the lock with the umask's permissions
        # If no lock can be written, two windows are better than none.
        QLocalServer.removeServer(self._name)
        self._server.listen(self._name)
        return True

    def ask_to_show(self, opened: Path | None = None) -> bool:
        """Ask the running program to show its window, and to open a file if one is given."""
        socket = QLocalSocket()
        socket.connectToServer(self._name)
        if not socket.waitForConnected(_PATIENCE_MS):
            return False
        socket.write(_WISH if opened is None else _FILE_WISH + os.fsencode(opened) + _END)
        was_told = socket.waitForBytesWritten(_PATIENCE_MS)
        socket.disconnectFromServer()
        return was_told

    def release(self) -> None:
        """Release the lock for the next start."""
        self._server.close()
        self._lock.unlock()

    def _welcome(self) -> None:
        while self._server.hasPendingConnections():
            visitor = self._server.nextPendingConnection()
            visitor.disconnected.connect(visitor.deleteLater)
            visitor.readyRead.connect(self._hear)
            self.show_wanted.emit()
        self._hear()  # read data that arrived before the connection

    def _hear(self) -> None:
        """Open the files that other starts name, once their names have arrived completely."""
        for visitor in self._server.findChildren(QLocalSocket):
            said = bytes(visitor.peek(_LONGEST_WISH).data())
            if said.startswith(_FILE_WISH) and said.endswith(_END):
                visitor.readAll()
                name = said.removeprefix(_FILE_WISH).removesuffix(_END)
                self.file_wanted.emit(os.fsdecode(name))


@contextlib.contextmanager
def only_instance(opened: Path | None = None) -> Iterator[SingleInstance | None]:
    """Yield the lock of the only running program; None after asking another program that
    holds it.
    """
    try:
        folder = made_private(paths.config_folder())
    except OSError as error:
        # Without a folder, starts cannot find each other.
        _log.warning("no folder for settings: %s", error)
        folder = paths.config_folder()
    instance = SingleInstance(folder)
    if not instance.claim() and instance.ask_to_show(opened):
        yield None
        return
    try:
        yield instance
    finally:
        instance.release()


@contextlib.contextmanager
def shown_on_demand(
    window: MainWindow, instance: SingleInstance | None, open_file: Callable[[Path], None]
) -> Iterator[None]:
    """When the program is started again, bring the window forward and open the given file."""

    def open_named(name: str) -> None:
        open_file(Path(name))

    if instance is not None:
        instance.show_wanted.connect(window.come_forward)
        instance.file_wanted.connect(open_named)
    try:
        yield
    finally:
        if instance is not None:
            instance.show_wanted.disconnect(window.come_forward)
            instance.file_wanted.disconnect(open_named)
