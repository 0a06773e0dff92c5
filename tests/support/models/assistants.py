"""Tiny models of Gemma 4 with assistants, and what an assistant drafts, computed plainly."""

import json
import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.models import gemma4
from mlx_lm.models.cache import KVCache

from engine.inference.speculation.assistants import Assistant
from tests.support.models.architectures import VOCABULARY, make_louder, silence_layers

WINDOW = 12
_WORDS = 768
_ROPES = {
    "full_attention": {
        "partial_rotary_factor": 0.25,
        "rope_theta": 1000.0,
        "rope_type": "proportional",
    },
    "sliding_attention": {"rope_theta": 100.0, "rope_type": "default"},
}
_TEXT: dict[str, Any] = {
    "model_type": "gemma4_text",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 6,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "global_head_dim": 16,
    "rms_norm_eps": 1e-5,
    "vocab_size": VOCABULARY,
    "sliding_window": WINDOW,
    "rope_parameters": _ROPES,
    "max_position_embeddings": 2048,
    "hidden_size_per_layer_input": 0,
    "vocab_size_per_layer_input": VOCABULARY,
    "num_kv_shared_layers": 0,
    "use_double_wide_mlp": False,
}
# As the large models of the family are, whose keys are the values of their whole layers, and as the
# small ones, whose last layers look at the keys of earlier ones.
TARGETS: dict[str, dict[str, Any]] = {
    "large": {"attention_k_eq_v": True, "num_global_key_value_heads": 1},
    "small": {
        "num_kv_shared_layers": 2,
        "hidden_size_per_layer_input": 8,
        "use_double_wide_mlp": True,
        "num_key_value_heads": 1,
    },
}


def target_config(kind: str, **changed: Any) -> dict[str, Any]:
    """Return the configuration of a tiny model of Gemma 4."""
    text = {**_TEXT, **TARGETS[kind], **changed}
    return {"model_type": "gemma4", "vocab_size": text["vocab_size"], "text_config": text}


def assistant_config(kind: str, **changed: Any) -> dict[str, Any]:
    """Return the configuration of its assistant, with the fields of the published ones."""
    backbone = changed.pop("backbone_hidden_size", 32)
    layers = ["sliding_attention"] * 3 + ["full_attention"]
    text = {
        **_TEXT,
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 4,
        "num_kv_shared_layers": 4,
        "layer_types": layers,
        "vocab_size_per_layer_input": 0,
        **changed,
    }
    return {
        "model_type": "gemma4_assistant",
        "architectures": ["Gemma4AssistantForCausalLM"],
        "backbone_hidden_size": backbone,
        "use_ordered_embeddings": kind == "small",
        "num_centroids": 16,
        "centroid_intermediate_top_k": 3,
        "tie_word_embeddings": True,
        "text_config": text,
    }


def gemma4_model(kind: str, **changed: Any) -> Any:
    """Return a tiny model of Gemma 4, whose answers do not repeat one token."""
    mx.random.seed(11)
    model = gemma4.Model(gemma4.ModelArgs.from_dict(target_config(kind, **changed)))
    make_louder(model)
    model.eval()
    mx.eval(model.parameters())
    return model


def random_assistant(kind: str, model: Any) -> Assistant:
    """Return an assistant of a model with random weights."""
    assistant = _unpaired(kind)
    assistant.follow(model)
    return assistant


def _unpaired(kind: str, **changed: Any) -> Assistant:
    mx.random.seed(3)
    assistant = Assistant(assistant_config(kind, **changed))
    make_louder(assistant)
    if "masked_embedding" in assistant:
        ordering = mx.random.permutation(assistant.masked_embedding.token_ordering.size)
        assistant.masked_embedding.token_ordering = ordering
    mx.eval(assistant.parameters())
    return assistant


def write_gemma4(folder: Path, kind: str, tokenizer: Path) -> Path:
    """Write a tiny model of Gemma 4 with the tokenizer of another model of 768 tokens."""
    folder.mkdir(parents=True)
    for file in tokenizer.glob("*token*"):
        shutil.copy(file, folder)
    shutil.copy(tokenizer / "chat_template.jinja", folder)
    config = target_config(kind, vocab_size=_WORDS, vocab_size_per_layer_input=_WORDS)
    (folder / "config.json").write_text(json.dumps({**config, "eos_token_id": 2}))
    model = gemma4_model(kind, vocab_size=_WORDS, vocab_size_per_layer_input=_WORDS)
    weights = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    return folder


def write_assistant(folder: Path, kind: str, *, bits: int = 0, **changed: Any) -> Path:
    """Write an assistant of such a model, without a tokenizer.

    Args:
        folder: Where to.
        kind: The kind of the model.
        bits: Of a quantized weight; 0 for weights that are not.
        changed: What its layers' configuration states otherwise.
    """
    folder.mkdir(parents=True)
    changed = {"vocab_size": _WORDS, "hidden_size": 32, "intermediate_size": 64, **changed}
    assistant, config = _unpaired(kind, **changed), assistant_config(kind, **changed)
    if bits:
        nn.quantize(assistant, 32, bits)
    (folder / "config.json").write_text(json.dumps(config))
    weights = dict(tree_flatten(assistant.parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    return folder


def right_pair() -> tuple[Any, Assistant]:
    """Return a model that looks at its last token only, and an assistant that knows its answers."""
    model = gemma4_model("large", tie_word_embeddings=False)
    assistant = Assistant(assistant_config("large", hidden_size=32))
    make_louder(assistant)
    silence_layers(model)
    silence_layers(assistant)
    text = model.language_model
    assistant.pre_projection.weight = mx.concatenate([mx.eye(32), mx.zeros((32, 32))], axis=1)
    assistant.model.norm.weight = text.model.norm.weight
    assistant.model.embed_tokens.weight = text.lm_head.weight
    assistant.follow(model)
    return model, assistant


class PlainAssistant:
    """An assistant without caches, batches and MLX's layers, from its published description.

    It is given the whole text. The description: transformers' ``gemma4_assistant`` and ``gemma4``;
    the position is that of the last token of which the model has keys, as in vLLM and SGLang.
    """

    def __init__(self, model: Any, assistant: Assistant, config: dict[str, Any]) -> None:
        self._inner = model.language_model.model
        self._plain = type(self._inner)
        if "draft_head" in vars(self._inner):  # ``attach`` gave it another class
            self._plain = self._plain.__mro__[1]
        self._weights = {name: np.array(one) for name, one in tree_flatten(assistant.parameters())}
        self._config = config
        self._text = config["text_config"]

    def logits(self, tokens: Sequence[int], most: int) -> list[Any]:
        """Return the logits of each draft of a chain; -inf where a cluster was not chosen."""
        hidden, kinds = self._read(tokens[:-1])
        token, position, found = tokens[-1], len(tokens) - 2, []
        for _ in range(most):
            embedded = np.array(self._inner.embed_tokens(mx.array([token])))[0]
            given = np.concatenate([embedded * self._inner.embed_scale, hidden])
            states = self._weights["pre_projection.weight"] @ given
            for number, kind in enumerate(self._text["layer_types"]):
                states = self._layer(states, number, kind, kinds[kind], position)
            states = self._norm(states, "model.norm")
            found.append(self._logits(states))
            hidden = self._weights["post_projection.weight"] @ states
            token = int(np.argmax(found[-1]))
        return found

    def _read(self, tokens: Sequence[int]) -> tuple[Any, dict[str, tuple[Any, Any]]]:
        """Return the model's hidden state after tokens, and the keys and values of each kind."""
        layers = [layer for layer in self._inner.layers if layer.self_attn.has_kv]
        cache = [KVCache() for _ in layers]
        hidden = self._plain.__call__(self._inner, mx.array([list(tokens)]), cache)
        kinds = {}
        for layer, part in zip(layers, cache, strict=True):
            first = 0 if layer.layer_type == "full_attention" else max(0, len(tokens) - WINDOW)
            keys, values, _ = part.state
            kinds[layer.layer_type] = tuple(
                np.array(one[0, :, first : len(tokens)]) for one in (keys, values)
            )
        return np.array(hidden)[0, -1], kinds

    def _layer(
        self, states: Any, number: int, kind: str, seen: tuple[Any, Any], position: int
    ) -> Any:
        name = f"model.layers.{number}"
        normed = self._norm(states, f"{name}.input_layernorm")
        mixed = self._attention(normed, f"{name}.self_attn", kind, seen, position)
        states = states + self._norm(mixed, f"{name}.post_attention_layernorm")
        normed = self._norm(states, f"{name}.pre_feedforward_layernorm")
        up, gate, down = (
            self._weights[f"{name}.mlp.{p}_proj.weight"] for p in ("up", "gate", "down")
        )
        mixed = down @ (_gelu(gate @ normed) * (up @ normed))
        states = states + self._norm(mixed, f"{name}.post_feedforward_layernorm")
        return states * self._weights[f"{name}.layer_scalar"]

    def _attention(
        self, states: Any, name: str, kind: str, seen: tuple[Any, Any], position: int
    ) -> Any:
        keys, values = seen
        heads, size = self._text["num_attention_heads"], keys.shape[-1]
        queries = (self._weights[f"{name}.q_proj.weight"] @ states).reshape(heads, size)
        queries = self._norm(queries, f"{name}.q_norm")
        mixed = []
        for head, query in enumerate(_rotated(queries, _ROPES[kind], position)):
            group = head // (heads // keys.shape[0])
            scores = keys[group] @ query
            shares = np.exp(scores - scores.max())
            mixed.append((shares / shares.sum()) @ values[group])
        return self._weights[f"{name}.o_proj.weight"] @ np.concatenate(mixed)

    def _norm(self, states: Any, name: str) -> Any:
        mean = np.mean(np.square(states), axis=-1, keepdims=True)
        return states / np.sqrt(mean + self._text["rms_norm_eps"]) * self._weights[f"{name}.weight"]

    def _logits(self, states: Any) -> Any:
        logits = self._weights["model.embed_tokens.weight"] @ states
        if not self._config["use_ordered_embeddings"]:
            return logits
        scores = self._weights["masked_embedding.centroids.weight"] @ states
        chosen = np.argsort(-scores)[: self._config["centroid_intermediate_top_k"]]
        clusters = self._weights["masked_embedding.token_ordering"].reshape(len(scores), -1)
        tokens = clusters[chosen].reshape(-1)
        masked = np.full_like(logits, -np.inf)
        masked[tokens] = logits[tokens]
        return masked


def _rotated(queries: Any, rope: dict[str, Any], position: int) -> Any:
    """Rotate queries of shape (heads, size), the first half of each against the second."""
    size = queries.shape[-1]
    turning = int(rope.get("partial_rotary_factor", 1.0) * size // 2)
    speeds = np.zeros(size // 2)
    speeds[:turning] = rope["rope_theta"] ** (-2 * np.arange(turning) / size)
    cosines, sines = np.cos(position * speeds), np.sin(position * speeds)
    first, second = queries[:, : size // 2], queries[:, size // 2 :]
    return np.concatenate(
        [first * cosines - second * sines, second * cosines + first * sines], axis=-1
    )


def _gelu(given: Any) -> Any:
    return 0.5 * given * (1 + np.tanh(math.sqrt(2 / math.pi) * (given + 0.044715 * given**3)))
