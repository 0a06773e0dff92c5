"""The cache of a loaded model is measured without computing anything."""

from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.models import gemma3_text
from mlx_lm.models.cache import (
    ArraysCache,
    CacheList,
    ChunkedKVCache,
    KVCache,
    RotatingKVCache,
    make_prompt_cache,
)

from engine.inference.backend import BatchLimits
from engine.inference.cache.size import cache_size, measure_cache
from engine.inference.mlx_loading import load
from engine.library.memory_need import CacheSize, estimated
from tests.support.models.architectures import architecture_model

KEYS = mx.zeros((1, 2, 1, 32), mx.float16)
# Keys and values of two heads of 32, two bytes each.
LAYER = 2 * 2 * 32 * 2


def filled(*parts: Any) -> list[Any]:
    for part in parts:
        part.update_and_fetch(KEYS, KEYS)
    return list(parts)


def state(size_bytes: int) -> ArraysCache:
    part = ArraysCache(2)
    part[0] = mx.zeros((1, size_bytes), mx.uint8)
    return part


def test_layers_of_several_kinds_are_told_apart() -> None:
    cache = [
        *filled(KVCache(), KVCache(), RotatingKVCache(512), RotatingKVCache(100)),
        *filled(RotatingKVCache(512), ChunkedKVCache(8192)),
        state(300),
        CacheList(state(50), *filled(KVCache())),
        KVCache(),  # shares the keys of another layer and is never written to
    ]
    assert cache_size(cache) == CacheSize(
        token_bytes=3 * LAYER,
        fixed_bytes=350,
        windows=((100, LAYER), (512, 2 * LAYER), (8192, LAYER)),
    )


def test_a_model_with_windows_is_measured_as_its_configuration_says() -> None:
    config = {
        "model_type": "gemma3_text",
        "hidden_size": 32,
        "num_hidden_layers": 6,
        "intermediate_size": 32,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "vocab_size": 64,
        "sliding_window": 128,
        "sliding_window_pattern": 3,
    }
    model = gemma3_text.Model(gemma3_text.ModelArgs.from_dict(config))
    model.set_dtype(mx.float16)
    found = measure_cache(model, config)
    assert found == estimated(config)
    assert found.windows == ((128, 4 * 2 * 16 * 2),)


def test_kinds_of_a_models_own_are_measured_as_they_grow() -> None:
    model = architecture_model("deepseek_v41")
    size = measure_cache(model, {})
    cache = make_prompt_cache(model)
    for tokens in (300, 700):
        model(mx.zeros((1, tokens - cache[0].offset), mx.int32), cache=cache)
        taken = sum(part.nbytes for part in cache)
        assert size.windows == ()
        assert 0 <= size.bytes_of(tokens) - taken < 4 * size.token_bytes


def test_a_model_that_cannot_be_measured_is_estimated() -> None:
    class Broken:
        layers = (1, 2)

        def __call__(self, tokens: Any, cache: Any) -> Any:
            raise ValueError("no")

    config = {"num_hidden_layers": 2, "num_attention_heads": 1, "head_dim": 4}
    assert measure_cache(Broken(), config) == CacheSize(token_bytes=2 * 2 * 4 * 2)


def test_a_loaded_model_carries_the_size_of_its_cache(demo_model_path: Path) -> None:
    backend = load(demo_model_path, limits=BatchLimits(64, 0, 1))
    # Four layers and the draft head's, with keys and values of four heads of 32.
    values = 5 * 2 * 4 * 32
    assert backend.info.cache.token_bytes in (2 * values, 4 * values)
    assert backend.info.cache.windows == ()
    backend.close()
