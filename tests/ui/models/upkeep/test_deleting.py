"""Deleting models in the window of models."""

import shutil
from pathlib import Path

import pytest

from engine.scheduling.model_list import OfferedModel
from engine.values.request import GenerationRequest
from tests.support.hub import Hub
from tests.ui.driving import eventually
from tests.ui.models.opened import OpenedModels
from tests.ui.models.upkeep.conftest import REPOSITORY, asked, choose, is_there
from ui.words import display_name


async def test_a_model_is_deleted_after_a_question_that_names_the_bytes(
    opened: OpenedModels, repository_folder: Path
) -> None:
    choose(opened, "Delete…")
    await asked(opened, "Delete “Demo model”? This frees 4.")
    question = opened.models.question
    assert "download it again" in question.caption.text()
    assert [button.text() for button in question.buttons] == ["Delete", "Cancel"]
    opened.answer("Cancel")
    assert is_there(repository_folder)

    choose(opened, "Delete…")
    await asked(opened, "This frees")
    opened.answer("Delete")
    await asked(opened, f"{display_name(REPOSITORY)} was deleted. This freed 4.")
    assert not is_there(repository_folder)
    await eventually(lambda: not opened.has(REPOSITORY))


async def test_a_model_in_use_is_never_deleted(
    opened: OpenedModels, repository_folder: Path
) -> None:
    # The question is open while the model is loaded.
    choose(opened, "Delete…")
    await asked(opened, "This frees")
    opened.click(REPOSITORY)
    await opened.loaded(REPOSITORY)
    opened.answer("Delete")
    await asked(opened, "is in use. Unload it")
    opened.answer("OK")
    choose(opened, "Delete…")
    await asked(opened, "is in use. Unload it")
    assert is_there(repository_folder)

    opened.answer("Unload")
    await eventually(lambda: opened.state.stage == "none")
    choose(opened, "Delete…")
    await asked(opened, "This frees")
    opened.answer("Delete")
    await eventually(lambda: not is_there(repository_folder))


async def test_a_model_that_was_unloaded_while_idle_counts_as_in_use(
    opened: OpenedModels, repository_folder: Path
) -> None:
    opened.click(REPOSITORY)
    await opened.loaded(REPOSITORY)
    opened.engine.unload_after(0.05)
    await eventually(lambda: opened.state.status().is_idle)
    choose(opened, "Delete…")
    await asked(opened, "is in use")
    assert is_there(repository_folder)


async def test_the_draft_model_of_the_loaded_one_is_not_deleted(
    opened: OpenedModels, repository_folder: Path, demo_model_path: Path
) -> None:
    library = opened.window.model_library
    library.choose_draft(demo_model_path, opened.entry(REPOSITORY).local.found.folder)
    opened.state.load(demo_model_path)
    await opened.loaded("demo-model")
    choose(opened, "Delete…")
    await asked(opened, "is in use")
    assert is_there(repository_folder)


async def test_model_loaded_by_another_program_is_not_deleted(
    opened: OpenedModels, repository_folder: Path, demo_model_path: Path
) -> None:
    opened.state.load(demo_model_path)
    await opened.loaded("demo-model")
    found = [opened.entry(name).local.found for name in ("demo-model", REPOSITORY)]
    opened.engine.offer([OfferedModel(one.name, one.folder) for one in found])
    asked_by_name = GenerationRequest(prompt="Hello", max_tokens=1, model=REPOSITORY)
    generation = await opened.engine.generate(asked_by_name)
    async for _ in generation.batches():
        pass
    assert opened.state.name == "demo-model"
    choose(opened, "Delete…")
    await asked(opened, "is in use")
    assert is_there(repository_folder)


async def test_a_model_that_is_being_downloaded_is_not_deleted(
    opened: OpenedModels, site: Hub, repository_folder: Path
) -> None:
    site.answers.clear()
    opened.window.model_library.downloads.start(REPOSITORY)
    choose(opened, "Delete…")
    await asked(opened, "Pause the download")
    assert is_there(repository_folder)
    site.answers.set()


async def test_the_demo_model_and_a_persons_own_folders_have_no_entry_that_deletes(
    opened: OpenedModels, tmp_path: Path, demo_model_path: Path
) -> None:
    shutil.copytree(demo_model_path, tmp_path / "mine" / "own")
    opened.window.model_library.add_folder(tmp_path / "mine")
    await eventually(lambda: opened.has("own"))
    assert "Delete…" not in opened.commands("demo-model")
    assert "Delete…" not in opened.commands("own")


async def test_files_that_cannot_be_deleted_are_named(
    opened: OpenedModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, **_: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(shutil, "rmtree", refuse)
    choose(opened, "Delete…")
    await asked(opened, "This frees")
    opened.answer("Delete")
    await asked(opened, "cannot be deleted: you have no permission")
    assert opened.has(REPOSITORY)
