"""Adapters of mlx-lm's trainer among the models on this machine, and adapters that are no such."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ModelLoadFailed
from engine.library.adapters import check_adapter
from engine.library.local_models import FoundModel, ModelFolders, discover
from engine.library.memory_need import need

GOOD: dict[str, Any] = {
    "model": "demo-model",
    "fine_tune_type": "lora",
    "num_layers": 4,
    "lora_parameters": {"rank": 8, "scale": 20.0, "dropout": 0.0},
}


def adapter(folder: Path, **changed: Any) -> Path:
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text(json.dumps(GOOD | changed))
    header = b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    weights = len(header).to_bytes(8, "little") + header + b"\0" * 8
    (folder / "adapters.safetensors").write_bytes(weights)
    return folder


def found(demo: Path, *folders: Path, **places: Any) -> list[FoundModel]:
    [_, *others] = discover(ModelFolders(bundled=demo, added=folders, **places))
    return others


def test_adapter_is_named_after_its_base(tmp_path: Path, demo_model_path: Path) -> None:
    folder = adapter(tmp_path / "poems")
    [model] = found(demo_model_path, tmp_path)
    assert (model.name, model.base) == ("demo-model + poems", demo_model_path)
    assert (model.folder, model.can_be_loaded, model.architecture) == (folder, True, "qwen3")
    assert model.size_bytes == (folder / "adapters.safetensors").stat().st_size
    assert model.context_length == 32_768


@pytest.mark.parametrize("form", ["{path}", "someone/demo-model", "/elsewhere/demo-model/"])
def test_base_is_found_by_path_or_last_name(
    tmp_path: Path, demo_model_path: Path, form: str
) -> None:
    adapter(tmp_path / "poems", model=form.format(path=demo_model_path))
    [model] = found(demo_model_path, tmp_path)
    assert model.base == demo_model_path


def test_adapter_of_a_hub_repository_is_found(tmp_path: Path, demo_model_path: Path) -> None:
    adapter(tmp_path / "models--jane--poems" / "snapshots" / ("a" * 40))
    [model] = found(demo_model_path, hub_cache=tmp_path)
    assert (model.name, model.base) == ("demo-model + jane/poems", demo_model_path)


@pytest.mark.parametrize("stated", ["../demo-model/..", "/etc", "other/model", ".", "", 7, None])
def test_unknown_base_is_named_and_never_opened(
    tmp_path: Path, demo_model_path: Path, stated: object
) -> None:
    adapter(tmp_path / "poems", model=stated)
    [model] = found(demo_model_path, tmp_path)
    assert (model.name, model.base, model.can_be_loaded) == ("poems", None, False)
    assert "choose another base" in model.trouble
    assert not stated or str(stated) in model.trouble or stated == 7


def test_chosen_base_takes_precedence(tmp_path: Path, demo_model_path: Path) -> None:
    copy = tmp_path / "models" / "copy"
    shutil.copytree(demo_model_path, copy)
    folder = adapter(tmp_path / "models" / "poems")
    places = ModelFolders(bundled=demo_model_path, added=(tmp_path / "models",))
    chosen = {folder: copy}
    names = [model.name for model in discover(places, chosen.get)]
    assert names == ["demo-model", "copy", "copy + poems"]


def test_memory_is_that_of_base_and_adapter(tmp_path: Path, demo_model_path: Path) -> None:
    folder = adapter(tmp_path / "poems")
    alone, adapted = need(demo_model_path), need(folder, None, demo_model_path)
    assert adapted.weights - alone.weights == (folder / "adapters.safetensors").stat().st_size


@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        ({"peft_type": "LORA"}, "made with PEFT"),
        ({"fine_tune_type": "prefix"}, "fine_tune_type is 'prefix'"),
        ({"num_layers": "all"}, "num_layers is 'all'"),
        ({"lora_parameters": None}, "no lora_parameters"),
        ({"lora_parameters": {"rank": 10**12, "scale": 1, "dropout": 0}}, "rank is 1000000000000"),
        ({"lora_parameters": {"rank": 8, "scale": 10**400, "dropout": 0}}, "scale is 1000"),
        ({"lora_parameters": {"rank": 8, "scale": 1, "dropout": 1}}, "dropout is 1"),
        ({"lora_parameters": {"rank": 8, "scale": 1, "dropout": 0, "keys": "q"}}, "keys"),
    ],
)
def test_hostile_configuration_is_refused(
    tmp_path: Path, demo_model_path: Path, changed: dict[str, Any], cause: str
) -> None:
    folder = adapter(tmp_path / "poems", **changed)
    [model] = found(demo_model_path, tmp_path)
    assert cause in model.obstacle
    with pytest.raises(ModelLoadFailed, match="poems cannot be loaded: it"):
        check_adapter(folder)


def test_damaged_files_of_adapters_are_named(tmp_path: Path, demo_model_path: Path) -> None:
    cut, none, text = (adapter(tmp_path / name) for name in ("cut", "none", "text"))
    (cut / "adapters.safetensors").write_bytes(b"\x01\x02")
    (none / "adapters.safetensors").unlink()
    (text / "adapter_config.json").write_text("[1")
    problems = {model.folder: model.problem for model in found(demo_model_path, tmp_path)}
    assert "cut/adapters.safetensors is damaged" in problems[cut]
    assert "none/adapters.safetensors is missing" in problems[none]
    assert "text/adapter_config.json is damaged" in problems[text]


def test_fused_model_is_no_adapter(tmp_path: Path, demo_model_path: Path) -> None:
    folder = tmp_path / "fused"
    shutil.copytree(demo_model_path, folder)
    (folder / "adapter_config.json").write_text(json.dumps(GOOD))
    [model] = found(demo_model_path, tmp_path)
    assert (model.name, model.is_adapter) == ("fused", False)
