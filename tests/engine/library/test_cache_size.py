"""What the context of an answer takes in memory, for layers of several kinds."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.library.architectures import sees
from engine.library.memory_need import (
    PICTURE_BYTES,
    CacheSize,
    Memory,
    estimated,
    max_cache_bytes,
    need,
)

ATTENTION = {
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 16,
}
# Keys and values of two heads of 16, two bytes each.
LAYER = 2 * 2 * 16 * 2


@pytest.mark.parametrize(
    ("more", "token_bytes", "windows"),
    [
        ({}, 6 * LAYER, ()),
        ({"sliding_window": 1024, "use_sliding_window": False}, 6 * LAYER, ()),
        (
            {"sliding_window": 1024, "sliding_window_pattern": 3},
            2 * LAYER,
            ((1024, 4 * LAYER),),
        ),
        (
            {
                "sliding_window": 512,
                "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
            },
            1 * LAYER,
            ((512, 5 * LAYER),),
        ),
        (
            {"layer_types": ["linear_attention"] * 4 + ["full_attention"] * 2},
            2 * LAYER,
            (),
        ),
        ({"full_attention_interval": 3}, 2 * LAYER, ()),
        ({"kv_lora_rank": 512, "qk_rope_head_dim": 64}, 6 * 576 * 2, ()),
    ],
    ids=["full", "switched off", "pattern", "windows", "linear", "interval", "latent"],
)
def test_each_kind_of_layer_counts_as_it_grows(
    more: dict[str, Any], token_bytes: int, windows: tuple[tuple[int, int], ...]
) -> None:
    assert estimated({**ATTENTION, **more}) == CacheSize(token_bytes, windows=windows)


@pytest.mark.parametrize("most", [1, 255, 256, 257, 4096, 100_000])
@pytest.mark.parametrize("room", [0, 1, 2559, 2560, 70_000, 10**7])
def test_as_many_tokens_fit_as_take_no_more_than_the_room(room: int, most: int) -> None:
    size = CacheSize(10, windows=((300, 7),))
    fitting = size.tokens_in(room, most)
    assert 0 <= fitting <= most
    assert fitting == 0 or size.allocated_bytes(fitting) <= room
    assert fitting == most or size.allocated_bytes(fitting + 1) > room


def test_the_room_is_what_is_free_less_kept_prompts_and_headroom() -> None:
    size = CacheSize(1000)
    gib = 1 << 30
    found = max_cache_bytes(Memory(64 * gib, 40 * gib), size, weights=5 * gib, kept=gib)
    assert found == (40 * gib - gib - gib // 2, gib)
    # On a Mac, the graphics processor may have less than what is free.
    found = max_cache_bytes(Memory(24 * gib, 30 * gib), size, weights=10 * gib, kept=gib)
    assert found == (14 * gib - gib - gib, gib)
    now = Memory(24 * gib, 30 * gib)
    seeing = max_cache_bytes(now, size, weights=10 * gib, kept=gib, can_see=True)
    assert seeing == (found[0] - PICTURE_BYTES, gib)


def test_need_of_a_model_that_sees_has_its_pictures(tmp_path: Path) -> None:
    config: dict[str, Any] = {"model_type": "qwen3_vl", "vision_config": {"depth": 1}}
    headrooms = []
    for each in ({"model_type": "qwen3_vl"}, config):
        (tmp_path / "config.json").write_text(json.dumps(each))
        headrooms.append(need(tmp_path).headroom)
    assert headrooms[1] - headrooms[0] == (PICTURE_BYTES if sees(config) else 0)
