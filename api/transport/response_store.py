"""Keeps answers for a while, in memory and on disk, so that later requests can continue them.

Knows no vendor. Any thread.
"""

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import re
import shutil
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import BoundedSemaphore

from api.transport.config import ConfigError
from engine.files.causes import os_cause
from engine.files.safe_files import Later, read_bounded, write_whole

# Keeps answers on disk as well, so that they survive a restart of the server.
#
# Each answer is a file that only its owner can read. Files are written atomically, and their
# names end in the digest of their content: a damaged file is renamed and never read. A separate
# thread writes and deletes, so that no answer waits for the disk; failed writes are tried again.

_log = logging.getLogger(__name__)
_NAME = re.compile(r"response-([0-9a-f]{32})-([0-9a-f]{64})\.txt")
# Leftovers of a server that was killed while it wrote; see ``engine.files.safe_files``.
_BROKEN = ".broken"
_SET_ASIDE = re.compile(_NAME.pattern + re.escape(_BROKEN))
_UNFINISHED = re.compile(r"\.response-[0-9a-f]{32}-[0-9a-f]{64}\.txt\..+")
_ABANDONED_S = 60.0
_MAX_FILE_BYTES = 1 << 30
_TRIED_AGAIN_AFTER_S = 5.0
# Disk space that is left free for others.
_LEFT_FREE_BYTES = 512 << 20
# Most changes that may wait for the disk; beyond that, answers are kept only in memory.
_MAX_WAITING = 1_024
# Memory overhead of a text, and of an id in the index.
_TEXT_BYTES, _FOUND_BYTES = 72, 120


@dataclass(frozen=True, slots=True)
class KeptResponse:
    """An answer with the input that it answered, as JSON.

    Attributes:
        id: Its id.
        previous: The id of the answer that it continues; empty for none.
        sent: The items that were sent for it, without those of earlier answers.
        sent_ids: Their ids.
        answer: The whole answer.
        output_ids: The ids of its items.
        owner: Who asked for it; nobody else can read, continue or delete it.
    """

    id: str
    previous: str
    sent: tuple[str, ...]
    sent_ids: tuple[str, ...]
    answer: str
    output_ids: tuple[str, ...]
    owner: str

    @property
    def size_bytes(self) -> int:
        """About its size in memory, and at most its size on disk.

        A text takes at most four bytes per character.
        """
        texts = (self.answer, *self.sent, *self.sent_ids, *self.output_ids)
        ids = len(self.sent_ids) + len(self.output_ids)
        beside = _TEXT_BYTES * len(texts) + _FOUND_BYTES * ids
        return sum(len(text) * (1 if text.isascii() else 4) for text in texts) + beside + 1_024


def prepared(folder: Path) -> Path:
    """Create the folder for kept answers and check that it is writable.

    Raises:
        ConfigError: It cannot be created or written to.
    """
    folder = folder.expanduser()
    try:
        # One by one: ``mkdir(parents=True)`` does not apply the mode to the parents.
        for missing in [place for place in (folder, *folder.parents) if not place.exists()][::-1]:
            missing.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(exist_ok=True)
        _tighten(folder, 0o700)
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(0, "it is not writable")
    except OSError as error:
        reason = f"{folder} cannot be used: {os_cause(error)}"
        raise ConfigError("kept_responses_folder", reason) from error
    return folder


class ResponseFolder:
    """The kept answers of one server on disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = prepared(folder)
        # Two servers would forget each other's answers, and keep what the other deleted. The lock
        # ends with the process, however that ends.
        self._lock = os.open(self._folder, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            reason = f"{folder} is used by another server; give each a folder of its own"
            raise ConfigError("kept_responses_folder", reason) from None
        except OSError:
            pass  # a file system without locks
        self._thread = ThreadPoolExecutor(1, "fullstop-kept-responses")
        self._room = BoundedSemaphore(_MAX_WAITING)
        # Paths by the ids of the answers; used only by the thread once they are read.
        self._names: dict[str, str] = {}
        self._was_told = False
        # Changes not written yet, by id (own thread).
        self._unwritten: dict[str, KeptResponse] = {}
        self._again = Later(_TRIED_AGAIN_AFTER_S, self._try_again)

    def read(self, max_s: float) -> list[tuple[float, KeptResponse]]:
        """Return the answers that earlier servers kept, least recently used first.

        Damaged files are renamed. Answers that were not used for too long are deleted. Called once,
        before anything else.
        """
        responses: list[tuple[float, KeptResponse]] = []
        now = time.time()
        for path in self._paths():
            with contextlib.suppress(OSError):
                unused_s = max(0.0, now - path.stat().st_mtime)
                if _UNFINISHED.fullmatch(path.name):
                    if unused_s > _ABANDONED_S:
                        path.unlink()
                    continue
                if unused_s > max_s:
                    path.unlink()
                    continue
                if _SET_ASIDE.fullmatch(path.name):
                    continue
                _tighten(path, 0o600)
                response = _read(path)
                if response is None:
                    path.rename(path.with_name(path.name + _BROKEN))
                    self._tell(f"a damaged answer is kept as {path.name}{_BROKEN}")
                    continue
                self._names[response.id] = path.name
                responses.append((unused_s, response))
        return sorted(responses, key=lambda kept: -kept[0])

    def keep(self, response: KeptResponse) -> None:
        """Write an answer in the background."""
        self._do(lambda: self._write_all(response))

    def touch(self, response_id: str) -> None:
        """Note that an answer was used."""
        self._do(lambda: self._touch(response_id))

    def forget(self, response_id: str) -> None:
        """Delete an answer in the background, even if many changes are waiting for the disk."""
        self._thread.submit(self._delete, response_id)

    def close(self) -> None:
        """Wait until everything that can be written is written."""
        self._try_again()
        self._thread.shutdown()
        self._again.cancel()
        os.close(self._lock)

    def _paths(self) -> list[Path]:
        with contextlib.suppress(OSError):
            return [
                file
                for file in self._folder.iterdir()
                if any(kind.fullmatch(file.name) for kind in (_NAME, _UNFINISHED, _SET_ASIDE))
            ]
        return []

    def _do(self, work: Callable[[], None]) -> None:
        if not self._room.acquire(blocking=False):
            self._tell("the disk is too slow: new answers are kept only in memory")
            return

        def done() -> None:
            try:
                work()
            except OSError as error:
                why = os_cause(error)
                self._tell(f"answers are kept only in memory for now: {why}")
            finally:
                self._room.release()

        self._thread.submit(done)

    def _try_again(self) -> None:
        with contextlib.suppress(RuntimeError):  # closed in the meantime
            self._do(self._write_all)

    def _write_all(self, response: KeptResponse | None = None) -> None:
        """Write the waiting changes, in order; those that fail stay for the next attempt."""
        if response is not None:
            self._delete(response.id)
            self._unwritten[response.id] = response
        for change in list(self._unwritten.values()):
            try:
                self._write(change)
            except OSError:
                self._again.begin()
                raise
            except UnicodeEncodeError as error:
                self._tell(f"an answer is kept only in memory: {error.reason}")
            del self._unwritten[change.id]

    def _write(self, response: KeptResponse) -> None:
        text = _written(response)
        if shutil.disk_usage(self._folder).free < len(text) + _LEFT_FREE_BYTES:
            raise OSError(0, "the disk is nearly full")
        name = _name_of(response.id, text)
        write_whole(self._folder / name, text)
        self._names[response.id] = name

    def _touch(self, response_id: str) -> None:
        if (name := self._names.get(response_id)) is not None:
            with contextlib.suppress(FileNotFoundError):
                os.utime(self._folder / name)

    def _delete(self, response_id: str) -> None:
        self._unwritten.pop(response_id, None)
        if (name := self._names.pop(response_id, None)) is not None:
            try:
                (self._folder / name).unlink(missing_ok=True)
            except OSError as error:
                self._tell(f"a kept answer cannot be deleted: {os_cause(error)}")

    def _tell(self, what: str) -> None:
        if not self._was_told:
            self._was_told = True
            _log.warning("%s: %s", self._folder, what)


def _tighten(path: Path, allowed: int) -> None:
    """Make the folder private; a folder shared with other users stays as it is."""
    with contextlib.suppress(OSError):
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & ~allowed and not mode & stat.S_ISVTX and path != Path.home():
            path.chmod(mode & allowed)


def _name_of(response_id: str, text: str) -> str:
    digest = hashlib.sha256(response_id.encode()).hexdigest()[:32]
    return f"response-{digest}-{hashlib.sha256(text.encode()).hexdigest()}.txt"


def _written(response: KeptResponse) -> str:
    """Return an answer as lines: its description, the answer, and each item that was sent."""
    facts = [response.id, response.previous, response.sent_ids, response.output_ids, response.owner]
    # Each JSON text is one line, because kept JSON is never written with indentation.
    return "\n".join([json.dumps(facts), response.answer, *response.sent])


def _read(path: Path) -> KeptResponse | None:
    """Return the answer in a file; None if it is damaged."""
    try:
        text = read_bounded(path, _MAX_FILE_BYTES).decode()
        facts, answer, *sent = text.split("\n")
        # Earlier versions wrote no owner: these answers belong to the clients without a key.
        its_id, previous, sent_ids, output_ids, owner = [*json.loads(facts), ""][:5]
        if path.name != _name_of(its_id, text) or len(sent) != len(sent_ids):
            return None
        ids = (previous, owner, *sent_ids, *output_ids)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    if not all(isinstance(name, str) for name in ids):
        return None
    parts = tuple(sent), tuple(sent_ids), answer, tuple(output_ids)
    return KeptResponse(its_id, previous, *parts, owner)


# Keeps answers for a while, so that later requests can continue them.
#
# They are limited in bytes and in time; the least recently used answer is dropped first. They are
# in memory and, if a folder is given, also on disk, within the same limits.


class KeptResponses:
    """The kept answers of one server.

    Args:
        max_bytes: Memory for all of them; 0 keeps none.
        max_s: How long each is kept after it was last used.
        clock: Returns seconds that never go back.
        folder: Where they are also kept on disk; answers already there are read again.
    """

    def __init__(
        self,
        max_bytes: int,
        max_s: float,
        clock: Callable[[], float] = time.monotonic,
        folder: ResponseFolder | None = None,
    ) -> None:
        self._max_bytes = max_bytes
        self._max_s = max_s
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, KeptResponse] = OrderedDict()
        self._used_s: dict[str, float] = {}
        self._response_of_item: dict[str, str] = {}
        self._bytes = 0
        self._folder = folder
        for unused_s, response in [] if folder is None else folder.read(max_s):
            self._add(response, self._clock() - unused_s)
        self._tidy()

    @property
    def is_on(self) -> bool:
        """Whether answers are kept at all."""
        return self._max_bytes > 0

    @property
    def size_bytes(self) -> int:
        """About how much memory all of them take."""
        return self._bytes

    def keep(self, response: KeptResponse) -> None:
        """Keep an answer; drop others if there is no room."""
        with self._lock:
            self._forget(response.id)
            self._add(response, self._clock())
            if self._folder is not None:
                self._folder.keep(response)
            self._tidy()

    def get(self, owner: str, response_id: str) -> KeptResponse | None:
        """Return an owner's answer, or None if there is none (any more)."""
        with self._lock:
            self._tidy()
            return self._found(owner, response_id)

    def of_item(self, owner: str, item_id: str) -> KeptResponse | None:
        """Return the owner's answer that an item belongs to, or None if there is none."""
        with self._lock:
            self._tidy()
            return self._found(owner, self._response_of_item.get(item_id, ""))

    def chain(self, owner: str, response_id: str) -> Sequence[KeptResponse] | None:
        """Return an answer and all that it continues, oldest first; None if one is missing."""
        responses: dict[str, KeptResponse] = {}
        with self._lock:
            self._tidy()
            while response_id:
                response = self._found(owner, response_id)
                # Edited files could refer to one another in a circle.
                if response is None or response_id in responses:
                    return None
                responses[response_id] = response
                response_id = response.previous
        return list(responses.values())[::-1]

    def forget(self, response_id: str) -> bool:
        """Delete an answer; returns whether it was there."""
        with self._lock:
            return self._forget(response_id)

    def close(self) -> None:
        """Wait until every answer that should be on disk is there."""
        if self._folder is not None:
            self._folder.close()

    def _add(self, response: KeptResponse, used_s: float) -> None:
        self._kept[response.id] = response
        self._used_s[response.id] = used_s
        self._bytes += response.size_bytes
        for item_id in (*response.sent_ids, *response.output_ids):
            self._response_of_item[item_id] = response.id

    def _found(self, owner: str, response_id: str) -> KeptResponse | None:
        response = self._kept.get(response_id)
        if response is not None and response.owner != owner:
            return None
        if response is not None:
            self._kept.move_to_end(response_id)
            self._used_s[response_id] = self._clock()
            if self._folder is not None:
                self._folder.touch(response_id)
        return response

    def _tidy(self) -> None:
        oldest_s = self._clock() - self._max_s
        while self._kept:
            first = next(iter(self._kept))
            if self._bytes <= self._max_bytes and self._used_s[first] >= oldest_s:
                return
            self._forget(first)

    def _forget(self, response_id: str) -> bool:
        response = self._kept.pop(response_id, None)
        if response is None:
            return False
        del self._used_s[response_id]
        self._bytes -= response.size_bytes
        if self._folder is not None:
            self._folder.forget(response_id)
        for item_id in (*response.sent_ids, *response.output_ids):
            if self._response_of_item.get(item_id) == response_id:
                del self._response_of_item[item_id]
        return True
