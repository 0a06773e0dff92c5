"""A model sharded among processes: their connection in MLX, and each one's part of the model."""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import mlx.core as mx

from engine.distributed.world import World
from engine.errors import EngineError, ModelLoadFailed
from engine.library.configuration import text_part

# Rises with every change of the orders that an older process would not understand.
_PROTOCOL = 14
_MAX_BROADCAST_BYTES = 2048
_HEADS = ("num_attention_heads", "num_key_value_heads")


def meet(world: World) -> World:
    """Wait for the other processes and connect to them; no other Python thread runs meanwhile."""
    try:
        group = mx.distributed.init(strict=True, backend=world.transport)
    except (RuntimeError, ValueError) as error:
        raise EngineError(f"MLX cannot reach the other processes: {error}") from error
    if (group.rank(), group.size()) != (world.rank, world.size):
        raise EngineError("MLX and the launcher do not agree on the number of processes")
    return world._replace(group=group)


def versions() -> str:
    """Return the versions that must be the same everywhere."""
    libraries = ", ".join(f"{name} {version(name)}" for name in ("mlx", "mlx-lm"))
    return f"{libraries}, protocol {_PROTOCOL}"


def broadcast(group: Any, payload: bytes) -> bytes:
    """Return the bytes of rank 0; all processes must call this together."""
    if len(payload) > _MAX_BROADCAST_BYTES:
        raise ValueError(f"{len(payload)} bytes are too many to broadcast")
    own = payload if group.rank() == 0 else b""
    cells = mx.array(list(own.ljust(_MAX_BROADCAST_BYTES, b"\0")), dtype=mx.int32)
    try:
        received: Any = mx.distributed.all_sum(cells, group=group).tolist()
    except RuntimeError as error:
        raise EngineError(f"the processes lost each other at once: {error}") from error
    return bytes(received).rstrip(b"\0")


def shard(model: Any, config: Mapping[str, Any], group: Any) -> None:
    """Keep only this process's shard of a model whose weights have not been read yet.

    Shards by tensors where the model supports it, so that all processes work on each token;
    otherwise by layers.
    """
    size = group.size()
    uneven = _uneven_heads(config, size)
    try:
        if hasattr(model, "shard") and uneven is None:
            model.shard(group)
            return
        if hasattr(getattr(model, "model", None), "pipeline"):
            model.model.pipeline(group)
            return
    except ValueError as error:
        raise ModelLoadFailed(f"it cannot be sharded across {size} processes: {error}") from error
    kind = config.get("model_type", "unknown")
    raise ModelLoadFailed(
        f"it cannot be sharded across {size} processes: "
        + (uneven or f"mlx-lm cannot shard models of architecture {kind}")
    )


def _uneven_heads(config: Mapping[str, Any], size: int) -> str | None:
    """Return why a model's heads cannot be shared evenly; None where they can."""
    for part in (config, text_part(config)):
        for name in _HEADS:
            count = part.get(name)
            if isinstance(count, int) and count % size:
                return f"its {count} heads ({name}) are not a multiple of {size}"
    return None


class SynchronizedModel:
    """A sharded model that reads, at each step, the tokens that rank 0 sampled.

    Only rank 0 samples, so that machines whose arithmetic differs in the last bit cannot diverge.
    That costs one short exchange a step, beside the two of each layer.
    """

    def __init__(self, model: Any, group: Any, logits_size: int) -> None:
        self._model = model
        self._group = group
        self._last_id = logits_size - 1
        self._share = 1 if group.rank() == 0 else 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def __call__(self, inputs: mx.array, cache: Any = None) -> Any:
        """Return the logits of shape (rows, tokens, vocabulary) for ids of shape (rows, tokens)."""
        if inputs.shape[1] == 1:  # several tokens are a prompt, which all have
            # Tokens that other processes sampled count as zero. The exchange waits for them
            # nevertheless: the order of exchanges must be the same everywhere.
            own = inputs.astype(mx.int32) * self._share
            inputs = mx.distributed.all_sum(own, group=self._group)
            # MLX computes on after an exchange that failed, with any numbers as ids: a look-up of
            # an id beyond the embeddings would end the process.
            inputs = mx.clip(inputs, 0, self._last_id)
            # A process with later layers needs no tokens, but the others wait for its part.
            mx.async_eval(inputs)  # type: ignore[no-untyped-call]
        return self._model(inputs, cache=cache)
