"""One window for each user, by a lock file and a local socket. Main thread."""

import contextlib
import hashlib
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from PySide6.QtCore import QLockFile, QObject, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

from app import paths
from app.exits import CommandError
from app.private_files import made_private, tighten
from ui.window.main_window import MainWindow

_log = logging.getLogger(__name__)
_SHOW_MESSAGE = b"show\n"
_OPEN_FILE, _ATTACH_FILE = b"open ", b"attach "
_END = b"\0"  # no path has it
_PATIENCE_MS = 2_000


class SingleInstance(QObject):
    """A lock that only one running program holds."""

    show_requested = Signal()
    file_requested = Signal(Path)
    attachments_requested = Signal(list)  # of paths

    def __init__(self, folder: Path) -> None:
        """Programs with the same folder share one lock; the folder must exist."""
        super().__init__()
        self._folder = folder
        self._lock = QLockFile(str(folder / paths.LOCK_FILE))
        self._lock.setStaleLockTime(0)  # stale only if the process that holds it has ended
        digest = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()
        self._name = f"fullstop-{digest[:16]}"
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._on_new_connection)

    def claim(self) -> bool:
        if not self._lock.tryLock(0) and self._lock.error() == QLockFile.LockError.LockFailedError:
            return False
        tighten(self._folder)  # Qt creates the lock with the umask's permissions
        # If no lock can be written, two windows are better than none.
        QLocalServer.removeServer(self._name)
        self._server.listen(self._name)
        return True

    def ask_to_show(self, opened: Path | None = None, attached: Sequence[Path] = ()) -> bool:
        """Ask the running program to show its window, and to open or attach files there."""
        socket = QLocalSocket()
        socket.connectToServer(self._name)
        if not socket.waitForConnected(_PATIENCE_MS):
            return False
        paths_given = [(_ATTACH_FILE, path) for path in attached]
        paths_given += [(_OPEN_FILE, opened)] if opened is not None else []
        messages = [message + os.fsencode(path) + _END for message, path in paths_given]
        socket.write(b"".join(messages) or _SHOW_MESSAGE)
        while socket.bytesToWrite() and socket.waitForBytesWritten(_PATIENCE_MS):
            pass
        is_sent = not socket.bytesToWrite()
        socket.disconnectFromServer()
        return is_sent

    def show_in(self, window: MainWindow) -> None:
        """Bring a window forward, with the files of other starts, as long as it exists."""
        self.show_requested.connect(window.come_forward)
        self.file_requested.connect(window.open_run)
        self.attachments_requested.connect(window.attach)

    def release(self) -> None:
        self._server.close()
        self._lock.unlock()

    def _on_new_connection(self) -> None:
        while self._server.hasPendingConnections():
            visitor = self._server.nextPendingConnection()
            visitor.disconnected.connect(visitor.deleteLater)
            visitor.readyRead.connect(self._on_ready_read)
            self.show_requested.emit()
        self._on_ready_read()  # read data that arrived before the connection

    def _on_ready_read(self) -> None:
        """Open the files that other starts name, once their names have arrived completely."""
        for visitor in self._server.findChildren(QLocalSocket):
            data = bytes(visitor.peek(visitor.bytesAvailable()).data())
            if not data.endswith(_END):
                continue
            visitor.readAll()
            messages = data.removesuffix(_END).split(_END)
            for message in messages:
                if message.startswith(_OPEN_FILE):
                    self.file_requested.emit(_path(message, _OPEN_FILE))
            files = [
                _path(each, _ATTACH_FILE) for each in messages if each.startswith(_ATTACH_FILE)
            ]
            if files:
                self.attachments_requested.emit(files)


def _path(message: bytes, kind: bytes) -> Path:
    return Path(os.fsdecode(message.removeprefix(kind)))


@contextlib.contextmanager
def only_instance(
    opened: Path | None = None, attached: Sequence[Path] = ()
) -> Iterator[SingleInstance | None]:
    """Yield the lock of the only running program; None after a request to its holder."""
    try:
        folder = made_private(paths.config_folder())
    except OSError as error:
        # Without a folder, starts cannot find each other.
        _log.warning("no folder for settings: %s", error)
        folder = paths.config_folder()
    instance = SingleInstance(folder)
    if not instance.claim():
        if not instance.ask_to_show(opened, attached):
            # Two windows would write over each other's conversations.
            raise CommandError("Fullstop is open already, and does not answer; quit it first")
        yield None
        return
    try:
        yield instance
    finally:
        instance.release()
