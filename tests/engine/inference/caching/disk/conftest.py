"""A folder of kept caches, and a model that uses it."""

import json
from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import pytest

from engine.inference.cache import index
from tests.support.models.disk_caches import BLOCK, Room


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "BLOCK_TOKENS", BLOCK)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder that looks like a model's to a fingerprint."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "none"}))
    mx.save_safetensors(str(folder / "model.safetensors"), {"weight": mx.ones((64, 64))})
    return folder


@pytest.fixture
def room(tmp_path: Path, model: Path) -> Iterator[Room]:
    room = Room(tmp_path / "kept", model)
    yield room
    room.close()
