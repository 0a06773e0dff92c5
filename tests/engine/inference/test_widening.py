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
from engine.inference.batch import RunningBatch
from engine.inference.mlx_loading import load, widen
from tests.support.models.tiny_models import KINDS


def made(dtype: Any, *, is_quantised: bool) -> Any:
    model = KINDS["full"]()
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


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_weights_that_are_not_quantised_stay_as_small_as_they_are(dtype: Any) -> None:
    model = made(dtype, is_quantised=False)
    widen(model)
    assert formats(model) == {dtype}


@pytest.mark.skipif(mx.default_device() != mx.cpu, reason="a GPU computes with 16-bit numbers")
def test_a_folder_with_16_bit_numbers_is_loaded_with_32(
    tmp_path: Path, demo_model_path: Path
) -> None:
    folder = tmp_path / "small"
    shutil.copytree(demo_model_path, folder, ignore=shutil.ignore_patterns("training", "mtp*"))
    model, _ = mlx_lm.load(str(demo_model_path))
    model.set_dtype(mx.float16)
    nn.quantize(model, group_size=32, bits=4)
    weights = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization"] = {"group_size": 32, "bits": 4}
    (folder / "config.json").write_text(json.dumps(config))
    loaded: list[Any] = []

    def batch_of(model: Any, limits: BatchLimits) -> RunningBatch:
        loaded.append(model)
        return RunningBatch(model, limits)

    load(folder, limits=BatchLimits(8, 0, 1), batch_of=batch_of).close()
    assert formats(loaded[0]) == {mx.float32}
