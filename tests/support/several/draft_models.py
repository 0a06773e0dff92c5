"""Small models made of the demo model, to guess for it: fewer layers, or another vocabulary."""

import json
import shutil
from pathlib import Path

import mlx.core as mx

_FILES = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "generation_config.json",
)


def write_draft(folder: Path, source: Path, layers: int = 4) -> Path:
    """Write the first layers of a model, with its tokenizer, as a model of its own.

    With all its layers it guesses everything right; with fewer, hardly anything.
    """
    folder.mkdir(parents=True)
    for name in _FILES:
        shutil.copy(source / name, folder / name)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": layers}))
    weights = mx.load(str(source / "model.safetensors"))
    assert isinstance(weights, dict)
    dropped = tuple(f"model.layers.{n}." for n in range(layers, config["num_hidden_layers"]))
    kept = {name: one for name, one in weights.items() if not name.startswith(dropped or "-")}
    mx.save_safetensors(str(folder / "model.safetensors"), kept, metadata={"format": "mlx"})
    return folder


def swap_tokens(folder: Path, one: int, other: int) -> None:
    """Let two ids of a model's vocabulary stand for each other's text."""
    file = folder / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    vocabulary = tokenizer["model"]["vocab"]
    text_of = {token_id: text for text, token_id in vocabulary.items()}
    vocabulary[text_of[one]], vocabulary[text_of[other]] = other, one
    file.write_text(json.dumps(tokenizer, ensure_ascii=False))


def add_token(folder: Path, text: str) -> None:
    """Give a model's vocabulary one more token."""
    file = folder / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    added = tokenizer["added_tokens"]
    known = max([*(one["id"] for one in added), *tokenizer["model"]["vocab"].values()])
    added.append({**added[0], "id": known + 1, "content": text, "special": False})
    file.write_text(json.dumps(tokenizer, ensure_ascii=False))
