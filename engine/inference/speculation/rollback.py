"""Takes back the newest tokens of running sequences, from every kind of cache. Engine thread.

Keys and values are cut off. A state cannot be cut: it is computed again up to the last token that
stays, from the state before the pass and from what the layer was given in the pass. What a layer
multiplied with its weights is remembered, so that only its recurrence runs again.
"""

import contextlib
import inspect
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import mlx.core as mx
from mlx import nn
from mlx_lm.models.cache import (
    ArraysCache,
    BatchKVCache,
    BatchRotatingKVCache,
    CacheList,
    ChunkedKVCache,
    KVCache,
    RotatingKVCache,
    make_prompt_cache,
)

from engine.inference.mlx_lm_internals import cut_window, cut_windows, straighten
from engine.inference.running_cache import RunningKVCache, SoleCache, cut
from engine.inference.speculation.cost import WIDTHS
from engine.inference.speculation.head_drafts import HeadCache

_log = logging.getLogger(__name__)
# What the layers of one sequence were given in a pass takes at most so much memory.
_MOST_REMEMBERED_BYTES = 64 << 20
_TRIED_TOKENS = 2
# Modules whose products with their weights are remembered: they read each token by itself.
_PRODUCTS = (nn.Linear, nn.QuantizedLinear)


class _Call(NamedTuple):
    """A call of a module that was given states."""

    module: Any
    args: tuple[Any, ...]
    options: dict[str, Any]

    @property
    def given(self) -> tuple[Any, ...]:
        """All that the module was given."""
        return (*self.args, *self.options.values())

    def again(self, again: "_Again", fresh: "dict[int, ArraysCache]") -> None:
        """Call the module again for some sequences and tokens, with other states."""
        has_keys = any(isinstance(argument, CacheList) for argument in self.given)

        def part(given: Any) -> Any:
            if isinstance(given, ArraysCache):
                return fresh[id(given)]
            if isinstance(given, CacheList):
                return CacheList(*(part(inner) for inner in given.caches))
            if isinstance(given, (BatchKVCache, BatchRotatingKVCache)):
                return _Unread(again)
            if not isinstance(given, mx.array) or not given.ndim:
                return given
            if has_keys and given.ndim == 4:
                return None  # attention's mask, which hides what is not needed here
            return again.of(given, has_tokens=given.ndim > 1)

        options = {name: part(value) for name, value in self.options.items()}
        self.module(*map(part, self.args), **options)


@dataclass(slots=True)
class _Pass:
    """What the layers with states were given in one pass.

    Attributes:
        rows: The sequences in it.
        tokens: How many tokens of each it read.
        parts: The states' parts of the cache.
        before: The states before the pass, for each part.
        after: The states after it.
        calls: The calls that changed them.
        products: For each module: the shapes of its inputs, and its outputs, in order.
    """

    rows: int
    tokens: int
    parts: list[ArraysCache]
    before: list[list[Any]]
    after: list[list[Any]] = field(default_factory=list)
    calls: list[_Call] = field(default_factory=list)
    products: dict[int, list[tuple[tuple[int, ...], mx.array]]] = field(default_factory=dict)


class _Again(NamedTuple):
    """Some sequences whose first tokens of a pass are read again by the layers with states."""

    done: _Pass
    rows: list[int] | None
    tokens: int
    used: dict[int, int]

    def of(self, given: mx.array, *, has_tokens: bool) -> mx.array:
        """Return the part of an array of shape (rows, …), or of one of (rows, tokens, …)."""
        if self.rows is not None and given.shape[0] == self.done.rows:
            given = given[mx.array(self.rows)]
        return given[:, : self.tokens] if has_tokens else given


class _Unread:
    """Stands for keys and values beside a state that is computed again: nobody reads them."""

    def __init__(self, again: _Again) -> None:
        rows = again.done.rows if again.rows is None else len(again.rows)
        self.offset = mx.zeros((rows,), mx.int32)

    def update_and_fetch(self, keys: Any, values: Any) -> Any:
        return keys, values


class Rollback:
    """Reads tokens that may be taken back, with one model.

    Attributes:
        token_bytes: What is remembered of one token of a sequence.
        state_bytes: The states of one sequence.
    """

    def __init__(self, model: Any) -> None:
        self.token_bytes = self.state_bytes = 0
        self._model = model
        self._is_tried = self._is_known = False
        # The modules that are given states, and those inside them whose products are remembered.
        self._stateful: list[Any] = []
        self._products: list[Any] = []
        self._classes: dict[tuple[type, str], type] = {}
        self._pass: _Pass | None = None
        self._again: _Again | None = None
        self._depths: list[bool] = []

    def most_tokens(self, cache: Sequence[Any]) -> int:
        """Return how many tokens of all sequences a pass may have; 0 if none can go back."""
        kinds = {type(part) for part in parts_of(cache)}
        if not all(issubclass(kind, _KINDS) or _is_cut_alone(kind) for kind in kinds):
            return 0
        if ArraysCache not in kinds:
            return 1 << 20
        if not self._can_read_again():
            return 0
        return _MOST_REMEMBERED_BYTES // max(1, self.token_bytes)

    def pass_bytes(self, tokens: int) -> int:
        """Return what a pass over ``tokens`` tokens keeps of a sequence, beside its cache."""
        if not self._can_read_again():
            return 0
        return self.state_bytes + min(tokens * self.token_bytes, _MOST_REMEMBERED_BYTES)

    def read(self, inputs: mx.array, cache: Sequence[Any]) -> Any:
        """Read tokens of shape (rows, tokens); return the logits, which are not computed yet."""
        self.forget()
        rows, tokens = inputs.shape
        states = []
        for part in parts_of(cache):
            if isinstance(part, ArraysCache):
                states.append(part)
            elif tokens > 1:
                straighten(part)
        if not states:
            return self._model(inputs, cache=cache)
        self._pass = _Pass(rows, tokens, states, [list(part.cache) for part in states])
        with self._watched(self._stateful, "call"), self._watched(self._products, "product"):
            logits = self._model(inputs, cache=cache)
        self._pass.after = [list(part.cache) for part in states]
        return logits

    def take_back(self, cache: Sequence[Any], surplus: Sequence[int]) -> None:
        """Remove the last ``surplus[row]`` of the tokens that were just read of each sequence."""
        if not any(surplus):
            return
        least = min(surplus)
        more = [count - least for count in surplus]
        _cut([part for part in parts_of(cache) if not isinstance(part, ArraysCache)], least, more)
        done = self._pass
        if done is None:
            return
        states = self._states(done, [done.tokens - count for count in surplus])
        for part, state in zip(done.parts, states, strict=True):
            part.cache = state
        mx.async_eval(states)  # type: ignore[no-untyped-call]

    def shorten(self, cache: Sequence[Any], row: int, surplus: int, kept: int) -> bool:
        """Remove the last tokens from the cache of a sequence that has left after a pass.

        Args:
            cache: The sequence's own cache.
            row: Its place in the pass.
            surplus: How many tokens are removed.
            kept: How many tokens of the pass then stay.

        Returns:
            Whether that could be done.
        """
        states = []
        for part in parts_of(cache):
            if isinstance(part, ArraysCache):
                states.append(part)
            elif isinstance(part, RotatingKVCache):
                if not cut_window(part, surplus):
                    return False
            elif type(part) in (KVCache, ChunkedKVCache):
                part.trim(surplus)
            else:
                return False
        if not states:
            return True
        if self._pass is None or kept < 1:
            return False
        kept_states = self._again_read(self._pass, [row], kept)
        for part, state in zip(states, kept_states, strict=True):
            part.cache = state
        return True

    def forget(self) -> None:
        """Drop what was remembered of the last pass."""
        self._pass = None

    def _states(self, done: _Pass, kept: Sequence[int]) -> list[list[Any]]:
        """Return the states after the first ``kept[row]`` tokens of each sequence of a pass."""
        places: dict[int, list[int]] = {}
        for row, tokens in enumerate(kept):
            places.setdefault(tokens, []).append(row)
        groups = [self._again_read(done, rows, tokens) for tokens, rows in places.items()]
        if len(groups) == 1:
            return groups[0]
        order = [row for rows in places.values() for row in rows]
        back = mx.array([order.index(row) for row in range(done.rows)])
        return [
            [_joined(slot, back) for slot in zip(*part, strict=True)]
            for part in zip(*groups, strict=True)
        ]

    def _again_read(self, done: _Pass, rows: list[int], tokens: int) -> list[list[Any]]:
        """Return the states of some sequences after their first tokens of a pass."""
        is_all = len(rows) == done.rows
        again = _Again(done, None if is_all else rows, tokens, {})
        if tokens in (0, done.tokens):
            whole = done.after if tokens else done.before
            return [[_rows_of(state, again) for state in part] for part in whole]
        fresh = {}
        for part, before in zip(done.parts, done.before, strict=True):
            copy = ArraysCache(len(before))
            copy.cache = [_rows_of(state, again) for state in before]
            fresh[id(part)] = copy
        self._again = again
        try:
            with self._watched(self._products, "product"):
                for call in done.calls:
                    call.again(again, fresh)
        finally:
            self._again = None
        return [fresh[id(part)].cache for part in done.parts]

    # -- watching the layers ---------------------------------------------------------------

    def _can_read_again(self) -> bool:
        if not self._is_tried:
            self._is_tried = True
            try:
                self._is_known = self._try()
            except Exception:
                _log.exception("the states of this model cannot be taken back")
        return self._is_known

    def _try(self) -> bool:
        """Find the modules with states; return whether all states can be computed again.

        The model is called once, and nothing of it is computed.
        """
        if not isinstance(self._model, nn.Module):
            return False
        cache = make_prompt_cache(self._model)
        states = [part for part in parts_of(cache) if isinstance(part, ArraysCache)]
        if not states:
            return False
        modules = [module for _, module in self._model.named_modules()]
        self._stateful = [module for module in modules if _takes_cache(type(module))]
        done = self._pass = _Pass(1, _TRIED_TOKENS, states, [list(part.cache) for part in states])
        try:
            with self._watched(self._stateful, "call"):
                self._model(mx.zeros((1, _TRIED_TOKENS), mx.int32), cache=cache)
            self._stateful = list({id(call.module): call.module for call in done.calls}.values())
            inside = {
                id(inner): inner for module in self._stateful for _, inner in module.named_modules()
            }
            own = {id(module) for module in self._stateful}
            self._products = [
                inner
                for key, inner in inside.items()
                if isinstance(inner, _PRODUCTS) and key not in own
            ]
            self.token_bytes = self._weighed()
            self.state_bytes = sum(int(part.nbytes) for part in states)
            given = {
                id(part)
                for call in done.calls
                for value in call.given
                for part in _states_in(value)
            }
        finally:
            self._pass = None
        changed = [part for part in states if any(state is not None for state in part.cache)]
        return all(id(part) in given for part in changed)

    def _weighed(self) -> int:
        """Return the bytes that a pass remembers of a token.

        A mask grows with the square of the tokens, so that the longest pass is weighed.
        """
        cache = make_prompt_cache(self._model)
        self.read(mx.zeros((1, WIDTHS[-1]), mx.int32), cache)
        done = self._pass
        assert done is not None
        arrays = [given for call in done.calls for given in call.given]
        arrays += [out for products in done.products.values() for _, out in products]
        return sum(array.nbytes for array in arrays if isinstance(array, mx.array)) // WIDTHS[-1]

    @contextlib.contextmanager
    def _watched(self, modules: Sequence[Any], how: str) -> Iterator[None]:
        """Remember the calls of modules inside the block, or give them again."""
        kinds = [(module, type(module)) for module in modules]
        try:
            for module, kind in kinds:
                module.__class__ = self._class(kind, how)
            yield
        finally:
            for module, kind in kinds:
                module.__class__ = kind

    def _class(self, kind: type, how: str) -> type:
        watched = self._classes.get((kind, how))
        if watched is None:
            call = self._calling(kind) if how == "call" else self._multiplying(kind)
            watched = self._classes[kind, how] = type(kind.__name__, (kind,), {"__call__": call})
        return watched

    def _calling(self, kind: Any) -> Callable[..., Any]:
        def call(module: Any, *args: Any, **options: Any) -> Any:
            done = self._pass
            given = (*args, *options.values())
            if done is None or not any(True for value in given for _ in _states_in(value)):
                return kind.__call__(module, *args, **options)
            # Only the innermost modules that are given a state are called again.
            self._depths.append(False)
            try:
                output = kind.__call__(module, *args, **options)
            finally:
                has_inner = self._depths.pop()
                if self._depths:
                    self._depths[-1] = True
            if not has_inner:
                done.calls.append(_Call(module, args, options))
            return output

        return call

    def _multiplying(self, kind: Any) -> Callable[..., Any]:
        def call(module: Any, given: mx.array, *args: Any, **options: Any) -> Any:
            again = self._again
            if again is None:
                output = kind.__call__(module, given, *args, **options)
                if self._pass is not None and self._depths:
                    products = self._pass.products.setdefault(id(module), [])
                    products.append((tuple(given.shape), output))
                return output
            place = again.used.get(id(module), 0)
            again.used[id(module)] = place + 1
            products = again.done.products.get(id(module), [])
            if place < len(products):
                shape, whole = products[place]
                part = again.of(whole, has_tokens=len(shape) > 2)
                if len(shape) == given.ndim and part.shape[:-1] == given.shape[:-1]:
                    return part
            return kind.__call__(module, given, *args, **options)

        return call


_KINDS = (ArraysCache, RunningKVCache, BatchRotatingKVCache, HeadCache)


def _is_cut_alone(kind: type) -> bool:
    """Whether the newest tokens of a lone sequence can be cut off a part of its cache."""
    # A chunked cache loses its beginning only before a pass, down to what the first token sees.
    return issubclass(kind, SoleCache) and issubclass(kind, (KVCache, ChunkedKVCache))


def _takes_cache(kind: type) -> bool:
    try:
        return "cache" in inspect.signature(kind.__call__).parameters
    except (TypeError, ValueError):
        return False


def parts_of(cache: Sequence[Any]) -> Iterator[Any]:
    """Return the parts of a cache, those of a ``CacheList`` one by one."""
    for part in cache:
        if isinstance(part, CacheList):
            yield from parts_of(part.caches)
        else:
            yield part


def _states_in(given: Any) -> Iterator[ArraysCache]:
    if isinstance(given, (ArraysCache, CacheList)):
        yield from (part for part in parts_of([given]) if isinstance(part, ArraysCache))


def _rows_of(state: Any, again: _Again) -> Any:
    return state if state is None or again.rows is None else state[mx.array(again.rows)]


def _joined(slot: Sequence[Any], order: mx.array) -> Any:
    return None if slot[0] is None else mx.concatenate(list(slot), axis=0)[order]


def _cut(parts: Sequence[Any], least: int, more: Sequence[int]) -> None:
    """Remove ``least`` tokens of all sequences, and then ``more[row]`` of each."""
    for part in parts:
        if isinstance(part, BatchRotatingKVCache):
            cut_windows(part, least, more)
        elif isinstance(part, SoleCache):
            part.trim(least)  # type: ignore[attr-defined]  # of its own kind
        elif isinstance(part, HeadCache):
            part.take_back([least + count for count in more])
    cut([part for part in parts if isinstance(part, RunningKVCache)], least, more)
