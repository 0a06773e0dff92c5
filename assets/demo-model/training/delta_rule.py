"""Gated delta rule for whole rows at once, so that a hybrid can be trained without a GPU.

mlx-lm goes through the tokens one after another; for training, the same recurrence is solved as one
triangular system per row. Knows nothing of models beyond the layers it changes; MLX, main thread.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models import qwen3_5
from mlx_lm.models.gated_delta import compute_g


@mx.custom_function
def inverse_of_lower(matrix: mx.array) -> mx.array:
    """Return the inverses of lower triangular matrices; MLX has it without a gradient."""
    inverse: mx.array = mx.linalg.tri_inv(matrix, stream=mx.cpu)
    return inverse


@inverse_of_lower.vjp
def _inverse_of_lower_vjp(_: Any, cotangent: mx.array, inverse: mx.array) -> mx.array:
    turned = inverse.swapaxes(-1, -2)
    gradient: mx.array = -(turned @ cotangent @ turned)
    return gradient


def solved_delta_rule(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    a: mx.array,
    b: mx.array,
    A_log: mx.array,  # noqa: N803  mlx-lm's name
    dt_bias: mx.array,
    state: mx.array | None = None,
    mask: mx.array | None = None,
    *,
    use_kernel: bool = True,
) -> tuple[mx.array, mx.array | None]:
    """Return what ``gated_delta_update`` returns for rows from their beginning, without a state.

    Token t writes u_t = β_t (v_t - Σ_{i<t} decay_{i..t} (k_i·k_t) u_i): a triangular system.
    """
    assert state is None
    assert mask is None
    repeats = v.shape[2] // k.shape[2]
    q, k = (mx.repeat(part, repeats, axis=2).swapaxes(1, 2) for part in (q, k))
    v = v.swapaxes(1, 2)
    beta = mx.sigmoid(b).swapaxes(1, 2)[..., None]
    logs = mx.cumsum(mx.log(compute_g(A_log, a, dt_bias) + 1e-30).swapaxes(1, 2), axis=-1)
    tokens = q.shape[2]
    at_or_before = mx.tri(tokens, tokens)
    apart = mx.where(at_or_before > 0, logs[..., :, None] - logs[..., None, :], -mx.inf)
    decay = mx.exp(apart)
    before = mx.tri(tokens, tokens, -1)
    system = mx.eye(tokens) + beta * (k @ k.swapaxes(-1, -2)) * decay * before
    inverse: Any = inverse_of_lower(system)
    written = inverse @ (beta * v)
    read = ((q @ k.swapaxes(-1, -2)) * decay) @ written
    return read.swapaxes(1, 2), None


class ShiftedConv(nn.Conv1d):  # type: ignore[misc]  # MLX has no types here
    """A convolution per channel as a sum of shifts: MLX has no gradient of the other on a CPU."""

    def __call__(self, x: mx.array) -> mx.array:
        """Return the convolution of rows that bring their padding."""
        width = self.weight.shape[1]
        length = x.shape[1] - width + 1
        parts = [x[:, at : at + length] * self.weight[:, at, 0] for at in range(width)]
        total: mx.array = sum(parts[1:], parts[0])
        return total


def solve_whole_rows(model: nn.Module) -> None:
    """Let the model's recurrent layers solve whole rows; it can no longer go on from a cache."""
    qwen3_5.gated_delta_update = solved_delta_rule
    for layer in model.layers:
        if layer.is_linear:
            was = layer.linear_attn.conv1d
            conv = ShiftedConv(1, 1, was.weight.shape[1], bias=False)
            conv.weight = was.weight
            layer.linear_attn.conv1d = conv
