"""Cuts the caches of answers into segments of tokens, joins, measures, writes and reads them.

Uses MLX: whatever crosses threads is evaluated first.
"""

import copy
import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models.cache import (
    ArraysCache,
    BatchKVCache,
    CacheList,
    ChunkedKVCache,
    KVCache,
    RotatingKVCache,
    load_prompt_cache,
    make_prompt_cache,
    save_prompt_cache,
)

from engine.files.json_fields import DamagedFile
from engine.inference.running_cache import parts_of
from engine.library.models import STEP_TOKENS, CacheSize, Window, estimated

# Cuts the cache of an answer into segments of tokens, and joins segments again.
#
# mlx-lm's caches (``mlx_lm/models/cache.py``) are of two kinds:
#
# - ``KVCache`` has keys and values of every token, each at its place. Any segment of them can be
# cut out, kept once for all prompts that share it, and joined with others. - All other kinds are
# kept whole, as a snapshot at one token: ``RotatingKVCache`` and ``ChunkedKVCache`` forget what
# is outside their window, ``ArraysCache`` has a state and no tokens, and so may kinds that a model
# has of its own. A cache that has not forgotten anything yet can still be trimmed.
#
# A ``CacheList`` has parts of either kind. A model with layers of both kinds has segments and
# snapshots: its prompts share the segments, and can continue only where there is a snapshot.
# Engine thread, and the disk's threads on arrays that are evaluated.

_Arrays = tuple[mx.array, mx.array]


@dataclass(frozen=True, slots=True)
class Segment:
    """Keys and values of consecutive tokens, in all layers that have them for every token."""

    layers: Sequence[_Arrays]

    @property
    def size_bytes(self) -> int:
        """The memory that it takes once it is ``compact``."""
        return sum(keys.nbytes + values.nbytes for keys, values in self.layers)

    def part(self, begin: int, end: int) -> "Segment":
        """Return a part of it, which still uses the whole's memory."""
        return Segment(
            [(keys[..., begin:end, :], values[..., begin:end, :]) for keys, values in self.layers]
        )

    def compact(self) -> "Segment":
        """Return a copy with memory of its own, as much as it needs.

        MLX does not copy where the memory is larger by less than 16 KB.
        """
        copy = Segment(
            [(mx.contiguous(keys), mx.contiguous(values)) for keys, values in self.layers]
        )
        mx.eval(copy.layers)
        return copy


class Piece(NamedTuple):
    """The tokens of a segment from ``begin`` to ``end``, which are cut out when they are used."""

    segment: Segment
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The layers that are kept whole, as they are after some tokens.

    Attributes:
        tokens: The number of tokens.
        layers: For each part of the cache: None where it has segments, a tuple for the parts of a
            ``CacheList``, and else the part itself.
    """

    tokens: int
    layers: Sequence[Any]

    @property
    def is_empty(self) -> bool:
        """Whether no layer is kept whole."""
        return not self.parts

    @property
    def parts(self) -> list[Any]:
        """The layers that are kept whole."""
        return list(_whole_parts(self.layers))

    @property
    def can_be_trimmed(self) -> bool:
        """Whether it can be cut back to fewer tokens."""
        return all(_can_be_trimmed(part) for part in _whole_parts(self.layers))

    @property
    def size_bytes(self) -> int:
        """The memory that it takes once it is ``compact``."""
        return sum(int(part.nbytes) for part in _whole_parts(self.layers))

    def compact(self) -> "Snapshot":
        """Give the layers memory of their own, as much as they need; returns this snapshot."""
        for part in self.parts:
            _compact(part)
        evaluate(self.parts)
        return self


def is_cut_anywhere(cache: Sequence[Any]) -> bool:
    """Whether every layer of a model's fresh cache will have segments."""
    return all(
        is_cut_anywhere(part.caches) if isinstance(part, CacheList) else type(part) is KVCache
        for part in cache
    )


def has_segments(cache: Sequence[Any]) -> bool:
    """Whether any layer of a model's fresh cache will have segments."""
    return any(type(part) is KVCache for part in parts_of(cache))


def taken_apart(cache: Sequence[Any], tokens: int) -> tuple[Segment, Snapshot]:
    """Return the segment and the snapshot that make up a cache, without copying anything."""
    layers: list[_Arrays] = []
    return (
        Segment(layers),
        Snapshot(tokens, [_whole(part, tokens, layers) for part in cache]),
    )


def joined(pieces: Sequence[Piece], snapshot: Snapshot, tokens: int) -> list[Any]:
    """Return a fresh cache of ``tokens`` tokens, which shares nothing that mlx-lm changes.

    MLX copies the segments when the cache is first used: until then it takes no memory.
    """
    layers = iter(_layers_of(pieces, tokens))
    surplus = snapshot.tokens - tokens
    return [_part_of(whole, layers, surplus) for whole in snapshot.layers]


def beginning_of(cache: Sequence[Any], tokens: int, count: int) -> list[Any] | None:
    """Return a fresh cache of the first tokens of one; None where its kind cannot be cut there."""
    segment, snapshot = taken_apart(cache, tokens)
    if count < tokens and not snapshot.can_be_trimmed:
        return None
    return joined([Piece(segment, 0, count)], snapshot, count)


def sequence_view(cache: Sequence[Any], index: int) -> list[Any]:
    """Return the cache of one sequence of a batch's cache.

    Its keys and values of all tokens share the batch's memory: a snapshot copies only those that
    are not stored yet.
    """
    return [_view_of_sequence(part, index) for part in cache]


def _view_of_sequence(part: Any, index: int) -> Any:
    if isinstance(part, CacheList):
        return CacheList(*(_view_of_sequence(inner, index) for inner in part.caches))
    if not isinstance(part, BatchKVCache) or part.empty():
        return part.extract(index)
    view, padding = KVCache(), max(0, int(part.left_padding[index].item()))
    keys, values = part.keys_and_values()
    view.keys, view.values = (array[index : index + 1, :, padding:] for array in (keys, values))
    view.offset = view.keys.shape[-2]
    return view


def _whole(part: Any, tokens: int, layers: list[_Arrays]) -> Any:
    """Return the item of ``Snapshot.layers`` for a part; append the part's arrays to ``layers``."""
    if isinstance(part, CacheList):
        return tuple(_whole(inner, tokens, layers) for inner in part.caches)
    if type(part) is not KVCache or part.keys is None or part.offset != tokens:
        return part
    layers.append((part.keys[..., :tokens, :], part.values[..., :tokens, :]))
    return None


def _whole_parts(layers: Sequence[Any]) -> Iterator[Any]:
    for layer in layers:
        if isinstance(layer, tuple):
            yield from _whole_parts(layer)
        elif layer is not None:
            yield layer


def _layers_of(pieces: Sequence[Piece], tokens: int) -> list[KVCache]:
    """Return the layers that have segments, each with the tokens of all pieces."""
    count = len(pieces[0].segment.layers) if pieces else 0
    return [_filled([_cut(piece, layer) for piece in pieces], tokens) for layer in range(count)]


def _cut(piece: Piece, layer: int) -> _Arrays:
    keys, values = piece.segment.layers[layer]
    if piece.begin == 0 and piece.end == keys.shape[-2]:
        return keys, values
    return keys[..., piece.begin : piece.end, :], values[..., piece.begin : piece.end, :]


def _filled(arrays: Sequence[_Arrays], tokens: int) -> KVCache:
    part = KVCache()
    # The slices are needed even where they cut nothing off: they are new arrays, and mlx-lm writes
    # into them.
    part.keys = mx.concatenate([keys for keys, _ in arrays], axis=-2)[..., :tokens, :]
    part.values = mx.concatenate([values for _, values in arrays], axis=-2)[..., :tokens, :]
    part.offset = tokens
    return part


def _part_of(whole: Any, layers: Iterator[KVCache], surplus: int) -> Any:
    """Return a part of a joined cache."""
    if whole is None:
        return next(layers)
    if isinstance(whole, tuple):
        return CacheList(*(_part_of(inner, layers, surplus) for inner in whole))
    part = copy.deepcopy(whole)
    if surplus and not part.empty():
        part.trim(surplus)
    return part


def _can_be_trimmed(part: Any) -> bool:
    # A layer that uses another's keys is never written to. Not every kind that mlx-lm calls
    # trimmable really is: ``ConcatenateKVCache`` and ``ChunkedKVCache`` lose or keep too much.
    if isinstance(part, ChunkedKVCache):
        return bool(part.start_position == 0)
    return bool(part.empty() or (isinstance(part, RotatingKVCache) and part.is_trimmable()))


def _compact(part: Any) -> None:
    if _is_models_own(part):
        for name, value in vars(part).items():
            if isinstance(value, mx.array):
                setattr(part, name, mx.contiguous(value))
    elif isinstance(part, ChunkedKVCache) and part.keys is not None:
        # Its memory is for more tokens, and its beginning is for the tokens of the last pass.
        part.maybe_trim_front()
        part.keys, part.values = map(mx.contiguous, part.keys_and_values())
    elif isinstance(part, ArraysCache):
        part.cache = [None if array is None else mx.contiguous(array) for array in part.cache]
    elif isinstance(part, RotatingKVCache) and part.keys is not None:
        keys, values, offset, keep, window, index = part.state
        # After a prompt it holds tokens before its window, which nothing reads any more.
        surplus = keys.shape[-2] - window
        if surplus > 0 and keep == 0 and index == keys.shape[-2]:
            keys, values, index = keys[..., surplus:, :], values[..., surplus:, :], window
        part.state = (mx.contiguous(keys), mx.contiguous(values), offset, keep, window, index)


# The files of segments and snapshots. Keys and values of all tokens are in files of segments, which
# snapshots share; a snapshot's file has only the layers that are kept whole.


def kinds_of(cache: Sequence[Any]) -> tuple[str, ...]:
    """Return the kinds of a cache's parts, in words."""
    return tuple(
        f"CacheList({', '.join(kinds_of(part.caches))})"
        if isinstance(part, CacheList)
        else type(part).__name__
        for part in cache
    )


def layout_of(snapshot: Snapshot) -> list[Any]:
    """Return where the parts of a cache are, for JSON: None for one that has segments, a list for
    those of a ``CacheList``, a number for a part that is kept whole, its place among them.
    """
    numbers = itertools.count()

    def place(layer: Any) -> Any:
        if layer is None:
            return None
        return [place(inner) for inner in layer] if isinstance(layer, tuple) else next(numbers)

    return [place(layer) for layer in snapshot.layers]


def snapshot_from(layout: Any, parts: Sequence[Any] | None, tokens: int) -> Snapshot:
    """Return the snapshot whose ``layout_of`` this is; raises ``DamagedFile`` for anything else.

    Without ``parts``, those that are kept whole are caches that are never written to, of layers
    that use the keys of another.
    """
    places: list[int] = []

    def part(place: Any) -> Any:
        if place is None:
            return None
        if isinstance(place, list):
            return tuple(part(inner) for inner in place)
        places.append(place)
        return KVCache() if parts is None else parts[place]

    try:
        layers = [part(place) for place in layout]
    except (IndexError, TypeError, RecursionError) as error:
        raise DamagedFile("its layout is unclear") from error
    if parts is not None and places != list(range(len(parts))):
        raise DamagedFile("its layout is of other parts")
    return Snapshot(tokens, layers)


def segments_in(layers: Sequence[Any]) -> int:
    """Return how many parts of a layout, or of the layers of a snapshot, have segments."""
    return sum(
        segments_in(layer) if isinstance(layer, list | tuple) else layer is None for layer in layers
    )


def fits(snapshot: Snapshot, kinds: tuple[str, ...]) -> bool:
    """Whether a snapshot is one of a model whose cache has these kinds of parts."""
    return kinds_of([_stand_in(layer) for layer in snapshot.layers]) == kinds


def _stand_in(layer: Any) -> Any:
    if isinstance(layer, tuple):
        return CacheList(*map(_stand_in, layer))
    return KVCache() if layer is None else layer


def tail(pieces: Sequence[Piece], tokens: int, start: int) -> list[Any]:
    """Return the layers that have segments, with the last of ``tokens`` tokens, evaluated."""
    if sum(piece.end - piece.begin for piece in pieces) != tokens or not _hold(pieces):
        raise DamagedFile("a cache has other tokens than it should have")
    left, at = [], 0
    for piece in pieces:
        end = at + piece.end - piece.begin
        if end > start:
            left.append(piece._replace(begin=piece.begin + max(0, start - at)))
        at = end
    with mx.stream(mx.cpu):
        layers = _layers_of(left, tokens - start)
        evaluate(layers)
    return layers


def _hold(pieces: Sequence[Piece]) -> bool:
    """Whether the segments have the tokens of their pieces."""
    return all(keys.shape[-2] >= piece.end for piece in pieces for keys, _ in piece.segment.layers)


def segment_of(layers: Sequence[Any], tokens: int, begin: int, end: int) -> Segment:
    """Return a part of the segment that a file of ``tokens`` tokens holds, evaluated."""
    segment, snapshot = taken_apart(layers, tokens)
    if not snapshot.is_empty:
        raise DamagedFile("a cache has other tokens than it should have")
    return segment if (begin, end) == (0, tokens) else segment.part(begin, end).compact()


def evaluate(cache: Sequence[Any]) -> None:
    """Evaluate all arrays of a cache, so that every thread can read it."""
    leaves = tree_flatten([part.state for part in cache])
    mx.eval([value for _, value in leaves if isinstance(value, mx.array)])


def save(file: Any, cache: list[Any], metadata: dict[str, str]) -> None:
    """Write a cache as mlx-lm writes it."""
    save_prompt_cache(file, [_for_file(part) for part in cache], metadata)


def load(path: Path, fresh: Sequence[Any] = ()) -> tuple[list[Any], dict[str, str]]:
    """Return a cache that was saved, evaluated, and its metadata.

    Args:
        path: The file.
        fresh: A fresh cache of the model, for the kinds that it has of its own.
    """
    cache, metadata = load_prompt_cache(str(path), return_metadata=True)
    own = {type(part).__name__: part for part in parts_of(fresh) if _is_models_own(part)}
    cache = [_from_file(part, own) for part in cache]
    evaluate(cache)
    return cache, dict(metadata)


def _is_models_own(part: Any) -> bool:
    """Whether a part is of a kind that a model has of its own, which mlx-lm's files do not know."""
    return bool(type(part).__module__ != KVCache.__module__)


def _for_file(part: Any) -> Any:
    if not _is_models_own(part):
        return part
    states = ArraysCache(0)
    states.cache = [type(part).__name__, *vars(part).values()]
    return states


def _from_file(part: Any, own: Mapping[str, Any]) -> Any:
    if not (isinstance(part, ArraysCache) and part.cache and isinstance(part.cache[0], str)):
        return part
    name, *values = part.cache
    again = copy.copy(own[name])
    vars(again).update(zip(vars(again), values, strict=True))
    return again


# Measures how much memory the cache of a loaded model takes. Engine thread.
#
# The model reads one token, but MLX computes nothing until a value is needed: the shapes of the
# cache are known without any computation.

_log = logging.getLogger(__name__)


def measured(model: Any, config: Mapping[str, Any]) -> CacheSize:
    """Return what one answer's cache takes."""
    try:
        cache = make_prompt_cache(model)
        model(mx.array([[0]]), cache=cache)
        own = any(_is_models_own(part) for part in parts_of(cache))
        return size_of(cache) + (_size_of_own(model) if own else CacheSize())
    except Exception as error:  # the models of mlx-lm are many
        _log.warning("the model's cache could not be measured: %s", error)
        return estimated(config)


def size_of(cache: list[Any]) -> CacheSize:
    """Return how a cache grows, from one that holds at least one token."""
    token_bytes = fixed_bytes = 0
    windows: dict[int, int] = {}
    for part in parts_of(cache):
        if _is_models_own(part):
            continue
        tokens = _allocated_tokens(part)
        if tokens == 0:
            fixed_bytes += part.nbytes
            continue
        share = part.nbytes // tokens
        window = _window_tokens(part)
        if window is None:
            token_bytes += share
        else:
            windows[window] = windows.get(window, 0) + share
    kept = tuple(Window(tokens, share) for tokens, share in sorted(windows.items()))
    return CacheSize(token_bytes, fixed_bytes, kept)


def _size_of_own(model: Any) -> CacheSize:
    """Return how the parts grow that are of kinds of the model's own; a window counts as full."""
    cache = make_prompt_cache(model)
    sizes = []
    for _ in range(2):
        model(mx.zeros((1, STEP_TOKENS), mx.int32), cache=cache)
        sizes.append(sum(int(part.nbytes) for part in parts_of(cache) if _is_models_own(part)))
    grown = sizes[1] - sizes[0]
    return CacheSize(-(-grown // STEP_TOKENS), max(0, sizes[0] - grown))


def _allocated_tokens(part: Any) -> int:
    """Return for how many tokens a part has memory; 0 for one that does not grow."""
    keys = getattr(part, "keys", None)
    if isinstance(keys, tuple):  # quantized: values, scales and biases
        keys = keys[0]
    return 0 if keys is None else int(keys.shape[-2])


def _window_tokens(part: Any) -> int | None:
    if isinstance(part, RotatingKVCache):
        return int(part.max_size)
    if isinstance(part, ChunkedKVCache):
        return int(part.chunk_size)
    return None
