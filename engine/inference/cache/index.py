"""The prefix index: for each owner a tree of blocks of tokens, with their keys and values in
memory, in files, or both.

As in vLLM, a block has a fixed number of tokens and is named by the hash of all tokens up to its
end; the last block of a prompt may be shorter, and has no children. Prompts that begin with the
same tokens share blocks. Each owner has a tree of its own: the prompts of one are never found by
another, neither as a number nor as time saved.

A model whose every layer keeps keys and values of all tokens continues from any token. Any other
continues only from a snapshot of its other layers, which belongs to an offset in a block.

The engine thread stores and evicts arrays; the threads of the disk add and remove files. A lock is
held by whoever reads or changes the tree.
"""

import hashlib
import threading
from array import array
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import mlx.core as mx

from engine.inference.cache.disk import TOKEN_BYTES, FileHeader
from engine.inference.cache.segments import (
    Segment,
    Snapshot,
    can_cut_anywhere,
    has_segments,
    join_cache,
    split_cache,
)
from engine.values.events import CacheMiss

BLOCK_TOKENS = 256
# The last evicted prompts, to tell ``EVICTED`` from ``OTHER_BEGINNING``.
_MAX_EVICTED = 16
# Prompts that share fewer tokens than this only have the beginning of a template in common.
_MIN_COMMON = 16


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


class Block:
    """Some tokens, their keys and values in memory, and the blocks that follow.

    Attributes:
        snapshots: By the number of the block's tokens before each.
        files: Names of files, by what each is deleted with, such as the id of a conversation, and
            by the offset of its snapshot; 0 for keys and values.
    """

    def __init__(self, key: bytes, parent: "Block | None", owner: str) -> None:
        self.key, self.parent, self.owner = key, parent, owner
        self.start: int = 0 if parent is None else parent.end
        self.hash: str = root_hash(owner) if parent is None else block_hash(parent.hash, key)
        self.children: dict[bytes, Block] = {}
        self.segment: Segment | None = None
        self.snapshots: dict[int, Snapshot] = {}
        self.files: dict[tuple[str, int], str] = {}

    @property
    def end(self) -> int:
        return self.start + len(self.key) // TOKEN_BYTES

    def file(self, offset: int = 0) -> "StoredFile | None":
        """Return a file of its keys and values, or of the snapshot at an offset."""
        names = (name for (_, at), name in self.files.items() if at == offset)
        return next(((name, self, offset) for name in names), None)

    def up(self) -> "Iterator[Block]":
        """Yield this block, its parent, and so on; not the root."""
        block = self
        while block.parent is not None:
            yield block
            block = block.parent


StoredFile = tuple[str, Block, int]
"""The name of a file, the block that it belongs to, and the offset of its snapshot there."""


@dataclass(slots=True, eq=False)
class DiskPrefix:
    """The first tokens of a prompt that files have, the files that memory lacks, and their
    content; ``snapshot`` is None until it was read.
    """

    owner: str
    key: bytes
    files: Sequence[StoredFile] = ()
    snapshot_file: StoredFile | None = None
    segments: list[Segment] = field(default_factory=list)
    snapshot: Snapshot | None = None

    @property
    def tokens(self) -> int:
        return len(self.key) // TOKEN_BYTES


@dataclass(frozen=True, slots=True, eq=False)
class _Match:
    """The longest prefix that a model can continue: its blocks, its tokens, and its snapshot."""

    path: Sequence[Block] = ()
    count: int = 0
    block: Block | None = None
    offset: int = 0


class PrefixIndex:
    """The cached tokens of one model; ``max_path_bytes`` limits the snapshots of a conversation."""

    def __init__(
        self,
        fresh: Sequence[Any],
        max_bytes: int,
        max_path_bytes: int | None = None,
        *,
        block_tokens: int = BLOCK_TOKENS,
    ) -> None:
        self.can_cut_anywhere = can_cut_anywhere(fresh)
        self.has_segments = has_segments(fresh)
        # Snapshots alone are no larger for having all tokens before them.
        self._block_bytes = (block_tokens if self.has_segments else 1 << 40) * TOKEN_BYTES
        self._max_bytes = max_bytes
        self._max_path_bytes = max_path_bytes
        self._lock = threading.RLock()
        self._roots: dict[str, Block] = {}
        self._blocks: dict[str, Block] = {}
        self._usage: dict[str, MemoryUsage] = {}
        # The bytes of blocks (offset 0) and snapshots in memory, the least recently used first. All
        # blocks before a used one are used after it, so the first is needed by no other.
        self._used: OrderedDict[tuple[Block, int], int] = OrderedDict()
        self._evicted: deque[tuple[str, bytes]] = deque(maxlen=_MAX_EVICTED)
        # The layers of a cache that can be cut anywhere, and how many of its layers have segments.
        self._layers: Sequence[Any] = ()
        self._segment_layers = 0

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

    # -- memory ----------------------------------------------------------------------------

    def fetch(self, owner: str, tokens: Sequence[int]) -> tuple[list[Any] | None, int]:
        """Return a fresh cache of the longest prefix in memory, not all of a prompt; its size."""
        with self._lock:
            match = self._match(owner, key_of(tokens[:-1]))
            if not match.count:
                return None, 0
            snapshot = Snapshot(match.count, self._layers)
            if match.block is not None:
                snapshot = match.block.snapshots[match.offset]
                self._use(match.block, match.offset)
            self._use(match.path[-1])
            segments = [block.segment for block in match.path if block.segment is not None]
            return join_cache(segments, snapshot, match.count), match.count

    def count_usable(self, owner: str, tokens: Sequence[int]) -> int:
        """Return for how many first tokens of a prompt ``fetch`` would return a cache."""
        with self._lock:
            return self._match(owner, key_of(tokens[:-1])).count

    def count_common(self, owner: str, tokens: Sequence[int]) -> int:
        with self._lock:
            return self._walk(owner, key_of(tokens[:-1]))[1]

    def store(
        self, owner: str, tokens: Sequence[int], cache: Sequence[Any]
    ) -> tuple[list[tuple[bytes, Segment | None]], Snapshot] | None:
        """Store a cache in memory, and evict the least recently used until all fits.

        Returns:
            Its blocks, each with keys and values if the model has any, and its other layers, which
            never change; None if it is no cache of this model and these tokens.
        """
        with self._lock:
            segment, snapshot = split_cache(cache, len(tokens))
            if not self._fits(segment, snapshot):
                return None
            key = key_of(tokens)
            # Copying comes first, because it may fail for lack of memory.
            new = self._new_segments(owner, key, segment)
            if not self.can_cut_anywhere:
                snapshot.compact()
            block = self._roots.get(owner) or self._add_block(b"", None, owner)
            for begin in range(0, len(key), self._block_bytes):
                part = key[begin : begin + self._block_bytes]
                block = self._find(block, part) or self._add_block(part, block, owner)
                if (copied := new.get(begin)) is not None:
                    self._hold(block, 0, copied)
            offset = len(tokens) - block.start
            if not self.can_cut_anywhere:
                self._hold(block, offset, snapshot)
                self._use(block, offset)
            self._use(block)
            blocks = [(above.key, above.segment) for above in block.up()][::-1]
            last, held = blocks[-1]
            blocks[-1] = last[: offset * TOKEN_BYTES], held  # another prompt may continue the block
            self._limit_snapshots(block)
            self.shrink_to()
            return blocks, snapshot

    def install(self, loaded: DiskPrefix) -> None:
        """Hold a prefix from disk in memory, if it was read and still fits.

        ``shrink_to`` after fetching it.
        """
        if loaded.snapshot is None:
            return
        with self._lock:
            path, common = self._walk(loaded.owner, loaded.key)
            segments = {
                block.hash: segment
                for (_, block, _), segment in zip(loaded.files, loaded.segments, strict=True)
            }
            lacking = [block for block in path if self.has_segments and block.segment is None]
            if (
                common < loaded.tokens
                or any(block.hash not in segments for block in lacking)
                or not all(self._fits(segments[block.hash], loaded.snapshot) for block in lacking)
            ):
                return
            for block in lacking:
                self._hold(block, 0, segments[block.hash])
            if loaded.snapshot_file is not None:
                _, block, offset = loaded.snapshot_file
                if (last := self._blocks.get(block.hash)) is not None:
                    self._hold(last, offset, loaded.snapshot)
                    self._use(last, offset)
            self._use(path[-1])

    def shrink_to(self, entries: int | None = None, size_bytes: int | None = None) -> None:
        """Evict the least recently used from memory; a limit that is None is that of this index."""
        with self._lock:
            max_bytes = self._max_bytes if size_bytes is None else size_bytes
            if entries is None:
                # Metal allows 499,000 buffers in a process, and each array takes one.
                entries = 100_000 // max(1, 2 * self._segment_layers)
            while self._used and (len(self._used) > entries or self.size_bytes > max_bytes):
                block, offset = next(iter(self._used))
                key = b"".join([above.key for above in block.up()][::-1])
                if not any(
                    owner == block.owner and other.startswith(key) for owner, other in self._evicted
                ):
                    self._evicted.append((block.owner, key))
                self._evict(block, offset)

    def clear(self, owner: str | None = None) -> None:
        with self._lock:
            for block, offset in list(self._used):
                if owner is None or block.owner == owner:
                    self._evict(block, offset)
            kept = [
                evicted for evicted in self._evicted if owner is not None and evicted[0] != owner
            ]
            self._evicted = deque(kept, _MAX_EVICTED)

    def why_missing(self, owner: str, tokens: Sequence[int], cached: int) -> CacheMiss | None:
        """Return why only ``cached`` tokens of a prompt are held; None where no more could be."""
        with self._lock:
            key = key_of(tokens[:-1])
            if self._match(owner, key, on_disk=True).count - cached >= _MIN_COMMON:
                return CacheMiss.ON_DISK
            if self._walk(owner, key)[1] - cached >= _MIN_COMMON:
                return CacheMiss.NO_SNAPSHOT
            lost = (common_tokens(other, key) for name, other in self._evicted if name == owner)
            if max(lost, default=0) - cached >= _MIN_COMMON:
                return CacheMiss.EVICTED
            if cached:
                return None
            has_any = owner in self._roots
            return CacheMiss.OTHER_BEGINNING if has_any else CacheMiss.NOTHING_STORED

    def _fits(self, segment: Segment, snapshot: Snapshot) -> bool:
        """Whether a cache is one of this model, with keys and values of all its tokens."""
        count = len(segment.layers)
        if bool(count) != self.has_segments:
            return False
        if not self._used:
            self._segment_layers, self._layers = count, snapshot.layers
        is_whole = not self.can_cut_anywhere or all(part.empty() for part in snapshot.parts)
        return count == self._segment_layers and is_whole

    def _new_segments(self, owner: str, key: bytes, segment: Segment) -> dict[int, Segment]:
        """Return copies of the keys and values that memory lacks, by where their block begins."""
        new: dict[int, Segment] = {}
        block = self._roots.get(owner)
        for begin in range(0, len(key) if self.has_segments else 0, self._block_bytes):
            part = key[begin : begin + self._block_bytes]
            block = None if block is None else self._find(block, part)
            if block is None or block.segment is None:
                first = begin // TOKEN_BYTES
                new[begin] = segment.part(first, first + len(part) // TOKEN_BYTES).copied()
        # Evaluating even an empty part of a lazy segment would make MLX compute the whole.
        if new:
            mx.eval([copied.layers for copied in new.values()])
        return new

    def _hold(self, block: Block, offset: int, held: Segment | Snapshot) -> None:
        if (block, offset) in self._used:
            self._count(block.owner, -self._used.pop((block, offset)), offset, -1)
        if isinstance(held, Segment):
            block.segment = held
        else:
            block.snapshots[offset] = held
        self._used[block, offset] = held.size_bytes
        self._count(block.owner, held.size_bytes, offset, 1)

    def _evict(self, block: Block, offset: int) -> None:
        self._count(block.owner, -self._used.pop((block, offset)), offset, -1)
        if offset:
            del block.snapshots[offset]
        else:
            block.segment = None
        self._remove_empty(block)

    def _use(self, last: Block, offset: int = 0) -> None:
        """Mark a path as used now: the snapshot at an offset, then the blocks from the last one."""
        if offset:
            self._used.move_to_end((last, offset))
        for block in last.up():
            if block.segment is not None:
                self._used.move_to_end((block, 0))

    def _limit_snapshots(self, last: Block) -> None:
        """Evict snapshots along a path until they are within their limit.

        The two deepest are kept: the next turn continues from the end of the answer or, where it
        does not repeat that token by token, of its question. Of the others the one goes first that
        saves the fewest tokens.
        """
        if self._max_path_bytes is None:
            return
        kept = [
            (block, offset)
            for block in last.up()
            for offset in sorted(block.snapshots, reverse=True)
        ]
        size = sum(self._used[snapshot] for snapshot in kept)
        while size > self._max_path_bytes and len(kept) > 2:
            ends = [*(block.start + offset for block, offset in kept), 0]
            index = min(range(2, len(kept)), key=lambda at: ends[at] - ends[at + 1])
            snapshot = kept.pop(index)
            size -= self._used[snapshot]
            self._evict(*snapshot)

    # -- the tree --------------------------------------------------------------------------

    def _find(self, parent: Block, key: bytes) -> Block | None:
        """Return the block of some tokens, or a longer one in memory that begins with them."""
        child = parent.children.get(key)
        if child is None or (self.has_segments and child.segment is None):
            for other in parent.children.values():
                if other.key.startswith(key) and (other.segment or not self.has_segments):
                    return other
        return child

    def _add_block(self, key: bytes, parent: Block | None, owner: str) -> Block:
        """Add a block; the arrays of a shorter block that it contains are evicted."""
        block = Block(key, parent, owner)
        self._blocks[block.hash] = block
        if parent is None:
            self._roots[owner] = block
            return block
        for other in list(parent.children.values()):
            if key.startswith(other.key):
                for offset, snapshot in other.snapshots.items():
                    self._hold(block, offset, snapshot)
                parent.children[key] = block
                for offset in [*other.snapshots, *([0] if other.segment else [])]:
                    self._evict(other, offset)
        parent.children[key] = block
        return block

    def _remove_empty(self, block: Block) -> None:
        while not (block.children or block.segment or block.snapshots or block.files):
            del self._blocks[block.hash]
            if block.parent is None:
                del self._roots[block.owner]
                return
            del block.parent.children[block.key]
            block = block.parent

    def _walk(self, owner: str, key: bytes) -> tuple[list[Block], int]:
        """Return the blocks along a key, the last perhaps only in part, and the common tokens."""
        path: list[Block] = []
        at = 0
        block = self._roots.get(owner)
        while block is not None:
            part = key[at : at + self._block_bytes]
            child = block.children.get(part) if len(part) == self._block_bytes else None
            if child is None:
                # Of several that share as much, one in memory.
                best, found = (0, False), None
                for other in block.children.values():
                    shared = common_tokens(other.key, part), other.segment is not None
                    if shared[0] and shared > best:
                        best, found = shared, other
                if found is not None:
                    path.append(found)
                    at += best[0] * TOKEN_BYTES
                break
            path.append(child)
            at += self._block_bytes
            block = child
        return path, at // TOKEN_BYTES

    def _match(self, owner: str, key: bytes, *, on_disk: bool = False) -> _Match:
        """Return the longest prefix that can be continued, by memory or by memory and files."""
        path, reach = self._walk(owner, key)
        for block in path if self.has_segments else ():
            if block.segment is None and not (on_disk and block.file()):
                reach = min(reach, block.start)
                break
        path = [block for block in path if block.start < reach]
        if self.can_cut_anywhere:
            return _Match(path, reach)
        for depth in range(len(path) - 1, -1, -1):
            start, parent = path[depth].start, path[depth].parent
            part = key[start * TOKEN_BYTES : reach * TOKEN_BYTES]
            found = [
                (offset, block)
                for block in (parent.children.values() if parent is not None else ())
                for offset in {*block.snapshots, *(at for _, at in block.files if on_disk)}
                if 0 < offset <= common_tokens(block.key, part)
            ]
            if found:
                offset, block = max(found, key=lambda item: item[0])
                return _Match(path[: depth + 1], start + offset, block, offset)
        return _Match()

    def _count(self, owner: str, size: int, offset: int, entries: int) -> None:
        total, size_bytes, snapshot_bytes = self._usage.get(owner, MemoryUsage())
        snapshot_bytes += size if offset else 0
        self._usage[owner] = MemoryUsage(total + entries, size_bytes + size, snapshot_bytes)
        if total + entries == 0:
            del self._usage[owner]

    # -- files -----------------------------------------------------------------------------

    def needed_from_disk(self, owner: str, tokens: Sequence[int]) -> DiskPrefix | None:
        """Return what to read of a prompt; None where files add nothing to memory."""
        with self._lock:
            key = key_of(tokens[:-1])
            match = self._match(owner, key, on_disk=True)
            if match.count <= self._match(owner, key).count:
                return None
            lacking = [block for block in match.path if self.has_segments and block.segment is None]
            files = [file for block in lacking if (file := block.file()) is not None]
            snapshot = None if match.block is None else match.block.file(match.offset)
            if match.block is not None and snapshot is None:
                return None
            return DiskPrefix(owner, key[: match.count * TOKEN_BYTES], files, snapshot)

    def add_file(self, header: FileHeader, name: str) -> list[str]:
        """Add a file, unless the block before it is unknown; return the files that it replaces."""
        with self._lock:
            owner, kept_with = header.owner.name, header.owner.kept_with or ""
            if header.parent == root_hash(owner) and owner not in self._roots:
                self._add_block(b"", None, owner)
            above = self._blocks.get(header.parent)
            if above is None:
                return []
            key, is_snapshot = header.tokens, header.is_snapshot
            block = above.children.get(key)
            if is_snapshot and (block is None or (kept_with, 0) not in block.files):
                for other in above.children.values():
                    if other.key.startswith(key) and (kept_with, 0) in other.files:
                        block = other
            block = block or self._add_block(key, above, owner)
            offset = len(key) // TOKEN_BYTES if is_snapshot else 0
            unused = [] if (old := block.files.get((kept_with, offset))) is None else [old]
            block.files[kept_with, offset] = name
            for other in list(above.children.values()) if not is_snapshot else ():
                if (
                    other is not block
                    and key.startswith(other.key)
                    and (kept_with, 0) in other.files
                ):
                    unused.append(other.files.pop((kept_with, 0)))
                    for at in [at for at in other.files if at[0] == kept_with]:
                        block.files[at] = other.files.pop(at)
                    self._remove_empty(other)
            return [old for old in unused if old != name]

    def has_file(self, kept_with: str, hashed: str, offset: int = 0) -> bool:
        with self._lock:
            block = self._blocks.get(hashed)
            return block is not None and (kept_with, offset) in block.files

    def files_of(self, owner: str, key: bytes) -> list[str]:
        """Return the files of the tokens of a key, those of the first tokens last."""
        with self._lock:
            path, common = self._walk(owner, key)
            return [
                name
                for block in reversed(path)
                for (_, offset), name in block.files.items()
                if not offset or block.start + offset == common
            ]

    def discard(self, names: Set[str]) -> None:
        with self._lock:
            for block in list(self._blocks.values()):
                removed = [at for at, name in block.files.items() if name in names]
                for at in removed:
                    del block.files[at]
                if removed:
                    self._remove_empty(block)

    def keep_only(self, names: Set[str]) -> None:
        with self._lock:
            held = {name for block in self._blocks.values() for name in block.files.values()}
            self.discard(held - names)
