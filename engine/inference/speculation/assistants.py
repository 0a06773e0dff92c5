"""Gemma 4's assistants: small models that draft from what the model itself has cached.

An assistant has no keys and values of its own. Each of its layers looks, with its queries, at those
of the model's last layer of the same kind: all tokens, or a window. It is given the embedding of
the token that the model reads next, and the model's hidden state before it; a chain goes on with
the state that it hands on, at the same position. The cache is only looked at. Engine thread.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import mlx.core as mx
from mlx import nn
from mlx_lm.models.gemma4_text import DecoderLayer, Gemma4TextModel, ModelArgs

from engine.inference.mlx_lm_internals import window_content
from engine.inference.speculation.heads import DrafterUnusable, fill_module, inner_of
from engine.values.tokens import TokenOrigin

# What every published assistant states, and what its layers must not have.
_FIXED = {
    "hidden_size_per_layer_input": 0,
    "enable_moe_block": False,
    "use_double_wide_mlp": False,
}
# Weights that other programs leave in a checkpoint though its layers have no keys and values.
_NOT_USED = (".k_proj.", ".v_proj.", ".k_norm.", ".v_norm.", ".rotary_emb.")


class Seen(NamedTuple):
    """The model's cache for an assistant: keys, values and mask for each kind of layers, and the
    position of the last cached token of each row.
    """

    kinds: Mapping[str, tuple[mx.array, mx.array, mx.array | None]]
    positions: mx.array


class _Clusters(nn.Module):  # type: ignore[misc]  # MLX has no types here
    """Finds the clusters of the vocabulary whose tokens are worth a logit."""

    def __init__(self, size: int, vocabulary_size: int, clusters: int, chosen: int) -> None:
        super().__init__()
        self.centroids = nn.Linear(size, clusters, bias=False)
        # The tokens of the first cluster, then those of the second, and so on.
        self.token_ordering = mx.zeros((vocabulary_size,), mx.int32)
        self._chosen = chosen

    def __call__(self, states: mx.array) -> mx.array:
        """Return the tokens of the likeliest clusters, of shape (…, tokens)."""
        scores = self.centroids(states)
        best = mx.argpartition(scores, kth=-self._chosen, axis=-1)[..., -self._chosen :]
        clusters = self.token_ordering.reshape(scores.shape[-1], -1)
        return mx.flatten(clusters[best], start_axis=-2)


class Assistant(nn.Module):  # type: ignore[misc]
    """An assistant; drafts once ``follow`` has named its model; raises ``DrafterUnusable``.

    Its parameters have the names of the published checkpoints.
    """

    origin = TokenOrigin.DRAFT

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        text = config.get("text_config")
        if not isinstance(text, dict) or not config.get("tie_word_embeddings", True):
            raise DrafterUnusable("its config.json does not describe an assistant as published")
        layers = text.get("num_hidden_layers")
        args = ModelArgs.from_dict({**text, **_FIXED, "num_kv_shared_layers": layers})
        self._vocabulary_size, size = args.vocab_size, int(config.get("backbone_hidden_size", 1536))
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(args.vocab_size, args.hidden_size)
        self.model.layers = [DecoderLayer(args, n) for n in range(args.num_hidden_layers)]
        self.model.norm = nn.RMSNorm(args.hidden_size, args.rms_norm_eps)
        self.pre_projection = nn.Linear(2 * size, args.hidden_size, bias=False)
        self.post_projection = nn.Linear(args.hidden_size, size, bias=False)
        if config.get("use_ordered_embeddings"):
            clusters = int(config.get("num_centroids", 2048))
            chosen = int(config.get("centroid_intermediate_top_k", 32))
            self.masked_embedding = _Clusters(
                args.hidden_size, self._vocabulary_size, clusters, chosen
            )
        self._size = size
        # Parts of the model; as attributes they would be its own parameters.
        self._target: SimpleNamespace | None = None

    def follow(self, model: Any) -> None:
        """Draft for a model from now on; raises ``DrafterUnusable`` if it was made for another."""
        inner = inner_of(model)
        if not isinstance(inner, Gemma4TextModel):
            raise DrafterUnusable("it drafts for models of Gemma 4 only")
        size = inner.norm.weight.shape[0]
        if size != self._size:
            raise DrafterUnusable(
                f"it was made for hidden states of {self._size:,} numbers, and that model's have "
                f"{size:,}; choose the assistant that is named as the model is"
            )
        if inner.vocab_size != self._vocabulary_size:
            raise DrafterUnusable(
                f"it has {self._vocabulary_size:,} tokens, and that model has {inner.vocab_size:,}"
            )
        # Later layers of the model look at the keys and values of earlier ones, too.
        with_keys = [layer.self_attn.has_kv for layer in inner.layers]
        parts = {
            layer.layer_type: index
            for index, (layer, has) in enumerate(zip(inner.layers, with_keys, strict=True))
            if has
        }
        for layer in self.model.layers:
            self._check(layer, inner, parts)
        self._target = SimpleNamespace(
            embed=inner.embed_tokens, scale=inner.embed_scale, norm=inner.norm, parts=parts
        )

    @staticmethod
    def _check(layer: Any, inner: Any, parts: Mapping[str, int]) -> None:
        """Make sure that a layer can look at the keys of the model's layer of its kind."""
        index = parts.get(layer.layer_type)
        other = None if index is None else inner.layers[index].self_attn
        own = layer.self_attn
        if other is None or own.head_dim != other.head_dim or own.n_heads % other.n_kv_heads:
            raise DrafterUnusable("its layers do not fit the keys and values of that model")

    @property
    def norm(self) -> Any:
        assert self._target is not None
        return self._target.norm

    def make_cache(self) -> list[Any]:
        """Return nothing: it has no cache."""
        return []

    def seen(self, cache: Sequence[Any], row: int) -> Seen:
        """Return one row of the model's cache of running sequences, for its layers."""
        assert self._target is not None
        kinds: dict[str, tuple[mx.array, mx.array, mx.array | None]] = {}
        positions = None
        for kind in {layer.layer_type for layer in self.model.layers}:
            part = cache[self._target.parts[kind]]
            positions = mx.maximum(part.offset[row : row + 1] - 1, 0)
            if kind == "sliding_attention":
                keys, values, padding = window_content(part)
                mask = mx.arange(keys.shape[2]) >= padding[:, None, None, None]
            else:
                held, mask = part.size(), part.make_mask(1)
                keys, values = part.keys[..., :held, :], part.values[..., :held, :]
                mask = None if mask is None else mask[..., :held]
            if mask is not None:
                mask = mask[row : row + 1]
            kinds[kind] = keys[row : row + 1], values[row : row + 1], mask
        assert positions is not None
        return Seen(kinds, positions)

    def read(self, hidden: mx.array, tokens: mx.array, seen: Seen) -> tuple[mx.array, mx.array]:
        """Return what ``logits`` takes, and the hidden states for the next step of a chain.

        Args:
            hidden: The hidden state before the token of each row, of shape (rows, 1, size).
            tokens: That token, of shape (rows, 1).
            seen: What ``seen`` returned.
        """
        target = self._target
        assert target is not None
        embedded = target.embed(tokens) * target.scale
        states = self.pre_projection(mx.concatenate([embedded, hidden], axis=-1))
        for layer in self.model.layers:
            keys, values, mask = seen.kinds[layer.layer_type]
            states, _, _ = layer(
                states, mask, None, shared_kv=(keys, values), offset=seen.positions
            )
        states = self.model.norm(states)
        return states, self.post_projection(states)

    def logits(self, states: mx.array) -> mx.array:
        """Return the logits of states of shape (…, size); those of distant clusters are -inf."""
        embedding: Any = self.model.embed_tokens
        if "masked_embedding" not in self:
            every: mx.array = embedding.as_linear(states)
            return every
        tokens = self.masked_embedding(states)
        likely = (embedding(tokens) @ states[..., None])[..., 0]
        impossible = mx.full((*states.shape[:-1], self._vocabulary_size), -mx.inf, likely.dtype)
        return mx.put_along_axis(impossible, tokens, likely, axis=-1)


def read_assistant(folder: Path, config: Mapping[str, Any]) -> Assistant:
    """Return the assistant in a folder, lazily; raises ``DrafterUnusable``."""
    weights: dict[str, mx.array] = {}
    for path in sorted(folder.glob("model*.safetensors")):
        loaded: Any = mx.load(str(path))
        weights |= {
            name: weight
            for name, weight in loaded.items()
            if not any(part in name for part in _NOT_USED)
        }
    weights.pop("lm_head.weight", None)  # its output layer is its embedding
    assistant = Assistant(config)
    try:
        fill_module(assistant, weights)
    except (ValueError, KeyError) as error:
        raise DrafterUnusable(f"its weights are not those of its config.json: {error}") from error
    return assistant
