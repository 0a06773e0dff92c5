"""Models on this machine are found in the folders where people keep them, and nothing else is."""

import json
import os
from pathlib import Path

import pytest

from engine.library.local_models import (
    FoundModel,
    ModelFolders,
    Origin,
    discover,
    hub_cache,
    lm_studio_folders,
)

COMMIT = "a" * 40


def made(folder: Path, **config: object) -> Path:
    folder.mkdir(parents=True)
    stated = {"model_type": "qwen3", "max_position_embeddings": 4096} | config
    (folder / "config.json").write_text(json.dumps(stated))
    (folder / "model.safetensors").write_bytes(b"12345678")
    (folder / "tokenizer.json").write_text("{}")
    return folder


def cached(cache: Path, repository: str, commit: str = COMMIT) -> Path:
    return made(cache / f"models--{repository.replace('/', '--')}" / "snapshots" / commit)


def only(places: ModelFolders) -> FoundModel:
    [model] = discover(places)
    return model


def test_the_bundled_model_comes_first_with_what_its_folder_says(
    tmp_path: Path, demo_model_path: Path
) -> None:
    made(tmp_path / "a-model")
    first, second = discover(ModelFolders(bundled=demo_model_path, added=(tmp_path,)))

    assert (first.origin, first.name, first.architecture) == (
        Origin.BUNDLED,
        "demo-model",
        "qwen3",
    )
    weights = (demo_model_path / name for name in ("model.safetensors", "mtp.safetensors"))
    assert first.size_bytes == sum(file.stat().st_size for file in weights)
    assert (first.problem, first.is_partial) == ("", False)
    assert second.name == "a-model"


def test_added_folder_is_a_model_or_holds_models(tmp_path: Path) -> None:
    for name in ("b", "makers/c", "too/deep/d"):
        made(tmp_path / "mine" / name)
    alone = made(tmp_path / "a")

    found = discover(ModelFolders(added=(tmp_path / "mine", alone)))
    assert [model.name for model in found] == ["a", "b", "c"]
    assert {model.origin for model in found} == {Origin.FOLDER}


@pytest.mark.parametrize("impossible", ["x" * 20_000, "a\x00b"])
def test_a_name_that_cannot_be_a_path_hides_no_other_model(tmp_path: Path, impossible: str) -> None:
    cached(tmp_path / "hub", "maker/model")
    reference = tmp_path / "hub" / "models--maker--model" / "refs" / "main"
    reference.parent.mkdir()
    reference.write_text(impossible)
    places = ModelFolders(added=(tmp_path / impossible,), hub_cache=tmp_path / "hub")
    assert only(places).name == "maker/model"


def test_a_cached_repository_is_found_under_its_name_at_the_commit_of_main(tmp_path: Path) -> None:
    cached(tmp_path, "makers/some-model", "b" * 40)
    folder = cached(tmp_path, "makers/some-model")
    (folder.parent.parent / "refs").mkdir()
    (folder.parent.parent / "refs" / "main").write_text(COMMIT)

    model = only(ModelFolders(hub_cache=tmp_path))
    assert (model.name, model.folder) == ("makers/some-model", folder)
    assert model.origin is Origin.HUGGING_FACE


def test_without_a_commit_of_main_the_newest_revision_is_found(tmp_path: Path) -> None:
    older = cached(tmp_path, "makers/some-model", "b" * 40)
    newer = cached(tmp_path, "makers/some-model")
    os.utime(older, (1_000, 1_000))
    assert only(ModelFolders(hub_cache=tmp_path)).folder == newer


def test_a_download_that_has_not_ended_says_how_much_of_it_has_arrived(tmp_path: Path) -> None:
    folder = cached(tmp_path, "makers/some-model")
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    blobs = folder.parent.parent / "blobs"
    blobs.mkdir()
    (blobs / "b.fullstop.incomplete").write_bytes(b"1" * 2_000_000)

    model = only(ModelFolders(hub_cache=tmp_path))
    assert model.size_bytes == 2_000_008
    assert model.trouble == "Incomplete: model-2.safetensors missing. 2.0 MB has arrived."


def test_models_of_lm_studio_are_found_or_explained(tmp_path: Path) -> None:
    [folder, _] = lm_studio_folders(tmp_path)
    made(folder / "makers" / "for-mlx")
    (folder / "makers" / "for-others").mkdir()
    (folder / "makers" / "for-others" / "model.GGUF").write_bytes(b"xy")
    (folder / "makers" / "for-others" / "mmproj.gguf").write_bytes(b"x")
    mixed = made(folder / "makers" / "mixed")
    (mixed / "model.gguf").write_bytes(b"x")

    ours, others, both = discover(ModelFolders(lm_studio=lm_studio_folders(tmp_path)))
    assert (ours.name, ours.origin, ours.can_be_loaded) == ("for-mlx", Origin.LM_STUDIO, True)
    assert (both.name, both.can_be_loaded) == ("mixed", True)
    assert (others.name, others.size_bytes) == ("for-others", 2)
    assert (others.is_gguf, others.can_be_loaded) == (True, False)
    assert others.trouble.startswith("It is a GGUF file")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}, "/a"),
        ({"HF_HOME": "/b"}, "/b/hub"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/huggingface/hub"),
        ({}, str(Path.home() / ".cache/huggingface/hub")),
    ],
)
def test_the_cache_is_where_the_tools_of_the_hub_keep_it(
    environment: dict[str, str], expected: str
) -> None:
    assert str(hub_cache(environment)) == expected
