"""Adapters as mlx-lm writes them: trained for a few steps, or with random weights at once."""

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.optimizers as opt
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm import load
from mlx_lm.tuner.datasets import CacheDataset, ChatDataset
from mlx_lm.tuner.trainer import TrainingArgs, train
from mlx_lm.tuner.utils import linear_to_lora_layers

RANK = 4


def _model_to_train(base: Path, folder: Path, kind: str, stated: str | None) -> tuple[Any, Any]:
    """Return a model with layers to train, and its tokenizer; write the configuration."""
    loaded = load(str(base))
    model, tokenizer = loaded[0], loaded[1]
    model.freeze()
    parameters = {"rank": RANK, "scale": 10.0, "dropout": 0.0}
    if kind == "full":
        model.layers[-1].unfreeze()
    else:
        linear_to_lora_layers(model, -1, parameters, use_dora=kind == "dora")
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "model": str(base) if stated is None else stated,
        "fine_tune_type": kind,
        "num_layers": -1,
        "lora_parameters": parameters,
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return model, tokenizer


def train_adapter(base: Path, folder: Path, answer: str, *, steps: int = 40) -> Path:
    """Train an adapter that gives one answer to everything."""
    mx.random.seed(0)
    np.random.seed(0)
    model, tokenizer = _model_to_train(base, folder, "lora", None)
    asked = ("Hi", "Who are you?", "Count from 1 to 5", "Say something")
    turns = [
        {
            "messages": [
                {"role": "user", "content": text},
                {"role": "assistant", "content": answer},
            ]
        }
        for text in asked
    ]
    arguments = TrainingArgs(
        batch_size=2,
        iters=steps,
        val_batches=0,
        steps_per_report=steps,
        steps_per_eval=0,
        max_seq_length=128,
        adapter_file=str(folder / "adapters.safetensors"),
    )
    dataset = CacheDataset(ChatDataset(turns, tokenizer, mask_prompt=True))
    train(model, opt.Adam(1e-3), dataset, None, args=arguments)
    return folder


def random_adapter(
    base: Path, folder: Path, seed: int, *, kind: str = "lora", stated: str | None = None
) -> Path:
    """Write an adapter whose weights are random, so that its answers are its own.

    ``stated`` is the base in its configuration.
    """
    mx.random.seed(seed)
    model, _ = _model_to_train(base, folder, kind, stated)
    noise = 0.3 if kind == "full" else 0.1  # enough for another text
    weights = {
        name: weight + mx.random.normal(weight.shape) * noise
        for name, weight in tree_flatten(model.trainable_parameters())
    }
    mx.save_safetensors(str(folder / "adapters.safetensors"), weights)
    return folder
