"""Whether a model fits into memory is known before it is loaded."""

import json
from pathlib import Path

import pytest

from engine.library.memory_need import Fit, Memory, MemoryNeed, need

GIB = 1 << 30


def folder_with(tmp_path: Path, **config: object) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(bytes(1000))
    return tmp_path


def test_the_cache_is_keys_and_values_of_all_layers_for_the_context(tmp_path: Path) -> None:
    folder = folder_with(
        tmp_path,
        num_hidden_layers=36,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        hidden_size=2560,
        max_position_embeddings=40_960,
    )
    found = need(folder)
    # 36 layers, keys and values, 8 heads of 128, two bytes each: 147,456 bytes a token.
    assert (found.context, found.cache) == (8192, 8192 * 147_456)
    assert found.weights == 1000
    assert found.total == found.weights + found.cache + found.headroom


@pytest.mark.parametrize(
    ("usable", "available", "fit"),
    [(16, 12, Fit.FITS), (16, 6, Fit.TIGHT), (6, 6, Fit.TOO_LARGE)],
)
def test_a_model_fits_is_tight_or_is_too_large(usable: int, available: int, fit: Fit) -> None:
    wanted = MemoryNeed(weights=7 * GIB, cache=0, headroom=0, context=1)
    assert wanted.fit(Memory(usable * GIB, available * GIB)) is fit
