"""Removing a model deletes what was downloaded, and nothing else."""

import os
from pathlib import Path

import pytest

from engine.errors import EngineError
from engine.library.local_models import (
    FoundModel,
    ModelFolders,
    Origin,
    discover,
    models_named,
    removal_of,
    remove,
    remove_replaced_revision,
)

CONTENT = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": b"w" * 1000}


def downloaded(cache: Path, name: str = "makers/one") -> FoundModel:
    """Return a model as the hub's tools keep it: links to blobs."""
    repository = cache / f"models--{name.replace('/', '--')}"
    snapshot = repository / "snapshots" / "c0ffee"
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("c0ffee")
    (cache / ".locks" / repository.name).mkdir(parents=True)
    for file, content in CONTENT.items():
        (repository / "blobs" / file).write_bytes(content)
        (snapshot / file).symlink_to(Path("../../blobs") / file)
    [found] = models_named(discover(ModelFolders(hub_cache=cache)), name)
    return found


def test_a_downloaded_model_is_deleted_and_frees_the_announced_bytes(tmp_path: Path) -> None:
    other = downloaded(tmp_path, "makers/other")
    folder, freed_bytes = removal_of(downloaded(tmp_path))
    assert freed_bytes == sum(map(len, CONTENT.values())) + len("c0ffee")

    remove(folder)
    assert [one.name for one in discover(ModelFolders(hub_cache=tmp_path))] == ["makers/other"]
    assert os.listdir(tmp_path / ".locks") == ["models--makers--other"]
    assert (other.folder / "model.safetensors").stat().st_size == 1000


def test_a_model_of_lm_studio_is_deleted_alone(tmp_path: Path) -> None:
    for name in ("one", "two"):
        folder = tmp_path / "makers" / name
        folder.mkdir(parents=True)
        for file, content in CONTENT.items():
            (folder / file).write_bytes(content)
    # Files beside models make no model of the folder that holds all models, or all of a maker.
    (tmp_path / "stray.gguf").write_bytes(b"x")
    for file, content in CONTENT.items():
        (tmp_path / "makers" / file).write_bytes(content)
    one, two = discover(ModelFolders(lm_studio=(tmp_path,)))
    assert (one.name, one.origin, two.name) == ("one", Origin.LM_STUDIO, "two")
    remove(removal_of(one)[0])
    for file in CONTENT:
        (tmp_path / "makers" / file).unlink()
    assert os.listdir(tmp_path / "makers") == ["two"]


@pytest.mark.parametrize(
    ("origin", "said"),
    [(Origin.BUNDLED, "comes with Fullstop"), (Origin.FOLDER, "delete .*mine yourself")],
)
def test_a_model_that_was_not_downloaded_is_not_deleted(
    tmp_path: Path, origin: Origin, said: str
) -> None:
    with pytest.raises(EngineError, match=said):
        removal_of(FoundModel("mine", tmp_path / "mine", origin))


def test_a_link_to_another_place_is_not_followed(tmp_path: Path) -> None:
    found = downloaded(tmp_path / "real")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "models--makers--one").symlink_to(found.folder.parents[1])
    [linked] = discover(ModelFolders(hub_cache=tmp_path / "cache"))
    with pytest.raises(EngineError, match="is a link"):
        removal_of(linked)
    assert found.folder.is_dir()


def test_an_exact_name_wins_over_the_last_part_of_another(tmp_path: Path) -> None:
    short = FoundModel("one", tmp_path, Origin.LM_STUDIO)
    long = FoundModel("makers/one", tmp_path, Origin.HUGGING_FACE)
    again = FoundModel("others/one", tmp_path, Origin.HUGGING_FACE)
    assert models_named([long, short], "one") == [short]
    assert models_named([long, again], "one") == [long, again]
    assert models_named([long, again], "makers/one") == [long]
    assert models_named([long, again], "none") == []


def revised(cache: Path, content: dict[str, bytes]) -> tuple[Path, Path]:
    """Return the folders of a model's revision and of one that replaced it."""
    old = downloaded(cache).folder
    repository = old.parent.parent
    new = repository / "snapshots" / "beef"
    new.mkdir()
    for file, written in content.items():
        blob = repository / "blobs" / (file if written == CONTENT[file] else f"new-{file}")
        blob.write_bytes(written)
        (new / file).symlink_to(Path("../../blobs") / blob.name)
    (repository / "refs" / "main").write_text("beef")
    return old, new


def test_a_replaced_revision_frees_what_the_new_one_does_not_share(tmp_path: Path) -> None:
    newer = {**CONTENT, "model.safetensors": b"n" * 1500}
    old, new = revised(tmp_path, newer)
    partial = old.parent.parent / "blobs" / "other.fullstop.incomplete"
    partial.write_bytes(b"x")

    assert remove_replaced_revision(old) == 1000
    assert not old.exists()
    assert {path.name: path.read_bytes() for path in new.iterdir()} == newer
    assert partial.exists()
    assert remove_replaced_revision(old) == 0


def test_a_revision_that_a_branch_or_tag_names_stays(tmp_path: Path) -> None:
    old, _ = revised(tmp_path, {**CONTENT, "config.json": b"{ }"})
    tag = old.parent.parent / "refs" / "tags" / "v1"
    tag.parent.mkdir()
    tag.write_text(old.name)
    assert remove_replaced_revision(old) == 0
    assert (old / "config.json").read_bytes() == b"{}"
