"""Lets a text model of mlx-lm read pictures: their positions, and features behind its first layers.

The classes of its rotary embeddings and of its first layers are replaced in place by subclasses,
so that its modules, their names and their weights stay as mlx-lm made them. Engine thread.
"""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from engine.library.architectures import RopeStyle


class Reading:
    """What the next pass of a text model needs beside token ids.

    Attributes:
        positions: (3, rows, tokens), where the pass has tokens of a picture.
        deltas: For each row, how far its positions are behind the number of its tokens; None where
            no row has pictures.
        features: Embeddings of shape (rows, tokens, size), and which of them, (rows, tokens, 1),
            stand in place of those of token ids.
        added: Features added behind each of the first layers, each of shape (rows, tokens, size).
        blocks: For each token of the pass the number of its picture, of shape (tokens,), or -1;
            where the tokens of a picture see those behind them, too.
        special: The first of the ids that the tower embeds, and their embeddings, in every pass.
    """

    __slots__ = ("added", "blocks", "deltas", "features", "positions", "special")

    def __init__(self) -> None:
        self.deltas: mx.array | None = None
        self.special: tuple[int, mx.array] | None = None
        self.clear()

    def clear(self) -> None:
        self.positions: mx.array | None = None
        self.features: tuple[mx.array, mx.array] | None = None
        self.added: Sequence[mx.array] = ()
        self.blocks: mx.array | None = None


class _PictureMasks:
    """Added to the class of Gemma 4's inner model."""

    reading: Reading

    def _make_masks(self, hidden: Any, cache: Any) -> Any:
        masks: Any = super()._make_masks(hidden, cache)  # type: ignore[misc]
        if (blocks := self.reading.blocks) is None:
            return masks
        before = next((int(part.offset) for part in cache if part is not None), 0)
        made: dict[int, Any] = {}  # layers of one kind share a mask
        for mask in masks:
            if id(mask) not in made:
                made[id(mask)] = _unmask_pictures(mask, blocks, before)
        return [made[id(mask)] for mask in masks]


def _unmask_pictures(mask: Any, blocks: Any, before: int) -> Any:
    """Return a mask in which the tokens of a picture see each other."""
    tokens = len(blocks)
    same = (blocks[:, None] == blocks[None]) & (blocks[:, None] >= 0)
    if not isinstance(mask, mx.array):  # "causal", behind as many tokens as the cache holds
        mask = mx.arange(before, before + tokens)[:, None] >= mx.arange(before + tokens)[None]
    return mask | mx.pad(same, [(0, 0), (mask.shape[-1] - tokens, 0)])


class _PictureEmbedding:
    """Added to the class of a table of embeddings."""

    reading: Reading

    def __call__(self, ids: Any) -> Any:
        embedded = super().__call__(ids)  # type: ignore[misc]
        if self.reading.special is not None:
            first, rows = self.reading.special
            are_special = (ids >= first) & (ids < first + len(rows))
            special = rows[mx.where(are_special, ids - first, 0)]
            embedded = mx.where(are_special[..., None], special.astype(embedded.dtype), embedded)
        if (features := self.reading.features) is None:
            return embedded
        values, are_features = features
        return mx.where(are_features, values.astype(embedded.dtype), embedded)


class _PictureRope:
    """Added to the class of a rotary embedding."""

    reading: Reading
    dims: int
    base: float
    scale: float

    def follow(self, reading: Reading, axes: Sequence[int]) -> None:
        """Turn by the position along ``axes[i]`` at the frequency ``i``."""
        self.reading = reading
        # No parameter of the model: its name begins with an underscore.
        self._axes = mx.array(list(axes))

    def __call__(self, x: Any, offset: Any = 0) -> Any:
        reading = self.reading
        if reading.positions is not None:
            return self._turned(x, reading.positions)
        # A pass over other rows, such as the trial of a rollback, has no pictures.
        if reading.deltas is not None and len(reading.deltas) == len(x):
            offset = offset + reading.deltas
        return super().__call__(x, offset=offset)  # type: ignore[misc]

    def _turned(self, x: Any, positions: Any) -> Any:
        """Rotate queries or keys of shape (rows, heads, tokens, size)."""
        dims = self.dims
        frequencies = self.base ** -(mx.arange(0, dims, 2, dtype=mx.float32) / dims)
        chosen = positions[self._axes].astype(mx.float32)  # (frequencies, rows, tokens)
        angles = chosen.transpose(1, 2, 0)[:, None] * self.scale * frequencies
        cos, sin = mx.cos(angles), mx.sin(angles)
        low, high = (
            part.astype(mx.float32) for part in (x[..., : dims // 2], x[..., dims // 2 : dims])
        )
        turned = (low * cos - high * sin, high * cos + low * sin)
        return mx.concatenate([*(part.astype(x.dtype) for part in turned), x[..., dims:]], axis=-1)


class _AddingLayer:
    """Added to the class of one of the first layers."""

    reading: Reading
    index: int

    def __call__(self, *args: Any, **options: Any) -> Any:
        hidden = super().__call__(*args, **options)  # type: ignore[misc]
        added = self.reading.added
        return hidden + added[self.index] if self.index < len(added) else hidden


def axes_of(sections: Sequence[int], frequencies: int, style: RopeStyle) -> list[int]:
    """Return for each frequency by which of the three positions it turns."""
    if style == "sectioned":
        axes = [axis for axis, count in enumerate(sections) for _ in range(count)]
        return (axes + [0] * frequencies)[:frequencies]
    return [
        axis if (axis := index % 3) and index < 3 * sections[axis] else 0
        for index in range(frequencies)
    ]


def patch_embeddings(model: Any, reading: Reading, layers: int = 0) -> None:
    """Replace embeddings by features, and add more of them behind the first layers."""
    embedding = next(module.embed_tokens for module in model.modules() if "embed_tokens" in module)
    subclass(embedding, _PictureEmbedding)
    embedding.reading = reading
    for index, layer in enumerate(model.layers[:layers]):
        subclass(layer, _AddingLayer)
        layer.reading, layer.index = reading, index


def patch_ropes(model: Any, reading: Reading, sections: Sequence[int], style: RopeStyle) -> None:
    """Rotate queries and keys by positions in three dimensions."""
    for module in model.modules():
        rope = getattr(module, "rope", None)
        if rope is not None and hasattr(rope, "dims") and hasattr(rope, "base"):
            subclass(rope, _PictureRope)
            rope.follow(reading, axes_of(sections, rope.dims // 2, style))


def patch_masks(model: Any, reading: Reading) -> None:
    """Let the tokens of a picture attend to each other in Gemma 4."""
    for module in model.modules():
        if hasattr(module, "_make_masks"):
            subclass(module, _PictureMasks)
            module.reading = reading


def subclass(module: Any, kind: type) -> None:
    """Replace a module's class by a subclass, made once for each class."""
    own = type(module)
    if issubclass(own, kind):
        return
    module.__class__ = _subclasses.setdefault((own, kind), type(own.__name__, (kind, own), {}))


_subclasses: dict[tuple[type, type], type] = {}
