"""Model folders of today's kind: three layers of four have states, the others attention.

The weights of one are random, so what it says means nothing, but it says the same thing wherever it
runs. Those of the other are trained: it counts, repeats a few words, and has its own draft head.
"""

import json
import shutil
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models import qwen3_next

from tests.support.models.tiny_models import STATES

TRAINED = Path(__file__).parent / "trained_hybrid"
DEMO = Path(__file__).parents[3] / "assets" / "demo-model"
_TOKENIZER = (
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "generation_config.json",
)
_LOUDNESS = 2.0


def write_hybrid_model(folder: Path, *, hidden_size: int = 32, layers: int = 4) -> Path:
    """Write the folder, with the demo model's tokenizer, and return it."""
    folder.mkdir(parents=True)
    for name in _TOKENIZER:
        shutil.copy(DEMO / name, folder / name)
    config = {
        "model_type": "qwen3_next",
        "hidden_size": hidden_size,
        "num_hidden_layers": layers,
        "intermediate_size": 2 * hidden_size,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": hidden_size // 2,
        "rms_norm_eps": 1e-6,
        "vocab_size": 768,
        "max_position_embeddings": 32768,
        "eos_token_id": 2,
        **STATES,
        "linear_key_head_dim": hidden_size // 2,
        "linear_value_head_dim": hidden_size // 2,
    }
    (folder / "config.json").write_text(json.dumps(config))
    mx.random.seed(1)
    model = qwen3_next.Model(qwen3_next.ModelArgs.from_dict(config))
    weights = {
        name: weight * _LOUDNESS if "proj" in name else weight
        for name, weight in tree_flatten(model.parameters())
    }
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    return folder


def write_trained_hybrid(folder: Path) -> Path:
    """Write the folder of the trained model, with the demo model's tokenizer, and return it."""
    shutil.copytree(TRAINED, folder)
    for name in _TOKENIZER:
        shutil.copy(DEMO / name, folder / name)
    return folder
