"""Models that cannot be used: why is said before any harm is done."""

import json
import math
import shutil
from pathlib import Path

import mlx.core as mx
import pytest
from mlx_lm.models import bitlinear_layers

from engine.engine import Engine
from engine.errors import ModelLoadFailed
from tests.support.asking import run
from tests.support.models.architectures import write_architecture


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model_type": "wonder"}, "architecture wonder"),
        ({"model_file": "evil.py"}, "never run"),
        ({"model_type": "olmo"}, "needs a package for olmo"),
        ({"model_type": None}, "not a language model"),
    ],
)
async def test_unloadable_model_is_refused_before_present_one_is_freed(
    copied: Path, demo_model_path: Path, fields: dict[str, object], words: str
) -> None:
    changed_config(copied, **fields)

    engine = Engine()
    before = await engine.load(demo_model_path)
    with pytest.raises(ModelLoadFailed, match=words):
        await engine.load(copied)
    assert (engine.model, engine.status.is_unloaded) == (before, False)
    await engine.aclose()


@pytest.fixture
def copied(tmp_path: Path, demo_model_path: Path) -> Path:
    folder = tmp_path / "a-model"
    shutil.copytree(demo_model_path, folder, ignore=shutil.ignore_patterns("*.py"))
    return folder


def changed_config(folder: Path, **fields: object) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text()) | fields
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def failure(folder: Path) -> str:
    async def play() -> str:
        engine = Engine()
        with pytest.raises(ModelLoadFailed) as caught:
            await engine.load(folder)
        assert (engine.status.state, engine.status.message) == ("failed", str(caught.value))
        await engine.aclose()
        return str(caught.value)

    return run(play())


@pytest.mark.parametrize(
    "fields",
    [
        {"hidden_size": 64, "head_dim": 16},
        {"num_attention_heads": 0, "head_dim": None},
        {"hidden_size": 10**18},
        {"rope_scaling": ["x"]},
        {"quantization": 5},
        {"vocab_size": -1},
        {"num_hidden_layers": 1e308},
    ],
    ids=json.dumps,
)
def test_absurd_config_values_are_refused(copied: Path, fields: dict[str, object]) -> None:
    changed_config(copied, **fields)

    assert failure(copied).startswith("a-model could not be loaded: ")


def test_code_in_a_model_folder_is_not_run(copied: Path, tmp_path: Path) -> None:
    proof = tmp_path / "run"
    (copied / "evil.py").write_text(f"open({str(proof)!r}, 'w').close()\n")
    changed_config(copied, model_file="evil.py", auto_map={"AutoTokenizer": "evil.T"})

    assert failure(copied) == (
        "a-model needs code of its own (evil.py), and code from models is never run"
    )
    assert not proof.exists()


@pytest.mark.skipif(mx.metal.is_available(), reason="there is a GPU of Apple's")
def test_metal_only_model_is_refused_without_metal(
    tmp_path: Path, demo_model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other tests replace the kernels of all models.
    kernel = bitlinear_layers.make_bitlinear_kernel()
    folder = write_architecture(tmp_path / "a-model", "bitnet", demo_model_path)
    monkeypatch.setattr(bitlinear_layers, "_bitlinear_kernel", kernel)
    assert failure(folder) == (
        "a-model needs a Mac: mlx-lm computes bitnet with programs for Apple's GPUs"
    )


def damaged(folder: Path, name: str, place: int, value: float, dtype: mx.Dtype) -> None:
    """Write one value into a weight of a model folder."""
    file = folder / "model.safetensors"
    weights: dict[str, mx.array] = mx.load(str(file))  # type: ignore[assignment]
    shape = weights[name].shape
    flat = weights[name].reshape(-1).astype(dtype)
    flat[place] = value
    weights[name] = flat.reshape(shape)
    mx.save_safetensors(str(folder / "whole.safetensors"), weights, metadata={"format": "mlx"})
    (folder / "whole.safetensors").replace(file)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
@pytest.mark.parametrize("place", [0, 777, -1])
def test_weights_with_invalid_numbers_are_refused_by_name(
    copied: Path, dtype: mx.Dtype, place: int
) -> None:
    name = "model.layers.1.mlp.up_proj.weight"
    damaged(copied, name, place, math.nan, dtype)

    assert failure(copied) == (
        f"a-model is damaged: its weights {name} contain values that are not numbers (NaN). "
        "Download it again, or convert it again"
    )
