"""The prefix index: for each owner a tree of the cached tokens in memory, and those in files.

As in vLLM, a block has the keys and values of a fixed number of tokens and is named by the hash of
all tokens up to its end; the last block of a prompt may be shorter, and nothing follows it. Prompts
that begin with the same tokens share blocks. Each owner has a tree of its own: the prompts of one
are never found by another, neither as a number nor as time saved.

A model whose every layer keeps keys and values of all tokens continues from any token. Any other
continues only from a snapshot of its other layers. A snapshot belongs to the last full block before
it and to the tokens from there on, so it is independent of the blocks that follow.

The engine thread stores and evicts arrays; the reader of the disk adds them from files. A lock is
held by whoever reads or changes the tree.
"""

import hashlib
import threading
from array import array
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import mlx.core as mx

from engine.inference.cache.segments import (
    QuantizedSegment,
    Segment,
    Snapshot,
    can_cut_anywhere,
    count_segments,
    join_cache,
    segments_only,
    split_cache,
)
from engine.values.events import CacheMiss

TOKEN_BYTES = array("I").itemsize
"""The bytes of a token in a key."""
BLOCK_TOKENS = 256
# The last evicted prompts, to tell ``EVICTED`` from ``OTHER_BEGINNING``.
_MAX_EVICTED = 16
# Prompts that share fewer tokens than this only have the beginning of a template in common.
_MIN_COMMON = 16
PICTURE_BIT = 1 << 31
"""A bit of the words of pictures' digests that stand among token ids; no id has it."""


def key_of(tokens: Sequence[int]) -> bytes:
    """Return token ids as bytes, ``TOKEN_BYTES`` for each: fast to compare and to hash."""
    return array("I", tokens).tobytes()


def root_hash(owner: str) -> str:
    """Return the hash before the first token of an owner's prompts."""
    return hashlib.sha256(owner.encode()).hexdigest()


def block_hash(parent: str, key: bytes) -> str:
    """Return the hash of all tokens up to the end of a block, from the one before it."""
    return hashlib.sha256(bytes.fromhex(parent) + key).hexdigest()


def common_tokens(key: bytes, other: bytes) -> int:
    """Return how many first tokens two keys share."""
    low, high = 0, min(len(key), len(other)) // TOKEN_BYTES
    if key[: high * TOKEN_BYTES] == other[: high * TOKEN_BYTES]:
        return high
    # Comparing bytes is fast, so a binary search is much faster than a loop.
    while low < high:
        middle = (low + high + 1) // 2
        part = slice(low * TOKEN_BYTES, middle * TOKEN_BYTES)
        if key[part] == other[part]:
            low = middle
        else:
            high = middle - 1
    return low


class MemoryUsage(NamedTuple):
    """The blocks and snapshots that memory holds for an owner, their bytes, and the snapshots'."""

    entries: int = 0
    size_bytes: int = 0
    snapshot_bytes: int = 0


class FilePart(NamedTuple):
    """A file that a prompt needs: a full block, or a snapshot with the keys since the last one.

    ``parent`` is the hash of the ``start`` tokens before it, ``key`` its own tokens.
    """

    name: str
    parent: str
    start: int
    key: bytes
    is_snapshot: bool

    @property
    def tokens(self) -> int:
        return len(self.key) // TOKEN_BYTES


class Entry:
    """A block, or a snapshot: the cache of some tokens.

    Attributes:
        parent: The full block before the tokens; None for the root of an owner, without tokens.
        content: A ``Segment`` of a block, or a ``Snapshot``; None for a root.
        disk_tokens: How many tokens reading a file has added, until the first prompt uses them.
        blocks, snapshots: What follows a full block, by its tokens.
    """

    def __init__(
        self, owner: str, parent: "Entry | None" = None, key: bytes = b"", *, is_snapshot: bool
    ) -> None:
        self.owner, self.parent, self.key, self.is_snapshot = owner, parent, key, is_snapshot
        self.hash: str = root_hash(owner) if parent is None else block_hash(parent.hash, key)
        self.end: int = len(key) // TOKEN_BYTES + (0 if parent is None else parent.end)
        self.content: Segment | Snapshot | None = None
        self.disk_tokens = 0
        self.blocks: dict[bytes, Entry] = {}
        self.snapshots: dict[bytes, Entry] = {}

    @property
    def start(self) -> int:
        return self.end - len(self.key) // TOKEN_BYTES

    @property
    def siblings(self) -> "dict[bytes, Entry]":
        """The entries of its kind that follow the same block, by their tokens."""
        if self.parent is None:
            return {}
        return self.parent.snapshots if self.is_snapshot else self.parent.blocks

    def path(self) -> "list[Entry]":
        """Return this entry and the blocks before it in order, without the root."""
        path, entry = [], self
        while entry.parent is not None:
            path.append(entry)
            entry = entry.parent
        return path[::-1]


class PrefixIndex:
    """The cached tokens of one model, whose fresh cache shows its kinds of layers.

    ``is_shared`` where other processes evict the same entries, in an order that no bytes decide;
    ``is_quantized`` where blocks are held in 8 bits.
    """

    def __init__(
        self,
        fresh: Sequence[Any],
        max_bytes: int,
        *,
        is_shared: bool = False,
        is_quantized: bool = False,
    ) -> None:
        self.can_cut_anywhere = can_cut_anywhere(fresh)
        self._segment_layers = count_segments(fresh)
        # The layers of a cache that can be cut anywhere.
        self._layers = segments_only(fresh) if self.can_cut_anywhere else []
        # Snapshots alone are no larger for having all tokens before them.
        self.block_bytes = (BLOCK_TOKENS if self._segment_layers else 1 << 40) * TOKEN_BYTES
        self._max_bytes, self._is_shared = max_bytes, is_shared
        self._is_quantized = is_quantized
        self._lock = threading.RLock()
        self._roots: dict[str, Entry] = {}
        # Roots and blocks, by their hashes.
        self._blocks: dict[str, Entry] = {}
        self._usage: dict[str, MemoryUsage] = {}
        # The bytes of entries in memory, the least recently used first. All blocks before a used
        # one are used after it, so the first is needed by no other.
        self._used: OrderedDict[Entry, int] = OrderedDict()
        self._evicted: deque[tuple[str, bytes]] = deque(maxlen=_MAX_EVICTED)

    def __len__(self) -> int:
        return len(self._used)

    @property
    def size_bytes(self) -> int:
        """Their memory; blocks that several prompts of an owner share count once."""
        return sum(usage.size_bytes for usage in list(self._usage.values()))

    @property
    def usage(self) -> dict[str, MemoryUsage]:
        with self._lock:
            return dict(self._usage)

    def fetch(self, owner: str, tokens: Sequence[int]) -> tuple[list[Any] | None, int, int]:
        """Return a fresh cache of the longest prefix in memory, not all of a prompt.

        Also returns its tokens, and how many of them were read from files for this prompt. Evicts
        nothing: ``shrink_to`` follows once all prompts that begin alike have fetched.
        """
        with self._lock:
            path, count, entry = self._match(owner, key_of(tokens[:-1]))
            if not count:
                return None, 0, 0
            snapshot = Snapshot(self._layers)
            if entry is not None and isinstance(entry.content, Snapshot):
                snapshot = entry.content
            disk_tokens = 0
            last = [*([] if entry is None else [entry]), *path[-1:]]
            self._use(last)
            for one in last:
                disk_tokens, one.disk_tokens = disk_tokens + one.disk_tokens, 0
            segments = [block.content for block in path if isinstance(block.content, Segment)]
            return join_cache(segments, snapshot, count), count, disk_tokens

    def count_common(self, owner: str, tokens: Sequence[int]) -> int:
        with self._lock:
            return self._common(owner, key_of(tokens[:-1]))

    def store(
        self, owner: str, tokens: Sequence[int], cache: Sequence[Any]
    ) -> tuple[list[tuple[bytes, Segment | None]], Snapshot] | None:
        """Store a cache in memory, beyond the limit until ``shrink_to``.

        Returns:
            Its blocks, each with keys and values if the model has any, and its other layers, which
            never change; None if it is no cache of this model and these tokens.
        """
        with self._lock:
            segment, snapshot = split_cache(cache, len(tokens))
            if len(segment.layers) != self._segment_layers:
                return None
            key = key_of(tokens)
            parts = [key[at : at + self.block_bytes] for at in range(0, len(key), self.block_bytes)]
            # Copying comes first, because it may fail for lack of memory.
            new = self._new_segments(owner, parts, segment)
            if not self.can_cut_anywhere:
                snapshot.compact()
            before = last = self._root(owner)
            used: list[Entry] = []
            blocks: list[tuple[bytes, Segment | None]] = []
            for part in parts:
                before = last
                held = None
                if self._segment_layers:
                    last = self._holder(before, part) or self._add(before, part)
                    if last.content is None:
                        self._hold(last, new[len(blocks)])
                    held = last.content if isinstance(last.content, Segment) else None
                blocks.append((part, held))
            if not self.can_cut_anywhere:
                used = [self._add(before, parts[-1], is_snapshot=True)]
                self._hold(used[0], snapshot)
            self._use([*used, last] if self._segment_layers else used)
            return blocks, snapshot

    def shrink_to(self, entries: int | None = None, size_bytes: int | None = None) -> None:
        """Evict the least recently used from memory; a limit that is None is its own."""
        with self._lock:
            max_bytes = self._max_bytes if size_bytes is None else size_bytes
            if entries is None:
                # Metal allows 499,000 buffers in a process, and each array takes one.
                entries = 100_000 // max(1, 2 * self._segment_layers)
            while self._used and (len(self._used) > entries or self.size_bytes > max_bytes):
                entry = next(iter(self._used))
                key = b"".join([above.key for above in entry.path()])
                if not any(
                    owner == entry.owner and other.startswith(key) for owner, other in self._evicted
                ):
                    self._evicted.append((entry.owner, key))
                self._evict(entry)

    def clear(self, owner: str | None = None) -> None:
        with self._lock:
            for entry in list(self._used):
                if owner is None or entry.owner == owner:
                    self._evict(entry)
            kept = [
                evicted for evicted in self._evicted if owner is not None and evicted[0] != owner
            ]
            self._evicted = deque(kept, _MAX_EVICTED)

    def why_missing(self, owner: str, tokens: Sequence[int], cached: int) -> CacheMiss | None:
        """Return why only ``cached`` tokens of a prompt are held; None where no more could be."""
        with self._lock:
            key = key_of(tokens[:-1])
            if self._common(owner, key) - cached >= _MIN_COMMON:
                return CacheMiss.NO_SNAPSHOT
            lost = (common_tokens(other, key) for name, other in self._evicted if name == owner)
            if max(lost, default=0) - cached >= _MIN_COMMON:
                return CacheMiss.EVICTED
            if cached:
                return None
            has_any = owner in self._roots
            return CacheMiss.OTHER_BEGINNING if has_any else CacheMiss.NOTHING_STORED

    def _new_segments(
        self, owner: str, parts: Sequence[bytes], segment: Segment
    ) -> dict[int, Segment]:
        """Return copies of the keys and values that memory lacks, by the index of their block."""
        new: dict[int, Segment] = {}
        block, begin = self._roots.get(owner), 0
        for index, part in enumerate(parts if self._segment_layers else ()):
            block = None if block is None else self._holder(block, part)
            end = begin + len(part) // TOKEN_BYTES
            if block is None:
                new[index] = self._copied(segment.part(begin, end))
            begin = end
        # Evaluating even an empty part of a lazy segment would make MLX compute the whole.
        if new:
            mx.eval([copied.arrays for copied in new.values()])
        return new

    def _quantized(self, segment: Segment) -> Segment:
        """Return a segment from a file as it is held; on the disk's thread."""
        if not self._is_quantized:
            return segment
        with mx.stream(mx.cpu):
            quantized = QuantizedSegment(segment)
            mx.eval(quantized.arrays)
        return quantized

    def _copied(self, segment: Segment) -> Segment:
        return QuantizedSegment(segment) if self._is_quantized else segment.copied()

    def _hold(self, entry: Entry, content: Segment | Snapshot) -> None:
        """Hold content in memory; shorter blocks with the same keys and values are evicted."""
        self._forget_size(entry)
        entry.content = content
        self._used[entry] = content.size_bytes
        self._count(entry, content.size_bytes, 1)
        for other in list(entry.siblings.values()) if not entry.is_snapshot else ():
            if other is not entry and other.content and entry.key.startswith(other.key):
                self._evict(other)

    def _evict(self, entry: Entry) -> None:
        self._forget_size(entry)
        entry.content = None
        self._remove_empty(entry)

    def _forget_size(self, entry: Entry) -> None:
        if (size := self._used.pop(entry, None)) is not None:
            self._count(entry, -size, -1)

    def _count(self, entry: Entry, size: int, entries: int) -> None:
        total, size_bytes, snapshot_bytes = self._usage.get(entry.owner, MemoryUsage())
        snapshot_bytes += size if entry.is_snapshot else 0
        self._usage[entry.owner] = MemoryUsage(total + entries, size_bytes + size, snapshot_bytes)
        if total + entries == 0:
            del self._usage[entry.owner]

    def _use(self, last: Sequence[Entry]) -> None:
        """Mark a snapshot and its last block as used now, then the blocks before, the first last.

        Where they exceed the limit, earlier snapshots are used with their blocks, so that prompts
        can continue from the longest beginning that fits.
        """
        used = [*last[:-1], *reversed(last[-1].path())] if last else []
        used = [entry for entry in used if entry.content is not None]
        size = sum(self._used[entry] for entry in used)
        for entry in used:
            if size > self._max_bytes and not self._is_shared and entry.parent is not None:
                snapshots = entry.parent.snapshots
                for key in sorted(filter(entry.key.startswith, snapshots), key=len, reverse=True):
                    self._used.move_to_end(snapshots[key])
            self._used.move_to_end(entry)

    def _root(self, owner: str) -> Entry:
        if owner not in self._roots:
            root = self._roots[owner] = Entry(owner, is_snapshot=False)
            self._blocks[root.hash] = root
        return self._roots[owner]

    def _add(self, parent: Entry, key: bytes, *, is_snapshot: bool = False) -> Entry:
        """Return the entry of some tokens after a block, added if there is none."""
        found = (parent.snapshots if is_snapshot else parent.blocks).get(key)
        if found is None:
            found = Entry(parent.owner, parent, key, is_snapshot=is_snapshot)
            found.siblings[key] = found
            if not is_snapshot:
                self._blocks[found.hash] = found
        return found

    @staticmethod
    def _holder(parent: Entry, key: bytes) -> Entry | None:
        """Return a block in memory that begins with some tokens."""
        exact = parent.blocks.get(key)
        if exact is not None and exact.content is not None:
            return exact
        held = (one for one in parent.blocks.values() if one.content is not None)
        return next((one for one in held if one.key.startswith(key)), None)

    def _remove_empty(self, entry: Entry) -> None:
        while not (entry.blocks or entry.snapshots or entry.content):
            if not entry.is_snapshot:
                del self._blocks[entry.hash]
            if entry.parent is None:
                del self._roots[entry.owner]
                return
            del entry.siblings[entry.key]
            entry = entry.parent

    def _walk(self, owner: str, key: bytes) -> tuple[list[Entry], int]:
        """Return the blocks along a key, the last perhaps only in part, and the common tokens."""
        path: list[Entry] = []
        block = self._roots.get(owner)
        while block is not None:
            begin = block.end * TOKEN_BYTES
            part = key[begin : begin + self.block_bytes]
            child = block.blocks.get(part) if len(part) == self.block_bytes else None
            if child is None or child.content is None:
                held = [one for one in block.blocks.values() if one.content is not None]
                last = max(held, key=lambda one: common_tokens(one.key, part), default=None)
                shared = 0 if last is None else common_tokens(last.key, part)
                return [*path, *([last] if last is not None and shared else [])], block.end + shared
            path.append(child)
            block = child
        return path, 0

    def _common(self, owner: str, key: bytes) -> int:
        """Return how many first tokens of a key blocks or snapshots have, cut off anywhere."""
        path, reach = self._walk(owner, key)
        root = self._roots.get(owner)
        for block in path[-2:] if root is None else [root, *path][-2:]:
            begin = block.end * TOKEN_BYTES
            part = key[begin : begin + self.block_bytes]
            shared = [common_tokens(other, part) for other in block.snapshots]
            reach = max([reach, *(block.end + count for count in shared)])
        return reach

    def _match(self, owner: str, key: bytes) -> tuple[Sequence[Entry], int, Entry | None]:
        """Return the blocks, tokens and snapshot of the longest prefix that can be continued."""
        path, reach = self._walk(owner, key)
        if self.can_cut_anywhere:
            return path, reach, None
        root = self._roots.get(owner)
        snapshots = [
            snapshot
            for block in (path if root is None else (root, *path))
            for snapshot in block.snapshots.values()
            if key.startswith(snapshot.key, block.end * TOKEN_BYTES)
            and (snapshot.end <= reach or not self._segment_layers)
        ]
        last = max(snapshots, key=lambda snapshot: snapshot.end, default=None)
        if last is None:
            return (), 0, None
        return [block for block in path if block.start < last.end], last.end, last

    def find_files(
        self, owner: str, tokens: Sequence[int], files: Mapping[str, str]
    ) -> tuple[list[FilePart], int]:
        """Return which files to read for a prompt, and how many tokens that adds to memory.

        ``files`` has the names of a model's files by ``file_key``.
        """
        with self._lock:
            key, size = key_of(tokens[:-1]), self.block_bytes
            at, parent = 0, root_hash(owner)
            parents, parts = {at: parent}, []
            while len(part := key[at : at + size]) == size:
                own = block_hash(parent, part)
                held = self._blocks.get(own)
                if held is None or held.content is None:
                    if own not in files:
                        break
                    parts.append(FilePart(files[own], parent, at // TOKEN_BYTES, part, False))
                at, parent = at + size, own
                parents[at] = parent
            reach = at // TOKEN_BYTES
            if not self.can_cut_anywhere:
                snapshot = self._snapshot_file(key, parents, files)
                if snapshot is None:
                    return [], 0
                parts = [*(part for part in parts if part.start < snapshot.start), snapshot]
                reach = snapshot.start + snapshot.tokens
            added = reach - self._match(owner, key)[1]
            return (parts, added) if added > 0 else ([], 0)

    def _snapshot_file(
        self, key: bytes, parents: Mapping[int, str], files: Mapping[str, str]
    ) -> FilePart | None:
        """Return the file of the last snapshot of a key whose blocks before it are there."""
        ends = {int(count) for other in files if (count := other.partition("-")[2])}
        for end in sorted(ends, reverse=True):
            at = end * TOKEN_BYTES
            begin = (at - 1) // self.block_bytes * self.block_bytes
            if at > len(key) or (parent := parents.get(begin)) is None:
                continue
            part = key[begin:at]
            name = files.get(file_key(block_hash(parent, part), end))
            if name is not None:
                return FilePart(name, parent, begin // TOKEN_BYTES, part, True)
        return None

    def hold_read(
        self, owner: str, read: Sequence[tuple[FilePart, Segment, Snapshot]], tokens: int
    ) -> None:
        """Hold the parts of a prompt from files, beyond the limit until ``shrink_to``.

        ``tokens`` is how many tokens all of it adds to memory.
        """
        with self._lock:
            last: list[Entry] = []
            for part, segment, snapshot in read:
                is_first = part.parent == root_hash(owner)
                parent = self._root(owner) if is_first else self._blocks.get(part.parent)
                if parent is None or len(segment.layers) != self._segment_layers:
                    return
                last = []
                if segment.layers:
                    last = [self._holder(parent, part.key) or self._add(parent, part.key)]
                    if last[0].content is None:
                        self._hold(last[0], self._quantized(segment))
                if part.is_snapshot:
                    last.append(self._add(parent, part.key, is_snapshot=True))
                    self._hold(last[-1], snapshot)
            self._use(last[::-1])
            if last:
                last[-1].disk_tokens = tokens


def file_key(block: str, snapshot_end: int = 0) -> str:
    """Return the key in the name of a file: the hash of a block, or of a snapshot's tokens with
    their number.
    """
    return f"{block}-{snapshot_end}" if snapshot_end else block
