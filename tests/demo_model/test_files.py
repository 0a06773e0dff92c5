"""The model directory: small, and loadable by mlx-lm like any other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

MODEL_FILES = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "mtp.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
)


def test_the_model_files_fit_in_five_megabytes(folder: Path) -> None:
    files = {
        path.name: path for path in folder.iterdir() if path.is_file() and path.suffix != ".py"
    }
    assert set(MODEL_FILES) <= set(files)
    assert sum(path.stat().st_size for path in files.values()) <= 5_000_000


def test_the_configuration_describes_the_weights(folder: Path) -> None:
    mx = pytest.importorskip("mlx.core")
    config = json.loads((folder / "config.json").read_text())
    weights = mx.load(str(folder / "model.safetensors"))
    assert config["model_type"] == "qwen3"
    assert weights["model.embed_tokens.weight"].shape == (
        config["vocab_size"],
        config["hidden_size"],
    )
    assert {str(weight.dtype) for weight in weights.values()} == {"mlx.core.float32"}


def test_generation_is_greedy_and_ends_at_the_end_of_a_turn(folder: Path, tokenizer: Any) -> None:
    generation = json.loads((folder / "generation_config.json").read_text())
    assert generation["do_sample"] is False
    assert generation["temperature"] == 0.0
    assert generation["eos_token_id"] == tokenizer.convert_tokens_to_ids("<|im_end|>")
