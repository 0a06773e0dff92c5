"""Several scripted models behind one loader, each with an answer of its own to every question."""

import json
from pathlib import Path
from typing import Any

import mlx.core as mx

from engine.inference.mlx_backend import MlxBackend
from engine.scheduling.model_list import OfferedModel
from tests.support.scripted import Stage


class StagedModels:
    """Models that a test scripts, as an engine loads them.

    Args:
        folder: Where their files are written.
        scripts: The model's id to its scripts, as ``Stage`` takes them.
        options: For every ``Stage``.

    Attributes:
        stages: The stages by the ids of the models.
        offered: The models, ready to be offered.
        loads: The ids of the models that were loaded, in order.
    """

    def __init__(self, folder: Path, scripts: dict[str, dict[str, Any]], **options: Any) -> None:
        self.stages = {name: Stage(folder / name, one, **options) for name, one in scripts.items()}
        for name in scripts:
            _write_sizes(folder / name)
        self.offered = [OfferedModel(name, folder / name) for name in scripts]
        self.loads: list[str] = []

    def __call__(self, folder: Path, **options: Any) -> MlxBackend:
        """Load one of them; see ``engine.inference.loader.Loader``."""
        self.loads.append(folder.name)
        return self.stages[folder.name].load(folder, **options)


def _write_sizes(folder: Path) -> None:
    """Write what says how much memory a model needs."""
    config = {
        "model_type": "scripted",
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "hidden_size": 8,
        "max_position_embeddings": 4096,
    }
    (folder / "config.json").write_text(json.dumps(config))
    mx.save_safetensors(str(folder / "model.safetensors"), {"weight": mx.zeros((1024,))})
