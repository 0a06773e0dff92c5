"""On a processor, quantised models compute with 32-bit numbers: 16-bit ones are far slower."""

import json
import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx_lm
import pytest
from mlx.utils import tree_flatten

from engine.inference.backend import BatchLimits
from engine.inference.mlx_loading import load
from engine.inference.weights import BASES, widen
from engine.library.memory_need import estimated, need
from engine.library.model_info import ModelInfo
from engine.library.weights import weights_of
from tests.support.models.architectures import architecture_config, architecture_model


def made(dtype: Any, *, is_quantised: bool) -> Any:
    config = architecture_config("qwen3") | {"intermediate_size": 64}
    model = architecture_model("qwen3", config=config)
    model.set_dtype(dtype)
    if is_quantised:
        nn.quantize(model, group_size=32, bits=4)
    return model


def formats(model: Any) -> set[Any]:
    weights = [weight for _, weight in tree_flatten(model.parameters())]
    return {weight.dtype for weight in weights if mx.issubdtype(weight.dtype, mx.floating)}


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_the_numbers_beside_quantised_weights_get_32_bits(dtype: Any) -> None:
    model = made(dtype, is_quantised=True)
    packed = model.layers[0].mlp.up_proj.weight
    widen(model)
    assert formats(model) == {mx.float32}
    assert model.layers[0].mlp.up_proj.weight.dtype == packed.dtype == mx.uint32
    assert model(mx.array([[1, 2]])).dtype == mx.float32


@pytest.fixture
def small(tmp_path: Path, demo_model_path: Path) -> Path:
    """The demo model, quantised, with its other numbers in 16 bits, and its own draft head."""
    folder = tmp_path / "small"
    shutil.copytree(demo_model_path, folder, ignore=shutil.ignore_patterns("training"))
    model, _ = mlx_lm.load(str(demo_model_path))
    model.set_dtype(mx.float16)
    nn.quantize(model, group_size=32, bits=4)
    weights = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization"] = {"group_size": 32, "bits": 4}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("is_whole", [True, False], ids=["32 bits", "quantised, widened"])
def test_memory_of_weights_and_caches_is_known_before_the_load(
    small: Path, demo_model_path: Path, is_whole: bool
) -> None:
    folder = demo_model_path if is_whole else small
    foreseen = weights_of(folder)
    BASES.clear()  # another engine of the run may have the weights in memory
    before = mx.get_active_memory()
    backend = load(folder, limits=BatchLimits(8, 0, 1))
    info = backend.info
    taken = mx.get_active_memory() - before
    backend.close()
    assert info.own_head_problem is not None
    assert not info.own_head_problem
    assert info.weights_bytes == pytest.approx(taken, rel=0.02)
    assert (
        need(folder).weights == foreseen.size_bytes == pytest.approx(info.weights_bytes, rel=0.02)
    )
    assert foreseen.has_head
    if not is_whole:  # and it is not the size of the files
        assert info.weights_bytes > 1.05 * info.size_bytes
    tokens = need(folder).context
    assert need(folder).cache == tokens * info.cache.token_bytes
    assert info.cache.token_bytes == estimated(config_of(folder), 4, has_head=True).token_bytes


def test_plain_decoding_and_broken_heads_take_no_memory_for_a_head(small: Path) -> None:
    plain = loaded_info(small, guesses=False)
    assert plain.own_head_problem is None
    assert plain.weights_bytes < loaded_info(small).weights_bytes
    for path in small.glob("mtp*"):
        path.write_bytes(b"damaged")
    assert not weights_of(small).has_head
    assert loaded_info(small).weights_bytes == plain.weights_bytes


def config_of(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "config.json").read_text()))


def loaded_info(folder: Path, *, guesses: bool = True) -> ModelInfo:
    backend = load(folder, limits=BatchLimits(8, 0, 1, drafts=guesses))
    backend.close()
    return backend.info
