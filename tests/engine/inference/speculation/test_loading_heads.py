"""A checkpoint's own draft head is loaded with the model, or named with the reason why not."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.utils import load_model

from engine.inference.backend import BatchLimits
from engine.inference.mlx_loading import load
from engine.inference.speculation.heads import DraftHead
from engine.library.weights import weights_of

LIMITS = BatchLimits(512, 1 << 24, 4)
Weights = dict[str, mx.array]


@pytest.fixture(scope="module")
def head_weights(demo_model_path: Path) -> Weights:
    """A head of the demo model that was never trained."""
    model, config = load_model(demo_model_path, strict=False)
    mx.random.seed(1)
    return {f"mtp.{name}": one for name, one in tree_flatten(DraftHead(model, config).parameters())}


@pytest.fixture
def with_head(tmp_path: Path, demo_model_path: Path) -> Callable[..., Path]:
    """Write the demo model with a head: in a file beside its weights, or among them."""

    def write(weights: Weights, *, beside: bool = True) -> Path:
        folder = tmp_path / "demo"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(demo_model_path, folder, ignore=shutil.ignore_patterns("*mtp*", "training"))
        own: Any = mx.load(str(folder / "model.safetensors"))
        own = {name: one for name, one in own.items() if not name.startswith("mtp.")}
        if beside:
            mx.save_safetensors(str(folder / "mtp.safetensors"), weights)
            weights = {}
        (folder / "model.safetensors").unlink()
        mx.save_safetensors(str(folder / "model.safetensors"), own | weights, {"format": "mlx"})
        return folder

    return write


@pytest.mark.parametrize("beside", [True, False], ids=["in a file beside", "among the weights"])
def test_a_head_is_loaded_and_counted(
    with_head: Callable[..., Path], head_weights: Weights, beside: bool
) -> None:
    backend = load(with_head({}), limits=LIMITS)
    assert backend.info.own_head_problem is None
    assert backend.batch.own_head is None
    backend.close()
    backend = load(with_head(head_weights, beside=beside), limits=LIMITS)
    assert backend.info.own_head_problem == ""
    assert backend.batch.own_head is not None
    assert backend.info.size_bytes > sum(one.nbytes for one in head_weights.values())
    backend.close()


@pytest.mark.parametrize("beside", [True, False], ids=["in a file beside", "among the weights"])
def test_a_folder_tells_that_it_has_a_head_without_loading_it(
    with_head: Callable[..., Path], head_weights: Weights, beside: bool
) -> None:
    assert not weights_of(with_head({})).has_head
    folder = with_head(head_weights, beside=beside)
    assert weights_of(folder).has_head
    if beside:
        (folder / "mtp.safetensors").write_bytes(b"damaged")
        assert not weights_of(folder).has_head


@pytest.mark.parametrize("damage", ["shape", "missing", "numbers"])
def test_a_head_that_cannot_be_used_is_named_with_the_reason(
    with_head: Callable[..., Path],
    head_weights: Weights,
    damage: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    weights = dict(head_weights)
    if damage == "shape":
        weights["mtp.fc.weight"] = mx.ones((64, 64))
    elif damage == "missing":
        del weights["mtp.layers.0.self_attn.v_proj.weight"]
    else:
        weights["mtp.norm.weight"] = mx.full(weights["mtp.norm.weight"].shape, mx.nan)
    with caplog.at_level(logging.WARNING):
        backend = load(with_head(weights), limits=LIMITS)
    own = backend.info.own_head_problem
    assert own is not None
    reason = {"shape": "fc.weight", "missing": "v_proj", "numbers": "NaN"}[damage]
    assert reason in own
    assert "\n" not in own
    assert "draft head of demo is not used" in caplog.text
    assert backend.batch.own_head is None
    backend.close()


def test_a_file_with_a_head_that_cannot_be_read_leaves_the_model_without_one(
    with_head: Callable[..., Path], head_weights: Weights
) -> None:
    folder = with_head(head_weights)
    file = folder / "mtp.safetensors"
    file.write_bytes(file.read_bytes()[:1000])
    backend = load(folder, limits=LIMITS)
    own = backend.info.own_head_problem
    assert own is not None
    assert own.startswith("mtp.safetensors cannot be read")
    assert str(folder) not in own
    backend.close()
