"""The prompt cache of one loaded model: its prefix index, in memory for all sequences, on disk
where their owner wants it.

Belongs to the thread of its batch, except where a method says otherwise. Files are read and written
on the two threads of the disk.
"""

import logging
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx

from engine.files.json_fields import DamagedFile
from engine.inference.cache.folder import (
    TOKEN_BYTES,
    DiskCache,
    FileHeader,
    Stamps,
    StoredFile,
    Ticket,
    fingerprint_of,
)
from engine.inference.cache.index import DiskRead, LoadedPrefix, PrefixIndex, key_of
from engine.inference.cache.segments import (
    Piece,
    Segment,
    Snapshot,
    fits,
    has_segments,
    is_cut_anywhere,
    kinds_of,
    layout_of,
    load,
    save,
    segment_of,
    segments_in,
    snapshot_from,
    tail,
)
from engine.values.events import CacheMiss
from engine.values.request import CacheOwner

_log = logging.getLogger(__name__)
# The most caches and snapshots in memory.
_MAX_ENTRIES = 256
# The model reads shorter prompts as fast as a file can be read.
MIN_DISK_TOKENS = 64
# How long after loading the model prompts wait for the list of files. Other prompts wait behind
# them.
_PATIENCE_S = 5.0
# The most bytes that may wait to be written, because they take memory meanwhile.
_MAX_WAITING_BYTES = 1 << 30
# A prompt is given a snapshot at least every so many tokens, at the end of a message if there is
# one; where memory is small, less often.
STRIDE = 512
# The snapshots of one conversation take at most this share of what there is for caches.
_MAX_PATH_SHARE = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """A cache that waits to be written."""

    ticket: Ticket
    tokens: bytes
    pieces: Sequence[Piece]
    snapshot: Snapshot


def _bytes_of(caches: Collection[_Waiting]) -> int:
    """Return the memory of some caches; most segments are in several of them."""
    segments = {id(piece.segment): piece.segment for cache in caches for piece in cache.pieces}
    snapshots = sum(cache.snapshot.size_bytes for cache in caches)
    return sum(segment.size_bytes for segment in segments.values()) + snapshots


class PromptCache:
    """The caches of earlier prompts.

    Args:
        fresh: A fresh cache of the model.
        max_bytes: The most bytes of memory.
        stream: Returns a context in which MLX works on the batch's stream.
        is_alone: Whether no other process decodes the same batch. Only then snapshots are taken and
            thinned out as memory allows: all processes must evict the same.

    Attributes:
        index: What memory and disk hold.
        disk: The files; None for none.
    """

    def __init__(
        self,
        fresh: Sequence[Any],
        max_bytes: int,
        stream: Callable[[], AbstractContextManager[Any]] = nullcontext,
        *,
        is_alone: bool = True,
    ) -> None:
        self.is_cut_anywhere = is_cut_anywhere(fresh)
        self.disk: DiskCache | None = None
        self._has_segments = has_segments(fresh)
        self._fresh, self._kinds = fresh, kinds_of(fresh)
        self._max_path_bytes = int(max_bytes * _MAX_PATH_SHARE)
        self._is_alone = is_alone
        self.index = PrefixIndex(
            _MAX_ENTRIES,
            max_bytes,
            self._max_path_bytes if is_alone else None,
            is_cut_anywhere=self.is_cut_anywhere,
            has_segments=self._has_segments,
        )
        # The size of the last snapshot; 0 before any was taken.
        self._snapshot_bytes = 0
        self._stream = stream
        self._model = Path()
        self._stamps: Stamps = ()
        self._fingerprint: str | None = None
        self._waiting_lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._is_listed: Future[None] = Future()
        self._waits_until_s = 0.0

    # -- prompts ---------------------------------------------------------------------------

    def fetch(
        self, owner: CacheOwner, tokens: list[int], loaded: LoadedPrefix | None = None
    ) -> tuple[list[Any] | None, int, int]:
        """Return the cache of a prompt's first tokens, their number, and how many are from disk."""
        held = 0
        if loaded is not None:
            held = self.index.usable(owner.name, tokens)
            if loaded.read.tokens > held:
                self.index.install(loaded)
        cache, cached = self.index.fetch(owner.name, tokens)
        if loaded is not None:
            self.index.shrink_to()
        if cached and self.disk is not None and owner.kept_with is not None:
            self._touch(owner, key_of(tokens[:cached]))
        return cache, cached, cached - held if loaded is not None else 0

    def why_missing(
        self, owner: CacheOwner, tokens: Sequence[int], cached: int
    ) -> CacheMiss | None:
        """Return why no more than ``cached`` tokens of a prompt came from here."""
        return self.index.why_missing(owner.name, tokens, cached)

    def snapshot_places(self, tokens: int, cached: int, ends: Sequence[int]) -> set[int]:
        """Return after how many tokens of a prompt a snapshot is taken while it is read.

        Args:
            tokens: The length of the prompt.
            cached: How many of its tokens are not read.
            ends: The ends of its messages, in order.
        """
        places: set[int] = set()
        if self.is_cut_anywhere or not self._is_alone:
            return places
        on_disk = 0 if self.disk is None else int(self.disk.most_bytes * _MAX_PATH_SHARE)
        room = max(self._max_path_bytes, on_disk)
        stride = max(STRIDE, tokens // max(1, room // max(1, self._snapshot_bytes)))
        at = cached
        while at + stride < tokens:
            near = bisect_right(ends, at + stride)
            is_near = near > 0 and ends[near - 1] >= at + stride // 4
            at = ends[near - 1] if is_near else at + stride
            places.add(at)
        return places

    def ticket(self, owner: CacheOwner) -> Ticket | None:
        """Return the right to store a cache on disk; None where its owner wants none there.

        Forgetting the owner ends that right.
        """
        return None if self.disk is None or owner.kept_with is None else self.disk.ticket(owner)

    def store(
        self, owner: CacheOwner, ticket: Ticket | None, cache: Any, tokens: list[int] | None
    ) -> None:
        """Store a cache in memory, and on disk where its owner wants it."""
        if not cache or not tokens:
            return
        with self._stream():
            parts = self.index.store(owner.name, tokens, cache)
        if parts is None:
            return
        self._snapshot_bytes = parts[1].size_bytes
        if ticket is not None and len(tokens) >= MIN_DISK_TOKENS:
            self._queue(_Waiting(ticket, key_of(tokens), *parts))

    # -- the list of files -----------------------------------------------------------------

    def attach(self, disk: DiskCache, model: Path, stamps: Stamps) -> None:
        """Use the files of a folder from now on."""
        self._model, self._stamps, self.disk = model, stamps, disk
        self._waits_until_s = time.monotonic() + _PATIENCE_S
        device = str(mx.default_device())
        # The writer does this after the writes of a model that was unloaded: it may be the same
        # model.
        self._is_listed = disk.writer.do(
            lambda: disk.tried("listed", lambda: self._list_files(disk, device))
        )

    def _list_files(self, disk: DiskCache, device: str) -> None:
        fingerprint = fingerprint_of(self._model, self._stamps, self._kinds, device)
        if fingerprint is None:
            _log.info("no caches are stored: the files of the model changed while it was loaded")
            return
        folder = disk.folder
        listed: list[tuple[str, bytes, StoredFile]] = []
        for file in folder.files_of_model(fingerprint):
            try:
                header = FileHeader.from_metadata(folder.metadata(file.name))
                if header.model != fingerprint or not file.name.startswith(
                    folder.prefix(fingerprint, header.owner)
                ):
                    raise DamagedFile("of another model or owner")
            except FileNotFoundError:
                continue  # another process has deleted it
            except (OSError, ValueError) as error:
                _log.info("a cache on disk is damaged and deleted: %s", error)
                folder.delete([file.name])
            else:
                stored = header.stored_as(file.name, file.size_bytes)
                listed.append((header.owner.name, header.tokens, stored))
        unusable = self.index.add_files(listed)
        self._fingerprint = fingerprint
        folder.delete(unusable)

    def wait_for_files(self) -> None:
        """Wait until the files are listed, once for a few seconds at most. Any thread."""
        if self.disk is not None:
            try:
                self._is_listed.exception(max(0.0, self._waits_until_s - time.monotonic()))
            except (TimeoutError, CancelledError):
                return

    # -- reading ---------------------------------------------------------------------------

    def needed_from_disk(self, owner: CacheOwner, tokens: Sequence[int]) -> DiskRead | None:
        """Return what files add to what memory holds of a prompt; None if reading does not pay.

        They never hold the whole prompt: the model reads at least its last token.
        """
        if self.disk is None or owner.kept_with is None or not self.disk.most_bytes:
            return None
        if len(tokens) <= MIN_DISK_TOKENS:
            return None
        needed = self.index.needed_from_disk(owner.name, tokens)
        if needed is None:
            return None
        held = self.index.usable(owner.name, tokens)
        return needed if needed.tokens >= held + MIN_DISK_TOKENS else None

    def read(
        self, needed: Sequence[DiskRead], done: Callable[[list[LoadedPrefix | None]], None]
    ) -> None:
        """Read the first tokens of some prompts; ``done`` is called on the thread of the disk."""
        assert self.disk is not None

        def finish(reading: "Future[list[LoadedPrefix | None]]") -> None:
            failed = reading.cancelled() or reading.exception() is not None
            done([None] * len(needed) if failed else reading.result())

        reading = self.disk.reader.do(lambda: [self._read(read) for read in needed])
        reading.add_done_callback(finish)

    def _read(self, needed: DiskRead) -> LoadedPrefix | None:
        disk = self.disk
        assert disk is not None
        segments: list[tuple[Segment, int, int]] = []
        snapshot: Snapshot | None = None
        name = ""
        try:
            for file, begin, end in needed.files:
                name = file.name
                segment, snapshot = self._read_segment(needed, file, begin, end)
                segments.append((segment, begin, end))
            if needed.snapshot is not None:
                name = needed.snapshot.name
                snapshot = self._read_snapshot(needed, needed.snapshot)
        except Exception as error:  # mlx-lm may raise anything
            if not isinstance(error, FileNotFoundError):
                _log.info("a cache on disk is damaged and deleted: %s", error)
            self._delete([name])
            return None
        self._touch_now(needed.owner, needed.key)
        return None if snapshot is None else LoadedPrefix(needed, tuple(segments), snapshot)

    def _read_segment(
        self, needed: DiskRead, file: StoredFile, begin: int, end: int
    ) -> tuple[Segment, Snapshot]:
        header, layers = self._content(needed, file, end)
        if {type(part).__name__ for part in layers} != {"KVCache"}:
            raise DamagedFile("it holds something else")
        if segments_in(header.layout) != len(layers):
            raise DamagedFile("it holds other layers")
        start = header.start
        segment = segment_of(layers, header.end - start, begin - start, end - start)
        if not self.is_cut_anywhere:
            return segment, Snapshot(end, ())
        snapshot = snapshot_from(header.layout, None, end)
        if not fits(snapshot, self._kinds):
            raise DamagedFile("it holds a cache of another kind")
        return segment, snapshot

    def _read_snapshot(self, needed: DiskRead, file: StoredFile) -> Snapshot:
        header, parts = self._content(needed, file, needed.tokens)
        snapshot = snapshot_from(header.layout, parts, header.end)
        if self.is_cut_anywhere or not fits(snapshot, self._kinds):
            raise DamagedFile("it holds a cache of another kind")
        if header.end > needed.tokens and not snapshot.can_be_trimmed:
            raise DamagedFile("it cannot be cut back")
        return snapshot

    def _content(
        self, needed: DiskRead, file: StoredFile, end: int
    ) -> tuple[FileHeader, list[Any]]:
        """Return what a file holds, once it is checked that this is what is needed of it."""
        assert self.disk is not None
        folder = self.disk.folder
        if not folder.is_intact(file.name):
            raise DamagedFile("its content is not what was written")
        parts, metadata = load(folder.path / file.name, self._fresh)
        header = FileHeader.from_metadata(metadata)
        used = slice(end * TOKEN_BYTES)
        if (
            header.model != self._fingerprint
            or header.owner.name != needed.owner
            or header.is_snapshot != file.is_snapshot
            or header.end != file.end
            or header.tokens[used] != needed.key[used]
        ):
            raise DamagedFile("it holds something else")
        return header, parts

    def _delete(self, names: Sequence[str]) -> None:
        """Forget files and delete them, with those that are of no use without them."""
        disk = self.disk
        assert disk is not None
        names = [*names, *self.index.discard(names)]
        disk.writer.do(lambda: disk.tried("deleted", lambda: disk.folder.delete(names)))

    def _touch(self, owner: CacheOwner, key: bytes) -> None:
        """Note on disk, too, that the files of some tokens were used."""
        assert self.disk is not None
        self.disk.writer.do(lambda: self._touch_now(owner.name, key))

    def _touch_now(self, owner: str, key: bytes) -> None:
        assert self.disk is not None
        self.disk.folder.touch(self.index.files_of(owner, key))

    # -- writing ---------------------------------------------------------------------------

    def _queue(self, cache: _Waiting) -> None:
        disk = self.disk
        if disk is None or not disk.is_valid(cache.ticket) or _bytes_of([cache]) > disk.most_bytes:
            return
        with self._waiting_lock:
            if self._waiting and _bytes_of([*self._waiting, cache]) > _MAX_WAITING_BYTES:
                _log.info("a cache is not stored on disk: the disk is too slow")
                return
            self._waiting.append(cache)
        disk.writer.do(lambda: self._write_waiting(disk, cache))

    def _write_waiting(self, disk: DiskCache, cache: _Waiting) -> None:
        with self._waiting_lock:
            self._waiting.remove(cache)
            # A later turn of the same conversation also waits already, and contains all of this.
            is_outdated = self.is_cut_anywhere and any(
                other.ticket == cache.ticket and other.tokens.startswith(cache.tokens)
                for other in self._waiting
            )
        if not is_outdated and disk.is_valid(cache.ticket):
            disk.tried("stored", lambda: self._write(disk, cache))

    def _write(self, disk: DiskCache, cache: _Waiting) -> None:
        """Write a cache; raises ``OSError`` where the disk refuses it."""
        fingerprint = self._fingerprint
        if fingerprint is None:
            return
        folder, owner, tokens = disk.folder, cache.ticket.owner, cache.tokens
        name, kept_with = owner.name, owner.kept_with or ""
        # Other processes may have deleted files, and a new file must not build on a deleted one.
        there = {file.name for file in folder.files_of_model(fingerprint)}
        folder.delete(self.index.keep_only(there))
        layout = layout_of(cache.snapshot)
        if self._has_segments and not segments_in(layout):
            raise DamagedFile("a cache has other tokens than it should have")
        if segments_in(layout):
            start = self.index.start_of_file(name, kept_with, tokens)
            if start is not None:
                layers = tail(cache.pieces, len(tokens) // TOKEN_BYTES, start)
                shape = layout if self.is_cut_anywhere else [None] * len(layers)
                self._save(disk, FileHeader(fingerprint, owner, tokens, start, shape), layers)
        is_written = self.index.has_snapshot_file(name, kept_with, tokens)
        if not self.is_cut_anywhere and not is_written:
            can_trim = cache.snapshot.can_be_trimmed
            header = FileHeader(
                fingerprint, owner, tokens, 0, layout, is_snapshot=True, can_trim=can_trim
            )
            self._save(disk, header, cache.snapshot.parts)
            max_bytes = int(disk.most_bytes * _MAX_PATH_SHARE)
            surplus = self.index.surplus_files(name, kept_with, tokens, max_bytes)
            folder.delete([*surplus, *self.index.discard(surplus)])
        folder.touch(self.index.files_of(name, tokens))
        evicted = folder.shrink_to(disk.most_bytes)
        folder.delete(self.index.discard(evicted))

    def _save(self, disk: DiskCache, header: FileHeader, parts: list[Any]) -> None:
        """Write a file and note it; those that it makes superfluous are deleted."""
        size = sum(int(part.nbytes) for part in parts)
        with disk.folder.unfinished(size) as file:
            save(file, parts, header.to_metadata())
            name = file.commit(disk.folder.prefix(header.model, header.owner))
        stored = header.stored_as(name, size)
        disk.folder.delete(self.index.add_file(header.owner.name, header.tokens, stored))
