"""Models for pictures: a cache of names and sizes, and a hub with an open and a gated model.

The files are sparse: models that are too large for this machine take no room.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.library.suggestions import SUGGESTIONS
from tests.support.hub import Hub, hub
from ui.models.model_library import ModelLibrary

GIB = 1 << 30


def hub_folder(folder: Path) -> Path:
    """Make a cache of models that have only names and sizes."""
    wanted = (
        ("mlx-community/Qwen3-4B-4bit", "qwen3", 4, 2.1, ()),
        ("mlx-community/Llama-3.3-70B-Instruct-8bit", "llama", 8, 70.0, ()),
        ("mlx-community/gpt-oss-20b-MXFP4", "gpt_oss", 4, 5.0, ("model-00002-of-00002",)),
    )
    for name, kind, bits, size, missing in wanted:
        made = folder / f"models--{name.replace('/', '--')}" / "snapshots" / ("a" * 40)
        made.mkdir(parents=True)
        config = {"model_type": kind, "max_position_embeddings": 40_960, "num_hidden_layers": 36}
        config |= {"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128}
        config |= {"quantization": {"bits": bits}}  # type: ignore[dict-item]
        (made / "config.json").write_text(json.dumps(config))
        (made / "tokenizer.json").write_text("{}")
        with (made / "model.safetensors").open("wb") as file:
            file.truncate(int(size * GIB))
        if missing:
            names = [*(f"{one}.safetensors" for one in missing), "model.safetensors"]
            index = {"weight_map": dict(enumerate(names))}
            (made / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


_CARD = b"""---
license: apache-2.0
---
# Qwen3-4B-Instruct-2507-4bit

This model was converted to MLX format from
[Qwen/Qwen3-4B-Instruct-2507](https://huggingface.co/Qwen/Qwen3-4B-Instruct-2507).

- **Languages**: more than 100
- **Context**: 262,144 tokens

| test | points |
| --- | --- |
| MMLU-Pro | 69.6 |
| LiveCodeBench | 35.1 |

```python
from mlx_lm import load, generate

model, tokenizer = load("mlx-community/Qwen3-4B-Instruct-2507-4bit")
```
"""


def offer_suggestions(site: Hub) -> None:
    """Let a hub describe the suggested models, without their files."""
    config = {"model_type": "qwen3", "num_hidden_layers": 36, "num_attention_heads": 32}
    config |= {"num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 40_960}
    for number, one in enumerate(SUGGESTIONS):
        site.add_model(
            one.name,
            {**config, "quantization": {"bits": 4}},
            safetensors={"parameters": {"U32": one.size_mb * 250_000}, "total": 1},
            config={"quantization": {"bits": 4}},
            downloads=180_000 - 7_900 * number,
            lastModified=f"2026-{number % 9 + 2:02}-{number + 3:02}T09:00:00.000Z",
            tags=["mlx", f"license:{one.license}"],
        )
        site.files[one.name]["README.md"] = _CARD


# How long the hub waits between two pieces, so that a download can be seen.
PIECE_S = 0.05


@contextmanager
def pictured_models(demo: Path) -> Iterator[Hub]:
    """Let the program see these models and no others; settings go to a folder of their own."""
    with tempfile.TemporaryDirectory() as name, hub() as site:
        os.environ["HF_ENDPOINT"] = site.url
        os.environ["HF_HUB_CACHE"] = str(hub_folder(Path(name) / "hub"))
        os.environ["FULLSTOP_CONFIG_DIR"] = name
        site.add_folder("makers/demo-model", demo)
        site.gated.add("makers/gated")
        offer_suggestions(site)
        yield site


def begin_downloads(library: ModelLibrary) -> None:
    """Begin a download that is refused, and one that runs."""
    library.downloads.start("makers/gated")
    library.downloads.start("makers/demo-model")
