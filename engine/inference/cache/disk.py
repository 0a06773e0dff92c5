"""Finds, reads and writes the caches on disk of one loaded model. Uses MLX on disk threads."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx

from engine.inference.cache.folder import DiskCache, Stamps, Ticket, fingerprint_of
from engine.inference.cache.index import (
    TOKEN_BYTES,
    Addition,
    Chains,
    LoadedBeginning,
    NotASegment,
    Piece,
    SegmentHeader,
    StoredBeginning,
    key_of,
)
from engine.inference.cache.segments import (
    bytes_of,
    can_be_trimmed,
    is_cut_anywhere,
    join,
    kinds_of,
    load,
    save,
    trimmed,
)
from engine.values.request import CacheOwner

# ``find`` is called where prompts are rendered, ``keep`` on the engine thread.

_log = logging.getLogger(__name__)
# The model reads shorter prompts as fast as a file can be read.
LEAST_TOKENS = 64
# How long after loading the model prompts wait for the list of files. Other prompts wait behind
# them.
_PATIENCE_S = 5.0
# The most bytes that may wait to be written, because they take memory meanwhile.
_MOST_WAITING_BYTES = 1 << 30


class DamagedSegment(Exception):
    """A file does not have the expected content."""


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """A cache that waits to be written."""

    ticket: Ticket
    tokens: bytes
    make: Callable[[int], list[Any]]
    size_bytes: int


class ModelDiskCache:
    """The caches on disk of one loaded model."""

    def __init__(self, disk: DiskCache, model: Path, stamps: Stamps, cache: Sequence[Any]) -> None:
        self._disk = disk
        self._model = model
        self._stamps = stamps
        self._kinds = kinds_of(cache)
        self._is_cut_anywhere = is_cut_anywhere(cache)
        self._fingerprint: str | None = None
        self._chains = Chains()
        self._lock = threading.Lock()
        self._waiting_lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._waits_until_s = time.monotonic() + _PATIENCE_S
        device = str(mx.default_device())
        # The writer does this after the writes of a model that was unloaded: it may be the same
        # model.
        self._is_listed = disk.writer.do(
            lambda: disk.tried("listed", lambda: self._list_files(device))
        )

    # -- finding ---------------------------------------------------------------------------

    def _list_files(self, device: str) -> None:
        fingerprint = fingerprint_of(self._model, self._stamps, self._kinds, device)
        if fingerprint is None:
            _log.info("no caches are kept: the files of the model changed while it was loaded")
            return
        folder = self._disk.folder
        found: dict[str, SegmentHeader] = {}
        for file in folder.files_of_model(fingerprint):
            try:
                segment = SegmentHeader.from_metadata(folder.metadata(file.name))
                if segment.model != fingerprint or not file.name.startswith(
                    folder.prefix(fingerprint, segment.owner)
                ):
                    raise NotASegment("of another model or owner")
            except FileNotFoundError:
                continue  # another process has deleted it
            except (OSError, ValueError, NotASegment) as error:
                _log.info("a kept cache is damaged and dropped: %s", error)
                folder.delete([file.name])
            else:
                found[file.name] = segment
        with self._lock:
            left_out = self._chains.add_all(found.items())
            self._fingerprint = fingerprint
        folder.delete(left_out)

    def find(self, owner: CacheOwner, tokens: Sequence[int]) -> StoredBeginning | None:
        """Return the owner's files that hold most of a prompt; None if reading them does not pay.

        The files never hold the whole prompt: the model reads at least its last token.
        """
        if len(tokens) <= LEAST_TOKENS or not self._disk.most_bytes:
            return None
        try:
            self._is_listed.exception(max(0.0, self._waits_until_s - time.monotonic()))
        except (TimeoutError, CancelledError):
            return None
        with self._lock:
            found = self._chains.longest(owner.name, key_of(tokens), len(tokens) - 1)
        return found if found is not None and found.tokens >= LEAST_TOKENS else None

    # -- reading ---------------------------------------------------------------------------

    def read(
        self,
        wanted: Sequence[StoredBeginning],
        done: Callable[[list[LoadedBeginning | None]], None],
    ) -> None:
        """Read the beginnings of some prompts."""

        def finish(reading: "Future[list[LoadedBeginning | None]]") -> None:
            failed = reading.cancelled() or reading.exception() is not None
            done([None] * len(wanted) if failed else reading.result())

        reading = self._disk.reader.do(lambda: [self._read(one) for one in wanted])
        reading.add_done_callback(finish)

    def _read(self, found: StoredBeginning) -> LoadedBeginning | None:
        folder = self._disk.folder
        parts = []
        piece = found.pieces[0]
        try:
            for piece in found.pieces:
                segment = piece.segment
                held, taken = segment.end - segment.start, piece.end - segment.start
                parts.append((self._read_piece(piece), held, taken))
            cache = trimmed(*parts[0]) if segment.is_whole else join(parts)
        except Exception as error:  # mlx-lm may raise anything
            if not isinstance(error, FileNotFoundError):
                _log.info("a kept cache is damaged and dropped: %s", error)
            self._drop([piece.name])
            return None
        # The last piece first, so that a file is never older than those that build on it.
        folder.touch([piece.name for piece in reversed(found.pieces)])
        return LoadedBeginning(cache, found.tokens)

    def _read_piece(self, piece: Piece) -> list[Any]:
        """Return the cache in a file."""
        folder = self._disk.folder
        if not folder.is_intact(piece.name):
            raise DamagedSegment("its content is not what was written")
        cache, metadata = load(folder.path / piece.name)
        found = SegmentHeader.from_metadata(metadata)
        if found != piece.segment or kinds_of(cache) != self._kinds:
            raise DamagedSegment("it holds something else")
        if found.is_whole == self._is_cut_anywhere:
            raise DamagedSegment("it holds a cache of another kind")
        return cache

    def _drop(self, names: Sequence[str]) -> None:
        """Forget files and delete them, with those that build on them."""
        with self._lock:
            names = [*names, *self._chains.discard(names)]
        self._disk.writer.do(
            lambda: self._disk.tried("deleted", lambda: self._disk.folder.delete(names))
        )

    # -- writing ---------------------------------------------------------------------------

    def ticket(self, owner: CacheOwner) -> Ticket:
        """Return the right to keep an answer's cache; forgetting its owner ends that right."""
        return self._disk.ticket(owner)

    def keep(
        self,
        ticket: Ticket,
        tokens: Sequence[int],
        make: Callable[[int], list[Any]],
        size: int,
    ) -> None:
        """Queue a cache for writing. Engine thread."""
        if len(tokens) < LEAST_TOKENS or not self._disk.is_valid(ticket):
            return
        if size > self._disk.most_bytes:
            return
        one = _Waiting(ticket, key_of(tokens), make, size)
        with self._waiting_lock:
            waiting = sum(other.size_bytes for other in self._waiting)
            if waiting and waiting + size > _MOST_WAITING_BYTES:
                _log.info("a cache is not kept: the disk is too slow")
                return
            self._waiting.append(one)
        self._disk.writer.do(lambda: self._write_waiting(one))

    def _write_waiting(self, one: _Waiting) -> None:
        with self._waiting_lock:
            self._waiting.remove(one)
            # A later turn of the same conversation also waits already, and contains all of this.
            is_outdated = self._is_cut_anywhere and any(
                other.ticket == one.ticket and other.tokens.startswith(one.tokens)
                for other in self._waiting
            )
        if not is_outdated and self._disk.is_valid(one.ticket):
            self._disk.tried("kept", lambda: self._write(one))

    def _write(self, one: _Waiting) -> None:
        """Write a cache; raises ``OSError`` where the disk refuses it."""
        fingerprint = self._fingerprint
        if fingerprint is None:
            return
        addition = self._addition(fingerprint, one)
        if addition is None:
            return
        cache = one.make(addition.start)
        is_whole = not self._is_cut_anywhere
        segment = SegmentHeader(
            model=fingerprint,
            owner=one.ticket.owner,
            parent=addition.parent,
            start=addition.start,
            tokens=one.tokens[addition.start * TOKEN_BYTES :],
            is_whole=is_whole,
            can_trim=is_whole and can_be_trimmed(cache, len(one.tokens) // TOKEN_BYTES),
        )
        self._take_in(self._saved(segment, cache), segment, addition)

    def _addition(self, fingerprint: str, one: _Waiting) -> Addition | None:
        # Other processes may have deleted files, and a new file must not build on a deleted one.
        there = {file.name for file in self._disk.folder.files_of_model(fingerprint)}
        with self._lock:
            orphans = self._chains.keep_only(there)
            add = self._chains.addition if self._is_cut_anywhere else self._chains.snapshot
            addition = add(one.ticket.owner, one.tokens)
        self._disk.folder.delete(orphans)
        return addition

    def _saved(self, segment: SegmentHeader, cache: list[Any]) -> str:
        folder = self._disk.folder
        with folder.unfinished(bytes_of(cache)) as file:
            save(file, cache, segment.to_metadata())
            return file.commit(folder.prefix(segment.model, segment.owner))

    def _take_in(self, name: str, segment: SegmentHeader, addition: Addition) -> None:
        folder = self._disk.folder
        with self._lock:
            self._chains.add(name, segment)
            self._chains.discard(addition.superseded)
            above = self._chains.names_up_from(name)
        folder.delete(addition.superseded)
        # The newest first, so that a file is never older than those that build on it.
        folder.touch(above)
        gone = folder.shrink_to(self._disk.most_bytes)
        with self._lock:
            orphans = self._chains.discard(gone)
        folder.delete(orphans)
