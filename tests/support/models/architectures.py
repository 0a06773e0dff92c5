"""A tiny random model of each architecture that mlx-lm can build; the same on every machine.

Most architectures name the same things alike, so one configuration serves nearly all of them: each
takes the fields that it knows. What it calls otherwise is in its own entry.
"""

import importlib
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.models import bitlinear_layers

from tests.support.models.plain_kernels import replace_kernels

VOCABULARY = 64
WINDOW = 12
_LAYERS = 4
_COMMON: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": _LAYERS,
    "num_layers": _LAYERS,
    "n_layer": _LAYERS,
    "num_attention_heads": 4,
    "n_head": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": VOCABULARY,
    "rms_norm_eps": 1e-5,
    "norm_eps": 1e-5,
    "layer_norm_eps": 1e-5,
    "layer_norm_epsilon": 1e-5,
    "layernorm_epsilon": 1e-5,
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
    "moe_num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_topk": 2,
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
    "scale_depth": 1.0,
    "scale_emb": 1.0,
    "dim_model_base": 32,
    # windows
    "sliding_window": WINDOW,
    "sliding_window_size": WINDOW,
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
    "group_norm_size": 1,
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
_ROPES = {
    "full_attention": {"rope_theta": 10000.0, "rope_type": "default"},
    "sliding_attention": {"rope_theta": 1000.0, "rope_type": "default"},
}
_LLAMA_4_ROPES = {
    "rope_theta": 1000.0,
    "llama_4_scaling_beta": 0.1,
    "original_max_position_embeddings": 16,
}
_PLAIN = """
    bailing_moe cohere deepseek dots1 ernie4_5 ernie4_5_moe exaone gemma gemma2 glm glm4
    glm4_moe gptj granite granitemoe helium internlm2 internlm3 Klear llama mimo minicpm
    mixtral nanbeige nemotron olmo2 olmoe phi phi3 qwen2 qwen2_moe qwen3 qwen3_moe
    seed_oss smollm3 starcoder2 solar_open talkie telechat3
"""
ARCHITECTURES: dict[str, dict[str, Any]] = {name: {} for name in _PLAIN.split()} | {
    "afm7": {"hidden_dim": 32, "num_kv_reuse_layers": 2, "num_heads": 4, "num_kv_heads": 2},
    "afmoe": {"layer_types": _TWO_KINDS, "num_dense_layers": 1},
    "apertus": {"post_norm": True, "qk_norm": True},
    "baichuan_m1": {"sliding_window_layers": [0, 2], "conv_window": 2},
    "bailing_hybrid": {},
    "bailing_moe_linear": {"head_dim": None},
    "bailing_moe_v3": {},
    "bitnet": {},
    "cohere2": {"sliding_window_pattern": 2},
    "dbrx": {
        "d_model": 32,
        "n_layers": _LAYERS,
        "n_heads": 4,
        "ffn_config": {"ffn_hidden_size": 48, "moe_num_experts": 4, "moe_top_k": 2},
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 1000.0},
    },
    "deepseek_v2": _LATENT,
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
    "exaone4": {"sliding_window_pattern": "LG", "rope_scaling": None},
    "exaone_moe": {"layer_types": _TWO_KINDS, "is_moe_layer": [False, True, True, True]},
    "falcon_h1": {
        "mamba_d_ssm": 32,
        "mamba_n_heads": 4,
        "mamba_d_head": 8,
        "mamba_d_state": 8,
        "mamba_n_groups": 1,
        "mamba_d_conv": 4,
    },
    "gear": {"layer_types": ["conv_mixer", "full_attention", "sliding_attention", "conv_mixer"]},
    "gemma3_text": {"sliding_window_pattern": 2},
    "gemma3n": {
        "text_config": {
            "layer_types": _TWO_KINDS,
            "num_kv_shared_layers": 2,
            "vocab_size_per_layer_input": VOCABULARY,
            "rope_local_base_freq": 1000.0,
            "final_logit_softcapping": 30.0,
            "activation_sparsity_pattern": [0.5] * _LAYERS,
            "hidden_size_per_layer_input": 16,
            "altup_num_inputs": 2,
            "altup_coef_clip": 120.0,
            "altup_correct_scale": True,
            "altup_active_idx": 0,
            "laurel_rank": 4,
        }
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
    "gpt2": {"n_ctx": 512, "n_embd": 32, "n_positions": 512},
    "gpt_bigcode": {"n_embd": 32, "n_inner": 48, "n_positions": 512},
    "gpt_neox": {"rotary_emb_base": 1000, "rotary_pct": 0.5},
    "gptj": {"n_embd": 32, "n_positions": 512, "rotary_dim": 4, "n_inner": 48},
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
    "hunyuan": {
        "num_shared_expert": 1,
        "use_mixed_mlp_moe": True,
        "use_qk_norm": True,
        "use_cla": True,
        "cla_share_factor": 2,
        "rope_scaling": {"alpha": 1000.0, "factor": 1.0, "type": "dynamic"},
    },
    "hunyuan_v1_dense": {
        "use_qk_norm": True,
        "rope_scaling": {
            "alpha": 1000.0,
            "factor": 1.0,
            "type": "dynamic",
            "beta_fast": 32,
            "beta_slow": 1,
            "mscale": 1.0,
            "mscale_all_dim": 0.0,
            "original_max_position_embeddings": 2048,
        },
    },
    "iquestloopcoder": {"loop_num": 2, "loop_window_size": WINDOW},
    "jamba": {
        "attn_layer_offset": 1,
        "attn_layer_period": 2,
        "expert_layer_offset": 1,
        "expert_layer_period": 2,
        "mamba_d_conv": 4,
        "mamba_d_state": 8,
        "mamba_expand": 2,
    },
    "kimi_k3": {
        "text_config": {
            "linear_attn_config": {
                "num_heads": 4,
                "head_dim": 8,
                "kda_layers": [1, 3],
                "full_attn_layers": [2, 4],
                "short_conv_kernel_size": 4,
            },
            "num_experts_per_token": 2,
            "num_key_value_heads": 4,
        }
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
    "kimi_vl": {"text_config": _LATENT},
    "laguna": {
        "layer_types": ["full_attention", "sliding_attention"] * 2,
        "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
        "num_attention_heads_per_layer": [4] * _LAYERS,
        "moe_router_score_func": "sigmoid",
        "moe_routed_scaling_factor": 1.0,
        "rope_parameters": {
            "full_attention": {"rope_theta": 10000.0, "partial_rotary_factor": 0.5},
            "sliding_attention": {"rope_theta": 1000.0, "partial_rotary_factor": 1.0},
        },
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
    "lfm2_moe": {
        "conv_bias": False,
        "use_expert_bias": True,
        "num_dense_layers": 1,
        "layer_types": ["conv", "full_attention"] * 2,
    },
    "lille-130m": {"block_size": 512, "n_embd": 384, "n_kv_heads": 2},
    "llama4_text": {"intermediate_size_mlp": 48, "no_rope_layers": [1, 0] * 2, "use_qk_norm": True},
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
    "longcat_flash": {
        "attention_method": "MLA",
        "zero_expert_type": "identity",
        "ffn_hidden_size": 48,
        "expert_ffn_hidden_size": 24,
        "zero_expert_num": 2,
        "mla_scale_q_lora": True,
        "mla_scale_kv_lora": True,
    },
    "mamba": {"state_size": 8, "time_step_rank": 4, "intermediate_size": 64},
    "mamba2": {
        "num_heads": 8,
        "state_size": 8,
        "n_groups": 2,
        "time_step_limit": (0.01, 10.0),
        "time_step_rank": "auto",
        "tie_word_embeddings": True,
        "intermediate_size": 64,
    },
    "mellum": {"layer_types": _TWO_KINDS, "rope_parameters": _ROPES},
    "mimo_v2_flash": {
        "hybrid_layer_pattern": [0, 1] * 2,
        "moe_layer_freq": [0, 1] * 2,
        "add_swa_attention_sink_bias": True,
        "add_full_attention_sink_bias": False,
        "swa_rope_theta": 1000.0,
        "swa_num_attention_heads": 4,
        "swa_num_key_value_heads": 2,
        "swa_head_dim": 8,
        "swa_v_head_dim": 8,
    },
    "minicpm3": _LATENT,
    "minimax": {"rotary_dim": 4},
    "ministral3": {"layer_types": _TWO_KINDS, "rope_parameters": _LLAMA_4_ROPES},
    "mistral4": _LATENT | {"rope_parameters": _LLAMA_4_ROPES},
    "muse_glimmer": {"layer_types": _TWO_KINDS, "layer_rope_theta": [1000.0, 0.0] * 2},
    "muse_spark": {
        "text_config": {
            "layer_types": _TWO_KINDS,
            "layer_rope_theta": [1000.0, 0.0] * 2,
            "rope_parameters": {"rope_theta": 1000.0},
            "post_norm_eps": 1e-5,
            "final_logit_softcapping": 30.0,
            "output_multiplier": 1.0,
            "moe_hidden_size": 16,
            "num_shared_experts": 0,
        }
    },
    "nanochat": {"num_key_value_heads": 4},
    "nemotron": {"hidden_act": "relu2"},
    "nemotron-nas": {
        "block_configs": [
            {
                "attention": {"n_heads_in_group": 2, "no_op": False, "replace_with_linear": False},
                "ffn": {"ffn_mult": 1.0, "no_op": False, "replace_with_linear": False},
            }
        ]
        * _LAYERS,
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
    "olmo": {
        "d_model": 32,
        "n_layers": _LAYERS,
        "n_heads": 4,
        "mlp_hidden_size": 96,
        "embedding_size": VOCABULARY,
    },
    "olmo3": {"layer_types": _TWO_KINDS},
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
    "plamo": {"n_shared_head": 2, "num_key_value_heads": 2},
    "phimoe": {
        "rope_scaling": {
            "long_factor": [1.0] * 4,
            "long_mscale": 1.2,
            "original_max_position_embeddings": 2048,
            "short_factor": [1.0] * 4,
            "short_mscale": 1.2,
            "type": "longrope",
        }
    },
    "phixtral": {"num_vocab": VOCABULARY, "model_dim": 32, "num_heads": 4, "rotary_dim": 4},
    "plamo2": {
        "mamba_step": 2,
        "mamba_num_heads": 4,
        "hidden_size_per_head": 16,
        "mamba_d_state": 8,
    },
    "plamo3": {"window_size": WINDOW, "sliding_window_pattern": 2},
    "prism_hadamard_qwen35": {
        "schema_version": 1,
        "tensor_namespace": "mlx-lm-text",
        "quantization": {"bits": 2, "group_size": 128, "mode": "affine"},
        "modules": [
            {"path": path, "embedding": "embed" in path, "dtype": "float16", "block": block}
            for path, block in (
                ("model.embed_tokens", 0),
                ("model.layers.0.mlp.gate_proj", 0),
                ("model.layers.0.mlp.down_proj", 512),
                ("model.layers.1.self_attn.q_proj", 0),
            )
        ],
        "text_config": {"hidden_size": 128, "intermediate_size": 512, "num_experts": 0},
    },
    "qwen": {"kv_channels": 8, "no_bias": True},
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
    "spark2_5": {"layer_types": _TWO_KINDS, "rope_parameters": _ROPES},
    "stablelm": {"use_qkv_bias": False},
    "step3p5": {
        "num_attention_groups": 2,
        "rope_theta": [1000.0] * _LAYERS,
        "layer_types": _TWO_KINDS,
        "partial_rotary_factors": [1.0] * _LAYERS,
        "attention_other_setting": {"num_attention_heads": 4, "num_attention_groups": 2},
        "use_head_wise_attn_gate": True,
        "moe_top_k": 2,
        "share_expert_dim": 24,
        "moe_layers_enum": "1,2,3",
    },
    "youtu_llm": _LATENT,
    "openelm": {
        "model_dim": 32,
        "ffn_dim_divisor": 8,
        "ffn_multipliers": [1.0] * _LAYERS,
        "normalize_qk_projections": True,
        "num_kv_heads": [2] * _LAYERS,
        "num_query_heads": [4] * _LAYERS,
        "num_transformer_layers": _LAYERS,
    },
}
# Those that wrap another one's configuration.
ARCHITECTURES |= {
    "gemma3": {"text_config": ARCHITECTURES["gemma3_text"]},
    "gemma4": {"text_config": ARCHITECTURES["gemma4_text"]},
    "kimi_k25": {"text_config": _LATENT},
    "lfm2-vl": {"text_config": ARCHITECTURES["lfm2"] | {"model_type": "lfm2"}},
    "minimax_m3_vl": {
        "text_config": {
            "dense_intermediate_size": 48,
            "rotary_dim": 4,
            "moe_layer_freq": [0, 1, 1, 1],
        }
    },
    "longcat_flash_ngram": ARCHITECTURES["longcat_flash"],
    "mistral3": {"text_config": ARCHITECTURES["ministral3"] | {"model_type": "ministral3"}},
    "pixtral": {"text_config": {"model_type": "llama"}},
    "qwen2_vl": {"text_config": {}},
    "qwen3_vl": {"text_config": {"model_type": "qwen3"}},
    "qwen3_vl_moe": {"text_config": {"model_type": "qwen3_moe"}},
}


def architecture_config(name: str) -> dict[str, Any]:
    """Return the configuration of a tiny model of an architecture."""
    config = {"model_type": name, **_COMMON, **ARCHITECTURES[name]}
    if (text := config.get("text_config")) is not None:
        config["text_config"] = {"model_type": name, **_COMMON, **text}
    return config


def architecture_model(name: str, seed: int = 0, config: dict[str, Any] | None = None) -> Any:
    """Return a model of an architecture, whose answers do not repeat one token."""
    module = _module(name)
    mx.random.seed(seed + 7)
    model = module.Model(module.ModelArgs.from_dict(config or architecture_config(name)))
    make_louder(model)
    model.eval()
    mx.eval(model.parameters())
    return model


def _module(name: str) -> ModuleType:
    # mlx-lm's ``olmo`` ends the process where this cannot be imported, and uses nothing of it.
    probed = "hf_olmo"
    is_there = probed in sys.modules
    sys.modules.setdefault(probed, ModuleType(probed))
    try:
        module = importlib.import_module(f"mlx_lm.models.{name}")
    finally:
        if not is_there:
            del sys.modules[probed]
    for used in (module, bitlinear_layers):
        replace_kernels(used)
    return module


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
    if weight.dtype == mx.uint8:  # four numbers of -1, 0 or 1
        digits = mx.random.randint(0, 3, (4, *weight.shape)).astype(mx.uint8)
        return digits[0] + 4 * digits[1] + 16 * digits[2] + 64 * digits[3]
    if weight.dtype == mx.uint32:  # sixteen numbers of two bits
        return mx.random.randint(0, 1 << 32, weight.shape, mx.uint32)
    if not mx.issubdtype(weight.dtype, mx.floating):
        return weight
    if key.endswith("signs"):
        return mx.where(mx.random.normal(weight.shape) > 0, 1.0, -1.0)
    if weight.ndim < 2:
        return weight + 0.2 * mx.random.normal(weight.shape)
    if "A_log" in key:
        return weight
    fan_in = weight.shape[-1] if weight.shape[-1] > 1 else weight.shape[-2]
    return mx.random.normal(weight.shape) * (1.4 / fan_in**0.5)
