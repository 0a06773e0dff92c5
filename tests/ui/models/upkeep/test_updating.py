"""Looking for newer revisions of models in the window of models, and fetching them."""

import os
from pathlib import Path

from app.desktop.offered_models import offer_found
from engine.values.request import GenerationRequest
from tests.support.hub import COMMIT, Hub
from tests.ui.driving import eventually
from tests.ui.models.opened import OpenedModels
from tests.ui.models.upkeep.conftest import REPOSITORY, asked, is_there

NEWER = "beef" + "0" * 36


def revise(site: Hub) -> None:
    """Give the model a newer revision, whose configuration alone is another."""
    site.commit = NEWER
    site.files[REPOSITORY]["config.json"] += b"\n"
    site.files[REPOSITORY]["generation_config.json"] = b"{}"


async def test_a_newer_revision_is_offered_downloaded_and_the_old_one_is_freed(
    opened: OpenedModels, site: Hub, repository_folder: Path
) -> None:
    local = opened.models
    local.check.click()
    await eventually(lambda: "up to date" in local.outcome.text())
    assert opened.pick(REPOSITORY).update_button.isHidden()

    revise(site)
    site.requests.clear()
    local.check.click()
    await eventually(lambda: local.outcome.text() == "1 update available.")
    opened.pick(REPOSITORY).update_button.click()
    await asked(opened, f"{REPOSITORY} was updated. Deleting the old revision freed ")
    assert os.listdir(repository_folder / "snapshots") == [NEWER]
    # The weights are the same, so they are not fetched again.
    fetched = [path for method, path, _ in site.requests if method == "GET"]
    assert any(path.endswith("config.json") for path in fetched)
    assert not any(path.endswith("model.safetensors") for path in fetched)
    await eventually(lambda: opened.entry(REPOSITORY).local.found.folder.name == NEWER)
    assert opened.pick(REPOSITORY).update_button.isHidden()
    opened.click(REPOSITORY)
    await opened.loaded(REPOSITORY)


async def test_update_loads_the_new_revision_before_deleting_the_old(
    opened: OpenedModels, site: Hub, repository_folder: Path
) -> None:
    opened.click(REPOSITORY)
    await opened.loaded(REPOSITORY)
    revise(site)
    opened.models.check.click()
    await eventually(lambda: opened.models.upkeep.updates)
    opened.pick(REPOSITORY).update_button.click()
    await asked(opened, f"{REPOSITORY} was updated. Deleting the old revision freed ")
    assert opened.info.path.name == NEWER
    answering = opened.window.workspace.model_selection
    await eventually(lambda: answering.state.stage == "ready")
    assert answering.state.name == REPOSITORY
    assert os.listdir(repository_folder / "snapshots") == [NEWER]


async def test_update_of_a_model_beside_the_default_one_keeps_the_default(
    opened: OpenedModels, site: Hub, repository_folder: Path, demo_model_path: Path
) -> None:
    library = opened.window.model_library
    library.changed.connect(lambda: offer_found(opened.engine, library))
    library.refresh()
    await eventually(lambda: opened.engine.is_choosing and not library.is_looking)
    opened.state.load(demo_model_path)
    await opened.loaded("demo-model")
    request = GenerationRequest(prompt="Hello", max_tokens=1, model=REPOSITORY)
    await (await opened.engine.generate(request)).collect()
    revise(site)
    opened.models.check.click()
    await eventually(lambda: opened.models.upkeep.updates)
    opened.pick(REPOSITORY).update_button.click()
    await asked(opened, f"{REPOSITORY} was updated. Deleting the old revision freed ")
    assert opened.state.name == "demo-model"
    loaded = [model.folder.name for model in opened.engine.models if model.is_loaded]
    assert sorted(loaded) == [NEWER, demo_model_path.name]
    assert os.listdir(repository_folder / "snapshots") == [NEWER]


async def test_an_update_of_a_draft_model_keeps_it_as_the_draft_model(
    opened: OpenedModels, site: Hub, repository_folder: Path, demo_model_path: Path
) -> None:
    library = opened.window.model_library
    library.choose_draft(demo_model_path, opened.entry(REPOSITORY).local.found.folder)
    opened.state.load(demo_model_path)
    await opened.loaded("demo-model")
    revise(site)
    opened.models.check.click()
    await eventually(lambda: opened.models.upkeep.updates)
    opened.pick(REPOSITORY).update_button.click()
    await asked(opened, f"{REPOSITORY} was updated. Deleting the old revision freed ")
    assert opened.info.draft.path.name == NEWER
    assert os.listdir(repository_folder / "snapshots") == [NEWER]


async def test_an_update_that_is_cancelled_keeps_the_present_revision(
    opened: OpenedModels, site: Hub, repository_folder: Path
) -> None:
    revise(site)
    opened.models.check.click()
    await eventually(lambda: opened.models.upkeep.updates)
    site.answers.clear()
    opened.pick(REPOSITORY).update_button.click()
    assert opened.models.details.primary.text() == "Pause"
    opened.models.details.primary.click()
    site.answers.set()
    assert opened.entry(REPOSITORY).local.found.folder.name == COMMIT
    opened.click(REPOSITORY)
    await opened.loaded(REPOSITORY)
    assert is_there(repository_folder / "snapshots" / COMMIT)


async def test_hub_is_asked_for_updates_only_while_allowed_and_open(
    opened: OpenedModels, site: Hub
) -> None:
    revise(site)
    opened.click(REPOSITORY)
    await opened.loaded(REPOSITORY)
    assert site.requests == []
    opened.models.hide()
    opened.window.preferences.change_value("models.looks_for_updates", True)
    opened.window.model_library.refresh()
    await eventually(lambda: not opened.window.model_library.is_looking)
    assert site.requests == []
    opened.window.others.show_models()
    await eventually(lambda: opened.models.upkeep.updates)
    newer = opened.pick(REPOSITORY).newer
    assert newer.text().startswith("Update available: a newer revision")
    count = len(site.requests)
    opened.window.model_library.refresh()
    await eventually(lambda: not opened.window.model_library.is_looking)
    assert len(site.requests) == count
