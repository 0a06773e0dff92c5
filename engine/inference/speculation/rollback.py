"""Takes back the newest tokens of running sequences, from every kind of cache. Engine thread.

Keys and values (``KVCache``, windows) are cut off. The states of an ``ArraysCache`` cannot be cut:
the operation that made a state runs again alone, over the tokens that are kept, from the state
before the pass. For that each pass records the inputs of these operations of mlx-lm:

- A short convolution, ``nn.Conv1d`` over ``mx.concatenate([state, inputs], axis=1)``, of shape
  (rows, kernel - 1 + tokens, channels). Its state is the last ``kernel - 1`` of these positions, so
  that of fewer tokens is a slice.
- Gated DeltaNet, ``gated_delta_ops`` or ``gated_delta_kernel`` of ``models/gated_delta.py``, given
  q, k (rows, tokens, heads, key size), v (rows, tokens, heads, value size), g and beta (rows,
  tokens, heads), and the state (rows, heads, value size, key size).
- Mamba2, ``ssm_attn`` of ``models/ssm.py``, given x (rows, tokens, heads, size), B and C (rows,
  tokens, groups, state size), dt (rows, tokens, heads), and the state (rows, heads, size, state
  size). Passes over several tokens never use ``ssm_update_kernel``.

Both recurrences return (output, state), and layers assign that very array to their cache. In each
layer the calls come in the order of the states in its ``ArraysCache``: those of its convolutions,
then that of its recurrence (``qwen3_next``, ``kimi_linear``, ``lfm2``, ``falcon_h1``). A trial pass
checks that each state has its record in this order; models with other recurrences (``rwkv7``,
``jamba``) are not drafted for.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import mlx.core as mx
from mlx import nn
from mlx_lm.models.cache import (
    ArraysCache,
    BatchRotatingKVCache,
    ChunkedKVCache,
    KVCache,
    RotatingKVCache,
    make_prompt_cache,
)

from engine.inference.mlx_lm_internals import (
    cut_window,
    cut_windows,
    straighten,
    wrap_recurrences,
)
from engine.inference.running_cache import RunningKVCache, SoleCache, cut, parts_of
from engine.inference.speculation.head_drafts import HeadCache

_log = logging.getLogger(__name__)
_TRIAL_TOKENS = 2
_KINDS = (ArraysCache, RunningKVCache, BatchRotatingKVCache, HeadCache)


class _Convolution(NamedTuple):
    """The input of a short convolution: its state, and then the tokens of the pass."""

    given: mx.array

    def gave(self, state: mx.array, tokens: int) -> bool:
        """Whether a state after the pass is the end of the input; computes both."""
        end = self.given[:, tokens:]
        return end.shape == state.shape and bool(mx.array_equal(end, state).item())

    def after(self, rows: mx.array, kept: int, tokens: int) -> mx.array:
        """Return the state of some rows after the first ``kept`` of the pass's tokens."""
        size = self.given.shape[1] - tokens
        return mx.contiguous(self.given[rows, kept : kept + size])


class _Recurrence(NamedTuple):
    """The inputs of a recurrence, of shape (rows, tokens, …), and the states before and after."""

    run: Callable[..., mx.array]
    inputs: tuple[mx.array, ...]
    before: mx.array
    state: mx.array

    def gave(self, state: mx.array, tokens: int) -> bool:
        return self.state is state

    def after(self, rows: mx.array, kept: int, tokens: int) -> mx.array:
        return self.run(self.before[rows], *(given[rows, :kept] for given in self.inputs))


_Record = _Convolution | _Recurrence
_records: ContextVar[list[_Record] | None] = ContextVar("records", default=None)


@contextmanager
def _recorded() -> Iterator[list[_Record]]:
    _patch()
    records: list[_Record] = []
    token = _records.set(records)
    try:
        yield records
    finally:
        _records.reset(token)


def _delta_rule(run: Any, q: Any, k: Any, v: Any, g: Any, beta: Any, state: Any, *mask: Any) -> Any:
    output, after = run(q, k, v, g, beta, state, *mask)
    if (records := _records.get()) is not None:

        def again(before: Any, k: Any, v: Any, g: Any, beta: Any) -> mx.array:
            kept: mx.array = run(k, k, v, g, beta, before)[1]  # queries change no state
            return kept

        records.append(_Recurrence(again, (k, v, g, beta), state, after))
    return output, after


def _scan(
    run: Any, x: Any, decays: Any, b: Any, c: Any, d: Any, dt: Any, bias: Any, state: Any,
    limits: Any, **masks: Any,
) -> Any:  # fmt: skip
    output, after = run(x, decays, b, c, d, dt, bias, state, limits, **masks)
    if (records := _records.get()) is not None and state is not None:

        def again(before: Any, x: Any, b: Any, dt: Any) -> mx.array:
            kept: mx.array = run(x, decays, b, b, d, dt, bias, before, limits)[1]
            return kept

        # The times are a view of all that the layer's weights gave.
        records.append(_Recurrence(again, (x, b, mx.contiguous(dt)), state, after))
    return output, after


def _patch() -> None:
    """Let recurrences and convolutions record their inputs; once for the process."""
    if wrap_recurrences(_delta_rule, _scan):
        convolve = nn.Conv1d.__call__

        def convolution(module: Any, given: mx.array) -> Any:
            if (records := _records.get()) is not None:
                records.append(_Convolution(given))
            return convolve(module, given)

        nn.Conv1d.__call__ = convolution


@dataclass(slots=True)
class Pass:
    """One pass over several tokens of each row, with the states before and after it."""

    rows: int
    tokens: int
    before: list[list[Any]]
    after: list[list[Any]] = field(default_factory=list)
    records: list[_Record] = field(default_factory=list)


class Rollback:
    """Reads tokens that may be taken back, with one model."""

    def __init__(self, model: Any) -> None:
        self._model = model
        # Whether each state has its record; None before the trial pass.
        self._are_recorded: bool | None = None
        # The last pass; None where no state has taken its tokens in.
        self.last: Pass | None = None

    def can_take_back(self, cache: Sequence[Any]) -> bool:
        """Whether tokens of a pass can be taken back from a cache of running sequences."""
        kinds = {type(part) for part in parts_of(cache)}
        if not all(issubclass(kind, _KINDS) or _is_cut_alone(kind) for kind in kinds):
            return False
        if ArraysCache not in kinds:
            return True
        if self._are_recorded is None:
            self._are_recorded = False
            try:
                self._are_recorded = self._try_records()
            except Exception:
                _log.exception("the states of this model cannot be taken back")
        return self._are_recorded

    def read(self, inputs: mx.array, cache: Sequence[Any]) -> Any:
        """Read tokens of shape (rows, tokens); return the logits, which are not computed yet."""
        self.last = None
        rows, tokens = inputs.shape
        states = _states(cache)
        for part in parts_of(cache):
            if tokens > 1:
                straighten(part)
        if not states:
            return self._model(inputs, cache=cache)
        done = self.last = Pass(rows, tokens, [list(part.cache) for part in states])
        with _recorded() as done.records:
            logits = self._model(inputs, cache=cache)
        done.after = [list(part.cache) for part in states]
        return logits

    def take_back(self, cache: Sequence[Any], surplus: Sequence[int]) -> None:
        """Remove the last ``surplus[row]`` of the tokens that were just read of each sequence."""
        if not any(surplus):
            return
        shared = min(surplus)
        more = [count - shared for count in surplus]
        _cut([part for part in parts_of(cache) if not isinstance(part, ArraysCache)], shared, more)
        done = self.last
        if done is None:
            return
        kept = [done.tokens - count for count in surplus]
        states = self._states_after(done, range(done.rows), kept)
        for part, state in zip(_states(cache), states, strict=True):
            part.cache = state
        mx.async_eval(states)  # type: ignore[no-untyped-call]

    def shorten(
        self, cache: Sequence[Any], done: Pass | None, row: int, surplus: int, kept: int
    ) -> bool:
        """Remove the last tokens of a row of a pass from its own cache, if possible."""
        for part in parts_of(cache):
            if isinstance(part, RotatingKVCache):
                if not cut_window(part, surplus):
                    return False
            elif type(part) in (KVCache, ChunkedKVCache):
                part.trim(surplus)
            elif not isinstance(part, ArraysCache):
                return False
        states = _states(cache)
        if not states:
            return True
        if done is None or kept < 1:
            return False
        for part, state in zip(states, self._states_after(done, [row], [kept]), strict=True):
            part.cache = state
        return True

    def _states_after(
        self, done: Pass, rows: Sequence[int], kept: Sequence[int]
    ) -> list[list[Any]]:
        groups: dict[int, list[int]] = {}
        for row, count in zip(rows, kept, strict=True):
            groups.setdefault(count, []).append(row)
        order = [row for chosen in groups.values() for row in chosen]
        back = mx.array([order.index(row) for row in rows])
        states = [
            self._states_of(done, mx.array(chosen), count) for count, chosen in groups.items()
        ]
        if len(states) == 1:
            return states[0]
        return [
            [_joined(slots, back) for slots in zip(*part, strict=True)]
            for part in zip(*states, strict=True)
        ]

    def _states_of(self, done: Pass, rows: mx.array, kept: int) -> list[list[Any]]:
        if kept in (0, done.tokens):
            parts = done.after if kept else done.before
            return [[None if state is None else state[rows] for state in part] for part in parts]
        records = iter(done.records)
        return [
            [
                None if state is None else next(records).after(rows, kept, done.tokens)
                for state in part
            ]
            for part in done.before
        ]

    def _try_records(self) -> bool:
        """Return whether a pass over two tokens records each state, in the order of the states."""
        cache = make_prompt_cache(self._model)
        self._model(mx.ones((1, 1), mx.int32), cache=cache)
        with _recorded() as records:
            self._model(mx.arange(_TRIAL_TOKENS)[None], cache=cache)
        states = [state for part in _states(cache) for state in part.cache if state is not None]
        return len(records) == len(states) and all(
            record.gave(state, _TRIAL_TOKENS) for record, state in zip(records, states, strict=True)
        )


def _states(cache: Sequence[Any]) -> list[ArraysCache]:
    return [part for part in parts_of(cache) if isinstance(part, ArraysCache)]


def _joined(slots: Sequence[Any], order: mx.array) -> Any:
    return None if slots[0] is None else mx.concatenate(list(slots))[order]


def _is_cut_alone(kind: type) -> bool:
    """Whether the newest tokens of a lone sequence can be cut off a part of its cache."""
    # A chunked cache loses its beginning only before a pass, down to what the first token sees.
    return issubclass(kind, SoleCache) and issubclass(kind, (KVCache, ChunkedKVCache))


def _cut(parts: Sequence[Any], shared: int, more: Sequence[int]) -> None:
    """Remove ``shared`` tokens of all sequences, and then ``more[row]`` of each."""
    cut_windows([part for part in parts if isinstance(part, BatchRotatingKVCache)], shared, more)
    for part in parts:
        if isinstance(part, SoleCache):
            part.trim(shared)  # type: ignore[attr-defined]  # of its own kind
        elif isinstance(part, HeadCache):
            part.take_back([shared + count for count in more])
    cut([part for part in parts if isinstance(part, RunningKVCache)], shared, more)
