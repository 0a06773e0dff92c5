"""Takes back the newest tokens of running sequences, from every kind of cache. Engine thread.

Keys and values are cut off. A state cannot be cut: it is computed again up to the last token that
stays, from the state before the pass.

- Of short convolutions, Gated DeltaNet and Mamba2 it is remembered what the recurrence itself was
  given in the pass, and it alone runs again, once for all sequences. Where it is computed token by
  token, as on a CPU, the state after each token is kept instead, if memory allows.
- Other layers with states are called again. What they multiplied with their weights is remembered.

Which way is taken was measured: against the pass, a state that was kept costs 0.02, a recurrence
that runs again token by token 0.11 to 0.26, a layer that is called again 0.2 to 0.56. To begin
the next pass with the tokens that stay, from the state before this one, adds 0.2 to 0.9 to it, so
that is never done. ``python -m tests.lab.benchmarks.engine --only kinds`` measures it again.
"""

import contextlib
import functools
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
from mlx_lm.models.ssm import compute_dt

from engine.inference.mlx_lm_internals import (
    cut_window,
    cut_windows,
    recurrences_watched,
    straighten,
)
from engine.inference.running_cache import RunningKVCache, SoleCache, cut, parts_of
from engine.inference.speculation.cost import WIDTHS
from engine.inference.speculation.head_drafts import HeadCache

_log = logging.getLogger(__name__)
# What the layers of one sequence were given in a pass takes at most so much memory.
_MOST_REMEMBERED_BYTES = 64 << 20
_TRIED_TOKENS = 2
# Modules whose products with their weights are remembered: they read each token by itself.
_PRODUCTS = (nn.Linear, nn.QuantizedLinear)


class _Kept:
    """How many of the tokens of a pass stay.

    Attributes:
        read: How many tokens of each sequence the pass read.
        rows: The sequences in question; None for all.
        tokens: How many stay of each of them.
    """

    def __init__(self, read: int, rows: Sequence[int] | None, tokens: Sequence[int]) -> None:
        self.read, self.rows, self.tokens = read, rows, tokens
        self.most = max(tokens)
        self.is_even = min(tokens) == self.most

    @functools.cached_property
    def counts(self) -> mx.array:
        """How many tokens stay of each sequence, of shape (rows,)."""
        return mx.array(list(self.tokens))

    @functools.cached_property
    def mask(self) -> mx.array:
        """Whether a token stays, of shape (rows, ``most``)."""
        return mx.arange(self.most) < self.counts[:, None]

    def of(self, array: Any) -> Any:
        """Return the sequences' part of an array of shape (rows, …)."""
        if self.rows is None or array is None:
            return array
        if len(self.rows) == 1:
            return array[self.rows[0] : self.rows[0] + 1]
        return array[self._order]

    def beginning(self, array: mx.array) -> mx.array:
        """Return the tokens that stay of some sequence, of an array of shape (rows, tokens, …)."""
        begun: mx.array = self.of(array)[:, : self.most]
        return begun

    def where(self, array: mx.array, other: float) -> mx.array:
        """Return the beginning of an array, with ``other`` for the tokens that do not stay."""
        begun = self.beginning(array)
        if self.is_even:
            return begun
        mask = self.mask.reshape(*self.mask.shape, *[1] * (array.ndim - 2))
        return mx.where(mask, begun, other)

    def whole(self, before: Any, after: Any) -> Any:
        """Return the state after the pass where all tokens stay, the one before where none does."""
        if self.is_even or after is None:
            return self.of(after if self.most else before)
        stays = (self.counts == self.read).reshape(-1, *[1] * (after.ndim - 1))
        return mx.where(stays, self.of(after), 0 if before is None else self.of(before))

    @functools.cached_property
    def _order(self) -> mx.array:
        return mx.array(list(self.rows or ()))


class _Convolution(NamedTuple):
    """What a short convolution was given: its state, and then the tokens of the pass."""

    given: mx.array

    @property
    def kind(self) -> Any:
        """What those whose states are cut together have in common."""
        return self.given.shape

    def gave(self, state: mx.array, tokens: int, *, is_sure: bool) -> bool:
        """Return whether the state after the pass is the end of what was given."""
        end = self.given[:, tokens:]
        if end.shape != state.shape:
            return False
        return is_sure or bool(mx.array_equal(end, state).item())

    @property
    def nbytes(self) -> int:
        # What it gave is as large, and what follows may hold a view of it.
        return 2 * self.given.nbytes


def _cut_out(convolutions: Sequence[_Convolution], kept: _Kept) -> list[mx.array]:
    """Return the last places behind the tokens that stay, of convolutions of one shape."""
    given = kept.of(mx.concatenate([each.given for each in convolutions], axis=-1))
    size = given.shape[1] - kept.read
    if kept.is_even:
        cut_out = given[:, kept.most : kept.most + size]
    else:
        places = (kept.counts[:, None] + mx.arange(size))[..., None]
        cut_out = mx.take_along_axis(given, places, axis=1)
    return list(mx.split(mx.contiguous(cut_out), len(convolutions), axis=-1))


class _DeltaRule(NamedTuple):
    """What Gated DeltaNet's recurrence was given.

    Attributes:
        run: Its function.
        args: Keys, values, decays, strengths and the state; empty where ``steps`` is not.
        state: The state after the pass.
        steps: The states before and after each token, where they were computed one by one.
    """

    run: Callable[..., Any]
    args: tuple[mx.array, ...]
    state: mx.array
    steps: list[mx.array]

    def after(self, kept: _Kept) -> mx.array:
        """Return the state after the tokens that stay."""
        last: mx.array
        if not self.steps:
            keys, values, decays, strengths, state = self.args
            keys = kept.beginning(keys)
            # A token with this decay and this strength changes no bit of the state. A mask would:
            # MLX has another kernel for it, which adds in another order. Queries are not needed.
            last = self.run(
                keys,
                keys,
                kept.beginning(values),
                kept.where(decays, 1.0),
                kept.where(strengths, 0.0),
                kept.of(state),
            )[1]
            return last
        if kept.is_even:
            last = kept.of(self.steps[kept.most])
            return last
        rows = range(len(kept.tokens)) if kept.rows is None else kept.rows
        counts = zip(rows, kept.tokens, strict=True)
        return mx.concatenate([self.steps[count][row : row + 1] for row, count in counts], axis=0)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (*self.args, *self.steps[1:]))


class _Scan(NamedTuple):
    """What Mamba2's recurrence was given.

    Attributes:
        written: What each token adds to the state, of shape (rows, tokens, heads, size).
        places: Where, of shape (rows, tokens, groups, places).
        times: For how long, of shape (rows, tokens, heads).
        heads: The logarithm of the decay of each head, and the bias of its times.
        limits: The least time and the most.
        before: The state before the pass, of shape (rows, heads, size, places).
        state: The state after it.
    """

    written: mx.array
    places: mx.array
    times: mx.array
    heads: tuple[mx.array, mx.array]
    limits: tuple[float, float]
    before: mx.array | None
    state: mx.array

    @property
    def nbytes(self) -> int:
        return int(self.written.nbytes + self.places.nbytes + self.times.nbytes)

    @property
    def kind(self) -> Any:
        """What those that are computed together have in common."""
        return self.written.shape, self.places.shape, self.limits, self.before is None


def _scanned(scans: Sequence[_Scan], kept: _Kept) -> list[mx.array]:
    """Return the states of layers of one kind after the tokens that stay.

    mlx-lm's function takes some forty operations, most of them for what is read from the states.
    These are the others, for the heads of all layers at once.
    """
    written = kept.beginning(mx.concatenate([scan.written for scan in scans], axis=2))
    places = kept.beginning(mx.concatenate([scan.places for scan in scans], axis=2))
    times = kept.beginning(mx.concatenate([scan.times for scan in scans], axis=2))
    decays, biases = (mx.concatenate([scan.heads[kind] for scan in scans]) for kind in range(2))
    times = compute_dt(times, biases, scans[0].limits)
    if not kept.is_even:
        times = times * kept.mask[..., None]
    past = mx.cumsum(times * -mx.exp(decays).astype(times.dtype), axis=1)
    total = past[:, -1:]
    written = (written * (times * mx.exp(total - past))[..., None]).transpose(0, 2, 3, 1)
    places = mx.repeat(places.transpose(0, 2, 1, 3), written.shape[1] // places.shape[2], axis=1)
    states = mx.split(written @ places, len(scans), axis=1)
    factors = mx.split(mx.exp(total)[:, 0, :, None, None], len(scans), axis=1)
    return [
        state if scan.before is None else state + factor * kept.of(scan.before)
        for scan, state, factor in zip(scans, states, factors, strict=True)
    ]


_Record = _Convolution | _DeltaRule | _Scan


def _after(records: Sequence[_Record], kept: _Kept) -> list[mx.array]:
    """Return the state of each record after the tokens that stay.

    What has few operations of its own is put together: building the graph takes most of the time.
    """
    states: dict[int, mx.array] = {}
    convolutions: dict[Any, dict[int, _Convolution]] = {}
    scans: dict[Any, dict[int, _Scan]] = {}
    for place, record in enumerate(records):
        if isinstance(record, _Convolution):
            convolutions.setdefault(record.kind, {})[place] = record
        elif isinstance(record, _Scan):
            scans.setdefault(record.kind, {})[place] = record
        else:
            states[place] = record.after(kept)
    for alike in convolutions.values():
        states.update(zip(alike, _cut_out(list(alike.values()), kept), strict=True))
    for kind in scans.values():
        states.update(zip(kind, _scanned(list(kind.values()), kept), strict=True))
    return [states[place] for place in range(len(records))]


class _Call(NamedTuple):
    """A call of a module that was given states.

    Attributes:
        records: The places of what was remembered of the recurrences in it.
    """

    module: Any
    args: tuple[Any, ...]
    options: dict[str, Any]
    records: range

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
        records: What the recurrences were given, in order.
        keeps_steps: Whether the state after each token is kept where it is computed anyway.
    """

    rows: int
    tokens: int
    parts: list[ArraysCache]
    before: list[list[Any]]
    after: list[list[Any]] = field(default_factory=list)
    calls: list[_Call] = field(default_factory=list)
    products: dict[int, list[tuple[tuple[int, ...], mx.array]]] = field(default_factory=dict)
    records: list[_Record] = field(default_factory=list)
    keeps_steps: bool = False


class _Again(NamedTuple):
    """Some sequences whose first tokens of a pass are read again by the layers with states."""

    done: _Pass
    kept: _Kept
    used: dict[int, int]

    def of(self, given: mx.array, *, has_tokens: bool) -> mx.array:
        """Return the part of an array of shape (rows, …), or of one of (rows, tokens, …)."""
        if given.shape[0] == self.done.rows:
            given = self.kept.of(given)
        return given[:, : self.kept.most] if has_tokens else given


class _Unread:
    """Stands for keys and values beside a state that is computed again: nobody reads them."""

    def __init__(self, again: _Again) -> None:
        self.offset = mx.zeros((len(again.kept.tokens),), mx.int32)

    def update_and_fetch(self, keys: Any, values: Any) -> Any:
        return keys, values


class Rollback:
    """Reads tokens that may be taken back, with one model.

    Attributes:
        token_bytes: What is remembered of one token of a sequence.
        step_bytes: What is kept of one with the states after each token, where these are computed.
        state_bytes: The states of one sequence.
    """

    def __init__(self, model: Any) -> None:
        self.token_bytes = self.step_bytes = self.state_bytes = 0
        self._model = model
        self._is_tried = self._is_known = False
        # The modules that are given states, and those inside them whose products are remembered.
        self._stateful: list[Any] = []
        self._products: list[Any] = []
        self._classes: dict[tuple[type, str], type] = {}
        # Where all states come from recurrences: for each part of the cache and each of its states
        # the place of the record, None for a state that no pass changes.
        self._sources: list[list[int | None]] | None = None
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
        token_bytes = max(self.token_bytes, self.step_bytes)
        return self.state_bytes + min(tokens * token_bytes, _MOST_REMEMBERED_BYTES)

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
        done = self._pass = _Pass(rows, tokens, states, [list(part.cache) for part in states])
        done.keeps_steps = 0 < rows * tokens * self.step_bytes <= _MOST_REMEMBERED_BYTES
        with self._remembering(done):
            logits = self._model(inputs, cache=cache)
        done.after = [list(part.cache) for part in states]
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
        states = self._states(done, None, [done.tokens - count for count in surplus])
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
        kept_states = self._states(self._pass, [row], [kept])
        for part, state in zip(states, kept_states, strict=True):
            part.cache = state
        return True

    def forget(self) -> None:
        """Drop what was remembered of the last pass."""
        self._pass = None

    def _states(
        self, done: _Pass, rows: Sequence[int] | None, tokens: Sequence[int]
    ) -> list[list[Any]]:
        """Return the states of some sequences, or of all, after their first tokens of a pass."""
        kept = _Kept(done.tokens, rows, tokens)
        if set(tokens) <= {0, done.tokens}:
            return [
                [kept.whole(*states) for states in zip(*part, strict=True)]
                for part in zip(done.before, done.after, strict=True)
            ]
        if self._sources is not None:
            after = _after(done.records, kept)
            return [
                [
                    kept.of(state) if source is None else after[source]
                    for state, source in zip(part, sources, strict=True)
                ]
                for part, sources in zip(done.before, self._sources, strict=True)
            ]
        if kept.is_even:
            return self._again_read(done, kept)
        groups: dict[int, list[int]] = {}
        for row, count in zip(range(done.rows) if rows is None else rows, tokens, strict=True):
            groups.setdefault(count, []).append(row)
        states = [
            self._states(done, chosen, [count] * len(chosen)) for count, chosen in groups.items()
        ]
        order = [row for chosen in groups.values() for row in chosen]
        back = mx.array([order.index(row) for row in sorted(order)])
        return [
            [_joined(slot, back) for slot in zip(*part, strict=True)]
            for part in zip(*states, strict=True)
        ]

    def _again_read(self, done: _Pass, kept: _Kept) -> list[list[Any]]:
        """Return the states of sequences of which equally many tokens stay, by their modules."""
        fresh = {}
        for part, before in zip(done.parts, done.before, strict=True):
            copy = ArraysCache(len(before))
            copy.cache = [kept.of(state) for state in before]
            fresh[id(part)] = copy
        self._again = again = _Again(done, kept, {})
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
        done.keeps_steps = True
        try:
            with self._recorded(done), self._watched(self._stateful, "call"):
                self._model(mx.arange(_TRIED_TOKENS)[None], cache=cache)
            self._sources = _sources(done)
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
            if self._sources is not None:
                self._stateful = self._products = []
                self.step_bytes = self._weighed(keeps_steps=True)
            self.token_bytes = self._weighed(keeps_steps=False)
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

    def _weighed(self, *, keeps_steps: bool) -> int:
        """Return the bytes that a pass remembers of a token.

        A mask grows with the square of the tokens, so that the longest pass is weighed.
        """
        cache = make_prompt_cache(self._model)
        states = [part for part in parts_of(cache) if isinstance(part, ArraysCache)]
        done = self._pass = _Pass(1, WIDTHS[-1], states, [], keeps_steps=keeps_steps)
        with self._remembering(done):
            self._model(mx.zeros((1, WIDTHS[-1]), mx.int32), cache=cache)
        arrays = [given for call in done.calls for given in call.given]
        arrays += [out for products in done.products.values() for _, out in products]
        total = sum(array.nbytes for array in arrays if isinstance(array, mx.array))
        return (total + sum(record.nbytes for record in done.records)) // WIDTHS[-1]

    @contextlib.contextmanager
    def _remembering(self, done: _Pass) -> Iterator[None]:
        """Remember what is needed to take back tokens of a pass inside the block."""
        with contextlib.ExitStack() as watched:
            if done.tokens == 1:
                pass  # it stays or it does not
            elif self._sources is not None:
                watched.enter_context(self._recorded(done))
            else:
                watched.enter_context(self._watched(self._stateful, "call"))
                watched.enter_context(self._watched(self._products, "product"))
            yield

    @contextlib.contextmanager
    def _recorded(self, done: _Pass) -> Iterator[None]:
        """Record what recurrences are given inside the block."""
        steps: list[mx.array] = []
        convolve = nn.Conv1d.__call__

        def delta_rule(run: Any, q: Any, k: Any, *others: Any) -> Any:
            steps.clear()
            output, state = run(q, k, *others)
            values, decays, strengths, before, *_ = others
            args = () if steps else (k, values, decays, strengths, before)
            states = [before, *steps] if steps else []
            done.records.append(_DeltaRule(run, args, state, states))
            return output, state

        def scan(run: Any, *args: Any, **masks: Any) -> Any:
            written, decays, places, read, skipped, times, biases, before, limits = args
            # The times are a view of all that the layer's weights gave.
            times = mx.contiguous(times)
            output, state = run(
                written, decays, places, read, skipped, times, biases, before, limits, **masks
            )
            heads = (decays, biases)
            done.records.append(_Scan(written, places, times, heads, tuple(limits), before, state))
            return output, state

        def convolution(module: Any, given: mx.array) -> Any:
            done.records.append(_Convolution(given))
            return convolve(module, given)

        note_step = steps.append if done.keeps_steps else None
        with recurrences_watched(delta_rule, scan, note_step):
            nn.Conv1d.__call__ = convolution
            try:
                yield
            finally:
                nn.Conv1d.__call__ = convolve

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
            first = len(done.records)
            try:
                output = kind.__call__(module, *args, **options)
            finally:
                has_inner = self._depths.pop()
                if self._depths:
                    self._depths[-1] = True
            if not has_inner:
                records = range(first, len(done.records))
                done.calls.append(_Call(module, args, options, records))
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


def _sources(done: _Pass) -> list[list[int | None]] | None:
    """Return where each state of a pass came from: for each part of the cache the places of the
    records; None unless all states are known.

    What a convolution keeps is compared for one layer of each kind.
    """
    sources: dict[int, list[int | None]] = {
        id(part): [None] * len(part.cache) for part in done.parts
    }
    known: dict[tuple[type, int], int] = {}
    for call in done.calls:
        for part in (part for given in call.given for part in _states_in(given)):
            for slot, state in enumerate(part.cache):
                if state is None:
                    continue
                key = (type(call.module), slot)
                places = call.records if key not in known else call.records[known[key] :][:1]
                for place in places:
                    record = done.records[place]
                    if (
                        record.gave(state, done.tokens, is_sure=key in known)
                        if isinstance(record, _Convolution)
                        else record.state is state
                    ):
                        known[key] = place - call.records.start
                        sources[id(part)][slot] = place
                        break
                else:
                    return None
    return list(sources.values())


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


def _states_in(given: Any) -> Iterator[ArraysCache]:
    if isinstance(given, (ArraysCache, CacheList)):
        yield from (part for part in parts_of([given]) if isinstance(part, ArraysCache))


def _joined(slot: Sequence[Any], order: mx.array) -> Any:
    return None if slot[0] is None else mx.concatenate(list(slot), axis=0)[order]


def _cut(parts: Sequence[Any], least: int, more: Sequence[int]) -> None:
    """Remove ``least`` tokens of all sequences, and then ``more[row]`` of each."""
    cut_windows([part for part in parts if isinstance(part, BatchRotatingKVCache)], least, more)
    for part in parts:
        if isinstance(part, SoleCache):
            part.trim(least)  # type: ignore[attr-defined]  # of its own kind
        elif isinstance(part, HeadCache):
            part.take_back([least + count for count in more])
    cut([part for part in parts if isinstance(part, RunningKVCache)], least, more)
