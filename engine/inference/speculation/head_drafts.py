"""Drafts of a model's own head, or of an assistant, for the sequences of a batch. Engine thread.

The head is given each token of a sequence with the hidden state before it. Both are kept as the
model reads tokens, in one part more at the end of each cache, and the head reads the last of them
when it drafts: until then it costs nothing.
"""

import copy
import logging
from collections import deque
from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from engine.inference.cache.size import cache_size
from engine.inference.running_cache import parts_of
from engine.inference.speculation.assistants import Assistant
from engine.inference.speculation.cost import MAX_ROWS
from engine.inference.speculation.heads import DraftHead, inner_of
from engine.inference.speculation.sources import DraftSource, HitRate
from engine.library.memory_need import CacheSize
from engine.values.tokens import TokenOrigin

_log = logging.getLogger(__name__)
MAX_UNREAD = 24
"""The tokens that a head reads before it drafts; with more of them it is hardly better."""


class _Row:
    """The read and the unread tokens of one sequence.

    ``pieces`` is what the model has read since the last draft: tokens of shape (rows, n), the
    hidden states after them, (rows, n, size), and of these its row and its number of tokens. The
    head has read the first of these tokens. ``cache`` is that of its layer; empty for an assistant.
    """

    def __init__(self, cache: list[Any]) -> None:
        self.cache = cache
        self.count = 0
        self.pieces: deque[tuple[mx.array, mx.array, int, int]] = deque()

    def add(self, tokens: mx.array, hidden: mx.array, row: int, count: int) -> None:
        self.pieces.append((tokens, hidden, row, count))
        self.count += count
        while self.count - self.pieces[0][-1] > MAX_UNREAD:
            self.count -= self.pieces.popleft()[-1]

    def remove(self, tokens: int) -> None:
        tokens = min(tokens, self.count)
        self.count -= tokens
        while tokens:
            ids, hidden, row, count = self.pieces.pop()
            kept = max(0, count - tokens)
            tokens -= count - kept
            if kept:
                self.pieces.append((ids, hidden, row, kept))

    def unread(self) -> tuple[mx.array, mx.array]:
        """Return the tokens, of shape (1, n), and the hidden states after them, (1, n, size)."""
        tokens = [tokens[row, :count] for tokens, _, row, count in self.pieces]
        hidden = [hidden[row, :count] for _, hidden, row, count in self.pieces]
        return mx.concatenate(tokens)[None], mx.concatenate(hidden)[None]

    def clear(self) -> None:
        self.pieces.clear()
        self.count = 0

    def copy(self) -> "_Row":
        """Return a copy that shares arrays, which nobody changes."""
        row = _Row(copy.deepcopy(self.cache))
        row.count, row.pieces = self.count, self.pieces.copy()
        return row


class HeadCache:
    """What a head has to read of the sequences of a batch, as the last part of their cache.

    The model's own code does not see it. mlx-lm moves it with the other parts when sequences join
    and leave. With too many sequences for the head, it keeps nothing.
    """

    def __init__(self, head: DraftHead | Assistant, rows: list[_Row] | None = None) -> None:
        self.rows = [_Row(head.make_cache())] if rows is None else rows
        self.head = head
        self._padding: Sequence[int] | None = None

    def add(self, tokens: mx.array, hidden: mx.array) -> None:
        """Add tokens of shape (rows, n) that the model reads, and the hidden states after them."""
        is_crowded, count = len(self.rows) > MAX_ROWS, tokens.shape[1]
        for index, row in enumerate(self.rows):
            if not is_crowded:
                row.add(tokens, hidden, index, count)
            elif row.count:
                row.clear()

    def take_back(self, surplus: Sequence[int]) -> None:
        for row, count in zip(self.rows, surplus, strict=True):
            row.remove(count)

    def propose(
        self, pending: Sequence[int], max_drafts: int, cache: Sequence[Any] = ()
    ) -> list[list[int]]:
        """Return drafts after ``pending`` for each row; an assistant looks at ``cache``."""
        chains = [
            self._chain(index, token, max_drafts, cache) if self.rows[index].count else []
            for index, token in enumerate(pending)
        ]
        mx.eval(chains)
        return [[int(draft.item()) for draft in chain] for chain in chains]  # type: ignore[arg-type]

    def _chain(
        self, index: int, pending: int, max_drafts: int, cache: Sequence[Any]
    ) -> list[mx.array]:
        """Return the drafts for one row, each of shape (1, 1), not computed yet."""
        row = self.rows[index]
        token = mx.array([[pending]], mx.uint32)
        tokens, hidden = row.unread()
        read: Any = row.cache
        if read:
            tokens = tokens[:, 1:].astype(mx.uint32)
            token = mx.concatenate([tokens, token], axis=1)[:, -MAX_UNREAD - 1 :]
        else:
            read = self.head.seen(cache, index)
        hidden = hidden[:, -token.shape[1] :]
        drafts: list[mx.array] = []
        for _ in range(max_drafts):
            states, hidden = self.head.read(hidden, token, read)
            hidden = hidden[:, -1:]
            token = mx.argmax(self.head.logits(states[:, -1:]), axis=-1).astype(mx.uint32)
            drafts.append(token)
        # The next pass of the model gives the hidden states that replace those of the chain. The
        # first token of that pass has been read here.
        for part in parts_of(row.cache):
            part.trim(max_drafts - 1)
        row.clear()
        return drafts

    # -- what mlx-lm calls on a part of a cache ---------------------------------------------

    @classmethod
    def merge(cls, caches: "Sequence[HeadCache]") -> "HeadCache":
        return cls(caches[0].head, [row for cache in caches for row in cache.rows])

    def extend(self, other: "HeadCache") -> None:
        self.rows += other.rows

    def filter(self, keep: Sequence[int]) -> None:
        self.rows = [self.rows[index] for index in keep]

    def extract(self, row: int) -> "HeadCache":
        """Return an empty cache: what a head has read is not kept."""
        return HeadCache(self.head)

    def prepare(self, *, right_padding: Sequence[int] | None = None, **_: Any) -> None:
        """Note how many of the next tokens of each row are padding."""
        self._padding = right_padding

    def finalize(self) -> None:
        if self._padding is not None:
            self.take_back(self._padding)
        self._padding = None

    @property
    def state(self) -> list[Any]:
        """Nothing: unread tokens are computed when the head reads them."""
        return []

    @property
    def nbytes(self) -> int:
        return sum(int(part.nbytes) for row in self.rows for part in row.cache)

    def __deepcopy__(self, memo: dict[int, Any]) -> "HeadCache":
        return HeadCache(self.head, [row.copy() for row in self.rows])


def attach(model: Any, head: DraftHead | Assistant) -> None:
    """Let a model that reads tokens with a ``HeadCache`` add to it what its head needs.

    The model's inner part gets a class that hands over its result: the hidden states after the
    final norm.
    """
    inner = inner_of(model)
    kind: Any = type(inner)

    def call(module: Any, inputs: mx.array, cache: Any = None, *more: Any, **options: Any) -> Any:
        part = cache[-1] if cache else None
        if not isinstance(part, HeadCache):
            return kind.__call__(module, inputs, cache, *more, **options)
        hidden = kind.__call__(module, inputs, cache[:-1], *more, **options)
        part.add(inputs, hidden)
        return hidden

    inside = {"__call__": call, "__module__": kind.__module__}
    inner.__class__ = type(kind.__name__, (kind,), inside)
    # Not as a part of the model, which would then have the head's weights as its own.
    object.__setattr__(inner, "draft_head", head)


def cache_size_of(head: DraftHead) -> CacheSize:
    """Return the size of the cache of a head's layer for one answer."""
    cache, norm = head.make_cache(), head.norm.weight
    head.read(mx.zeros((1, 1, norm.size), norm.dtype), mx.zeros((1, 1), mx.uint32), cache)
    return cache_size(cache)


def head_of(model: Any) -> DraftHead | Assistant | None:
    """Return the head that is attached to a model."""
    return getattr(inner_of(model), "draft_head", None)


def with_head(cache: list[Any], model: Any) -> list[Any]:
    """Return the cache of a sequence as it joins a batch of a model."""
    head = head_of(model)
    return cache if head is None else [*cache, HeadCache(head)]


def without_head(cache: list[Any]) -> list[Any]:
    """Return the parts of a cache that belong to the model itself."""
    return cache[:-1] if cache and isinstance(cache[-1], HeadCache) else cache


class OwnHead:
    """The draft head of one loaded model, or the assistant beside it; an error ends its drafts."""

    def __init__(self, origin: TokenOrigin = TokenOrigin.HEAD) -> None:
        self.origin = origin
        self.hits = HitRate(0.85)  # of a good head; a worse one is known after a few drafts
        self.has_failed = False

    def propose(
        self, cache: Sequence[Any], pending: Sequence[int], max_drafts: int
    ) -> Sequence[Sequence[int]]:
        """Return drafts for each row of a batch; an error ends all drafts, and no answer."""
        try:
            part = cache[-1]
            assert isinstance(part, HeadCache)
            return part.propose(pending, max_drafts, cache)
        except Exception:
            _log.exception("the model's own draft head failed")
            self.has_failed = True
            return [()] * len(pending)


class HeadDrafts(DraftSource):
    """The drafts of a model's own head for one answer.

    They are made for all sequences at once, and handed over with ``offer``.
    """

    def __init__(self, head: OwnHead) -> None:
        super().__init__(head.origin, head.hits)
        self.head = head

    def offer(self, drafts: Sequence[int]) -> None:
        self._drafts = list(drafts)

    def likelihood(self) -> float:
        return 0.0 if self.head.has_failed else self._hits.value
