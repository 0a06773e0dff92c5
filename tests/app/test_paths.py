import re
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from app import paths
from app.settings.settings_file import StoredPreferences

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _no_models_were_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))


def test_bundled_models_of_clone() -> None:
    assert paths.demo_model() == REPOSITORY / "assets" / "demo-model"
    assert paths.seeing_model() == REPOSITORY / "assets" / "seeing-model"


def test_seeing_model_is_listed_with_its_packages_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for package, names in (("mlx_vlm", ["seeing-model"]), ("", [])):
        monkeypatch.setattr(paths, "find_spec", package.__eq__)
        assert paths.model_names() == ["demo-model", *names]


def test_bundled_models_and_pages_of_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    included = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    packaged = {Path(source): REPOSITORY / target for source, target in included.items()}
    pages = {
        file.name: packaged.pop(file)
        for file in map(
            Path, (f".github/{name}.md" for name in ("HELP", "WINDOW", "CHANGELOG", "LICENSE"))
        )
    }
    help_page = (REPOSITORY / ".github" / "HELP.md").read_text(encoding="utf-8")
    for name in re.findall(r"\]\(\.\./assets/(.*?)\)", help_page):
        for file in {Path("assets", name), Path("assets", name.replace("-light.", "-dark."))}:
            if (REPOSITORY / file).is_file():
                assert packaged.pop(file) == REPOSITORY / "app" / file
    for folder in (paths.PACKAGED_DEMO_MODEL, paths.PACKAGED_SEEING_MODEL):
        source = Path("assets", folder.name)
        files = {path.name for path in (REPOSITORY / source).iterdir() if path.is_file()}
        assert {"config.json", "model.safetensors", "tokenizer.json"} <= files
        for name in files:
            assert packaged.pop(source / name) == folder / name
    assert not packaged
    # As in a wheel: the packages alone, without the rest of a clone.
    monkeypatch.setattr(paths, "__file__", str(tmp_path / "app" / "paths.py"))
    for name, target in pages.items():
        assert paths.page(name) is None
        place = tmp_path / target.relative_to(REPOSITORY)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
        assert paths.page(name) == place


def test_model_folder_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    folder = tmp_path / "models--makers--some-model" / "snapshots" / "abc"
    shutil.copytree(paths.demo_model(), folder)

    assert paths.model_folder(str(folder)) == folder
    assert paths.model_folder("makers/some-model") == folder
    assert paths.model_folder("some-model") == folder
    assert paths.model_folder("makers/none") == Path("makers/none")


def test_added_model_folders_are_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FULLSTOP_CONFIG_DIR", str(tmp_path / "config"))
    folder = tmp_path / "mine" / "added-model"
    shutil.copytree(paths.demo_model(), folder)
    assert "added-model" not in paths.model_names()

    stored = StoredPreferences(tmp_path / "config")
    now = stored.preferences()
    stored.save(replace(now, models=replace(now.models, folders=(str(tmp_path / "mine"),))))
    assert "added-model" in paths.model_names()
    assert paths.model_folder("added-model") == folder
