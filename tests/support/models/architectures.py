"""Tiny random models of mlx-lm, one or more for each kind of cache; the same on every machine.

Most architectures name the same things alike, so one configuration serves nearly all of them: each
takes the fields that it knows. What it calls otherwise is in its own entry.
"""

import importlib
import json
import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten, tree_unflatten

VOCABULARY = 64
WINDOW = 12
_LAYERS = 4
_COMMON: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": _LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": VOCABULARY,
    "rms_norm_eps": 1e-5,
    "norm_eps": 1e-5,
    "layer_norm_epsilon": 1e-5,
    "rope_theta": 1000.0,
    "partial_rotary_factor": 0.5,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "mlp_bias": False,
    "use_bias": False,
    # mixtures of experts
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "num_shared_experts": 1,
    "n_shared_experts": 1,
    "shared_expert_intermediate_size": 24,
    "shared_intermediate_size": 24,
    "norm_topk_prob": True,
    "routed_scaling_factor": 1.0,
    "first_k_dense_replace": 1,
    "decoder_sparse_step": 1,
    "moe_layer_freq": 1,
    "mlp_only_layers": [],
    "n_group": 1,
    "topk_group": 1,
    "topk_method": "noaux_tc",
    "scoring_func": "sigmoid",
    # latent attention
    "kv_lora_rank": 8,
    "q_lora_rank": 8,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    # scales
    "logits_scaling": 1.0,
    "attention_multiplier": 0.3,
    "embedding_multiplier": 1.0,
    "residual_multiplier": 1.0,
    # windows
    "sliding_window": WINDOW,
    "attention_window_size": WINDOW,
    # states
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 2,
    "conv_kernel": 4,
    "conv_L_cache": 3,
    "use_conv_bias": True,
    "layer_group_size": 2,
}
_TWO_KINDS = ["sliding_attention", "full_attention"] * 2
_LATENT: dict[str, Any] = {
    "head_dim": 16,
    "num_key_value_heads": 4,
    "rope_scaling": {
        "beta_fast": 32,
        "beta_slow": 1,
        "factor": 4.0,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 512,
        "type": "yarn",
    },
}
_LLAMA_4_ROPES = {
    "rope_theta": 1000.0,
    "llama_4_scaling_beta": 0.1,
    "original_max_position_embeddings": 16,
}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "baichuan_m1": {"sliding_window_layers": [0, 2], "conv_window": 2},
    "bailing_moe_v3": {},
    "bitnet": {},
    "deepseek_v3": _LATENT,
    "deepseek_v32": _LATENT | {"index_head_dim": 16, "index_n_heads": 2, "index_topk": 64},
    "deepseek_v41": {
        "o_groups": 2,
        "o_lora_rank": 8,
        "scoring_func": "sqrtsoftplus",
        # A window alone, each token, groups of four tokens, and the groups of another layer.
        "compress_ratios": [0, 1, 4, 4],
        "kv_source_layer_ids": [1, 2],
        "index_source_layer_ids": [1, 2, 3],
        "candidate_source_layer_id": 2,
        "candidate_topk_blocks": 4,
        "candidate_block_size": 2,
        "index_n_heads": 2,
        "index_head_dim": 8,
        "index_topk": 6,
        "hc_mult": 2,
        "hc_sinkhorn_iters": 4,
    },
    "falcon_h1": {
        "mamba_d_ssm": 32,
        "mamba_n_heads": 4,
        "mamba_d_head": 8,
        "mamba_d_state": 8,
        "mamba_n_groups": 1,
        "mamba_d_conv": 4,
    },
    "gemma4_text": {
        "layer_types": _TWO_KINDS,
        "global_head_dim": 16,
        "vocab_size_per_layer_input": VOCABULARY,
        "num_kv_shared_layers": 2,
        "hidden_size_per_layer_input": 8,
        "num_key_value_heads": 1,
        "rope_parameters": {
            "full_attention": {"partial_rotary_factor": 0.5, "rope_theta": 10000.0},
            "sliding_attention": {"rope_theta": 1000.0},
        },
    },
    "glm4_moe": {"use_qk_norm": True, "rope_scaling": None},
    "glm4_moe_lite": {"num_key_value_heads": 4, "partial_rotary_factor": 1.0},
    "glm_moe_dsa": _LATENT
    | {
        "index_head_dim": 16,
        "index_n_heads": 2,
        "index_topk": 64,
        "rope_parameters": {"rope_theta": 1000.0, "rope_type": "default"},
    },
    "gpt_oss": {"layer_types": _TWO_KINDS},
    "granitemoehybrid": {
        "layer_types": ["mamba", "attention"] * 2,
        "mamba_n_heads": 4,
        "mamba_d_head": 16,
        "mamba_d_state": 8,
        "mamba_d_conv": 4,
        "mamba_n_groups": 1,
        "mamba_proj_bias": False,
        "mamba_conv_bias": True,
    },
    "jamba": {
        "attn_layer_offset": 1,
        "attn_layer_period": 2,
        "expert_layer_offset": 1,
        "expert_layer_period": 2,
        "mamba_d_conv": 4,
        "mamba_d_state": 8,
        "mamba_expand": 2,
    },
    "kimi_linear": {
        "linear_attn_config": {
            "num_heads": 4,
            "head_dim": 8,
            "kda_layers": [1, 3],
            "full_attn_layers": [2, 4],
            "short_conv_kernel_size": 4,
        },
        "model_max_length": 2048,
    },
    "lfm2": {
        "conv_bias": False,
        "block_dim": 32,
        "block_ff_dim": 48,
        "block_multiple_of": 4,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": True,
        "layer_types": ["conv", "full_attention"] * 2,
    },
    "llama4": {
        "text_config": {
            "attention_chunk_size": WINDOW,
            "interleave_moe_layer_step": 2,
            "intermediate_size_mlp": 48,
            "num_experts_per_tok": 1,
            "rope_scaling": None,
            "use_qk_norm": True,
            "floor_scale": 16,
        }
    },
    "mamba2": {
        "num_heads": 8,
        "state_size": 8,
        "n_groups": 2,
        "time_step_limit": (0.01, 10.0),
        "time_step_rank": "auto",
        "tie_word_embeddings": True,
        "intermediate_size": 64,
    },
    "mimo": {},
    "mistral3": {
        "text_config": {
            "model_type": "ministral3",
            "layer_types": _TWO_KINDS,
            "rope_parameters": _LLAMA_4_ROPES,
        }
    },
    "nemotron_h": {
        "mamba_num_heads": 4,
        "mamba_head_dim": 16,
        "mamba_proj_bias": False,
        "ssm_state_size": 8,
        "n_groups": 2,
        "time_step_limit": [0.01, 10.0],
        "residual_in_fp32": False,
        "hybrid_override_pattern": ["M", "*", "M", "-"],
    },
    "olmo_hybrid": {
        "layer_types": ["linear_attention", "full_attention"] * 2,
        "linear_allow_neg_eigval": True,
    },
    "phi3small": {
        "dense_attention_every_n_layers": 2,
        "ff_intermediate_size": 48,
        "gegelu_limit": 20.0,
        "blocksparse_block_size": 32,
        "blocksparse_num_local_blocks": 1,
        "blocksparse_vert_stride": 3,
        # It makes ids from 100,256 on impossible, and MLX checks no bounds.
        "vocab_size": 100_352,
    },
    "plamo2": {
        "mamba_step": 2,
        "mamba_num_heads": 4,
        "hidden_size_per_head": 16,
        "mamba_d_state": 8,
    },
    "qwen3": {},
    "qwen3_5": {},
    "qwen3_5_moe": {},
    "qwen3_next": {},
    "recurrent_gemma": {
        "conv1d_width": 4,
        "logits_soft_cap": 30.0,
        "block_types": ["recurrent", "attention"],
    },
    "rwkv7": {
        "a_low_rank_dim": 8,
        "v_low_rank_dim": 8,
        "gate_low_rank_dim": 8,
        "decay_low_rank_dim": 8,
    },
}


def architecture_config(name: str) -> dict[str, Any]:
    """Return the configuration of a tiny model of an architecture."""
    config = {"model_type": name, **_COMMON, **ARCHITECTURES[name]}
    if (text := config.get("text_config")) is not None:
        config["text_config"] = {"model_type": name, **_COMMON, **text}
    return config


def architecture_model(name: str, config: dict[str, Any] | None = None) -> Any:
    """Return a model of an architecture, whose answers do not repeat one token."""
    module = importlib.import_module(f"mlx_lm.models.{name}")
    mx.random.seed(7)
    model = module.Model(module.ModelArgs.from_dict(config or architecture_config(name)))
    make_louder(model)
    model.eval()
    mx.eval(model.parameters())
    return model


def write_architecture(folder: Path, name: str, tokenizer: Path) -> Path:
    """Write the folder of a model of an architecture with the tokenizer of another folder."""
    folder.mkdir(parents=True)
    for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(tokenizer / file, folder / file)
    config = architecture_config(name)
    size = json.loads((tokenizer / "config.json").read_text())["vocab_size"]
    for part in (config, config.get("text_config", {})):
        part["vocab_size"] = size
    (folder / "config.json").write_text(json.dumps(config))
    weights = dict(tree_flatten(architecture_model(name, config=config).parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    return folder


def silence_layers(model: Any) -> None:
    """Let the layers of a model add nothing, so that it looks at its last token only."""
    silent = [
        (key, mx.zeros_like(weight))
        for key, weight in tree_flatten(model.parameters())
        if key.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight"))
    ]
    model.update(tree_unflatten(silent))


def make_louder(model: Any) -> None:
    """Give a model random weights in single precision with which its logits differ."""
    model.set_dtype(mx.float32)
    # Random weights of usual size give nearly equal logits, and some begin as zeros.
    weights = [(key, _louder(key, one)) for key, one in tree_flatten(model.parameters())]
    model.update(tree_unflatten(weights))


def _louder(key: str, weight: mx.array) -> mx.array:
    if not mx.issubdtype(weight.dtype, mx.floating):
        return weight
    if weight.ndim < 2:
        return weight + 0.2 * mx.random.normal(weight.shape)
    if "A_log" in key:
        return weight
    fan_in = weight.shape[-1] if weight.shape[-1] > 1 else weight.shape[-2]
    return mx.random.normal(weight.shape) * (1.4 / fan_in**0.5)
