"""Deleting models in the window of models."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QToolButton

from engine.library.downloads import HubDownload
from engine.scheduling.model_list import OfferedModel
from engine.values.request import GenerationRequest
from tests.support.hub import Hub, hub
from tests.ui.driving import Enter, Living, eventually
from tests.ui.models.opened import OpenedModels
from ui.kit.theme import Theme

REPOSITORY = "makers/demo-model"


@pytest.fixture
def site(demo_model_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hub() as served:
        served.add_folder(REPOSITORY, demo_model_path)
        served.facts[REPOSITORY] = {"tags": ["mlx"], "lastModified": "2026-11-01T00:00:00Z"}
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        yield served


@pytest.fixture
def opened(
    enter: Enter, theme: Theme, tmp_path: Path, demo_model_path: Path, site: Hub
) -> Living[OpenedModels]:
    """A window on a computer to which the model was downloaded."""
    HubDownload(REPOSITORY, tmp_path / "hub").run()
    site.requests.clear()
    return enter(lambda: OpenedModels(theme, tmp_path, demo_model_path))


@pytest.fixture
def repository_folder(tmp_path: Path) -> Path:
    return tmp_path / "hub" / "models--makers--demo-model"


def entry(opened: OpenedModels, words: str, name: str = REPOSITORY) -> QAction | None:
    """Return an entry of a model's menu."""
    more = opened.card(name).findChild(QToolButton)
    assert more is not None
    return next((one for one in more.menu().actions() if one.text() == words), None)


def choose(opened: OpenedModels, words: str, name: str = REPOSITORY) -> None:
    found = entry(opened, words, name)
    assert found is not None
    found.trigger()


async def asked(opened: OpenedModels, words: str) -> None:
    question = opened.models.question
    await eventually(lambda: question.isVisible() and words in question.caption.text())


async def test_a_model_is_deleted_after_a_question_that_names_the_bytes(
    opened: OpenedModels, repository_folder: Path
) -> None:
    choose(opened, "Delete…")
    await asked(opened, f"Delete “{REPOSITORY}”? This frees 4.")
    question = opened.models.question
    assert "download it again" in question.caption.text()
    assert [button.text() for button in question.buttons] == ["Delete", "Cancel"]
    opened.answer("Cancel")
    assert repository_folder.exists()

    choose(opened, "Delete…")
    await asked(opened, "This frees")
    opened.answer("Delete")
    await asked(opened, f"{REPOSITORY} was deleted. This freed 4.")
    assert not repository_folder.exists()
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
    assert repository_folder.exists()

    [line] = opened.models.memory.lines.values()
    line.unload.click()
    await eventually(lambda: opened.state.stage == "none")
    choose(opened, "Delete…")
    await asked(opened, "This frees")
    opened.answer("Delete")
    await eventually(lambda: not repository_folder.exists())


async def test_the_draft_model_of_the_loaded_one_is_not_deleted(
    opened: OpenedModels, repository_folder: Path, demo_model_path: Path
) -> None:
    library = opened.window.model_library
    library.choose_draft(demo_model_path, opened.card(REPOSITORY).model.found.folder)
    opened.state.load(demo_model_path)
    await opened.loaded("demo-model")
    choose(opened, "Delete…")
    await asked(opened, "is in use")
    assert repository_folder.exists()


async def test_model_loaded_by_another_program_is_not_deleted(
    opened: OpenedModels, repository_folder: Path, demo_model_path: Path
) -> None:
    opened.state.load(demo_model_path)
    await opened.loaded("demo-model")
    found = [opened.card(name).model.found for name in ("demo-model", REPOSITORY)]
    opened.engine.offer([OfferedModel(one.name, one.folder) for one in found])
    asked_by_name = GenerationRequest(prompt="Hello", max_tokens=1, model=REPOSITORY)
    generation = await opened.engine.generate(asked_by_name)
    async for _ in generation.batches():
        pass
    assert opened.state.name == "demo-model"
    choose(opened, "Delete…")
    await asked(opened, "is in use")
    assert repository_folder.exists()


async def test_a_model_that_is_being_downloaded_is_not_deleted(
    opened: OpenedModels, site: Hub, repository_folder: Path
) -> None:
    site.answers.clear()
    opened.window.model_library.downloads.start(REPOSITORY)
    choose(opened, "Delete…")
    await asked(opened, "Pause the download")
    assert repository_folder.exists()
    site.answers.set()


async def test_the_demo_model_and_a_persons_own_folders_have_no_entry_that_deletes(
    opened: OpenedModels, tmp_path: Path, demo_model_path: Path
) -> None:
    shutil.copytree(demo_model_path, tmp_path / "mine" / "own")
    opened.window.model_library.add_folder(tmp_path / "mine")
    await eventually(lambda: opened.has("own"))
    assert entry(opened, "Delete…", "demo-model") is None
    assert entry(opened, "Delete…", "own") is None


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
