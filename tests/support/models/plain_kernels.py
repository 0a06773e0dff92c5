"""The kernels of Metal in mlx-lm's models, as plain operations that MLX computes on any device.

They stand in for the kernels in tests: what is around them in a model is mlx-lm's own. What each
kernel computes is in its source in ``mlx_lm/kernels`` and ``mlx_lm/models/bitlinear_layers.py``.
"""

from types import ModuleType
from typing import Any

import mlx.core as mx


def replace_kernels(module: ModuleType) -> None:
    """Let a module of mlx-lm use plain operations where this computer has no Metal."""
    if mx.metal.is_available():
        return
    for kernel in _KERNELS:
        if hasattr(module, kernel.__name__):
            setattr(module, kernel.__name__, kernel)


def _bitlinear_kernel(inputs: list[mx.array], template: list[Any], **_: Any) -> list[mx.array]:
    x, packed, scale = inputs
    options = dict(template)
    # Four rows share a byte: each has two bits of it, for -1, 0 or 1.
    parts = [((packed >> shift) & 3).astype(mx.float32) - 1 for shift in (0, 2, 4, 6)]
    product = x.astype(mx.float32) @ mx.concatenate(parts, axis=0).T
    scaled = product / scale if options["invert_weight_scales"] else product * scale
    return [scaled.astype(options["T"])]


def expert_routing(
    logits: mx.array,
    expert_bias: mx.array,
    *,
    top_k: int,
    multiplier: float,
    score_eps: float,
    route_scale: float,
) -> list[mx.array]:
    scores = mx.sigmoid(logits * multiplier)
    best = mx.argsort(-(scores + expert_bias), axis=-1)[..., :top_k]
    chosen = mx.take_along_axis(scores, best, axis=-1)
    weights = chosen / (chosen.sum(axis=-1, keepdims=True) + score_eps) * route_scale
    return [best.astype(mx.uint32), weights]


def norm_add_norm(
    branch: mx.array,
    stream: mx.array,
    *,
    alpha: mx.array,
    beta: mx.array,
    post_weight: mx.array | None,
    post_eps: float,
    next_norm: Any,
) -> tuple[mx.array, mx.array | None]:
    scaled = branch if post_weight is None else post_weight.astype(branch.dtype) * branch
    total = alpha * stream + beta * mx.fast.rms_norm(scaled, None, post_eps).astype(mx.float32)
    if next_norm is None:
        return total, None
    return total, mx.fast.rms_norm(total, next_norm.weight, next_norm.eps).astype(branch.dtype)


def post_expert_norm_combine(
    experts: mx.array, weights: mx.array, *, norm_weight: mx.array, eps: float
) -> mx.array:
    scaled = experts.astype(mx.float32) * norm_weight
    normed = mx.fast.rms_norm(scaled, None, eps) * weights[..., None]
    return normed.sum(axis=-2).astype(experts.dtype)


def qk_norm(
    qkvg: mx.array,
    *,
    n_heads: int,
    n_kv_heads: int,
    head_dim: int,
    eps: float,
    query_scale: float,
) -> list[mx.array]:
    heads = qkvg.reshape(*qkvg.shape[:-1], -1, head_dim)[..., : n_heads + n_kv_heads, :]
    normed = mx.fast.rms_norm(heads, None, eps)
    return [normed[..., :n_heads, :] * query_scale, normed[..., n_heads:, :]]


def qk_norm_rope(
    qkvg: mx.array, *, rope_base: float, offset: int | mx.array, head_dim: int, **options: Any
) -> list[mx.array]:
    return [
        mx.fast.rope(
            normed.swapaxes(-2, -3),
            head_dim,
            traditional=True,
            base=rope_base,
            scale=1.0,
            offset=offset,
        ).swapaxes(-2, -3)
        for normed in qk_norm(qkvg, head_dim=head_dim, **options)
    ]


def rms_norm_sigmoid_gate(x: mx.array, gate: mx.array, *, eps: float) -> mx.array:
    normed = mx.fast.rms_norm(x, None, eps).swapaxes(1, 2)
    return normed.reshape(gate.shape) * mx.sigmoid(gate)


_KERNELS = (
    _bitlinear_kernel,
    expert_routing,
    norm_add_norm,
    post_expert_norm_combine,
    qk_norm,
    qk_norm_rope,
    rms_norm_sigmoid_gate,
)
