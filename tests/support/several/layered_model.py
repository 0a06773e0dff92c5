"""A small model of random weights that can be sharded by layers, but not by heads.

What it says means nothing, but it says the same thing wherever and however it runs.
"""

import json
import shutil
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models import qwen2

_TOKENIZER = (
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "generation_config.json",
)
_HEADS = 3
_LOUDNESS = 4.0


def write_layered_model(folder: Path, tokenizer: Path) -> None:
    """Write a model folder, with the tokenizer of another model."""
    folder.mkdir(parents=True)
    for name in _TOKENIZER:
        shutil.copy(tokenizer / name, folder / name)
    config = {
        "model_type": "qwen2",
        "hidden_size": 32 * _HEADS,
        "num_hidden_layers": 5,
        "intermediate_size": 192,
        "num_attention_heads": _HEADS,
        "num_key_value_heads": _HEADS,
        "rms_norm_eps": 1e-6,
        "vocab_size": 768,
        "max_position_embeddings": 4096,
        "rope_theta": 10_000.0,
        "tie_word_embeddings": True,
        "eos_token_id": 2,
    }
    (folder / "config.json").write_text(json.dumps(config))
    mx.random.seed(1)
    model = qwen2.Model(qwen2.ModelArgs.from_dict(config))
    # Fresh weights hardly change what goes through them; these do.
    weights = {
        name: weight * _LOUDNESS if "proj" in name else weight
        for name, weight in tree_flatten(model.parameters())
    }
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
