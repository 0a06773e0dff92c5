"""The prefix index: one tree of the tokens that are cached, with what memory and disk hold of them.

Each edge of the tree is some tokens; what they need is held as arrays, in a file, or both. Prompts
that begin with the same tokens share them. Each owner has a tree: what one asked is never found by
another, neither as a number nor as time saved.

A model whose every layer keeps keys and values of all tokens continues from any token. Any other
continues only where there is a snapshot of its other layers: these end at nodes of the tree, and
share the keys and values on the path to them.

The engine thread stores and evicts arrays; the threads of the disk note files. One lock is held by
whoever reads or changes the tree.
"""

import functools
import itertools
import threading
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from engine.inference.cache.folder import TOKEN_BYTES, StoredFile
from engine.inference.cache.segments import Piece, Segment, Snapshot, joined, taken_apart
from engine.values.events import CacheMiss

# Sequences of token ids as bytes: fast to compare, and usable as keys.


def key_of(tokens: Sequence[int]) -> bytes:
    """Return token ids as bytes, ``TOKEN_BYTES`` for each."""
    return array("I", tokens).tobytes()


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


# Fewer tokens are not worth a file; the model reads them again.
MIN_FILE_TOKENS = 32
# A larger file is not written again to take in the tokens after it.
MAX_REWRITTEN_BYTES = 64 << 20
# So many of the last evicted prompts are remembered, to say why a prompt has to be read again.
_REMEMBERED = 16
# Prompts that share fewer tokens than this only have the beginning of a template in common.
_MIN_ALIKE = 16


@dataclass(slots=True, eq=False)
class Block:
    """Arrays of consecutive tokens of one path, which one or more nodes use."""

    segment: Segment
    start: int
    end: int
    nodes: int = 0


class Node:
    """Some tokens, what is held of them, and the nodes that follow."""

    __slots__ = (
        "block",
        "children",
        "end",
        "files",
        "key",
        "parent",
        "share",
        "snapshot",
        "snapshot_files",
        "used",
    )

    def __init__(self, key: bytes, parent: "Node | None", share: "Share") -> None:
        self.share = share
        self.key = key
        self.parent = parent
        self.end: int = len(key) // TOKEN_BYTES + (parent.end if parent is not None else 0)
        self.children: dict[bytes, Node] = {}
        self.block: Block | None = None
        # The cache of an answer or a snapshot ends here, in memory; when it was last used.
        self.snapshot: Snapshot | None = None
        self.used = 0
        # By what they are kept with.
        self.files: dict[str, StoredFile] = {}
        self.snapshot_files: dict[str, StoredFile] = {}
        if parent is not None:
            parent.children[key[:TOKEN_BYTES]] = self

    @property
    def begin(self) -> int:
        """The number of tokens before its own."""
        return self.end - len(self.key) // TOKEN_BYTES

    @property
    def is_unused(self) -> bool:
        """Whether nothing is held of its tokens or of any after them."""
        return not (
            self.children or self.block or self.snapshot or self.files or self.snapshot_files
        )

    def up(self) -> "Iterator[Node]":
        """Yield this node, its parent, and so on; not the root."""
        node = self
        while node.parent is not None:
            yield node
            node = node.parent

    def down(self) -> "Iterator[Node]":
        """Yield this node and all below it."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.children.values()


class Share:
    """What one owner has."""

    def __init__(self) -> None:
        self.root = Node(b"", None, self)
        self.entries = self.size_bytes = self.snapshot_bytes = 0


class HeldInMemory(NamedTuple):
    """What memory holds for an owner: caches and snapshots, their bytes, and those of snapshots."""

    entries: int = 0
    size_bytes: int = 0
    snapshot_bytes: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class DiskRead:
    """What is to be read from files, so that memory holds the first tokens of a prompt.

    Attributes:
        owner: Whose prompt it is.
        key: These tokens.
        files: The files with their keys and values; of each, the tokens from where to where.
        snapshot: The file with the other layers; None where there are none.
    """

    owner: str
    key: bytes
    files: tuple[tuple[StoredFile, int, int], ...] = ()
    snapshot: StoredFile | None = None

    @property
    def tokens(self) -> int:
        """The number of these tokens."""
        return len(self.key) // TOKEN_BYTES


@dataclass(frozen=True, slots=True, eq=False)
class LoadedPrefix:
    """The first tokens of a prompt as they were read from disk.

    Attributes:
        read: What was to be read.
        segments: Consecutive segments, each with the tokens of the prompt from where to where.
        snapshot: The other layers, behind the last of these tokens.
    """

    read: DiskRead
    segments: tuple[tuple[Segment, int, int], ...]
    snapshot: Snapshot


_P = ParamSpec("_P")
_R = TypeVar("_R")


def _locked(
    method: Callable[Concatenate["PrefixIndex", _P], _R],
) -> Callable[Concatenate["PrefixIndex", _P], _R]:
    @functools.wraps(method)
    def held(self: "PrefixIndex", /, *args: _P.args, **options: _P.kwargs) -> _R:
        with self._lock:
            return method(self, *args, **options)

    return held


class PrefixIndex:
    """The cached tokens of one model; what was used longest ago is evicted first.

    Args:
        max_entries: The most caches and snapshots in memory.
        max_bytes: The most bytes of memory.
        max_path_bytes: The most bytes of the snapshots along one path. Beyond it, the one that
            spares the fewest tokens goes first, so that a long conversation keeps snapshots all
            along it. None for no such limit.
        is_cut_anywhere: Whether the model continues from any token.
        has_segments: Whether any layer keeps keys and values of all tokens.
    """

    def __init__(
        self,
        max_entries: int,
        max_bytes: int,
        max_path_bytes: int | None = None,
        *,
        is_cut_anywhere: bool = True,
        has_segments: bool = True,
    ) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._max_path_bytes = max_path_bytes
        self._is_cut_anywhere = is_cut_anywhere
        self._has_segments = has_segments
        self._lock = threading.RLock()
        self._shares: dict[str, Share] = {}
        # The nodes where a cache or a snapshot in memory ends.
        self._ends: set[Node] = set()
        self._uses = itertools.count(1)
        # How many layers have segments; the same for all caches of one model.
        self._layers = 0
        self._files: dict[str, StoredFile] = {}
        self._evicted: deque[tuple[str, bytes]] = deque(maxlen=_REMEMBERED)

    def __len__(self) -> int:
        """Return the number of caches and snapshots in memory."""
        return len(self._ends)

    @property
    def size_bytes(self) -> int:
        """The memory that they take; segments that several of an owner share count once."""
        return sum(share.size_bytes for share in list(self._shares.values()))

    @property
    @_locked
    def shares(self) -> dict[str, HeldInMemory]:
        """What memory holds for each owner that has any."""
        return {
            name: HeldInMemory(share.entries, share.size_bytes, share.snapshot_bytes)
            for name, share in self._shares.items()
            if share.entries
        }

    # -- memory ----------------------------------------------------------------------------

    @_locked
    def fetch(self, owner: str, tokens: Sequence[int]) -> tuple[list[Any] | None, int]:
        """Return a fresh cache of the longest prefix in memory, and its number of tokens.

        At least one token of the prompt is left for the model to read, as mlx-lm requires.
        """
        path, end, count = self._longest(owner, key_of(tokens[:-1]))
        if end is None or end.snapshot is None:
            return None, 0
        end.used = next(self._uses)
        return joined(_pieces(path, count), end.snapshot, count), count

    @_locked
    def usable(self, owner: str, tokens: Sequence[int]) -> int:
        """Return for how many first tokens of a prompt ``fetch`` would return a cache."""
        return self._longest(owner, key_of(tokens[:-1]))[2]

    @_locked
    def common(self, owner: str, tokens: Sequence[int]) -> int:
        """Return how many first tokens a prompt shares with a cached one of its owner."""
        return self._walk(owner, key_of(tokens[:-1]))[1]

    @_locked
    def store(
        self, owner: str, tokens: Sequence[int], cache: Sequence[Any]
    ) -> tuple[list[Piece], Snapshot] | None:
        """Store a cache in memory, and evict what was used longest ago until the rest fits.

        Returns its evaluated parts, which never change; None where it is no cache of this model.
        """
        segment, snapshot = taken_apart(cache, len(tokens))
        if not self._takes(len(segment.layers)):
            return None
        key = key_of(tokens)
        path, common = self._walk(owner, key)
        held = _held(path, common)
        if snapshot.is_empty and held == len(tokens) and self._touch_below(path[-1]):
            return _pieces(path, held), snapshot  # a longer cache contains it
        # Copy first, because copying may fail for lack of memory. Evaluating even an empty part of
        # a lazy segment would make MLX compute the whole.
        new = segment.part(held, len(tokens)).compact() if held < len(tokens) else None
        snapshot.compact()
        node = self._place(owner, key)
        if new is not None:
            self._hold(node, Block(new, held, len(tokens)))
        self._end_at(node, snapshot)
        pieces = _pieces([*node.up()][::-1], len(tokens))
        self._thin(node)
        self.shrink_to()
        return pieces, snapshot

    @_locked
    def install(self, loaded: LoadedPrefix) -> None:
        """Hold in memory what was read from disk; ``shrink_to`` is due once it was fetched."""
        owner, key, tokens = loaded.read.owner, loaded.read.key, loaded.read.tokens
        held = _held(*self._walk(owner, key))
        blocks = [Block(segment, start, end) for segment, start, end in loaded.segments]
        if not self._has_segments:
            blocks = [Block(Segment(()), held, tokens)]
        begins, ends = (blocks[0].start, blocks[-1].end) if blocks else (held, held)
        # What memory held when the files were chosen may have been evicted.
        if begins > held or max(held, ends) < tokens:
            return
        if blocks and not self._takes(len(blocks[0].segment.layers)):
            return
        node = self._place(owner, key)
        for block in blocks:
            self._hold(node, block)
        self._end_at(node, loaded.snapshot)

    @_locked
    def shrink_to(self, entries: int | None = None, size_bytes: int | None = None) -> None:
        """Evict what was used longest ago from memory until the rest is no more than this.

        Without a number, the limit is the one of this index.
        """
        entries = self._max_entries if entries is None else entries
        size_bytes = self._max_bytes if size_bytes is None else size_bytes
        while len(self._ends) > entries or (self._ends and self.size_bytes > size_bytes):
            end = min(self._ends, key=_last_used)
            self._evicted.append((self._owner_of(end), _key_to(end)))
            self._drop(end)

    @_locked
    def clear(self, owner: str | None = None) -> None:
        """Hold nothing of an owner, or of anybody, in memory."""
        share = None if owner is None else self._shares.get(owner)
        for end in list(self._ends):
            if owner is None or end.share is share:
                self._drop(end)
        self._evicted = deque(
            (evicted for evicted in self._evicted if owner is not None and evicted[0] != owner),
            _REMEMBERED,
        )

    @_locked
    def why_missing(self, owner: str, tokens: Sequence[int], cached: int) -> CacheMiss | None:
        """Return why no more than ``cached`` tokens of a prompt are held; None where nothing
        more could be.
        """
        key = key_of(tokens[:-1])
        if self._longest_anywhere(owner, key)[2] - cached >= _MIN_ALIKE:
            return CacheMiss.ON_DISK
        if self._walk(owner, key)[1] - cached >= _MIN_ALIKE:
            return CacheMiss.NO_SNAPSHOT
        lost = (common_tokens(other, key) for name, other in self._evicted if name == owner)
        if max(lost, default=0) - cached >= _MIN_ALIKE:
            return CacheMiss.EVICTED
        if cached:
            return None
        has_any = owner in self._shares
        return CacheMiss.OTHER_BEGINNING if has_any else CacheMiss.NOTHING_STORED

    def _takes(self, layers: int) -> bool:
        """Whether a cache with so many layers of segments is one of the same model."""
        if not self._ends:
            self._layers = layers
        return layers == self._layers

    def _longest(self, owner: str, key: bytes) -> tuple[list[Node], Node | None, int]:
        """Return the path of a key, the end of the best cache, and how many tokens that gives."""
        path, common = self._walk(owner, key)
        end, count = _nearest(
            path,
            _held(path, common),
            lambda node: node.snapshot is not None,
            lambda node: node.snapshot is not None and node.snapshot.can_be_trimmed,
        )
        return path, end, count

    def _longest_anywhere(self, owner: str, key: bytes) -> tuple[list[Node], Node | None, int]:
        """Do the same as ``_longest`` for memory and disk together; without an end where none is
        needed.
        """
        path, common = self._walk(owner, key)
        reach = common
        if self._has_segments:
            missing = (node.begin for node in path if not (node.block or node.files))
            reach = min(next(missing, common), common)
        if self._is_cut_anywhere:
            return path, None, reach
        return path, *_nearest(path, reach, _has_snapshot, _has_trimmable)

    def _touch_below(self, node: Node) -> bool:
        """Mark the most recently used of the caches that pass through a node as used now."""
        ends = [descendant for descendant in node.down() if descendant.snapshot is not None]
        if ends:
            max(ends, key=_last_used).used = next(self._uses)
        return bool(ends)

    def _hold(self, node: Node, block: Block) -> None:
        """Let a node and those above it use a block for all of its tokens that memory lacks."""
        for ancestor in node.up():
            if ancestor.end <= block.start:
                break
            if (
                ancestor.block is None
                and block.start <= ancestor.begin
                and ancestor.end <= block.end
            ):
                ancestor.block = block
                block.nodes += 1
        if block.nodes:
            node.share.size_bytes += block.segment.size_bytes

    def _end_at(self, node: Node, snapshot: Snapshot) -> None:
        if snapshot.is_empty:  # what ends above is contained in it
            for above in node.up():
                self._forget_end(above)
        self._forget_end(node)
        node.snapshot = snapshot
        node.used = next(self._uses)
        share = node.share
        share.size_bytes += snapshot.size_bytes
        share.snapshot_bytes += snapshot.size_bytes
        share.entries += 1
        self._ends.add(node)

    def _forget_end(self, node: Node) -> None:
        """Let no cache end at a node; its tokens stay for caches that continue beyond it."""
        if node.snapshot is not None:
            share = node.share
            share.size_bytes -= node.snapshot.size_bytes
            share.snapshot_bytes -= node.snapshot.size_bytes
            share.entries -= 1
            node.snapshot = None
            self._ends.remove(node)

    def _thin(self, node: Node) -> None:
        """Keep the snapshots along a path within their limit."""
        if self._max_path_bytes is None:
            return
        ends = [
            ancestor
            for ancestor in node.up()
            if ancestor.snapshot is not None and not ancestor.snapshot.is_empty
        ]
        sizes = {end: end.snapshot.size_bytes for end in ends if end.snapshot is not None}
        for end in _surplus(ends, sizes.__getitem__, self._max_path_bytes):
            self._forget_end(end)

    def _drop(self, end: Node) -> None:
        """Drop a cache from memory, and the tokens that no other there shares."""
        self._forget_end(end)
        ends_at: dict[Block, int] = {}
        for node in end.up():
            is_needed = node.snapshot or any(child.block for child in node.children.values())
            if node.block is None or is_needed:
                break
            node.block.nodes -= 1
            ends_at[node.block] = node.begin
            node.block = None
        share = end.share
        for block, at in ends_at.items():
            share.size_bytes -= block.segment.size_bytes
            if block.nodes:
                block.segment = block.segment.part(0, at - block.start).compact()
                share.size_bytes += block.segment.size_bytes
        self._prune(end)

    # -- the tree --------------------------------------------------------------------------

    def _walk(self, owner: str, key: bytes) -> tuple[list[Node], int]:
        """Return the nodes along a key, the last perhaps only in part, and the common tokens."""
        path: list[Node] = []
        at = 0
        share = self._shares.get(owner)
        if share is None:
            return path, at
        node = share.root
        while child := node.children.get(key[at : at + TOKEN_BYTES]):
            path.append(child)
            common = common_tokens(child.key, key[at : at + len(child.key)])
            at += common * TOKEN_BYTES
            if at < child.end * TOKEN_BYTES:
                break
            node = child
        return path, at // TOKEN_BYTES

    def _place(self, owner: str, key: bytes) -> Node:
        """Return the node at the end of a key; it is made where there is none."""
        share = self._shares.setdefault(owner, Share())
        path, common = self._walk(owner, key)
        node = path[-1] if path else share.root
        if node.end > common:
            node = _split(node, common)
        if node.end * TOKEN_BYTES < len(key):
            node = Node(key[common * TOKEN_BYTES :], node, share)
        return node

    def _prune(self, node: Node) -> None:
        """Forget nodes, from one upwards, of which nothing is held."""
        while node.parent is not None and node.is_unused:
            del node.parent.children[node.key[:TOKEN_BYTES]]
            node = node.parent
        if node.parent is None and not node.children:
            self._shares = {
                name: share for name, share in self._shares.items() if share is not node.share
            }

    def _owner_of(self, node: Node) -> str:
        return next(name for name, share in self._shares.items() if share is node.share)

    # -- files -----------------------------------------------------------------------------

    @_locked
    def needed_from_disk(self, owner: str, tokens: Sequence[int]) -> DiskRead | None:
        """Return what to read so that memory holds as much of a prompt as there is; None where
        files add nothing to it.
        """
        key = key_of(tokens[:-1])
        path, end, count = self._longest_anywhere(owner, key)
        if count <= self._longest(owner, key)[2]:
            return None
        files: list[tuple[StoredFile, int, int]] = []
        # The same conversation's files, where several have the tokens: they are the fewest.
        deepest = max((node for node in path if node.begin < count), key=_end_of)
        nearest = next(iter(deepest.files), "")
        for node in path:
            if node.begin >= count or not self._has_segments:
                break
            if node.block is None:
                last = files[-1] if files else None
                if last is not None and node in last[0].nodes:
                    files[-1] = (last[0], last[1], min(node.end, count))
                else:
                    file = node.files.get(nearest) or next(iter(node.files.values()))
                    files.append((file, node.begin, min(node.end, count)))
        snapshot = None
        if end is not None:
            all_here = end.snapshot_files.values()
            snapshot = next(file for file in all_here if file.end == count or file.can_trim)
        return DiskRead(owner, key[: count * TOKEN_BYTES], tuple(files), snapshot)

    @_locked
    def add_file(self, owner: str, key: bytes, file: StoredFile) -> list[str]:
        """Note a file, and the key of the tokens up to its end; return the names of those that it
        makes superfluous.
        """
        self._files[file.name] = file
        replaced: set[StoredFile] = set()
        node = self._place(owner, key)
        if file.is_snapshot:
            nodes = [(node, node.snapshot_files)]
        else:
            if file.start:
                self._place(owner, key[: file.start * TOKEN_BYTES])
            nodes = [
                (ancestor, ancestor.files) for ancestor in node.up() if ancestor.begin >= file.start
            ]
        for holder, files in nodes:
            if (before := files.get(file.kept_with)) is not None:
                before.nodes.discard(holder)
                replaced.add(before)
            files[file.kept_with] = file
            file.nodes.add(holder)
        names = [before.name for before in replaced if not before.nodes]
        for name in names:
            del self._files[name]
        return names

    @_locked
    def add_files(self, files: Iterable[tuple[str, bytes, StoredFile]]) -> list[str]:
        """Note files that were found, each with its owner and the key of the tokens up to its end;
        return the names of those that cannot be used.
        """
        names: list[str] = []
        for owner, key, file in sorted(files, key=lambda listed: (listed[2].start, listed[2].end)):
            names += self.add_file(owner, key, file)
        return names + self._drop_orphans()

    @_locked
    def start_of_file(self, owner: str, kept_with: str, key: bytes) -> int | None:
        """Return from which token on the keys and values of a cache are to be written; None where
        files hold them already.

        A file takes in those before it that are not longer, so that a conversation of n turns has
        about log n files, and each token is written about log n times; large files stay.
        """
        end = len(key) // TOKEN_BYTES
        path, common = self._walk(owner, key)
        files = [node.files.get(kept_with) for node in path]
        covered = next(
            (node.begin for node, file in zip(path, files, strict=True) if file is None), common
        )
        start = covered = min(covered, common)
        few = MIN_FILE_TOKENS if self._is_cut_anywhere else 1
        if covered and end - covered < few:
            return None
        for node, file in zip(reversed(path), reversed(files), strict=True):
            if file is None or node.begin >= start:
                continue
            if start - file.start > end - start or file.size_bytes > MAX_REWRITTEN_BYTES:
                break
            start = file.start
        return start

    @_locked
    def has_snapshot_file(self, owner: str, kept_with: str, key: bytes) -> bool:
        """Whether a file holds the snapshot at the end of a key."""
        path, common = self._walk(owner, key)
        is_there = bool(path) and path[-1].end == common == len(key) // TOKEN_BYTES
        return is_there and kept_with in path[-1].snapshot_files

    @_locked
    def surplus_files(self, owner: str, kept_with: str, key: bytes, max_bytes: int) -> list[str]:
        """Return the snapshots on disk along a path that are too many for their limit."""
        path, _ = self._walk(owner, key)
        nodes = [node for node in reversed(path) if kept_with in node.snapshot_files]
        surplus = _surplus(nodes, lambda node: node.snapshot_files[kept_with].size_bytes, max_bytes)
        return [node.snapshot_files[kept_with].name for node in surplus]

    @_locked
    def files_of(self, owner: str, key: bytes) -> list[str]:
        """Return the files that hold the tokens of a key, in the order in which they are used
        last: the first tokens last, because the others are of no use without them.
        """
        path, common = self._walk(owner, key)
        names: dict[str, None] = {}
        for node in reversed(path):
            if node is path[-1] and node.end <= common:
                names |= dict.fromkeys(file.name for file in node.snapshot_files.values())
            names |= dict.fromkeys(file.name for file in node.files.values())
        return list(names)

    @_locked
    def discard(self, names: Iterable[str]) -> list[str]:
        """Forget files; return the names of those that are of no use without them."""
        for name in names:
            self._forget_file(name)
        return self._drop_orphans()

    @_locked
    def keep_only(self, names: Set[str]) -> list[str]:
        """Forget files that are not among these; return those of no use without them."""
        return self.discard([name for name in self._files if name not in names])

    def _forget_file(self, name: str) -> None:
        file = self._files.pop(name, None)
        if file is None:
            return
        for node in file.nodes:
            files = node.snapshot_files if file.is_snapshot else node.files
            del files[file.kept_with]
            self._prune(node)

    def _drop_orphans(self) -> list[str]:
        """Forget files without those of the tokens before them; return their names."""
        orphans: list[str] = []
        shares = list(self._shares.values()) if self._has_segments else []
        # A node comes before those below it.
        for node in [node for share in shares for node in share.root.down()]:
            parent = node.parent
            before = None if parent is None or parent.parent is None else parent.files
            lost = [
                file.name
                for kept_with, file in node.files.items()
                if before is not None and kept_with not in before
            ]
            lost += [
                file.name
                for kept_with, file in node.snapshot_files.items()
                if kept_with not in node.files or node.files[kept_with].name in lost
            ]
            for name in lost:
                self._forget_file(name)
            orphans += lost
        return orphans


def _last_used(node: Node) -> int:
    return node.used


def _end_of(node: Node) -> int:
    return node.end


def _key_to(node: Node) -> bytes:
    return b"".join([ancestor.key for ancestor in node.up()][::-1])


def _held(path: Sequence[Node], common: int) -> int:
    """Return how many tokens of a path memory holds."""
    return min(next((node.begin for node in path if node.block is None), common), common)


def _pieces(path: Sequence[Node], tokens: int) -> list[Piece]:
    """Return what a path holds of its first ``tokens`` tokens."""
    pieces: list[Piece] = []
    last: Block | None = None
    for node in path:
        block = node.block
        if block is None or node.begin >= tokens:
            break
        end = min(node.end, tokens) - block.start
        if block is last:
            pieces[-1] = pieces[-1]._replace(end=end)
        else:
            pieces.append(Piece(block.segment, node.begin - block.start, end))
        last = block
    return pieces


def _nearest(
    path: Sequence[Node],
    tokens: int,
    has: Callable[[Node], object],
    can_trim: Callable[[Node], object],
) -> tuple[Node | None, int]:
    """Return the node from which most of a path's first ``tokens`` tokens can be continued.

    That is the last one with a snapshot, or one that lies beyond but can be cut back; of several
    the one that was used last.
    """
    passed: Node | None = None
    for node in reversed(path):
        count = min(node.end, tokens)
        if node.end <= tokens and has(node):
            return node, count
        others = [descendant for descendant in _below(node, passed) if can_trim(descendant)]
        if others and count > node.begin:
            return max(others, key=_last_used), count
        passed = node
    return None, 0


def _below(node: Node, without: Node | None) -> Iterator[Node]:
    yield node
    for child in node.children.values():
        if child is not without:
            yield from child.down()


def _has_snapshot(node: Node) -> bool:
    return node.snapshot is not None or bool(node.snapshot_files)


def _has_trimmable(node: Node) -> bool:
    in_memory = node.snapshot is not None and node.snapshot.can_be_trimmed
    return in_memory or any(file.can_trim for file in node.snapshot_files.values())


def _surplus(nodes: Sequence[Node], size_of: Callable[[Node], int], max_bytes: int) -> list[Node]:
    """Return which snapshots along a path, the deepest first, are too many.

    The two deepest stay: the next turn continues from the end of the answer or, where it does not
    repeat that token by token, of its question. Of the others the one goes first that spares the
    fewest tokens.
    """
    left, surplus = list(nodes), []
    size = sum(map(size_of, left))
    while size > max_bytes and len(left) > 2:
        ends = [*(node.end for node in left), 0]
        place = min(range(2, len(left)), key=lambda at: ends[at] - ends[at + 1])
        node = left.pop(place)
        size -= size_of(node)
        surplus.append(node)
    return surplus


def _split(node: Node, at: int) -> Node:
    """Split a node after ``at`` tokens from the root; return the first part."""
    cut = (at - node.begin) * TOKEN_BYTES
    parent = node.parent
    first = Node(node.key[:cut], parent, node.share)
    first.block = node.block
    if first.block is not None:
        first.block.nodes += 1
    first.files = dict(node.files)
    for file in first.files.values():
        file.nodes.add(first)
    node.key = node.key[cut:]
    node.parent = first
    first.children[node.key[:TOKEN_BYTES]] = node
    return first
