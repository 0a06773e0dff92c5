"""The draft head of a model's own checkpoint: finding its weights, building it, running it.

Some models are published with a layer that predicts one token further ("multi-token prediction"),
and mlx-lm's loaders drop it. Knows neither batches nor answers. Engine thread.
"""

import copy
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import mlx.core as mx
from mlx import nn
from mlx_lm.models.cache import KVCache, make_prompt_cache
from mlx_lm.utils import infer_quant_config

from engine.files.causes import without_folders
from engine.inference.running_cache import parts_of
from engine.library.weights import HEAD_FILES
from engine.values.tokens import TokenOrigin

# Architectures whose published norms are stored as their difference from 1.
_NORMS_FROM_ZERO = {"qwen3_next", "qwen3_5", "qwen3_5_moe"}
# A head's layer is the only one of its kind, whatever the order of layers in the model.
_ONE_LAYER = {
    "num_hidden_layers": 1,
    "full_attention_interval": 1,
    "mlp_only_layers": [],
    "decoder_sparse_step": 1,
    "first_k_dense_replace": 0,
    "moe_layer_freq": 1,
}
_FINAL_NORM = "model.norm.weight"
_NO_EXPERTS = {"num_experts": 0, "n_routed_experts": None}
_EXPERTS = ("layers.0.mlp.experts.", "layers.0.mlp.switch_mlp.", "layers.0.mlp.gate.")


Layout = Literal["qwen", "deepseek", "mimo"]
"""A family of checkpoints, which name the parts of a head alike."""
# The first group is a weight's name inside the head.
_PATTERNS: Mapping[Layout, str] = {
    "qwen": r"(?:.*\.)?mtp\.(.+)",
    "deepseek": r"(?:.*\.)?layers\.{layers}\.(.+)",
    "mimo": r"(?:.*\.)?mtp_layers\.0\.(.+)",
}
# The names in ``DraftHead`` of parts outside the layer.
_NAMES: Mapping[Layout, Mapping[str, str]] = {
    "qwen": {
        "fc": "fc",
        "pre_fc_norm_embedding": "pre_fc_norm_embedding",
        "pre_fc_norm_hidden": "pre_fc_norm_hidden",
        "norm": "norm",
        "embed_tokens": "embedding",
        "lm_head": "output",
    },
    "deepseek": {
        "eh_proj": "fc",
        "enorm": "pre_fc_norm_embedding",
        "hnorm": "pre_fc_norm_hidden",
        "shared_head.norm": "norm",
        "shared_head.head": "output",
        "embed_tokens": "embedding",
    },
    "mimo": {
        "input_proj": "fc",
        "token_layernorm": "pre_fc_norm_embedding",
        "hidden_layernorm": "pre_fc_norm_hidden",
        "final_layernorm": "norm",
    },
}


class DrafterUnusable(Exception):
    """A head or an assistant cannot draft for a model; the message ends a sentence that says so."""


@dataclass(slots=True)
class HeadWeights:
    """The weights of a head, by the names of ``DraftHead``, as they are in the checkpoint.

    Weights that it shares with the model are left out. ``are_norms_from_zero`` where its norms are
    stored as their difference from 1; None where only their values show it.
    """

    layout: Layout
    weights: dict[str, mx.array]
    are_norms_from_zero: bool | None = None


def take_head(weights: dict[str, mx.array], layers: int) -> HeadWeights | None:
    """Take the weights of a draft head out of those of a checkpoint; None where there is none.

    Those of all heads are removed. ``layers`` counts the model's own.
    """
    for layout, named in _PATTERNS.items():
        pattern = re.compile(named.replace("{layers}", str(layers)))
        matches = {name: match for name in weights if (match := pattern.fullmatch(name))}
        inside = {match[1]: weights[name] for name, match in matches.items()}
        own = {_own_name(layout, name): weight for name, weight in inside.items()}
        if "fc.weight" not in own or "pre_fc_norm_hidden.weight" not in own:
            continue
        for name in matches:
            del weights[name]
        for name in [name for name in weights if _is_further_head(name, layers)]:
            del weights[name]
        own = {name: weight for name, weight in own.items() if _is_first(name)}
        for part, shared in (("embedding", "embed_tokens"), ("output", "lm_head")):
            if _is_same(own.get(f"{part}.weight"), _named(weights, f"{shared}.weight")):
                own = {
                    name: weight for name, weight in own.items() if not name.startswith(f"{part}.")
                }
        return HeadWeights(layout, own)
    return None


def _own_name(layout: Layout, inside: str) -> str:
    for name, own in _NAMES[layout].items():
        if inside.startswith(f"{name}."):
            return own + inside[len(name) :]
    return inside if inside.startswith("layers.") else f"layers.0.{inside}"


def _is_first(name: str) -> bool:
    return not name.startswith("layers.") or name.startswith("layers.0.")


def _is_further_head(name: str, layers: int) -> bool:
    if "mtp_layers." in name:
        return True
    number = re.search(r"(?:^|\.)layers\.(\d+)\.", name)
    return number is not None and int(number[1]) >= layers


def _named(weights: Mapping[str, mx.array], end: str) -> mx.array | None:
    return next((weight for name, weight in weights.items() if name.endswith(end)), None)


def _is_same(weight: mx.array | None, other: mx.array | None) -> bool:
    if weight is None or other is None or weight.shape != other.shape:
        return False
    return weight.dtype == other.dtype and bool(mx.array_equal(weight, other).item())


def read_head(folder: Path, layers: int) -> HeadWeights | None:
    """Return the draft head in a file beside the weights, if any; raises ``DrafterUnusable``."""
    for path in sorted(folder.glob(HEAD_FILES)):
        try:
            weights: Any = mx.load(str(path))
        except (OSError, RuntimeError, ValueError) as error:
            reason = without_folders(str(error), folder)
            raise DrafterUnusable(f"{path.name} cannot be read: {reason}") from error
        if (head := take_head(weights, layers)) is not None:
            return head
    return None


class HeadKeeper:
    """Keeps the head of a checkpoint that mlx-lm loads, whose loaders drop it or do not know it.

    Replaces the ``sanitize`` of a model without weights until ``take``.
    """

    def __init__(self, model: Any, layers: int) -> None:
        self._model = model
        self._layers = layers
        self._sanitize = getattr(model, "sanitize", dict)
        self._head: HeadWeights | None = None
        model.sanitize = self._without_head

    def _without_head(self, weights: dict[str, mx.array]) -> dict[str, mx.array]:
        self._head = take_head(weights, self._layers)
        norm = _named(weights, _FINAL_NORM)
        rest: dict[str, mx.array] = self._sanitize(weights)
        if self._head is not None:
            # If the loader has changed the model's norms, those of the head are to be changed, too.
            self._head.are_norms_from_zero = _named(rest, _FINAL_NORM) is not norm or None
        return rest

    def take(self, folder: Path) -> HeadWeights | DrafterUnusable | None:
        """Return the head, of the checkpoint or a file in the folder, or why it is unusable."""
        del self._model.sanitize
        try:
            return self._head or read_head(folder, self._layers)
        except DrafterUnusable as error:
            return error


class DraftHead(nn.Module):  # type: ignore[misc]
    """Predicts the token that follows a sampled one, without the model's own layers.

    It joins the embedding of the sampled token with the hidden state from which the model drew it,
    which is the one *after the model's final norm*: what the model's output layer multiplies. They
    go through ``fc`` and one decoder layer, which is of the model's own architecture and has a
    cache of its own. The model's embedding and output layer are used, unless the head has its own.
    Its parameters have the names of Qwen's checkpoints, without the leading ``mtp.``.
    """

    origin = TokenOrigin.HEAD

    def __init__(
        self,
        model: Any,
        config: Mapping[str, Any],
        layout: Layout = "qwen",
        own: frozenset[str] = frozenset(),
        *,
        has_experts: bool = True,
    ) -> None:
        super().__init__()
        inner, size, eps = model.model, model.model.norm.weight.shape[0], model.model.norm.eps
        self.fc = nn.Linear(2 * size, size, bias=False)
        self.pre_fc_norm_embedding = nn.RMSNorm(size, eps)
        self.pre_fc_norm_hidden = nn.RMSNorm(size, eps)
        self.norm = nn.RMSNorm(size, eps)
        shell = _shell(model, config, has_experts=has_experts)
        self.layers = list(shell.model.layers)
        # The architecture's own code makes the mask and calls the layer.
        block = shell.model
        block.embed_tokens = block.norm = nn.Identity()
        block.ssm_idx = None  # in hybrids: there is no recurrent layer that needs a mask
        vocabulary_size = config.get("vocab_size") or config["text_config"]["vocab_size"]
        if "embedding" in own:
            self.embedding = nn.Embedding(vocabulary_size, size)
        if "output" in own:
            self.output = nn.Linear(size, vocabulary_size, bias=False)
        self._layout = layout
        # Not as attributes of their own: modules there would be parameters of the head.
        self._shared = SimpleNamespace(
            block=block, embed=inner.embed_tokens, output=output_of(model), shell=shell
        )

    def read(
        self, hidden: mx.array, tokens: mx.array, cache: list[Any] | None = None
    ) -> tuple[mx.array, mx.array]:
        """Return what ``logits`` takes, and the hidden states for the next step of a chain.

        Args:
            hidden: The hidden states before each token, of shape (rows, tokens, size).
            tokens: The tokens, of shape (rows, tokens).
            cache: What ``make_cache`` returned, or such a cache of several rows.
        """
        shared = self._shared
        embed = self.embedding if "embedding" in self else shared.embed
        embedded = self.pre_fc_norm_embedding(embed(tokens))
        before = self.pre_fc_norm_hidden(hidden)
        joined = [before, embedded] if self._layout == "mimo" else [embedded, before]
        states = shared.block(self.fc(mx.concatenate(joined, axis=-1)), cache)
        normed = self.norm(states)
        return normed, states if self._layout == "deepseek" else normed

    def logits(self, states: mx.array) -> mx.array:
        """Return the logits of states of shape (…, size)."""
        logits: mx.array = (self.output if "output" in self else self._shared.output)(states)
        return logits

    def make_cache(self) -> list[Any]:
        cache: list[Any] = make_prompt_cache(self._shared.shell)
        return cache

    def fill(self, head: HeadWeights, *, are_norms_from_zero: bool) -> None:
        """Load weights; raises ``ValueError`` where they do not fit."""
        weights = {
            name: weight + 1.0 if are_norms_from_zero and _is_norm(name, weight) else weight
            for name, weight in self._sanitized(head.weights).items()
        }
        fill_module(self, weights)

    def _sanitized(self, weights: Mapping[str, mx.array]) -> dict[str, mx.array]:
        """Return weights as mlx-lm's loader of the architecture arranges those of a layer."""
        sanitize = getattr(self._shared.shell, "sanitize", None)
        # Norms are held back: what the loader does to them depends on other layers.
        layer = {
            name: weight
            for name, weight in weights.items()
            if name.startswith("layers.") and not _is_norm(name, weight)
        }
        rest = {name: weight for name, weight in weights.items() if name not in layer}
        if sanitize is not None:
            arranged = sanitize({f"model.{name}": weight for name, weight in layer.items()})
            layer = {name[name.index("layers.") :]: weight for name, weight in arranged.items()}
        return {**rest, **_stacked(layer)}


def fill_module(module: Any, weights: dict[str, mx.array]) -> None:
    """Load weights, quantized or not; raises ``ValueError`` where they do not fit."""

    def quantized(path: str, part: Any) -> Any:
        has_scales = f"{path}.scales" in weights and hasattr(part, "to_quantized")
        return infer_quant_config(path, part, weights) if has_scales else False

    nn.quantize(module, class_predicate=quantized)
    module.load_weights(list(weights.items()))
    module.eval()


def _stacked(weights: dict[str, mx.array]) -> dict[str, mx.array]:
    single: dict[str, list[tuple[int, mx.array]]] = {}
    joined = {}
    for name, weight in weights.items():
        if (match := re.fullmatch(r"(.+\.)experts\.(\d+)(\..+)", name)) is None:
            joined[name] = weight
        else:
            stacked = f"{match[1]}switch_mlp{match[3]}"
            single.setdefault(stacked, []).append((int(match[2]), weight))
    for name, experts in single.items():
        joined[name] = mx.stack(
            [weight for _, weight in sorted(experts, key=lambda expert: expert[0])]
        )
    return joined


def _is_norm(name: str, weight: mx.array) -> bool:
    return weight.ndim == 1 and (name.endswith("norm.weight") or "pre_fc_norm" in name)


def _shell(model: Any, config: Mapping[str, Any], *, has_experts: bool) -> Any:
    """Return a model of the same architecture with one layer; its weights are never computed."""
    changed = copy.deepcopy(dict(config))
    for part in (changed, changed.get("text_config")):
        if isinstance(part, dict):
            part.update(_ONE_LAYER if has_experts else {**_ONE_LAYER, **_NO_EXPERTS})
            if "layer_types" in part:
                part["layer_types"] = ["full_attention"]
    kind = type(model)
    return kind(sys.modules[kind.__module__].ModelArgs.from_dict(changed))


def inner_of(model: Any) -> Any:
    """Return the part of a model that computes hidden states; None where it has none."""
    return getattr(getattr(model, "language_model", model), "model", None)


def output_of(model: Any) -> Callable[[mx.array], mx.array]:
    """Return what turns the hidden states of a model into logits."""
    text = getattr(model, "language_model", model)
    head = getattr(text, "lm_head", None)
    return head if head is not None else text.model.embed_tokens.as_linear  # type: ignore[no-any-return]


def build_head(head: HeadWeights, model: Any, config: Mapping[str, Any]) -> DraftHead:
    """Build the head of a loaded model; raises ``DrafterUnusable``."""
    own = frozenset(part for part in ("embedding", "output") if f"{part}.weight" in head.weights)
    has_experts = any(name.startswith(_EXPERTS) for name in head.weights)
    try:
        built = DraftHead(model, config, head.layout, own, has_experts=has_experts)
        kinds = {type(part) for part in parts_of(built.make_cache())}
    except Exception as error:  # code of the architecture, which expects all of its layers
        kind = type(model).__module__.rpartition(".")[2]
        raise DrafterUnusable(f"heads of the architecture {kind} are not known here") from error
    if kinds != {KVCache}:
        raise DrafterUnusable("its cache cannot be set back to an earlier token")
    try:
        built.fill(head, are_norms_from_zero=_are_from_zero(head, model))
    except (ValueError, KeyError) as error:
        raise DrafterUnusable(f"it does not fit the model: {error}") from error
    return built


def _are_from_zero(head: HeadWeights, model: Any) -> bool:
    """Return whether the norms of a head are stored as their difference from 1."""
    if type(model).__module__.rpartition(".")[2] not in _NORMS_FROM_ZERO:
        return False
    if head.are_norms_from_zero is not None:
        return head.are_norms_from_zero
    norms = [weight for name, weight in head.weights.items() if _is_norm(name, weight)]
    values = mx.concatenate([weight.astype(mx.float32) for weight in norms])
    # Norms that were stored so have negative values; other norms have none.
    return float(mx.mean(values < 0).item()) > 0.01  # type: ignore[arg-type]
