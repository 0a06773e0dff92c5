import shutil
import tomllib
from pathlib import Path

import pytest

from app.folders import paths

REPOSITORY = Path(__file__).parents[3]


def test_a_clone_finds_the_demo_model_in_its_assets() -> None:
    assert paths.demo_model() == REPOSITORY / "assets" / "demo-model"


def test_a_wheel_carries_the_demo_model_where_it_is_looked_for() -> None:
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    included = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    packaged = {Path(source).name: REPOSITORY / target for source, target in included.items()}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= packaged.keys()
    assert packaged == {name: paths.PACKAGED_DEMO_MODEL / name for name in packaged}


def test_a_packaged_demo_model_is_preferred(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(paths, "PACKAGED_DEMO_MODEL", tmp_path)
    assert paths.demo_model() == tmp_path


def test_a_model_is_named_by_its_folder_or_as_its_hub_calls_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    folder = tmp_path / "models--makers--some-model" / "snapshots" / "abc"
    shutil.copytree(paths.demo_model(), folder)

    assert paths.model_folder(str(folder)) == folder
    assert paths.model_folder("makers/some-model") == folder
    assert paths.model_folder("some-model") == folder
    assert paths.model_folder("makers/none") == Path("makers/none")
