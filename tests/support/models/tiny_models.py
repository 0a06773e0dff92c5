"""Tiny models with random weights, one for each kind of cache; the same on every machine."""

import functools
from typing import Any

import mlx.core as mx
from mlx_lm.models import gemma3_text, qwen3, qwen3_next

VOCABULARY = 64
WINDOW = 16
_COMMON = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "rms_norm_eps": 1e-6,
    "vocab_size": VOCABULARY,
    "rope_theta": 10000.0,
    "max_position_embeddings": 4096,
}
# The rest of a configuration whose layers have states: ``qwen3_next``, without experts.
STATES: dict[str, Any] = {
    "linear_num_value_heads": 2,
    "linear_num_key_heads": 1,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
    "num_experts": 0,
    "num_experts_per_tok": 0,
    "decoder_sparse_step": 1,
    "shared_expert_intermediate_size": 0,
    "mlp_only_layers": [],
    "moe_intermediate_size": 0,
    "rope_theta": 10000.0,
    "partial_rotary_factor": 0.5,
    "full_attention_interval": 4,
}


def _full() -> Any:
    config = {"model_type": "qwen3", "num_hidden_layers": 2, "tie_word_embeddings": False}
    return qwen3.Model(qwen3.ModelArgs.from_dict(_COMMON | config))


def _windowed() -> Any:
    config = {
        "model_type": "gemma3_text",
        "num_hidden_layers": 3,
        "sliding_window": WINDOW,
        "sliding_window_pattern": 3,
    }
    return gemma3_text.Model(gemma3_text.ModelArgs.from_dict(_COMMON | config))


def _recurrent() -> Any:
    config = {"model_type": "qwen3_next", "num_hidden_layers": 2, "full_attention_interval": 2}
    return qwen3_next.Model(qwen3_next.ModelArgs.from_dict(_COMMON | STATES | config))


# Every token is kept; a window of the last ones in two layers of three; a state in one of two.
KINDS = {"full": _full, "windowed": _windowed, "recurrent": _recurrent}


@functools.cache
def tiny_model(kind: str) -> Any:
    mx.random.seed(5)
    model = KINDS[kind]()
    model.set_dtype(mx.float32)
    mx.eval(model.parameters())
    return model
