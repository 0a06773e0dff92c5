"""Tiny models that see, with random weights: mlx-vlm's own models are the oracle."""

import io
import json
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map

from app import paths
from engine.values.request import PICTURE_MARK, Message, Picture

_QWEN_TOKENS = {
    "start": "<|vision_start|>",
    "end": "<|vision_end|>",
    "image_token": "<|image_pad|>",
    "video_token": "<|video_pad|>",
}
_GEMMA_TOKENS = {
    "boi_token": "<start_of_image>",
    "eoi_token": "<end_of_image>",
    "image_token": "<image_soft_token>",
    "audio_token": "<audio_soft_token>",
    "boa_token": "<start_of_audio>",
    "eoa_token": "<end_of_audio>",
}
_TILES = [f"<|img_row_{row}_col_{column}|>" for row in range(1, 5) for column in range(1, 5)]
_TOKENS: dict[str, dict[str, str]] = {
    "gemma3": _GEMMA_TOKENS,
    "gemma3n": _GEMMA_TOKENS,
    "gemma4": {
        "boi_token": "<|image>",
        "eoi_token": "<image|>",
        "image_token": "<|image|>",
        "audio_token": "<|audio|>",
    },
    "mistral3": {"image_token": "[IMG]", "row_end": "[IMG_BREAK]", "end": "[IMG_END]"},
    "lfm2-vl": {
        "image_token": "<image>",
        "image_start_token": "<|image_start|>",
        "image_end_token": "<|image_end|>",
        "thumbnail": "<|img_thumbnail|>",
        **{text: text for text in _TILES},
    },
}
_HALVES: dict[str, Any] = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
_PROCESSORS: dict[str, dict[str, Any]] = {
    "gemma3": {
        "processor_class": "Gemma3Processor",
        "image_processor_type": "Gemma3ImageProcessor",
        "size": {"height": 16, "width": 16},
        "image_seq_length": 4,
        **_HALVES,
    },
    "gemma3n": {
        "processor_class": "Gemma3nProcessor",
        "image_processor_type": "SiglipImageProcessor",
        "size": {"height": 32, "width": 32},
        "image_seq_length": 4,
        **_HALVES,
    },
    "gemma4": {
        "processor_class": "Gemma4Processor",
        "image_processor": {"patch_size": 4, "pooling_kernel_size": 2, "max_soft_tokens": 70},
    },
    "mistral3": {
        "processor_class": "PixtralProcessor",
        "image_processor_type": "PixtralImageProcessor",
        "patch_size": 4,
        "spatial_merge_size": 2,
        "size": {"longest_edge": 64},
        **_HALVES,
    },
    "lfm2-vl": {
        "processor_class": "Lfm2VlProcessor",
        "image_processor_type": "Lfm2VlImageProcessor",
        "encoder_patch_size": 4,
        "downsample_factor": 2,
        "tile_size": 32,
        "min_image_tokens": 4,
        "max_image_tokens": 16,
        "max_num_patches": 64,
        "max_tiles": 4,
        **_HALVES,
    },
}
_QWEN_PROCESSORS = {"qwen2_vl": "Qwen2VLProcessor", "qwen2_5_vl": "Qwen2_5_VLProcessor"}
_TEXT = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}
_TOWER = {
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 2,
    "num_channels": 3,
    "layer_norm_eps": 1e-6,
}
_QWEN_TOWER = {
    "depth": 3,
    "hidden_size": 32,
    "intermediate_size": 48,
    "out_hidden_size": 64,
    "num_heads": 2,
    "patch_size": 16,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "num_position_embeddings": 256,
    "in_channels": 3,
    "image_size": 32,
}
_EXPERTS = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "norm_topk_prob": True,
}
_GEMMA4_ROPE = {
    "full_attention": {
        "partial_rotary_factor": 0.25,
        "rope_theta": 1000000.0,
        "rope_type": "proportional",
    },
    "sliding_attention": {
        "rope_theta": 10000.0,
        "rope_type": "default",
        "partial_rotary_factor": 1.0,
    },
}


def configuration(family: str, size: int, image: int) -> dict[str, Any]:
    """Return a configuration with ``size`` ids, of which ``image`` is a picture's."""
    text = {**_TEXT, "vocab_size": size}
    without_base = {name: value for name, value in text.items() if name != "rope_theta"}
    common: dict[str, Any] = {"image_token_id": image, "image_token_index": image}
    match family:
        case "qwen3_vl" | "qwen3_5" | "qwen3_vl_moe" | "qwen3_5_moe":
            is_hybrid = family.startswith("qwen3_5")
            sections = [2, 1, 1] if is_hybrid else [3, 3, 2]
            rope = {"type": "default", "mrope_section": sections, "mrope_interleaved": True}
            own: dict[str, Any] = {"model_type": f"{family}_text", "rope_scaling": rope}
            tower = {**_QWEN_TOWER, "model_type": family, "deepstack_visual_indexes": [0, 1]}
            if is_hybrid:
                tower["deepstack_visual_indexes"] = []
                own = {
                    "model_type": f"{family}_text",
                    "head_dim": 32,
                    "linear_num_value_heads": 4,
                    "linear_num_key_heads": 2,
                    "linear_key_head_dim": 16,
                    "linear_value_head_dim": 16,
                    "linear_conv_kernel_dim": 4,
                    "full_attention_interval": 2,
                    "rope_parameters": {
                        **rope,
                        "rope_theta": 10000.0,
                        "partial_rotary_factor": 0.25,
                    },
                }
            experts = _EXPERTS if family.endswith("_moe") else {}
            ids = {"vision_start_token_id": image - 2, "vision_end_token_id": image - 1}
            return {
                "model_type": family,
                **common,
                **ids,
                "video_token_id": image + 1,
                "text_config": {**text, **own, **experts},
                "vision_config": tower,
            }
        case "qwen2_vl" | "qwen2_5_vl":  # whose configurations have no part for the text
            tower = {
                **_QWEN_TOWER,
                "model_type": family,
                "embed_dim": 32,
                "fullatt_block_indexes": [1],
            }
            tower |= {"hidden_size": 64} if family == "qwen2_vl" else {}
            rope = {"type": "mrope", "mrope_section": [3, 3, 2]}
            ids = {"vision_start_token_id": image - 2, "vision_end_token_id": image - 1}
            return {
                **text,
                "model_type": family,
                **common,
                **ids,
                "video_token_id": image + 1,
                "rope_scaling": rope,
                "vision_config": tower,
            }
        case "gemma3":
            own = {
                "model_type": "gemma3_text",
                "mm_tokens_per_image": 4,
                "sliding_window": 16,
                "sliding_window_pattern": 2,
                "query_pre_attn_scalar": 16,
            }
            tower = {
                **_TOWER,
                "model_type": "siglip_vision_model",
                "patch_size": 4,
                "image_size": 16,
            }
            more: dict[str, Any] = {"hidden_size": 64, "pad_token_id": 0, "mm_tokens_per_image": 4}
            text = without_base
        case "mistral3":
            own = {"model_type": "mistral"}
            tower = {
                "model_type": "pixtral",
                "num_hidden_layers": 2,
                "hidden_size": 32,
                "head_dim": 16,
                "intermediate_size": 48,
                "num_attention_heads": 2,
                "image_size": 64,
                "patch_size": 4,
                "num_channels": 3,
                "rms_norm_eps": 1e-5,
                "rope_theta": 10000.0,
            }
            more = {"spatial_merge_size": 2, "vision_feature_layer": -1}
        case "lfm2-vl":
            own = {
                "model_type": "lfm2",
                "tie_word_embeddings": True,
                "block_dim": 64,
                "norm_eps": 1e-5,
                "conv_L_cache": 3,
                "conv_bias": False,
                "layer_types": ["conv", "full_attention"] * 2,
                "rope_theta": 10000.0,
                "block_ff_dim": 96,
                "block_multiple_of": 16,
                "block_auto_adjust_ff_dim": False,
                "block_ffn_dim_multiplier": 1.0,
            }
            tower = {**_TOWER, "model_type": "lfm2_vl", "patch_size": 4, "num_patches": 16}
            more = {"downsample_factor": 2, "projector_hidden_size": 48}
        case "gemma3n":
            own = {
                "model_type": "gemma3n_text",
                "intermediate_size": [96] * 4,
                "vocab_size_per_layer_input": image - 1,
                "laurel_rank": 8,
                "altup_num_inputs": 2,
                "altup_coef_clip": 120.0,
                "altup_correct_scale": True,
                "altup_active_idx": 0,
                "activation_sparsity_pattern": [0.95, 0.95, 0.0, 0.0],
                "hidden_size_per_layer_input": 8,
                "sliding_window": 16,
                # mlx-vlm 0.7.10 rotates the queries of layers with another's cache by its offset
                # behind the pass (models/gemma3n/language.py, line 138).
                "num_kv_shared_layers": 0,
                "layer_types": ["sliding_attention", "full_attention"] * 2,
                "rope_local_base_freq": 10000.0,
                "final_logit_softcapping": 30.0,
            }
            # The id behind a picture and the picture's own are embedded by the tower.
            tower = {
                "model_type": "gemma3n_vision",
                "hidden_size": 2048,
                "vocab_size": 2,
                "vocab_offset": image - 1,
                "rms_norm_eps": 1e-6,
            }
            sound = {
                "hidden_size": 32,
                "conf_num_attention_heads": 2,
                "conf_num_hidden_layers": 1,
                "vocab_size": 2,
                "vocab_offset": image + 1,
            }
            more = {
                "hidden_size": 64,
                "audio_token_id": image + 1,
                "audio_config": sound,
                "vision_soft_tokens_per_image": 4,
            }
        case "gemma4" | "gemma4_both_ways":
            own = {
                "use_bidirectional_attention": "vision" if family != "gemma4" else None,
                "model_type": "gemma4_text",
                "global_head_dim": 16,
                "vocab_size_per_layer_input": size,
                "num_kv_shared_layers": 0,
                "hidden_size_per_layer_input": 8,
                "sliding_window": 16,
                "sliding_window_pattern": 2,
                "use_double_wide_mlp": False,
                "rope_parameters": _GEMMA4_ROPE,
                "layer_types": ["sliding_attention", "full_attention"] * 2,
                "tie_word_embeddings": True,
            }
            tower = {
                "model_type": "gemma4_vision",
                "hidden_size": 32,
                "intermediate_size": 48,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "num_key_value_heads": 2,
                "head_dim": 16,
                "global_head_dim": 16,
                "default_output_length": 6,
                "patch_size": 4,
                "position_embedding_size": 512,
                "pooling_kernel_size": 2,
            }
            more = {"hidden_size": 64, "audio_config": None, "audio_token_id": image + 1}
            text, family = without_base, "gemma4"
        case _:
            raise ValueError(family)
    return {
        "model_type": family,
        "vocab_size": size,
        **common,
        **more,
        "text_config": {**text, **own},
        "vision_config": tower,
    }


def write_model(folder: Path, family: str, size: int = 300, image: int = 290) -> Any:
    """Write a model's folder without a tokenizer; return mlx-vlm's model with the same weights."""
    from mlx_vlm import utils

    config = configuration(family, size, image)
    (folder / "config.json").write_text(json.dumps(config))
    kind, _ = utils.get_model_and_args(dict(config))
    own = kind.ModelConfig.from_dict(config)
    parts = ["text", "vision", "projector", *(["audio"] if family == "gemma3n" else [])]
    own = utils.update_module_configs(own, kind, config, parts)
    mx.random.seed(7)
    model = kind.Model(own)
    model.update(
        tree_map(
            lambda part: (
                part + 0.05 * mx.random.normal(part.shape) if part.dtype == mx.float32 else part
            ),
            model.parameters(),
        )
    )
    if family == "gemma3":  # whose published models have one table, too
        text = model.language_model
        text.lm_head.weight = text.model.embed_tokens.weight
    mx.eval(model.parameters())
    weights = dict(tree_flatten(model.parameters()))
    if family == "lfm2-vl":  # its table of embeddings is the head, too
        weights.pop("language_model.lm_head.weight", None)
    if family == "gemma3n":  # mlx-lm reads the names of the original checkpoints alone
        inner = "language_model."
        weights = {
            f"model.{name.replace(f'{inner}model.', inner)}": value
            for name, value in weights.items()
        }
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    return model


def write_seeing_model(folder: Path, family: str = "qwen3_vl") -> Any:
    """Write a model's folder with the demo model's words; return mlx-vlm's model."""
    from tokenizers import AddedToken, Tokenizer

    demo, name = paths.demo_model(), family.removesuffix("_both_ways")
    tokens = _TOKENS.get(name, _QWEN_TOKENS)
    tokenizer = Tokenizer.from_file(str(demo / "tokenizer.json"))
    first = tokenizer.get_vocab_size()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in tokens.values()])
    image = first + list(tokens).index("image_token")
    model = write_model(folder, family, first + len(tokens), image)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = json.loads((demo / "tokenizer_config.json").read_text())
    named = {key: text for key, text in tokens.items() if key.endswith("_token")}
    settings["extra_special_tokens"] = named
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    mark = tokens["boi_token" if name == "gemma3" else "image_token"]
    if tokens is _QWEN_TOKENS:
        mark = f"{tokens['start']}{mark}{tokens['end']}"
    (folder / "chat_template.jinja").write_text(_TEMPLATE.replace("MARK", mark))
    processor = _PROCESSORS.get(name) or {
        "size": {"longest_edge": 1 << 24, "shortest_edge": 1 << 10},
        "patch_size": 16,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "processor_class": _QWEN_PROCESSORS.get(name, "Qwen3VLProcessor"),
        "image_processor_type": "Qwen2VLImageProcessorFast",
        **_HALVES,
    }
    for file in ("preprocessor_config.json", "processor_config.json"):
        (folder / file).write_text(json.dumps(processor))
    return model


_TEMPLATE = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}
{%- if part.type == "image" %}MARK{% else %}{{ part.text }}
{%- endif %}{% endfor %}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def picture(color: str, size: tuple[int, int] = (96, 64), kind: str = "PNG") -> Picture:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", size, color).save(file, kind)
    return Picture(file.getvalue())


def question(text: str, *pictures: Picture) -> Message:
    return Message("user", PICTURE_MARK * len(pictures) + text, pictures=pictures)
