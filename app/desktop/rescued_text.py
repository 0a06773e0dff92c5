"""Rescues text that could not be saved before a signal ended the program, and offers it again.

The file of conversations may be locked, or its disk full. When a person closes the window, we ask
what to do; a signal cannot wait for an answer. Main thread.
"""

import contextlib
import logging
import os
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from app import paths
from app.paths import made_private
from engine.files.causes import os_cause
from engine.files.safe_files import write_whole
from ui.kit.dialogs import BoxButton, ask
from ui.kit.tasks import Tasks
from ui.records.conversations import Conversation
from ui.records.exchange.archive import conversations_json
from ui.records.store import ConversationStore
from ui.window.main_window import MainWindow

_log = logging.getLogger(__name__)
# ``app.paths`` keeps files that begin with "conversations" private.
_NAME = "conversations-rescued-"
_IMPORTED = "conversations-imported-"
_SUFFIX = ".json"


def rescue(store: ConversationStore, conversations: Iterable[Conversation]) -> Path | None:
    """Write unsaved conversations to a file; return the file, or None if all are saved."""
    lost = [
        one
        for one in conversations
        if one.is_loaded and not one.is_unused and not store.is_kept(one)
    ]
    if not lost:
        return None
    text = conversations_json(lost)
    name = f"{_NAME}{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}{_SUFFIX}"
    for folder in _folders():
        try:
            write_whole(made_private(folder) / name, text)
        except OSError as error:
            _log.error("unsaved conversations cannot be written to %s: %s", folder, os_cause(error))
        else:
            _log.warning("unsaved conversations are kept in %s", folder / name)
            return folder / name
    return None


def rescued_files() -> list[Path]:
    """Return the files of ``rescue`` that have not been imported, the oldest first."""
    found = [
        path
        for folder in _folders()
        if _is_own(folder)
        for path in folder.glob(f"{_NAME}*{_SUFFIX}")
    ]
    return sorted((path for path in found if _is_own(path)), key=lambda path: path.name)


def _folders() -> Iterator[Path]:
    """Yield the folders for rescued files; the first one may be on the full disk."""
    yield paths.data_folder()
    yield paths.config_folder()
    yield paths.log_folder()
    yield Path(tempfile.gettempdir()) / f"fullstop-{_user()}"


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")


def _is_own(path: Path) -> bool:
    """Whether it is this person's and not a link: others can write to ``/tmp``."""
    try:
        found = path.lstat()
    except OSError:
        return False
    is_mine = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    return is_mine and not stat.S_ISLNK(found.st_mode)


class RescuedText:
    """Offers to import rescued conversations."""

    def __init__(self, window: MainWindow, store: ConversationStore) -> None:
        self._window = window
        self._store = store
        self._tasks = Tasks()

    def offer(self) -> None:
        """Ask whether to import the files, if there are any."""
        if not (files := rescued_files()):
            return
        names = ", ".join(path.name for path in files)
        ask(
            self._window,
            "Some of what you wrote could not be saved when Fullstop last quit.",
            f"It was kept in {files[0].parent} ({names}). Import adds each conversation beside "
            "those that are here, which may lack the last words. Otherwise you are asked again at "
            "the next start.",
            answers=[BoxButton("Import", lambda: self._start(files))],
        )

    async def finish(self) -> None:
        """Wait until running imports have ended."""
        await self._tasks.finish()

    def _start(self, found: list[Path]) -> None:
        self._tasks.start(self._import(found), "import rescued conversations")

    async def _import(self, found: list[Path]) -> None:
        files = self._window.workspace.files
        refused: list[str] = []
        files.refused.connect(refused.append)
        try:
            for path in found:
                refused.clear()
                files.import_from(path)
                await files.finish()
                await self._store.settled()
                # A file that cannot be read, or whose text is not saved yet, is offered again.
                if not refused and not self._store.failing_because:
                    _note_imported(path)
        finally:
            files.refused.disconnect(refused.append)


def _note_imported(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.rename(path.with_name(path.name.replace(_NAME, _IMPORTED, 1)))
