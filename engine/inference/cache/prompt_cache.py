"""The prompt cache of one loaded model: its prefix index, in memory for all sequences, on disk
where their owner wants it.

Belongs to the thread of its batch, except where a method says otherwise. Files are read and written
on the two threads of the disk.
"""

import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import save_prompt_cache

from engine.errors import ModelLoadFailed
from engine.files.json_fields import DamagedFile
from engine.inference.cache.disk import TOKEN_BYTES, DiskCache, FileHeader, Stamps, fingerprint_of
from engine.inference.cache.index import (
    Entry,
    MemoryUsage,
    PrefixIndex,
    block_hash,
    key_of,
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
    layout_of,
    load,
    snapshot_from,
    split_cache,
)
from engine.inference.running_cache import parts_of
from engine.values.events import CacheMiss
from engine.values.request import CacheOwner

# The model reads shorter prompts as fast as a file can be read.
MIN_DISK_TOKENS = 64
# The model reads fewer tokens of an incomplete block again.
MIN_FILE_TOKENS = 32
# A prompt is given a snapshot every so many tokens; where memory is small, less often.
STRIDE = 512
# The snapshots of one prompt take at most this share of the memory for caches, or of the disk's.
_MAX_SHARE = 0.5

_log = logging.getLogger(__name__)


class PromptCache:
    """The caches of earlier prompts."""

    def __init__(self, fresh: Sequence[Any], max_bytes: int) -> None:
        self.disk: DiskCache | None = None
        self.recent = RecentPrompts()
        self._kinds = kinds_of(fresh)
        self._can_be_saved = not any(map(is_models_own, parts_of(fresh)))
        self._max_bytes = max_bytes
        self._index = PrefixIndex(fresh, max_bytes)
        self.can_cut_anywhere = self._index.can_cut_anywhere
        # The size of the last snapshot; 0 before any was taken.
        self._snapshot_bytes = 0
        self._model = Path()
        self._stamps: Stamps = ()
        self._fingerprint: str | None = None
        self._waiting_lock = threading.Lock()
        self._waiting_bytes = 0
        self._is_listed: Future[None] = Future()
        self._list_deadline_s = 0.0

    def fetch(self, owner: CacheOwner, tokens: Sequence[int]) -> tuple[list[Any] | None, int, int]:
        """Return the cache of a prompt's first tokens, their number, and how many were on disk."""
        cache, cached, disk_tokens = self._index.fetch(owner.name, tokens)
        self._index.shrink_to()  # prefixes that were read may exceed the limit
        if cached and self.disk is not None and owner.kept_with is not None:
            key = key_of(tokens[:cached])
            self.disk.run_on_writer("touched", lambda: self._touch(owner.name, key))
        return cache, cached, disk_tokens

    def why_missing(
        self, owner: CacheOwner, tokens: Sequence[int], cached: int
    ) -> CacheMiss | None:
        return self._index.why_missing(owner.name, tokens, cached)

    def count_common(self, owner: CacheOwner, tokens: Sequence[int]) -> int:
        return self._index.count_common(owner.name, tokens)

    @property
    def usage(self) -> dict[str, MemoryUsage]:
        return self._index.usage

    def clear(self, owner: str | None = None) -> None:
        self._index.clear(owner)
        self.recent.clear(owner)

    def shrink_to(self, entries: int | None = None, size_bytes: int | None = None) -> None:
        """Evict the least recently used from memory; a limit that is None is the cache's own."""
        self._index.shrink_to(entries, size_bytes)

    def snapshot_positions(self, tokens: int, cached: int) -> range:
        """Return after how many tokens of a prompt a snapshot is taken."""
        max_bytes = max(self._max_bytes, 0 if self.disk is None else self.disk.max_bytes)
        snapshots = int(max_bytes * _MAX_SHARE) // max(1, self._snapshot_bytes)
        stride = max(STRIDE, tokens // max(1, snapshots))
        return range(cached + stride, tokens, stride)

    def disk_epoch(self, owner: CacheOwner) -> int | None:
        """Return the epoch in which a cache may be written; None for none on disk."""
        return None if self.disk is None or owner.kept_with is None else self.disk.epoch

    def store(
        self, owner: CacheOwner, epoch: int | None, cache: Any, tokens: list[int] | None
    ) -> None:
        if not cache or not tokens:
            return
        stored = self._index.store(owner.name, tokens, cache)
        if stored is None:
            return
        self._snapshot_bytes = stored[1].size_bytes
        if epoch is not None and len(tokens) >= MIN_DISK_TOKENS:
            files = self._files_for(owner, *stored)
            self._write_later(owner.name, epoch, key_of(tokens), files)

    def attach(self, disk: DiskCache, model: Path, stamps: Stamps) -> None:
        """Use the caches on disk, unless the model has kinds that mlx-lm's files do not know."""
        if not self._can_be_saved:
            return
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
            folder.delete(self._index.add_file(header, name))
        self._fingerprint = fingerprint

    def wait_for_files(self) -> None:
        """Wait until the files are listed, once for a few seconds at most. Any thread."""
        if self.disk is not None:
            try:
                self._is_listed.exception(max(0.0, self._list_deadline_s - time.monotonic()))
            except (TimeoutError, CancelledError):
                return

    def is_on_disk(self, owner: CacheOwner, tokens: Sequence[int]) -> bool:
        """Whether files have more of a prompt than memory, so that reading pays. Any thread."""
        if self.disk is None or owner.kept_with is None or not self.disk.max_bytes:
            return False
        if len(tokens) <= MIN_DISK_TOKENS:
            return False
        return self._index.lacking(owner.name, tokens)[1] >= MIN_DISK_TOKENS

    def read(self, prompts: Sequence[tuple[CacheOwner, Sequence[int]]]) -> "Future[None]":
        """Read what files have of prompts into memory, on the disk's thread."""
        assert self.disk is not None

        def work() -> None:
            for owner, tokens in prompts:
                self._load(owner.name, tokens)

        return self.disk.run_on_reader(work)

    def _load(self, owner: str, tokens: Sequence[int]) -> None:
        disk = self.disk
        assert disk is not None
        lacking, added = self._index.lacking(owner, tokens)
        read: list[tuple[Entry, Segment | Snapshot]] = []
        layers = Snapshot(0, ())
        name = ""
        try:
            for entry, name in lacking:
                header, parts = self._read_file(name)
                if entry.is_snapshot:
                    read.append((entry, snapshot_from(header.layout, parts, entry.end)))
                    continue
                read.append((entry, split_cache(parts, entry.end - entry.start)[0]))
                if self.can_cut_anywhere:
                    layers = snapshot_from(header.layout, None, entry.end)
        except Exception as error:  # mlx-lm may raise anything
            if not isinstance(error, FileNotFoundError):
                _log.info("a cache on disk is damaged and deleted: %s", error)
            self._index.discard({name})
            disk.run_on_writer("deleted", lambda: disk.folder.delete([name]))
        else:
            if read:
                self._index.hold_read(read, layers, added)
                self._touch(owner, key_of(tokens[: read[-1][0].end]))

    def _read_file(self, name: str) -> tuple[FileHeader, list[Any]]:
        """Return the content of a file; raises ``DamagedFile`` if its digest differs."""
        assert self.disk is not None
        folder = self.disk.folder
        if not folder.is_intact(name):
            raise DamagedFile("its content is not what was written")
        parts, metadata = load(folder.path / name)
        return FileHeader.from_metadata(metadata), parts

    def _touch(self, owner: str, key: bytes) -> None:
        assert self.disk is not None
        self.disk.folder.touch(self._index.files_of(owner, key))

    def _write_later(
        self,
        owner: str,
        epoch: int,
        key: bytes,
        files: Sequence[tuple[FileHeader, Segment | Snapshot]],
    ) -> None:
        disk = self.disk
        if disk is None or disk.epoch != epoch:
            return
        size = sum(
            content.size_bytes for header, content in files if not self._index.has_file(header)
        )
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
                self._write(disk, self._fingerprint, owner, key, files)

        disk.run_on_writer("stored", work)

    def _files_for(
        self,
        owner: CacheOwner,
        blocks: Sequence[tuple[bytes, Segment | None]],
        snapshot: Snapshot,
    ) -> list[tuple[FileHeader, Segment | Snapshot]]:
        """Return the contents of a cache, each with the header of its file, without the model."""
        files: list[tuple[FileHeader, Segment | Snapshot]] = []
        layout, is_cut = layout_of(snapshot), self.can_cut_anywhere
        parent, start = root_hash(owner.name), 0
        header = FileHeader("", owner, parent, start, b"", layout)
        for key, segment in blocks:
            tokens = len(key) // TOKEN_BYTES
            header = FileHeader("", owner, parent, start, key, layout if is_cut else None)
            if segment is not None and not (is_cut and start and tokens < MIN_FILE_TOKENS):
                files.append((header, segment))
            parent, start = block_hash(parent, key), start + tokens
        if not is_cut:
            files.append((replace(header, layout=layout, is_snapshot=True), snapshot))
        return files

    def _write(
        self,
        disk: DiskCache,
        model: str,
        owner: str,
        key: bytes,
        files: Sequence[tuple[FileHeader, Segment | Snapshot]],
    ) -> None:
        folder, index = disk.folder, self._index
        # Other processes may have deleted files, and a new file must not build on a deleted one.
        index.keep_only(set(folder.files_of_model(model)))
        for header, content in files:
            if index.has_file(header):
                continue
            if isinstance(content, Snapshot):
                parts = content.parts
            else:
                with mx.stream(mx.cpu):
                    parts = join_layers([content], len(header.tokens) // TOKEN_BYTES)
                    evaluate(parts)
            with folder.unfinished(sum(int(part.nbytes) for part in parts)) as path:
                save_prompt_cache(str(path), parts, replace(header, model=model).to_metadata())
                name = folder.commit(path, folder.prefix(model, header.owner))
            folder.delete(index.add_file(header, name))
        self._touch(owner, key)
        index.discard(set(folder.shrink_to(disk.max_bytes)))
