"""The prompt cache of one loaded model: its prefix index, in memory for all sequences, on disk
where their owner wants it.

Belongs to the thread of its batch, except where a method says otherwise. Files are read and written
on the two threads of the disk.
"""

import logging
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import mlx.core as mx

from engine.errors import ModelLoadFailed
from engine.files.json_fields import DamagedFile
from engine.inference.cache.disk import TOKEN_BYTES, DiskCache, FileHeader
from engine.inference.cache.fingerprint import Stamps, fingerprint_of
from engine.inference.cache.index import (
    BLOCK_TOKENS,
    DiskPrefix,
    PrefixIndex,
    block_hash,
    key_of,
    root_hash,
)
from engine.inference.cache.segments import (
    Segment,
    Snapshot,
    evaluate,
    join_layers,
    kinds_of,
    layout_of,
    load,
    save,
    snapshot_from,
    split_cache,
)
from engine.values.request import CacheOwner

# The model reads shorter prompts as fast as a file can be read.
MIN_DISK_TOKENS = 64
# The model reads fewer tokens of an incomplete block again.
MIN_FILE_TOKENS = 32
# A prompt is given a snapshot at least every so many tokens, at the end of a message if there is
# one; where memory is small, less often.
STRIDE = 512
# The snapshots of one conversation take at most this share of what there is for caches.
_MAX_PATH_SHARE = 0.5

_log = logging.getLogger(__name__)


class PromptCache:
    """The caches of earlier prompts.

    Only where no other process decodes the same batch (``is_alone``) snapshots are taken and
    evicted as memory allows: all processes must evict the same.
    """

    def __init__(
        self,
        fresh: Sequence[Any],
        max_bytes: int,
        stream: Callable[[], AbstractContextManager[Any]] = nullcontext,
        *,
        is_alone: bool = True,
    ) -> None:
        self.disk: DiskCache | None = None
        self._fresh, self._kinds = fresh, kinds_of(fresh)
        self._max_path_bytes = int(max_bytes * _MAX_PATH_SHARE)
        self._is_alone = is_alone
        self.index = PrefixIndex(
            fresh,
            max_bytes,
            self._max_path_bytes if is_alone else None,
            block_tokens=BLOCK_TOKENS,
        )
        self.can_cut_anywhere = self.index.can_cut_anywhere
        # The size of the last snapshot; 0 before any was taken.
        self._snapshot_bytes = 0
        self._stream = stream
        self._model = Path()
        self._stamps: Stamps = ()
        self._fingerprint: str | None = None
        self._waiting_lock = threading.Lock()
        self._waiting_bytes = 0
        self._is_listed: Future[None] = Future()
        self._list_deadline_s = 0.0

    # -- prompts ---------------------------------------------------------------------------

    def fetch(
        self, owner: CacheOwner, tokens: list[int], loaded: DiskPrefix | None = None
    ) -> tuple[list[Any] | None, int, int]:
        """Return the cache of a prompt's first tokens, their number, and how many are from disk."""
        held = 0
        if loaded is not None:
            held = self.index.count_usable(owner.name, tokens)
            if loaded.tokens > held:
                self.index.install(loaded)
        cache, cached = self.index.fetch(owner.name, tokens)
        if loaded is not None:
            self.index.shrink_to()
        if cached and self.disk is not None and owner.kept_with is not None:
            key = key_of(tokens[:cached])
            self.disk.run_on_writer("touched", lambda: self._touch(owner.name, key))
        return cache, cached, cached - held if loaded is not None else 0

    def snapshot_positions(self, tokens: int, cached: int, ends: Sequence[int]) -> set[int]:
        """Return after how many tokens of a prompt a snapshot is taken, near ends of messages."""
        positions: set[int] = set()
        if self.can_cut_anywhere or not self._is_alone:
            return positions
        on_disk = 0 if self.disk is None else int(self.disk.max_bytes * _MAX_PATH_SHARE)
        available = max(self._max_path_bytes, on_disk)
        stride = max(STRIDE, tokens // max(1, available // max(1, self._snapshot_bytes)))
        at = cached
        while at + stride < tokens:
            near = bisect_right(ends, at + stride)
            is_near = near > 0 and ends[near - 1] >= at + stride // 4
            at = ends[near - 1] if is_near else at + stride
            positions.add(at)
        return positions

    def disk_epoch(self, owner: CacheOwner) -> int | None:
        """Return the epoch in which a cache may be written; None for none on disk."""
        return None if self.disk is None or owner.kept_with is None else self.disk.epoch

    def store(
        self, owner: CacheOwner, epoch: int | None, cache: Any, tokens: list[int] | None
    ) -> None:
        if not cache or not tokens:
            return
        with self._stream():
            stored = self.index.store(owner.name, tokens, cache)
        if stored is None:
            return
        self._snapshot_bytes = stored[1].size_bytes
        if epoch is not None and len(tokens) >= MIN_DISK_TOKENS:
            self._write_later(owner, epoch, *stored)

    # -- the list of files -----------------------------------------------------------------

    def attach(self, disk: DiskCache, model: Path, stamps: Stamps) -> None:
        self._model, self._stamps, self.disk = model, stamps, disk
        # How long after loading the model prompts wait for the list of files.
        self._list_deadline_s = time.monotonic() + 5.0
        device = str(mx.default_device())
        # The writer does this after the writes of a model that was unloaded: it may be the same
        # model.
        self._is_listed = disk.run_on_writer("listed", lambda: self._list_files(disk, device))

    def _list_files(self, disk: DiskCache, device: str) -> None:
        fingerprint = fingerprint_of(self._model, self._stamps, self._kinds, device)
        if fingerprint is None:
            _log.info("no caches are stored: the files of the model changed while it was loaded")
            return
        folder = disk.folder
        listed: list[tuple[FileHeader, str]] = []
        for name in folder.files_of_model(fingerprint):
            try:
                header = FileHeader.from_metadata(folder.metadata(name))
                if header.model != fingerprint or not name.startswith(
                    folder.prefix(fingerprint, header.owner)
                ):
                    raise DamagedFile("of another model or owner")
            except (ModelLoadFailed, ValueError) as error:
                _log.info("a cache on disk is damaged and deleted: %s", error)
                folder.delete([name])
            else:
                listed.append((header, name))
        listed.sort(key=lambda item: (item[0].start, item[0].is_snapshot, len(item[0].tokens)))
        for header, name in listed:
            folder.delete(self.index.add_file(header, name))
        self._fingerprint = fingerprint

    def wait_for_files(self) -> None:
        """Wait until the files are listed, once for a few seconds at most. Any thread."""
        if self.disk is not None:
            try:
                self._is_listed.exception(max(0.0, self._list_deadline_s - time.monotonic()))
            except (TimeoutError, CancelledError):
                return

    # -- reading ---------------------------------------------------------------------------

    def needed_from_disk(self, owner: CacheOwner, tokens: Sequence[int]) -> DiskPrefix | None:
        """Return what files add to what memory holds of a prompt; None if reading does not pay."""
        if self.disk is None or owner.kept_with is None or not self.disk.max_bytes:
            return None
        if len(tokens) <= MIN_DISK_TOKENS:
            return None
        needed = self.index.needed_from_disk(owner.name, tokens)
        if needed is None:
            return None
        held = self.index.count_usable(owner.name, tokens)
        return needed if needed.tokens >= held + MIN_DISK_TOKENS else None

    def read(self, prefixes: Sequence[DiskPrefix]) -> "Future[None]":
        """Read what files hold of prompts, on the disk's thread."""
        assert self.disk is not None
        distinct = list({id(prefix): prefix for prefix in prefixes}.values())  # choices share one

        def work() -> None:
            for prefix in distinct:
                self._load(prefix)

        return self.disk.run_on_reader(work)

    def _load(self, needed: DiskPrefix) -> None:
        disk = self.disk
        assert disk is not None
        name = ""
        try:
            for name, *_ in needed.files:
                needed.segments.append(self._read_segment(needed, name))
            if needed.snapshot_file is not None:
                name, *_ = needed.snapshot_file
                header, parts = self._read_file(name)
                needed.snapshot = snapshot_from(header.layout, parts, needed.tokens)
        except Exception as error:  # mlx-lm may raise anything
            if not isinstance(error, FileNotFoundError):
                _log.info("a cache on disk is damaged and deleted: %s", error)
            self.index.discard({name})
            disk.run_on_writer("deleted", lambda: disk.folder.delete([name]))
            needed.snapshot = None
        else:
            self._touch(needed.owner, needed.key)

    def _read_segment(self, needed: DiskPrefix, name: str) -> Segment:
        header, layers = self._read_file(name)
        segment, _ = split_cache(layers, len(header.tokens) // TOKEN_BYTES)
        if self.can_cut_anywhere:
            needed.snapshot = snapshot_from(header.layout, None, needed.tokens)
        return segment

    def _read_file(self, name: str) -> tuple[FileHeader, list[Any]]:
        """Return the content of a file; raises ``DamagedFile`` if its digest differs."""
        assert self.disk is not None
        folder = self.disk.folder
        if not folder.is_intact(name):
            raise DamagedFile("its content is not what was written")
        parts, metadata = load(folder.path / name, self._fresh)
        return FileHeader.from_metadata(metadata), parts

    def _touch(self, owner: str, key: bytes) -> None:
        assert self.disk is not None
        self.disk.folder.touch(self.index.files_of(owner, key))

    # -- writing ---------------------------------------------------------------------------

    def _write_later(
        self,
        owner: CacheOwner,
        epoch: int,
        blocks: Sequence[tuple[bytes, Segment | None]],
        snapshot: Snapshot,
    ) -> None:
        disk = self.disk
        if disk is None or disk.epoch != epoch:
            return
        hashed, size = root_hash(owner.name), snapshot.size_bytes
        for key, segment in blocks:
            hashed = block_hash(hashed, key)
            if segment is not None and not self.index.has_file(owner.kept_with or "", hashed):
                size += segment.size_bytes
        if size > disk.max_bytes:
            return
        with self._waiting_lock:
            # The limit of caches that wait to be written, because they take memory meanwhile.
            if self._waiting_bytes and self._waiting_bytes + size > (1 << 30):
                _log.info("a cache is not stored on disk: the disk is too slow")
                return
            self._waiting_bytes += size

        def work() -> None:
            with self._waiting_lock:
                self._waiting_bytes -= size
            if disk.epoch == epoch and self._fingerprint is not None:
                self._write(disk, self._fingerprint, owner, blocks, snapshot)

        disk.run_on_writer("stored", work)

    def _write(
        self,
        disk: DiskCache,
        model: str,
        owner: CacheOwner,
        blocks: Sequence[tuple[bytes, Segment | None]],
        snapshot: Snapshot,
    ) -> None:
        folder, kept_with = disk.folder, owner.kept_with or ""
        # Other processes may have deleted files, and a new file must not build on a deleted one.
        self.index.keep_only(set(folder.files_of_model(model)))
        layout = layout_of(snapshot)
        parent, start = root_hash(owner.name), 0
        for key, segment in blocks:
            hashed, tokens = block_hash(parent, key), len(key) // TOKEN_BYTES
            if segment is not None and not self.index.has_file(kept_with, hashed):
                if start and tokens < MIN_FILE_TOKENS and self.can_cut_anywhere:
                    break
                shape = layout if self.can_cut_anywhere else None
                header = FileHeader(model, owner, parent, start, key, shape)
                with mx.stream(mx.cpu):
                    layers = join_layers([segment], tokens)
                    evaluate(layers)
                self._save(disk, header, layers)
            is_end = start + tokens == snapshot.tokens and not self.can_cut_anywhere
            if is_end and not self.index.has_file(kept_with, hashed, tokens):
                header = FileHeader(model, owner, parent, start, key, layout, is_snapshot=True)
                self._save(disk, header, snapshot.parts)
            parent, start = hashed, start + tokens
        folder.touch(self.index.files_of(owner.name, b"".join(key for key, _ in blocks)))
        self.index.discard(set(folder.shrink_to(disk.max_bytes)))

    def _save(self, disk: DiskCache, header: FileHeader, parts: list[Any]) -> None:
        """Write a file and add it to the index; the files that it replaces are deleted."""
        size = sum(int(part.nbytes) for part in parts)
        with disk.folder.unfinished(size) as path:
            save(path, parts, header.to_metadata())
            name = disk.folder.commit(path, disk.folder.prefix(header.model, header.owner))
        disk.folder.delete(self.index.add_file(header, name))
