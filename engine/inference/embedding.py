"""Reads texts and pools the model's hidden states, which become one vector each. Engine thread.

The hidden states are those after the model's last norm, before the vocabulary. Texts are padded at
their right, which no token of a causal model looks at: each vector is the same as for its text
alone. Long texts are read in parts, so that a batch beside it never waits for long.
"""

import json
import math
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache

from engine.errors import InvalidRequest, ModelLoadFailed, not_numbers
from engine.files.safe_files import read_bounded
from engine.library.memory_need import CacheSize
from engine.library.model_files import read_json
from engine.values.embedding import Embeddings, Vector

# Texts of about the same length, at most twice the shortest, are read together, up to this many
# tokens with their padding.
_TOKENS_TOGETHER = 4096
_TEXTS_TOGETHER = 32
# Modules of sentence-transformers that change nothing here: the model itself, pooling, and the
# scaling to length 1.
_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")
# Where architectures keep the part of the model before the vocabulary.
_TRUNKS = ("model", "backbone", "transformer")


Pooling = Literal["last", "mean", "first"]
"""Which hidden states make the vector of a text."""
_STATED_POOLINGS: Mapping[str, Pooling] = {
    "pooling_mode_lasttoken": "last",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "first",
}


def pooling_of(folder: Path, name: str) -> Pooling:
    """Return how a model's hidden states become a vector.

    A folder of sentence-transformers says so (``1_Pooling/config.json``). Other models that were
    trained for embeddings, which their names say, take the last token; all others, the mean.
    """
    modules = folder / "modules.json"
    if modules.is_file():
        kinds = set(_kinds_of_modules(modules))
        if unknown := sorted(kinds - set(_KNOWN_MODULES)):
            raise InvalidRequest(
                "model",
                f"{name} makes its vectors with {', '.join(unknown)}, which is not supported",
            )
    try:
        stated = read_json(folder / "1_Pooling" / "config.json")
    except ModelLoadFailed:
        stated = {}
    for key, pooling in _STATED_POOLINGS.items():
        if stated.get(key) is True:
            return pooling
    return "last" if "embed" in name.lower() else "mean"


def _kinds_of_modules(path: Path) -> list[str]:
    try:
        modules = json.loads(read_bounded(path))
        return [str(module["type"]).rpartition(".")[2] for module in modules]
    except (ValueError, TypeError, LookupError, OSError):
        return []


class TextsPass(ABC):
    """Reads the texts of one request, given as token ids, a part at a time."""

    def __init__(
        self, texts: Sequence[Sequence[int]], pooling: Pooling, vocabulary_size: int, name: str
    ) -> None:
        self._texts = texts
        self._pooling = pooling
        self._vocabulary_size = vocabulary_size
        self._name = name
        self._groups = _groups(texts)
        self._values: dict[int, Any] = {}
        # Of the first group, once its reading has begun.
        self._cache: list[Any] = []

    @property
    def is_done(self) -> bool:
        return not self._groups

    def needed_bytes(self, size: CacheSize) -> int:
        """Return how much memory its largest group takes: a cache of its longest text for each."""
        return max(
            len(group) * size.allocated_bytes(len(self._texts[group[-1]]))
            for group in _groups(self._texts)
        )

    def outcome(self) -> object:
        """Return the answer to the request once all texts are read."""
        count = len(self._texts)
        values = tuple(self._values[index] for index in range(count))
        return self._result(values, tuple(map(len, self._texts)))

    @abstractmethod
    def _values_of(self, model: Any, states: mx.array, kind: mx.Dtype) -> Sequence[Any]:
        """Return a value for each row of pooled states: 32-bit floats, ``kind`` in the model."""

    @abstractmethod
    def _result(self, values: tuple[Any, ...], tokens: tuple[int, ...]) -> object:
        """Return the answer: the texts' values, and how many tokens each has."""

    def _begin(self, model: Any) -> None:
        group = self._groups[0]
        longest = max(len(self._texts[index]) for index in group)
        padded = [
            [*self._texts[index], *[0] * (longest - len(self._texts[index]))] for index in group
        ]
        self._inputs = mx.array(padded)
        self._lengths = mx.array([len(self._texts[index]) for index in group])[:, None]
        self._cache = make_prompt_cache(model)
        self._read = 0
        self._sums: mx.array | None = None

    def read(self, model: Any, max_tokens: int) -> int:
        """Read the next part of a group of texts; return how many tokens it had."""
        trunk = trunk_of(model)
        if not self._cache:
            self._begin(model)
        rows, longest = self._inputs.shape
        # A single token would be read in another way by some kinds of caches.
        width = max(2, min(longest - self._read, max_tokens // rows))
        inputs = self._inputs[:, self._read : self._read + width]
        hidden = trunk(inputs, cache=self._cache)
        if (
            not isinstance(hidden, mx.array)
            or hidden.ndim != 3
            or (hidden.shape[-1] == self._vocabulary_size)
        ):
            raise InvalidRequest("model", "this model's architecture shows no hidden states")
        positions = mx.arange(self._read, self._read + inputs.shape[1])[None]
        match self._pooling:
            case "last":
                selected = positions == self._lengths - 1
            case "mean":
                selected = positions < self._lengths
            case "first":
                selected = mx.broadcast_to(positions == 0, (rows, inputs.shape[1]))
        sums = mx.where(selected[:, :, None], hidden.astype(mx.float32), 0.0).sum(axis=1)
        self._sums = sums if self._sums is None else self._sums + sums
        mx.eval(self._sums, [part.state for part in self._cache])
        self._read += inputs.shape[1]
        if self._read >= longest:
            values = self._values_of(model, self._sums, hidden.dtype)
            self._values.update(zip(self._groups.pop(0), values, strict=True))
            self._cache = []
        return int(inputs.size)


class EmbeddingPass(TextsPass):
    """Turns texts into vectors."""

    def __init__(
        self,
        texts: Sequence[Sequence[int]],
        pooling: Pooling,
        vocabulary_size: int,
        name: str,
        dimensions: int | None,
    ) -> None:
        super().__init__(texts, pooling, vocabulary_size, name)
        self._dimensions = dimensions

    def _values_of(self, model: Any, states: mx.array, kind: mx.Dtype) -> Sequence[Vector]:
        if self._dimensions is not None and self._dimensions > states.shape[-1]:
            raise InvalidRequest(
                "dimensions",
                f"must be at most {states.shape[-1]}, which this model's vectors have, not "
                f"{self._dimensions}",
            )
        vectors = states[:, : self._dimensions]
        lengths = mx.maximum(mx.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
        rows: Any = (vectors / lengths).tolist()
        if any(math.isnan(row[0]) for row in rows):  # one NaN makes the length of a vector NaN
            raise not_numbers(self._name)
        return [array("f", row) for row in rows]

    def _result(self, values: tuple[Vector, ...], tokens: tuple[int, ...]) -> Embeddings:
        return Embeddings(values, tokens)


def trunk_of(model: Any) -> Callable[..., Any]:
    """Return the part of a model that gives the hidden states."""
    while (inner := getattr(model, "language_model", None)) is not None:
        model = inner
    module: Callable[..., Any] | None = next(
        (part for name in _TRUNKS if callable(part := getattr(model, name, None))), None
    )
    if module is None:
        raise InvalidRequest("model", "this model's architecture shows no hidden states")
    return module


def _groups(texts: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the positions of texts that are read together, shortest texts first."""
    groups: list[list[int]] = []
    for index in sorted(range(len(texts)), key=lambda index: len(texts[index])):
        group = groups[-1] if groups else []
        length = len(texts[index])
        is_alike = bool(group) and length <= 2 * len(texts[group[0]])
        fits = len(group) < _TEXTS_TOGETHER and (len(group) + 1) * length <= _TOKENS_TOGETHER
        if is_alike and fits:
            group.append(index)
        else:
            groups.append([index])
    return groups
