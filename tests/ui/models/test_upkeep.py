"""Deleting and updating models in the window of models."""

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtGui import QAction, QDesktopServices
from PySide6.QtWidgets import QToolButton

from engine.library.downloads import download
from engine.scheduling.offering import OfferedModel
from engine.values.request import GenerationRequest
from tests.support.hub import COMMIT, Hub, hub
from tests.ui.driving import RunOnLoop, eventually
from tests.ui.models.opened import OpenedModels
from ui.kit.look.theme import Theme

REPOSITORY = "makers/demo-model"
NEWER = "beef" + "0" * 36


@pytest.fixture
def site(demo_model_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hub() as served:
        served.add_folder(REPOSITORY, demo_model_path)
        served.facts[REPOSITORY] = {"tags": ["mlx"], "lastModified": "2026-11-01T00:00:00Z"}
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        yield served


@pytest.fixture
def opened(theme: Theme, tmp_path: Path, demo_model_path: Path, site: Hub) -> OpenedModels:
    """A window on a computer to which the model was downloaded."""
    download(
        REPOSITORY,
        tmp_path / "hub",
        on_progress=lambda _: None,
        gives_up=threading.Event(),
        endpoint=site.url,
    )
    return OpenedModels(theme, tmp_path, demo_model_path)


@pytest.fixture
def repository_folder(tmp_path: Path) -> Path:
    return tmp_path / "hub" / "models--makers--demo-model"


def revise(site: Hub) -> None:
    """Give the model a newer revision, whose configuration alone is another."""
    site.commit = NEWER
    site.files[REPOSITORY]["config.json"] += b"\n"
    site.files[REPOSITORY]["generation_config.json"] = b"{}"


def is_there(folder: Path) -> bool:
    return folder.exists()


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
    await eventually(lambda: question.isVisible() and words in question.words.text())


def test_a_model_is_deleted_after_a_question_that_names_the_bytes(
    run: RunOnLoop, opened: OpenedModels, repository_folder: Path
) -> None:
    async def play() -> None:
        async with opened:
            choose(opened, "Delete…")
            await asked(opened, f"Delete {REPOSITORY}? This frees 3.")
            question = opened.models.question
            assert "cannot be undone" in question.words.text()
            assert [button.text() for button in question.buttons] == ["Delete", "Cancel"]
            opened.answer("Cancel")
            assert is_there(repository_folder)

            choose(opened, "Delete…")
            await asked(opened, "This frees")
            opened.answer("Delete")
            await asked(opened, f"{REPOSITORY} is deleted; 3.")
            assert not is_there(repository_folder)
            await eventually(lambda: not opened.has(REPOSITORY))

    run(play())


def test_cancel_has_the_focus_when_a_deletion_is_asked_about(
    run: RunOnLoop, opened: OpenedModels
) -> None:
    async def play() -> None:
        async with opened:
            choose(opened, "Delete…")
            await asked(opened, "This frees")
            cancel = opened.models.question.buttons[-1]
            await eventually(lambda: opened.models.focusWidget() is cancel)
            opened.answer("Cancel")

    run(play())


def test_a_model_in_use_is_never_deleted(
    run: RunOnLoop, opened: OpenedModels, repository_folder: Path
) -> None:
    async def play() -> None:
        async with opened:
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

            opened.models.loaded.unload.click()
            await eventually(lambda: opened.state.stage == "none")
            choose(opened, "Delete…")
            await asked(opened, "This frees")
            opened.answer("Delete")
            await eventually(lambda: not is_there(repository_folder))

    run(play())


def test_a_model_that_was_unloaded_while_idle_counts_as_in_use(
    run: RunOnLoop, opened: OpenedModels, repository_folder: Path
) -> None:
    async def play() -> None:
        async with opened:
            opened.click(REPOSITORY)
            await opened.loaded(REPOSITORY)
            opened.engine.unload_after(0.05)
            await eventually(lambda: opened.state.is_unloaded)
            choose(opened, "Delete…")
            await asked(opened, "is in use")
            assert is_there(repository_folder)

    run(play())


def test_the_draft_model_of_the_loaded_one_is_not_deleted(
    run: RunOnLoop, opened: OpenedModels, repository_folder: Path, demo_model_path: Path
) -> None:
    async def play() -> None:
        async with opened:
            library = opened.window.model_library
            library.choose_draft(demo_model_path, opened.card(REPOSITORY).model.found.folder)
            opened.state.load(demo_model_path)
            await opened.loaded("demo-model")
            choose(opened, "Delete…")
            await asked(opened, "is in use")
            assert is_there(repository_folder)

    run(play())


def test_a_model_that_another_program_had_loaded_beside_the_windows_is_not_deleted(
    run: RunOnLoop, opened: OpenedModels, repository_folder: Path, demo_model_path: Path
) -> None:
    async def play() -> None:
        async with opened:
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
            assert is_there(repository_folder)

    run(play())


def test_a_model_that_is_being_downloaded_is_not_deleted(
    run: RunOnLoop, opened: OpenedModels, site: Hub, repository_folder: Path
) -> None:
    async def play() -> None:
        async with opened:
            site.answers.clear()
            opened.window.model_library.downloads.start(REPOSITORY)
            choose(opened, "Delete…")
            await asked(opened, "Cancel the download")
            assert is_there(repository_folder)
            site.answers.set()

    run(play())


def test_the_demo_model_and_a_persons_own_folders_have_no_entry_that_deletes(
    run: RunOnLoop, opened: OpenedModels, tmp_path: Path, demo_model_path: Path
) -> None:
    shutil.copytree(demo_model_path, tmp_path / "mine" / "own")

    async def play() -> None:
        async with opened:
            opened.window.model_library.add_folder(tmp_path / "mine")
            await eventually(lambda: opened.has("own"))
            assert entry(opened, "Delete…", "demo-model") is None
            assert entry(opened, "Delete…", "own") is None

    run(play())


def test_files_that_cannot_be_deleted_are_named(
    run: RunOnLoop, opened: OpenedModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, **_: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(shutil, "rmtree", refuse)

    async def play() -> None:
        async with opened:
            choose(opened, "Delete…")
            await asked(opened, "This frees")
            opened.answer("Delete")
            await asked(opened, "cannot be deleted: Permission denied")
            assert opened.has(REPOSITORY)

    run(play())


def test_a_newer_revision_is_offered_downloaded_and_the_old_one_is_freed(
    run: RunOnLoop, opened: OpenedModels, site: Hub, repository_folder: Path
) -> None:
    async def play() -> None:
        async with opened:
            local = opened.models.local
            local.check.click()
            await eventually(lambda: "up to date" in local.outcome.text())
            assert opened.card(REPOSITORY).update_button is None

            revise(site)
            local.check.click()
            await eventually(lambda: local.outcome.text() == "1 update available.")
            button = opened.card(REPOSITORY).update_button
            assert button is not None
            button.click()
            await asked(opened, f"{REPOSITORY} is updated; ")
            assert os.listdir(repository_folder / "snapshots") == [NEWER]
            # The weights are the same, so they were fetched once.
            fetched = [path for method, path, _ in site.requests if method == "GET"]
            assert sum(path.endswith("model.safetensors") for path in fetched) == 1
            await eventually(lambda: opened.card(REPOSITORY).model.found.folder.name == NEWER)
            assert opened.card(REPOSITORY).update_button is None
            opened.click(REPOSITORY)
            await opened.loaded(REPOSITORY)

    run(play())


def test_an_update_of_the_loaded_model_loads_the_newer_revision_before_the_old_one_goes(
    run: RunOnLoop, opened: OpenedModels, site: Hub, repository_folder: Path
) -> None:
    async def play() -> None:
        async with opened:
            opened.click(REPOSITORY)
            await opened.loaded(REPOSITORY)
            revise(site)
            opened.models.local.check.click()
            await eventually(lambda: opened.card(REPOSITORY).update_button is not None)
            opened.card(REPOSITORY).update_button.click()
            await asked(opened, f"{REPOSITORY} is updated; ")
            assert opened.state.info.path.name == NEWER
            answering = opened.window.workspace.answering
            await eventually(lambda: answering.stage == "ready")
            assert answering.name == REPOSITORY
            assert os.listdir(repository_folder / "snapshots") == [NEWER]

    run(play())


def test_an_update_of_a_draft_model_keeps_it_as_the_draft_model(
    run: RunOnLoop,
    opened: OpenedModels,
    site: Hub,
    repository_folder: Path,
    demo_model_path: Path,
) -> None:
    async def play() -> None:
        async with opened:
            library = opened.window.model_library
            library.choose_draft(demo_model_path, opened.card(REPOSITORY).model.found.folder)
            opened.state.load(demo_model_path)
            await opened.loaded("demo-model")
            revise(site)
            opened.models.local.check.click()
            await eventually(lambda: opened.card(REPOSITORY).update_button is not None)
            opened.card(REPOSITORY).update_button.click()
            await asked(opened, f"{REPOSITORY} is updated; ")
            assert opened.state.info.draft.path.name == NEWER
            assert os.listdir(repository_folder / "snapshots") == [NEWER]

    run(play())


def test_an_update_that_is_cancelled_keeps_the_present_revision(
    run: RunOnLoop, opened: OpenedModels, site: Hub, repository_folder: Path
) -> None:
    async def play() -> None:
        async with opened:
            revise(site)
            opened.models.local.check.click()
            await eventually(lambda: opened.card(REPOSITORY).update_button is not None)
            site.answers.clear()
            opened.card(REPOSITORY).update_button.click()
            [row] = opened.models.local.rows
            row.cancel.click()
            site.answers.set()
            assert opened.card(REPOSITORY).model.found.folder.name == COMMIT
            opened.click(REPOSITORY)
            await opened.loaded(REPOSITORY)
            assert is_there(repository_folder / "snapshots" / COMMIT)

    run(play())


def test_updates_cannot_be_looked_for_without_a_hub_which_is_said(
    run: RunOnLoop, opened: OpenedModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with opened:
            monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
            opened.models.local.check.click()
            await eventually(lambda: "cannot be reached" in opened.models.local.outcome.text())

    run(play())


def test_nothing_asks_the_hub_before_somebody_wants_it(
    run: RunOnLoop, opened: OpenedModels, site: Hub
) -> None:
    site.requests.clear()

    async def play() -> None:
        async with opened:
            opened.click(REPOSITORY)
            await opened.loaded(REPOSITORY)
            assert site.requests == []

    run(play())


@pytest.mark.parametrize(
    ("platform", "words"), [("darwin", "Show in Finder"), ("linux", "Show in File Manager")]
)
def test_a_models_folder_is_shown_by_the_systems_file_manager(
    run: RunOnLoop,
    opened: OpenedModels,
    repository_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    platform: str,
    words: str,
) -> None:
    shown: list[str] = []
    monkeypatch.setattr("ui.kit.system.files_shown.sys.platform", platform)
    monkeypatch.setattr(
        QDesktopServices, "openUrl", lambda url: shown.append(url.toLocalFile()) or True
    )

    async def play() -> None:
        async with opened:
            await eventually(lambda: opened.has(REPOSITORY))
            choose(opened, words)
            assert shown == [str(repository_folder / "snapshots" / COMMIT)]

    run(play())


def test_the_focus_stays_on_a_models_button_when_the_list_is_made_anew(
    run: RunOnLoop, opened: OpenedModels
) -> None:
    async def play() -> None:
        async with opened:
            opened.models.activateWindow()
            await eventually(opened.models.isActiveWindow)
            before = opened.card(REPOSITORY)
            more = before.findChild(QToolButton)
            assert more is not None
            more.setFocus()
            await eventually(more.hasFocus)
            opened.window.model_library.refresh()
            await eventually(lambda: opened.card(REPOSITORY) is not before)
            now = opened.card(REPOSITORY).findChild(QToolButton)
            assert now is not None
            await eventually(now.hasFocus)

    run(play())
