"""Models of every kind of cache reuse whole conversations, and answer as if they did not."""

import functools
import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.inference.cache import index, prompt_cache
from tests.engine.inference.caching.reuse import MIN_DISK_TOKENS, MOVES, Reuse, play
from tests.support.models.architectures import architecture_model
from tests.support.random_cases import cases

# Full attention; Gated DeltaNet; short convolutions; Mamba 2; RWKV; windows; both in a CacheList.
FEW = ("qwen3", "qwen3_next", "lfm2", "nemotron_h", "rwkv7", "gpt_oss", "falcon_h1")
MANY = (
    "qwen3_5",
    "gemma3_text",
    "gemma4_text",
    "mamba2",
    "mamba",
    "kimi_linear",
    "jamba",
    "granitemoehybrid",
    "recurrent_gemma",
    "plamo2",
    "deepseek_v32",
    "longcat_flash",
    "cohere2",
    "exaone4",
    "olmo3",
    "mimo_v2_flash",
    "minimax",
    "gemma3n",
    "afm7",
)

model_of = functools.cache(architecture_model)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like a model's; snapshots are close, and few tokens are worth a file."""
    monkeypatch.setattr(prompt_cache, "STRIDE", 24)
    monkeypatch.setattr(prompt_cache, "MIN_DISK_TOKENS", MIN_DISK_TOKENS)
    monkeypatch.setattr(index, "MIN_FILE_TOKENS", MIN_DISK_TOKENS)
    path = tmp_path / "model"
    path.mkdir()
    (path / "config.json").write_text(json.dumps({"model_type": "none"}))
    mx.save_safetensors(str(path / "model.safetensors"), {"weight": mx.ones((64, 64))})
    return path


def hold(model: Any, folder: Path, disk: Path | None, cache_bytes: int, moves: Any) -> None:
    reuse = Reuse(model, folder, disk, cache_bytes)
    try:
        play(reuse, moves)
    finally:
        reuse.close()


@pytest.mark.parametrize(
    "kind", [*FEW, *(pytest.param(kind, marks=pytest.mark.slow) for kind in MANY)]
)
@settings(
    max_examples=cases(4),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(moves=MOVES, is_on_disk=st.booleans(), cache_bytes=st.sampled_from([1 << 30, 30_000, 0]))
def test_random_conversations_read_no_more_than_snapshots_promise_and_are_never_wrong(
    kind: str,
    folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
    moves: Any,
    is_on_disk: bool,
    cache_bytes: int,
) -> None:
    disk = tmp_path_factory.mktemp("kept") if is_on_disk else None
    hold(model_of(kind), folder, disk, cache_bytes, moves)
