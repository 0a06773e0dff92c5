"""Qt's application as the program starts it: requests of the system and of other starts."""

import asyncio
import contextlib
import gc
import hashlib
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from PySide6.QtCore import QEvent, QLockFile, QObject, Signal
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtNetwork import QLocalServer, QLocalSocket
from PySide6.QtWidgets import QApplication

from app import __version__, paths
from app.paths import made_private, tighten
from ui.window.main_window import MainWindow

# Qt's application as the program starts it: what the system asks of it, and its names.
#
# Main thread. What the system asks arrives at the application object itself, so that no event of
# any other object needs a look: an event filter in Python would be called some hundred times for
# each widget that is made.


class Application(QApplication):
    """Handles requests to quit and to open files.

    Files that arrive before there is a window wait for it: on a Mac, a double click on a saved run
    also starts the program.
    """

    def __init__(self, arguments: Sequence[str] = ()) -> None:
        super().__init__(list(arguments or sys.argv[:1]))
        self._open: Callable[[Path], None] | None = None
        self._quit: Callable[[], object] | None = None
        self._waiting: list[Path] = []
        self.setApplicationName("fullstop")
        self.setApplicationDisplayName("Fullstop")
        self.setApplicationVersion(__version__)
        self.setDesktopFileName("fullstop")
        # The loop must outlive the window until answers, server and engine have ended.
        self.setQuitOnLastWindowClosed(False)

    def serve(self, open_file: Callable[[Path], None], close: Callable[[], object]) -> None:
        """Let a window handle what the system asks, beginning with the files that are waiting."""
        self._open, self._quit = open_file, close
        waiting, self._waiting = self._waiting, []
        for path in waiting:
            open_file(path)

    def detach(self) -> None:
        """Handle requests as before ``serve``, because the window is gone."""
        self._open = self._quit = None

    def event(self, event: QEvent) -> bool:
        """Handle a request of the system."""
        if event.type() == QEvent.Type.Quit and self._quit is not None:
            self._quit()
            return True
        if isinstance(event, QFileOpenEvent) and event.file():
            path = Path(event.file())
            if self._open is None:
                self._waiting.append(path)
            else:
                self._open(path)
            return True
        return super().event(event)


# Keeps Python's cyclic garbage collector on the main thread while there is a window.
#
# The collector runs on any thread that allocates. It could destroy widgets on the engine's or the
# server's thread, where Qt crashes. Main thread.
#
# A full collection stalls the window and its answers for a tenth of a second or more. So it is
# rare, and leaves out the objects of start-up and of the first model.

_INTERVAL_S = 0.5
_OLDEST = 2
# Collections of the middle generation before a full one: some minutes of steady work.
_MIDDLE_PASSES = 100


@contextlib.contextmanager
def gc_on_main_thread(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Collect garbage only on the loop's thread while the context is open."""
    was_enabled, was_frozen = gc.isenabled(), bool(gc.get_freeze_count())
    gc.disable()
    waiting: asyncio.TimerHandle | None = None

    def look() -> None:
        nonlocal waiting
        collect_if_due()
        waiting = loop.call_later(_INTERVAL_S, look)

    look()
    try:
        yield
    finally:
        if waiting is not None:
            waiting.cancel()
        if not was_frozen:
            gc.unfreeze()
        gc.collect()
        if was_enabled:
            gc.enable()


def freeze_gc() -> None:
    """Exclude all present objects from later collections; only the first call has an effect.

    It is instant. Present garbage stays until ``gc_on_main_thread`` ends.
    """
    if not gc.get_freeze_count():
        gc.freeze()


def collect_if_due() -> int | None:
    """Collect the oldest generation whose threshold is passed; return its number or None."""
    counts, thresholds = gc.get_count(), list(gc.get_threshold())
    thresholds[_OLDEST] = max(_MIDDLE_PASSES, thresholds[_OLDEST])
    for generation in reversed(range(len(counts))):
        # A threshold of 0 means never for the youngest generation, and always for the others.
        if counts[generation] > thresholds[generation] and (generation or thresholds[0]):
            gc.collect(generation)
            return generation
    return None


# One window per person: later starts ask the first program to show its window.
#
# A lock file decides which program is first; a local socket next to it carries the request. Main
# thread.

_log = logging.getLogger(__name__)
_LOCK_NAME = "running.lock"
_SHOW_MESSAGE = b"show\n"
_OPEN_FILE, _ATTACH_FILE = b"open ", b"attach "
_END = b"\0"  # no path has it
_MAX_MESSAGE_BYTES = 65_536
_PATIENCE_MS = 2_000


class SingleInstance(QObject):
    """A lock that only one running program holds.

    Signals:
        show_requested: Another start wants this program's window.
        file_requested: Another start wants a file to be opened here; carries its path.
        attachment_requested: Another start wants to ask about a file here; carries its path.
    """

    show_requested = Signal()
    file_requested = Signal(str)
    attachment_requested = Signal(str)

    def __init__(self, folder: Path) -> None:
        """Programs with the same folder share one lock; the folder must exist."""
        super().__init__()
        self._folder = folder
        self._lock = QLockFile(str(folder / _LOCK_NAME))
        self._lock.setStaleLockTime(0)  # stale only if the process that holds it has ended
        digest = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()
        self._name = f"fullstop-{digest[:16]}"
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._on_new_connection)

    def claim(self) -> bool:
        """Try to take the lock; return whether this program holds it."""
        if not self._lock.tryLock(0) and self._lock.error() == QLockFile.LockError.LockFailedError:
            return False
        tighten(self._folder)  # Qt creates the lock with the umask's permissions
        # If no lock can be written, two windows are better than none.
        QLocalServer.removeServer(self._name)
        self._server.listen(self._name)
        return True

    def ask_to_show(self, opened: Path | None = None, attached: Sequence[Path] = ()) -> bool:
        """Ask the running program to show its window, and what is to be opened or attached there.

        Args:
            opened: A saved run.
            attached: Files that go with the next question.
        """
        socket = QLocalSocket()
        socket.connectToServer(self._name)
        if not socket.waitForConnected(_PATIENCE_MS):
            return False
        paths_given = [(_ATTACH_FILE, path) for path in attached]
        paths_given += [(_OPEN_FILE, opened)] if opened is not None else []
        messages = [message + os.fsencode(path) + _END for message, path in paths_given]
        socket.write(b"".join(messages) or _SHOW_MESSAGE)
        is_sent = socket.waitForBytesWritten(_PATIENCE_MS)
        socket.disconnectFromServer()
        return is_sent

    def release(self) -> None:
        """Release the lock for the next start."""
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
            data = bytes(visitor.peek(_MAX_MESSAGE_BYTES).data())
            if not data.endswith(_END):
                continue
            visitor.readAll()
            for message in data.removesuffix(_END).split(_END):
                if message.startswith(_OPEN_FILE):
                    self.file_requested.emit(os.fsdecode(message.removeprefix(_OPEN_FILE)))
                elif message.startswith(_ATTACH_FILE):
                    self.attachment_requested.emit(os.fsdecode(message.removeprefix(_ATTACH_FILE)))


@contextlib.contextmanager
def only_instance(
    opened: Path | None = None, attached: Sequence[Path] = ()
) -> Iterator[SingleInstance | None]:
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
    if not instance.claim() and instance.ask_to_show(opened, attached):
        yield None
        return
    try:
        yield instance
    finally:
        instance.release()


@contextlib.contextmanager
def shown_on_demand(
    window: MainWindow,
    instance: SingleInstance | None,
    open_file: Callable[[Path], None],
    attach: Callable[[Path], None],
) -> Iterator[None]:
    """When the program is started again, bring the window forward with the files it was given."""
    if instance is None:
        yield
        return
    connections = (
        instance.show_requested.connect(window.come_forward),
        instance.file_requested.connect(lambda name: open_file(Path(name))),
        instance.attachment_requested.connect(lambda name: attach(Path(name))),
    )
    try:
        yield
    finally:
        for connection in connections:
            QObject.disconnect(connection)
