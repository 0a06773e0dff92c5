"""The prompt cache of one loaded model: its prefix index, in memory for all sequences, on disk
where their owner wants it.

Belongs to the thread of its batch, except where a method says otherwise. Files are read and written
on the two threads of the disk.
"""

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
from mlx_lm.models.cache import save_prompt_cache

from engine.files.json_fields import DamagedFile
from engine.inference.cache.disk import CacheFolder, DiskCache, Stamps, fingerprint_of
from engine.inference.cache.index import (
    TOKEN_BYTES,
    FilePart,
    PrefixIndex,
    block_hash,
    file_key,
    root_hash,
)
from engine.inference.cache.recent_prompts import RecentPrompts
from engine.inference.cache.segments import (
    Segment,
    Snapshot,
    evaluate,
    is_models_own,
    join_layers,
    kinds_of,
    load,
    saved_cache,
    split_cache,
)
from engine.inference.running_cache import parts_of
from engine.values.request import CacheOwner

# The model reads shorter prompts as fast as a file can be read.
MIN_DISK_TOKENS = 64
# A prompt is given a snapshot every so many tokens; where memory is small, less often.
STRIDE = 512
# The snapshots of one prompt take at most this share of the memory for caches, or of the disk's.
_MAX_SHARE = 0.5

_log = logging.getLogger(__name__)


class _File(NamedTuple):
    """The content of a file: a full block, or a snapshot with the keys of its last tokens."""

    key: str
    segment: Segment
    tokens: int
    snapshot: Snapshot | None = None

    @property
    def size_bytes(self) -> int:
        return self.segment.size_bytes + (0 if self.snapshot is None else self.snapshot.size_bytes)

    def parts(self) -> list[Any]:
        if self.snapshot is None:
            return join_layers([self.segment], self.tokens)
        return saved_cache(self.segment, self.snapshot, self.tokens)


class PromptCache(PrefixIndex):
    """The caches of earlier prompts."""

    def __init__(
        self,
        fresh: Sequence[Any],
        max_bytes: int,
        *,
        is_shared: bool = False,
        is_quantized: bool = False,
    ) -> None:
        super().__init__(fresh, max_bytes, is_shared=is_shared, is_quantized=is_quantized)
        self.disk: DiskCache | None = None
        self.recent = RecentPrompts()
        # Files of quantised blocks are none for a cache whose blocks are exact.
        self._kinds = (*kinds_of(fresh), *(["8 bits"] if is_quantized else []))
        self._can_be_saved = not any(map(is_models_own, parts_of(fresh)))
        # The size of the last snapshot; 0 before any was taken.
        self._snapshot_bytes = 0
        self._fingerprint = ""
        self._waiting_lock = threading.Lock()
        self._waiting_bytes = 0
        # What the last owner's files had when they were written.
        self._written: set[str] = set()

    def clear(self, owner: str | None = None) -> None:
        super().clear(owner)
        self.recent.clear(owner)

    def snapshot_positions(self, tokens: int, cached: int) -> range:
        """Return after how many tokens of a prompt a snapshot is taken."""
        max_bytes = max(self._max_bytes, 0 if self.disk is None else self.disk.max_bytes)
        snapshots = int(max_bytes * _MAX_SHARE) // max(1, self._snapshot_bytes)
        stride = max(STRIDE, tokens // max(1, snapshots))
        return range(cached + stride, tokens, stride)

    def disk_epoch(self, owner: CacheOwner) -> int | None:
        """Return the epoch in which a cache may be written; None for none on disk."""
        return None if self.disk is None or owner.kept_with is None else self.disk.epoch

    def keep(
        self, owner: CacheOwner, epoch: int | None, cache: Any, tokens: list[int] | None
    ) -> None:
        """Store a cache within the limit of memory, and on disk if an epoch is given."""
        if not cache or not tokens:
            return
        stored = self.store(owner.name, tokens, cache)
        self.shrink_to()
        if stored is None:
            return
        self._snapshot_bytes = stored[1].size_bytes
        if epoch is not None and len(tokens) >= MIN_DISK_TOKENS:
            self._write_later(owner, epoch, self._files_for(owner.name, *stored))

    def attach(
        self,
        disk: DiskCache,
        model: Path,
        stamps: Stamps,
        *,
        can_see: bool = False,
        base: Path | None = None,
    ) -> None:
        """Use the caches on disk, unless the model has kinds that mlx-lm's files do not know."""
        if not self._can_be_saved:
            return
        device = str(mx.default_device())
        fingerprint = fingerprint_of(model, stamps, self._kinds, device, can_see=can_see, base=base)
        if fingerprint is None:
            _log.info("no caches are stored: the files of the model changed while it was loaded")
            return
        self._fingerprint, self.disk = fingerprint, disk

    def is_on_disk(self, owner: CacheOwner, tokens: Sequence[int]) -> bool:
        """Whether files have more of a prompt than memory, so that reading pays. Any thread."""
        if self.disk is None or owner.kept_with is None or len(tokens) <= MIN_DISK_TOKENS:
            return False
        return self._find_files(self.disk, owner.name, tokens)[1] >= MIN_DISK_TOKENS

    def _find_files(
        self, disk: DiskCache, owner: str, tokens: Sequence[int]
    ) -> tuple[list[FilePart], int]:
        files = disk.folder.files_of_model(self._fingerprint)
        return self.find_files(owner, tokens, files)

    def read(self, prompts: Sequence[tuple[CacheOwner, Sequence[int]]]) -> "Future[None]":
        """Read what files have of prompts into memory, on the disk's thread."""
        disk = self.disk
        assert disk is not None

        def work() -> None:
            for owner, tokens in prompts:
                self._load(disk, owner.name, tokens)

        return disk.run_on_reader(work)

    def _load(self, disk: DiskCache, owner: str, tokens: Sequence[int]) -> None:
        parts, added = self._find_files(disk, owner, tokens)
        read: list[tuple[FilePart, Segment, Snapshot]] = []
        for part in parts:
            try:
                if not disk.folder.is_intact(part.name):
                    raise DamagedFile("its content is not what was written")
                cache = load(disk.folder.path / part.name)
                read.append((part, *split_cache(cache, part.tokens)))
            except Exception as error:  # mlx-lm may raise anything
                if not isinstance(error, FileNotFoundError):
                    _log.info("a cache on disk is damaged and deleted: %s", error)
                disk.run_on_writer("deleted", partial(disk.folder.delete, [part.name]))
                return
        self.hold_read(owner, read, added)
        disk.folder.touch(part.name for part in reversed(parts))

    def _write_later(self, owner: CacheOwner, epoch: int, files: Sequence[_File]) -> None:
        disk = self.disk
        if disk is None or disk.epoch != epoch:
            return
        size = sum(file.size_bytes for file in files if file.key not in self._written)
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
            if disk.epoch == epoch:
                existing = disk.folder.files_of_model(self._fingerprint, owner)
                self._write(disk.folder, owner, [one for one in files if one.key not in existing])
                names = disk.folder.files_of_model(self._fingerprint, owner)
                self._written = set(names)
                # A block is deleted after the blocks behind it.
                keys = [file.key for file in reversed(files)]
                disk.folder.touch(names[key] for key in keys if key in names)
                disk.folder.shrink_to(disk.max_bytes)

        disk.run_on_writer("stored", work)

    def _files_for(
        self, owner: str, blocks: Sequence[tuple[bytes, Segment | None]], snapshot: Snapshot
    ) -> list[_File]:
        files: list[_File] = []
        own, end, tokens, segment = root_hash(owner), 0, 0, None
        for key, segment in blocks:
            tokens = len(key) // TOKEN_BYTES
            own, end = block_hash(own, key), end + tokens
            if segment is not None and len(key) == self.block_bytes:
                files.append(_File(own, segment, tokens))
        if not self.can_cut_anywhere:
            files.append(_File(file_key(own, end), segment or Segment(()), tokens, snapshot))
        return files

    def _write(self, folder: CacheFolder, owner: CacheOwner, files: Sequence[_File]) -> None:
        for file in files:
            with mx.stream(mx.cpu):
                parts = file.parts()
                evaluate(parts)
            with folder.unfinished(sum(int(part.nbytes) for part in parts)) as path:
                save_prompt_cache(str(path), parts)
                folder.commit(path, self._fingerprint, owner, file.key)
