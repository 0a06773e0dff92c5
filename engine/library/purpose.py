"""The use that a model was trained for, as its name and its files state it."""

import os
from pathlib import Path
from typing import Literal

from engine.errors import InvalidRequest
from engine.library.model_files import model_name

Purpose = Literal["text", "embeddings", "ranking"]


def purpose_of(folder: Path, architecture: str) -> Purpose:
    """Return the purpose of a model; ``ranking`` only where the form of its prompts is known."""
    name = model_name(folder).lower()
    if architecture == "qwen3" and "qwen3-reranker" in name:
        return "ranking"
    # sentence-transformers writes the file for models of vectors.
    # ``os.path`` returns False for a folder that cannot be read, where ``Path`` raises.
    if "embed" in name or os.path.isfile(folder / "modules.json"):
        return "embeddings"
    return "text"


def check_reranker(name: str, folder: Path, architecture: str) -> None:
    """Raise ``InvalidRequest`` for a model that ranks no documents."""
    if purpose_of(folder, architecture) != "ranking":
        raise InvalidRequest(
            "model",
            f"{name} is not a reranker; load one whose answers are known, such as "
            "Qwen3-Reranker-0.6B, and name it here",
        )
