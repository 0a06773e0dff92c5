"""Keeps the caches of earlier turns in memory, so that the next turn reads only what is new."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import mlx.core as mx

from engine.inference.cache.disk import ModelDiskCache
from engine.inference.cache.folder import Ticket
from engine.inference.cache.index import TOKEN_BYTES, LoadedBeginning, common_tokens, key_of
from engine.inference.cache.segments import Segment, Snapshot, joined, tail, taken_apart, view_of
from engine.values.request import CacheOwner

# A tree of segments of tokens: prompts that begin with the same tokens hold them once. A path
# from the root to an end is the kept cache of one answer. Each owner has a root: what one asked
# is never found by another, neither as a number nor as time saved.
# ``engine.inference.cache.segments`` knows what the segments hold. Engine thread.
#
# In mlx-lm, the rows of a running batch are dense: one array holds all of them. So a row that
# begins with kept tokens gets a copy of them, joined when the row is made.


class _Node:
    """A segment of tokens, with the segments that follow it."""

    __slots__ = ("children", "end", "key", "parent", "segment", "share", "snapshot")

    def __init__(
        self, key: bytes, segment: Segment, parent: "_Node | None", share: "_Share"
    ) -> None:
        self.share = share
        self.key = key
        self.segment = segment
        self.parent = parent
        self.end: int = len(key) // TOKEN_BYTES + (parent.end if parent is not None else 0)
        self.children: dict[bytes, _Node] = {}
        self.snapshot: Snapshot | None = None
        if parent is not None:
            parent.children[key[:TOKEN_BYTES]] = self


class _Share:
    """What one owner keeps."""

    def __init__(self) -> None:
        self.root = _Node(b"", Segment(()), None, self)
        self.entries = self.size_bytes = 0


class PromptCache:
    """Kept caches, found by their tokens; the least recently used is dropped first."""

    def __init__(self, most_entries: int, most_bytes: int) -> None:
        self._most_entries = most_entries
        self._most_bytes = most_bytes
        self._shares: dict[str, _Share] = {}
        # The nodes where a kept cache ends, the least recently used first.
        self._ends: OrderedDict[_Node, None] = OrderedDict()
        # How many layers have segments; the same for all caches of one model.
        self._layers = 0

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._ends)

    @property
    def size_bytes(self) -> int:
        """The bytes that they take; segments that several of an owner share count once."""
        return sum(share.size_bytes for share in self._shares.values())

    @property
    def shares(self) -> dict[str, tuple[int, int]]:
        """The number of caches and the bytes of each owner that has any."""
        return {name: (one.entries, one.size_bytes) for name, one in self._shares.items()}

    def fetch(self, owner: str, tokens: Sequence[int]) -> tuple[list[Any] | None, int]:
        """Return a fresh cache of the longest known beginning, and its number of tokens.

        At least one token of the prompt is left for the model to read, as mlx-lm requires.
        """
        path, best, most = self._longest(owner, key_of(tokens[:-1]))
        if best is None or best.snapshot is None:
            return None, 0
        self._ends.move_to_end(best)
        return joined(_segments(path, most), best.snapshot, most), most

    def usable(self, owner: str, tokens: Sequence[int]) -> int:
        """Return for how many first tokens of a prompt ``fetch`` would return a cache."""
        return self._longest(owner, key_of(tokens[:-1]))[2]

    def parts_of(self, owner: str, tokens: Sequence[int]) -> tuple[list[Segment], Snapshot] | None:
        """Return the evaluated parts of the cache kept for exactly these tokens.

        The parts never change. None where no such cache is kept, or no longer.
        """
        path, best, most = self._longest(owner, key_of(tokens))
        if best is None or best.snapshot is None or most < len(tokens):
            return None
        return _segments(path, most), best.snapshot

    def common(self, owner: str, tokens: Sequence[int]) -> int:
        """Return how many first tokens a prompt shares with a kept one of its owner.

        If the model's cache can be cut anywhere, ``fetch`` returns that many; otherwise only as
        many as a snapshot holds.
        """
        return self._walk(owner, key_of(tokens[:-1]))[1]

    def keep(self, owner: str, tokens: Sequence[int], cache: Sequence[Any]) -> None:
        """Keep a cache, and drop those that were used longest ago until the rest fits."""
        segment, snapshot = taken_apart(cache, len(tokens))
        if not self._ends:
            self._layers = len(segment.layers)
        elif len(segment.layers) != self._layers:
            return
        key = key_of(tokens)
        path, common = self._walk(owner, key)
        share = self._shares.get(owner) or _Share()
        last = path[-1] if path else share.root
        if snapshot.is_empty and common == len(tokens) and (last.end > common or last.children):
            # A longer kept cache contains it.
            self._touch_one_below(last)
            return
        # Copy first, because copying may fail for lack of memory.
        rest = segment.part(common, len(tokens))
        # Evaluating even an empty part of a lazy segment would make MLX compute the whole.
        new = rest.compact() if common < len(tokens) else None
        snapshot.compact()
        self._shares[owner] = share
        if last.end > common:
            last = self._split(last, common)
        if new is not None:
            last = _Node(key[common * TOKEN_BYTES :], new, last, share)
            share.size_bytes += new.size_bytes
        if snapshot.is_empty:
            for node in path:
                if node.end <= common:
                    self._forget_end(node)
        self._forget_end(last)
        last.snapshot = snapshot
        share.size_bytes += snapshot.size_bytes
        share.entries += 1
        self._ends[last] = None
        self.shrink_to(self._most_entries, self._most_bytes)

    def shrink_to(self, entries: int, size_bytes: int | None = None) -> None:
        """Evict the least recently used caches until the rest is no more than this."""
        size_bytes = self._most_bytes if size_bytes is None else size_bytes
        while len(self._ends) > entries or (self._ends and self.size_bytes > size_bytes):
            self._drop(next(iter(self._ends)))

    def clear(self, owner: str | None = None) -> None:
        """Keep nothing of an owner, or of anybody."""
        share = None if owner is None else self._shares.get(owner)
        # One by one, because nodes refer to each other, and memory must not wait for Python's
        # garbage collector.
        for end in list(self._ends):
            if owner is None or end.share is share:
                self._drop(end)

    def _walk(self, owner: str, key: bytes) -> tuple[list[_Node], int]:
        """Return the nodes along a key, the last perhaps only in part, and the common tokens."""
        path: list[_Node] = []
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

    def _longest(self, owner: str, key: bytes) -> tuple[list[_Node], _Node | None, int]:
        """Return the path of a key, the end of the best cache, and how many tokens that gives."""
        path, common = self._walk(owner, key)
        best, most = None, 0
        for end in reversed(self._ends):
            usable = self._usable(end, path, common)
            if usable > most:
                best, most = end, usable
        return path, best, most

    def _usable(self, end: _Node, path: list[_Node], common: int) -> int:
        """Return how many tokens of a walk's path the cache that ends at a node can give."""
        if end.end <= common and end in path:
            return end.end
        if end.snapshot is None or not end.snapshot.can_be_trimmed:
            return 0
        node: _Node | None = end
        while node is not None and node not in path:
            node = node.parent
        return 0 if node is None else min(node.end, common)

    def _touch_one_below(self, node: _Node) -> None:
        """Of the caches that pass through a node, mark the most recently used one as used now."""
        for end in reversed(self._ends):
            above: _Node | None = end
            while above is not None and above is not node:
                above = above.parent
            if above is node:
                self._ends.move_to_end(end)
                return

    def _split(self, node: _Node, at: int) -> _Node:
        """Split a node after ``at`` tokens from the root; return the first part."""
        begin = node.end - len(node.key) // TOKEN_BYTES
        before = node.segment.part(0, at - begin).compact()
        after = node.segment.part(at - begin, node.end - begin).compact()
        cut = (at - begin) * TOKEN_BYTES
        first = _Node(node.key[:cut], before, node.parent, node.share)
        node.key, node.segment = node.key[cut:], after
        node.parent = first
        first.children[node.key[:TOKEN_BYTES]] = node
        return first

    def _forget_end(self, node: _Node) -> None:
        """Let no cache end at a node; its tokens stay for caches that continue beyond it."""
        if node.snapshot is not None:
            node.share.size_bytes -= node.snapshot.size_bytes
            node.share.entries -= 1
            node.snapshot = None
            del self._ends[node]

    def _drop(self, end: _Node) -> None:
        """Drop a cache, and the tokens that no other shares."""
        self._forget_end(end)
        node = end
        while node.parent is not None and not node.children and node.snapshot is None:
            parent = node.parent
            del parent.children[node.key[:TOKEN_BYTES]]
            node.share.size_bytes -= node.segment.size_bytes
            node = parent
        self._shares = {name: one for name, one in self._shares.items() if one.entries}


def _segments(path: Sequence[_Node], tokens: int) -> list[Segment]:
    """Return the segments of a path that hold its first ``tokens`` tokens."""
    return [one.segment for one in path if one.end - len(one.key) // TOKEN_BYTES < tokens]


# Keeps the caches of a batch's rows: in memory for all rows, on disk where their owner wants it.
#
# Belongs to the thread of its batch.

_CACHED_PROMPTS = 64


class PromptKeeper:
    """The caches of earlier prompts."""

    def __init__(self, most_bytes: int, stream: Callable[[], AbstractContextManager[Any]]) -> None:
        self.memory = PromptCache(_CACHED_PROMPTS, most_bytes)
        self.disk: ModelDiskCache | None = None
        self._stream = stream

    def fetch(
        self, owner: CacheOwner, tokens: list[int], loaded: LoadedBeginning | None
    ) -> tuple[list[Any] | None, int, int]:
        """Return the cache of a prompt's first tokens, their number, and how many are from disk."""
        cache, cached = self.memory.fetch(owner.name, tokens)
        if loaded is None or loaded.tokens <= cached:
            return cache, cached, 0
        # Kept in memory as well, because other choices of the request have the same prompt.
        with self._stream():
            self.memory.keep(owner.name, tokens[: loaded.tokens], view_of(loaded.cache))
        cache, cached = self.memory.fetch(owner.name, tokens)
        if cached < loaded.tokens:  # memory has no room for it
            cache, cached = view_of(loaded.cache), loaded.tokens
        return cache, cached, cached

    def ticket(self, owner: CacheOwner) -> Ticket | None:
        """Return the right to store a cache on disk; None where its owner wants none there."""
        return None if self.disk is None or owner.kept_with is None else self.disk.ticket(owner)

    def store(
        self, owner: CacheOwner, ticket: Ticket | None, cache: Any, tokens: list[int] | None
    ) -> None:
        """Store a cache in memory, and on disk where its owner wants it."""
        if not cache or not tokens:
            return
        with self._stream():
            self.memory.keep(owner.name, tokens, cache)
            if ticket is not None and self.disk is not None:
                self._keep_on_disk(self.disk, ticket, cache, tokens)

    def _keep_on_disk(
        self, disk: ModelDiskCache, ticket: Ticket, cache: Sequence[Any], tokens: list[int]
    ) -> None:
        parts = self.memory.parts_of(ticket.owner.name, tokens)
        if parts is None:  # memory has no room for it
            view = view_of(cache)
            segment, snapshot = taken_apart(view, len(tokens))
            parts = [segment], snapshot
            # Another thread can read arrays, but it cannot finish this thread's computations.
            mx.eval(segment.layers, [part.state for part in view])
        segments, snapshot = parts
        size = sum(one.size_bytes for one in segments) + snapshot.size_bytes
        # Joined on the thread that writes: no token waits for that.
        disk.keep(ticket, tokens, partial(tail, segments, snapshot, len(tokens)), size)
