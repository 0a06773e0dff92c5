"""Draft heads of tiny models, as weights with the names of the published checkpoints."""

from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

from engine.inference.speculation.heads import DraftHead, Layout, take_head
from tests.support.models.architectures import (
    architecture_config,
    architecture_model,
    make_louder,
)

# For each architecture: how its published checkpoint names the parts of the head, and its layer.
_QWEN = ({}, "mtp.layers.0.", "mtp.")
_DEEPSEEK = (
    {
        "fc.": "eh_proj.",
        "pre_fc_norm_embedding.": "enorm.",
        "pre_fc_norm_hidden.": "hnorm.",
        "norm.": "shared_head.norm.",
        "output.": "shared_head.head.",
        "embedding.": "embed_tokens.",
    },
    "model.layers.4.",
    "model.layers.4.",
)
_MIMO = (
    {
        "fc.": "input_proj.",
        "pre_fc_norm_embedding.": "token_layernorm.",
        "pre_fc_norm_hidden.": "hidden_layernorm.",
        "norm.": "final_layernorm.",
    },
    "model.mtp_layers.0.",
    "model.mtp_layers.0.",
)
PUBLISHED: dict[str, tuple[dict[str, str], str, str]] = {
    "qwen3": _QWEN,
    "qwen3_next": _QWEN,
    "qwen3_5": _QWEN,
    "qwen3_5_moe": _QWEN,
    "deepseek_v3": _DEEPSEEK,
    "deepseek_v32": _DEEPSEEK,
    "glm4_moe": _DEEPSEEK,
    "glm4_moe_lite": _DEEPSEEK,
    "glm_moe_dsa": _DEEPSEEK,
    "mimo": _MIMO,
}
LAYERS = 4


def random_head(name: str, model: Any, seed: int = 3, **options: Any) -> DraftHead:
    mx.random.seed(seed)
    head = DraftHead(model, architecture_config(name), **options)
    make_louder(head)
    head.eval()
    mx.eval(head.parameters())
    return head


def layout_of(name: str) -> Layout:
    model = architecture_model(name)
    found = take_head(published(name, random_head(name, model)), LAYERS)
    assert found is not None
    return found.layout


def published(name: str, head: DraftHead, *, quantized: bool = False) -> dict[str, mx.array]:
    """Return the weights of a head with the names of a checkpoint, its experts one by one."""
    parts, layer, own = PUBLISHED[name]
    found: dict[str, mx.array] = {}
    for key, weight in tree_flatten(head.parameters()):
        part = next((part for part in parts if key.startswith(part)), None)
        if part is not None:
            found[own + parts[part] + key.removeprefix(part)] = weight
        elif key.startswith("layers.0."):
            found[layer + key.removeprefix("layers.0.")] = weight
        else:
            found[own + key] = weight
    for key in [key for key in found if "switch_mlp" in key and name != "qwen3_5_moe"]:
        stacked = found.pop(key)
        for number in range(stacked.shape[0]):
            found[key.replace("switch_mlp", f"experts.{number}")] = stacked[number]
    if quantized:
        for key in [key for key, weight in found.items() if _can_be_packed(key, weight)]:
            packed = mx.quantize(found.pop(key), group_size=32, bits=8)
            path = key.removesuffix("weight")
            found |= dict(zip((key, f"{path}scales", f"{path}biases"), packed, strict=True))
    return found


def _can_be_packed(key: str, weight: mx.array) -> bool:
    return weight.ndim == 2 and weight.shape[1] % 32 == 0 and ".mlp.gate." not in key
