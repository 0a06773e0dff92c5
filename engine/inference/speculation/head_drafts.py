"""Drafts of a model's own head, for all sequences of a batch at once. Engine thread.

The head is given each token of a sequence with the hidden state before it. Both are kept as the
model reads tokens, in one part more at the end of each cache, and the head reads them only when it
is asked for drafts: while it rests it costs nothing. A prompt's last tokens are enough for it.
"""

import copy
import logging
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import mlx.core as mx
from mlx_lm.models.cache import CacheList, make_prompt_cache

from engine.inference.cache.size import cache_size
from engine.inference.running_cache import RunningKVCache, cut, prepare_to_run
from engine.inference.speculation.assistants import Assistant
from engine.inference.speculation.cost import MAX_ROWS
from engine.inference.speculation.heads import DraftHead, inner_of
from engine.inference.speculation.sources import HitRate
from engine.library.cache_size import CacheSize
from engine.values.tokens import TokenOrigin

_log = logging.getLogger(__name__)
# The most tokens that wait to be read by the head; older ones are dropped. They come one at a time,
# and joining 500 pieces takes a hundred milliseconds.
MOST_WAITING = 64
# The most tokens that a head reads before it drafts, of all rows together. All answers wait
# meanwhile: on a slow CPU, reading 512 tokens takes 140 ms, where a pass of the model takes 6 ms.
# With the last 24, drafts are right nearly as often as with all.
MOST_READ = 24
# The expected share of right drafts: that of a good head; a worse one is known after a few drafts.
_EXPECTED = 0.85


def most_read(rows: int) -> int:
    """Return how many tokens of each of some rows a head reads at most before it drafts."""
    return max(1, MOST_READ // rows)


class _Waiting(NamedTuple):
    """Tokens that the head has not read, with the hidden states around them.

    Attributes:
        tokens: Shape (rows, tokens). A row's own are the first ones, as ``counts`` says.
        hidden: Shape (rows, tokens + 1, size): before the first token and after each of them.
        counts: How many tokens wait in each row; -1 where the next token is not to be read, because
            the state before it is not known or the head has read it.
    """

    tokens: mx.array
    hidden: mx.array
    counts: list[int]

    def of(self, rows: Sequence[int]) -> "_Waiting":
        """Return some of the rows."""
        index = mx.array(list(rows))
        return _Waiting(self.tokens[index], self.hidden[index], [self.counts[n] for n in rows])

    @property
    def common(self) -> int:
        """How many tokens wait in each row; -1 where none do, or not equally many."""
        return self.counts[0] if len(set(self.counts)) == 1 else -1

    def latest(self, limit: int) -> "_Waiting":
        """Return it with the last ``limit`` tokens of each row at most."""
        starts = [max(0, count - limit) for count in self.counts]
        spans = list(zip(starts, self.counts, strict=True))
        counts = [count - start for start, count in spans]
        most = max(counts)
        return _Waiting(
            _taken(self.tokens, [[*range(start, count)] for start, count in spans], most),
            _taken(self.hidden, [[*range(start, count + 1)] for start, count in spans], most + 1),
            counts,
        )

    def joined(self, tokens: mx.array, hidden: mx.array) -> "_Waiting":
        """Return it with further tokens of all rows, and the hidden states after them."""
        width, more = self.tokens.shape[1], tokens.shape[1]
        counts = [count + more for count in self.counts]
        if (count := self.common) >= 0:
            kept = self.tokens[:, :count], self.hidden[:, : count + 1]
            return _Waiting(
                mx.concatenate([kept[0], tokens], axis=1) if count else tokens,
                mx.concatenate([kept[1], hidden], axis=1),
                counts,
            )
        all_tokens = mx.concatenate([self.tokens, tokens], axis=1)
        all_hidden = mx.concatenate([self.hidden, hidden], axis=1)
        places = [
            [*range(count), *range(width + (count < 0), width + more)] for count in self.counts
        ]
        states = [[*range(count + 1), *range(width + 1, width + 1 + more)] for count in self.counts]
        most = max(counts)
        return _Waiting(
            _taken(all_tokens, places, most), _taken(all_hidden, states, most + 1), counts
        )


def _taken(given: mx.array, places: list[list[int]], most: int) -> mx.array:
    """Return the values at other places of each row, followed by any."""
    index = mx.array([[*row, *[0] * (most - len(row))] for row in places], dtype=mx.int32)
    index = index.reshape(given.shape[0], most)
    return mx.take_along_axis(given, index if given.ndim == 2 else index[..., None], axis=1)


class HeadCache:
    """What a head has read and has to read of the sequences of a batch, as a part of their cache.

    It is the last part, and the model's own code does not see it. mlx-lm moves it with the others
    when sequences join and leave. While there are too many for the head, it holds nothing: what
    nobody reads would be moved by each of them, unevaluated, and computed at once in the end.

    Attributes:
        rows: How many sequences these are.
        read: The cache of the head's layer; empty for an assistant, which has none.
    """

    def __init__(self, head: DraftHead | Assistant) -> None:
        self._head = head
        self.rows = 1
        self.read = self._unread()
        self._waiting: _Waiting | None = None
        # What the model has read since, in order: tokens and the hidden states after them.
        self._pieces: deque[tuple[mx.array, mx.array]] = deque()
        # How many tokens of each row these are at most.
        self._held = 0
        self._padding: Sequence[int] | None = None

    @property
    def waiting_tokens(self) -> int:
        """How many tokens of a row wait at most."""
        return self._held

    def note(self, tokens: mx.array, hidden: mx.array) -> None:
        """Note tokens that the model reads, with the hidden states after them."""
        if self._is_crowded:
            return
        if tokens.shape[1] > MOST_WAITING:
            tokens, hidden = tokens[:, -MOST_WAITING:], hidden[:, -MOST_WAITING:]
        self._pieces.append((tokens.astype(mx.uint32), hidden))
        self._held += tokens.shape[1]
        while self._pieces:
            oldest = self._pieces[0][0] if self._waiting is None else self._waiting.tokens
            if self._held - oldest.shape[1] < MOST_WAITING:
                break
            self._held -= oldest.shape[1]
            if self._waiting is None:
                self._pieces.popleft()
            self._waiting = None

    def take_back(self, surplus: Sequence[int]) -> None:
        """Remove the last ``surplus[row]`` tokens of each row, which the model has just read."""
        if self._is_crowded:
            return
        tokens, hidden, counts = self.gathered()
        left = [count - cut for count, cut in zip(counts, surplus, strict=True)]
        self.wait(_Waiting(tokens, hidden, left))

    def propose(
        self, known: Sequence[int], most: int, cache: Sequence[Any] = ()
    ) -> list[list[int]]:
        """Return drafts for each row: what may follow the token that the model reads next.

        Args:
            known: That token of each row.
            most: How many drafts at most.
            cache: The model's own cache, which an assistant looks at.
        """
        waiting = self.gathered()
        limit = most_read(self.rows) if self.read else 0
        if max(waiting.counts) > limit:
            waiting = waiting.latest(limit)
        counts = waiting.counts
        width, held = max(counts) + 1, waiting.tokens.shape[1]
        if not width:
            return [[] for _ in known]
        tokens = mx.array([[token] for token in known], mx.uint32)
        if waiting.common > 0:
            tokens = mx.concatenate([waiting.tokens[:, : waiting.common], tokens], axis=1)
        elif waiting.common < 0:
            places = [[*range(count), held] if count >= 0 else [] for count in counts]
            tokens = _taken(mx.concatenate([waiting.tokens, tokens], axis=1), places, width)
        read: Any = self.read or self._head.seen(cache)
        states, handed_on = self._head.read(waiting.hidden[:, :width], tokens, read)
        more = [width - 1 - count for count in counts]
        cut(self._parts, min(more), [count - min(more) for count in more])
        drafts = [self._likeliest(_last(states, counts))]
        handed_on = _last(handed_on, counts)
        for _ in range(most - 1):
            states, handed_on = self._head.read(handed_on, drafts[-1], read)
            drafts.append(self._likeliest(states))
        drafted: Any = mx.concatenate(drafts, axis=1).tolist()
        # The next pass of the model gives the hidden states that replace those of the chain. The
        # first token of that pass has been read here.
        for part in self._parts:
            part.trim(most - 1)
        self._forget_waiting()
        return [row if count >= 0 else [] for row, count in zip(drafted, counts, strict=True)]

    def _likeliest(self, states: mx.array) -> mx.array:
        return mx.argmax(self._head.logits(states), axis=-1).astype(mx.uint32)

    def gathered(self) -> _Waiting:
        if not self._pieces:
            return self._waiting or self._none()
        tokens, hidden = self._pieces[0]
        if len(self._pieces) > 1:
            tokens = mx.concatenate([tokens for tokens, _ in self._pieces], axis=1)
            hidden = mx.concatenate([hidden for _, hidden in self._pieces], axis=1)
        if self._waiting is None:
            counts = [tokens.shape[1] - 1] * self.rows
            return self.wait(_Waiting(tokens[:, 1:], hidden, counts))
        return self.wait(self._waiting.joined(tokens, hidden))

    def wait(self, waiting: _Waiting) -> _Waiting:
        """Let this be all that waits."""
        self._pieces.clear()
        self._waiting = waiting
        self._held = waiting.tokens.shape[1]
        return waiting

    def _forget_waiting(self) -> None:
        """Let nothing wait, and the next token not be read."""
        self._pieces.clear()
        self._waiting = None
        self._held = 0

    def _none(self) -> _Waiting:
        norm = self._head.norm.weight
        hidden = mx.zeros((self.rows, 1, norm.shape[0]), norm.dtype)
        return _Waiting(mx.zeros((self.rows, 0), mx.uint32), hidden, [-1] * self.rows)

    @property
    def _is_crowded(self) -> bool:
        """Whether there are too many sequences for the head."""
        return self.rows > MAX_ROWS

    def _unread(self) -> list[Any]:
        """Return the cache of a head that has read nothing of these sequences."""
        unread = [part.merge([part] * self.rows) for part in self._head.make_cache()]
        prepare_to_run(unread)
        return unread

    def _change_rows(self, rows: int) -> bool:
        """Note how many sequences there are now; return whether what was held goes on to be."""
        was_crowded, self.rows = self._is_crowded, rows
        if not self._is_crowded and not was_crowded:
            return True
        self._forget_waiting()
        self.read = [] if self._is_crowded else self._unread()
        return False

    @property
    def _parts(self) -> list[RunningKVCache]:
        if not self.read:
            return []
        part = self.read[0]
        return list(part.caches) if isinstance(part, CacheList) else [part]

    # -- what mlx-lm asks of a part of a cache ----------------------------------------------

    @classmethod
    def merge(cls, caches: "Sequence[HeadCache]") -> "HeadCache":
        """Return the cache of several sequences."""
        merged = copy.deepcopy(caches[0])
        for other in caches[1:]:
            merged.extend(other)
        return merged

    def extend(self, other: "HeadCache") -> None:
        """Add the rows of another cache."""
        own, more = self.gathered(), other.gathered()
        if not self._change_rows(self.rows + other.rows):
            return
        width = max(own.tokens.shape[1], more.tokens.shape[1])
        both = [_widened(waiting, width) for waiting in (own, more)]
        joined = (
            mx.concatenate([waiting.tokens for waiting in both]),
            mx.concatenate([waiting.hidden.astype(own.hidden.dtype) for waiting in both]),
        )
        self.wait(_Waiting(*joined, [*own.counts, *more.counts]))
        for part, others in zip(self.read, other.read, strict=True):
            part.extend(others)
        self._compute()

    def filter(self, keep: Sequence[int]) -> None:
        """Keep the given rows."""
        waiting = self.gathered()
        if self._change_rows(len(keep)):
            self.wait(waiting.of(keep))
            for part in self.read:
                part.filter(list(keep))
            self._compute()

    def _compute(self) -> None:
        """Begin to compute what is held, so that changes of the rows do not pile up."""
        held = [part.keys for part in self._parts] + [part.values for part in self._parts]
        tokens, hidden, _ = self.gathered()
        mx.async_eval(tokens, hidden, [each for each in held if each is not None])  # type: ignore[no-untyped-call]

    def extract(self, row: int) -> "HeadCache":
        """Return the cache of one row, which has forgotten everything: it is not kept."""
        return HeadCache(self._head)

    def prepare(self, *, right_padding: Sequence[int] | None = None, **_: Any) -> None:
        """Note how many of the next tokens of each row are none."""
        self._padding = right_padding

    def finalize(self) -> None:
        """Remove those that are none."""
        if self._padding is not None and not self._is_crowded:
            tokens, hidden, counts = self.gathered()
            left = [max(-1, n - padding) for n, padding in zip(counts, self._padding, strict=True)]
            self.wait(_Waiting(tokens, hidden, left))
        self._padding = None

    @property
    def state(self) -> list[Any]:
        """Nothing: what waits is computed when the head reads it."""
        return []

    @property
    def nbytes(self) -> int:
        """What it takes, without what is not computed yet."""
        return sum(int(part.nbytes) for part in self._parts)

    def __deepcopy__(self, memo: dict[int, Any]) -> "HeadCache":
        """Return a copy that shares the head, and arrays that nobody changes."""
        other = HeadCache(self._head)
        other.rows = self.rows
        other.read = copy.deepcopy(self.read, memo)
        if not self._is_crowded:
            other.wait(self.gathered())
        return other


def _last(states: mx.array, counts: Sequence[int]) -> mx.array:
    """Return the state behind ``counts[row]`` tokens of each row."""
    if min(counts) == max(counts):
        return states[:, counts[0] : counts[0] + 1]
    places = mx.array([max(0, count) for count in counts])
    return mx.take_along_axis(states, places[:, None, None], axis=1)


def _widened(waiting: _Waiting, width: int) -> _Waiting:
    more = width - waiting.tokens.shape[1]
    if not more:
        return waiting
    return _Waiting(
        mx.pad(waiting.tokens, [(0, 0), (0, more)]),
        mx.pad(waiting.hidden, [(0, 0), (0, more), (0, 0)]),
        waiting.counts,
    )


def attach(model: Any, head: DraftHead | Assistant) -> None:
    """Let a model that reads tokens with a ``HeadCache`` note what its head needs.

    The model's inner part gets a class that hands over what it returns: the hidden states after the
    final norm, which are computed anyway.
    """
    inner = inner_of(model)
    kind: Any = type(inner)

    def call(module: Any, inputs: mx.array, cache: Any = None, *more: Any, **options: Any) -> Any:
        own = cache and without_head(cache)
        hidden = kind.__call__(module, inputs, own, *more, **options)
        if cache and isinstance(cache[-1], HeadCache):
            cache[-1].note(inputs, hidden)
        return hidden

    inside = {"__call__": call, "__module__": kind.__module__}
    inner.__class__ = type(kind.__name__, (kind,), inside)
    # Not as a part of the model, which would then have the head's weights as its own.
    object.__setattr__(inner, "draft_head", head)


def memory_of(head: DraftHead | Assistant) -> CacheSize:
    """Return what one answer takes for a head: the cache of its layer, and what waits for it."""
    cache: Any = head.make_cache()
    norm = head.norm.weight
    if cache:
        head.read(mx.zeros((1, 1, norm.size), norm.dtype), mx.zeros((1, 1), mx.uint32), cache)
    return cache_size(cache) + CacheSize(fixed_bytes=2 * MOST_WAITING * int(norm.nbytes))


def head_of(model: Any) -> DraftHead | Assistant | None:
    """Return the head that is attached to a model."""
    return getattr(inner_of(model), "draft_head", None)


def with_head(cache: list[Any] | None, model: Any) -> list[Any] | None:
    """Return the cache of a sequence as it joins a batch of a model; None for an empty one."""
    head = head_of(model)
    if head is None:
        return cache
    return [*(make_prompt_cache(model) if cache is None else cache), HeadCache(head)]


def without_head(cache: list[Any]) -> list[Any]:
    """Return the parts of a cache that belong to the model itself."""
    return cache[:-1] if cache and isinstance(cache[-1], HeadCache) else cache


class OwnHead:
    """The draft head of one loaded model, or the assistant beside it.

    Args:
        origin: The origin of its drafts.

    Attributes:
        hits: How often its drafts were right.
        has_failed: Whether it raised an error; it drafts nothing from then on.
    """

    def __init__(self, origin: TokenOrigin = TokenOrigin.HEAD) -> None:
        self.origin = origin
        self.hits = HitRate(_EXPECTED)
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


class HeadDrafts:
    """The drafts of a model's own head for one answer. See ``DraftSource``.

    They are made for all sequences at once, and handed over with ``offer``.
    """

    def __init__(self, head: OwnHead) -> None:
        self.head = head
        self.origin = head.origin
        self._proposed: list[int] = []

    def offer(self, drafts: Sequence[int]) -> None:
        """Take the drafts for the next tokens."""
        self._proposed = list(drafts)

    def extend(self, tokens: Sequence[int]) -> None:
        """Take the next tokens of the answer."""
        hits = self.head.hits
        for token in tokens:
            if not self._proposed:
                hits.recover(_EXPECTED)
                continue
            is_hit = self._proposed[0] == token
            hits.add(is_hit)
            del self._proposed[: 1 if is_hit else None]

    def likelihood(self) -> float:
        """Return how likely the next draft is right."""
        return 0.0 if self.head.has_failed else self.head.hits.value

    def propose(self, max_drafts: int) -> Sequence[int]:
        """Return the drafts that were offered."""
        return self._proposed[:max_drafts]
