"""Adapters in the window: listed under their base, added as folders, loaded, their base chosen."""

import shutil
from pathlib import Path

import pytest

from tests.support.models.adapters import random_adapter
from tests.ui.chat.switching.several import SeveralModels
from tests.ui.driving import eventually
from tests.ui.models.opened import commands_of, entry_of
from ui.kit.theme import Theme
from ui.models.models_window import ModelsWindow
from ui.records.conversations import ChosenModel
from ui.words import display_name


@pytest.fixture
def trained(tmp_path: Path, demo_model_path: Path) -> Path:
    """A folder of two adapters: one of the model alpha, one of a base that is not here."""
    folder = tmp_path / "trained"
    random_adapter(demo_model_path, folder / "poems", 1, stated="alpha")
    random_adapter(demo_model_path, folder / "stray", 2, stated="other/base")
    return folder


def models_of(several: SeveralModels) -> ModelsWindow:
    several.window.others.show_models()
    return several.window.others.models


def names(several: SeveralModels) -> list[str]:
    return [model.found.name for model in several.window.model_library.local]


async def answer(several: SeveralModels, folder: Path, name: str) -> str:
    """Choose the model of a folder, and return the text of its answer."""
    several.answering.choose(folder)
    state = several.answering
    await eventually(lambda: (state.state.stage, state.state.name) == ("ready", name))
    run = await several.ask("Count from 1 to 30")
    assert run.model_id == name
    return several.workspace.current.conversation.messages[-1].text


async def test_adapters_of_an_added_folder_are_listed_and_answer(
    theme: Theme, tmp_path: Path, demo_model_path: Path, trained: Path
) -> None:
    async with SeveralModels(theme, tmp_path, demo_model_path, at_once=True) as several:
        models = models_of(several)
        several.window.model_library.add_folder(trained)
        await eventually(lambda: "alpha + poems" in names(several))
        state = models.entries.state(entry_of(models, "alpha + poems"))
        assert state.text.startswith("Adapter · ")
        stray = models.entries.state(entry_of(models, "stray"))
        assert "Its base other/base is not among the models" in stray.text
        plain = await answer(several, several.folder / "alpha", "alpha")
        assert await answer(several, trained / "poems", "alpha + poems") != plain
        row = entry_of(models, "alpha + poems")
        await eventually(lambda: "beside its base" in models.entries.state(row).text)
        assert several.window.workspace.models.uses(several.folder / "alpha")
        several.window.model_library.refresh()
        await eventually(lambda: not several.window.model_library.is_looking)
        await eventually(lambda: not several.answering._is_checking)
        assert not several.answering.state.has_lost_folder


async def test_base_of_an_adapter_is_chosen_in_its_menu(
    theme: Theme, tmp_path: Path, demo_model_path: Path, trained: Path
) -> None:
    async with SeveralModels(theme, tmp_path, demo_model_path, at_once=True) as several:
        models = models_of(several)
        several.window.model_library.add_folder(trained)
        await eventually(lambda: "stray" in names(several))
        bases = commands_of(models, "stray")
        assert not bases["alpha"].checked
        bases["beta"].run()
        await eventually(lambda: "beta + stray" in names(several))
        assert commands_of(models, "beta + stray")["beta"].checked
        await answer(several, trained / "stray", "beta + stray")
        commands_of(models, "beta + stray")["alpha"].run()
        await eventually(lambda: "alpha + stray" in names(several))
        await eventually(lambda: not any(one.is_loaded for one in several.engine.models))
        await answer(several, trained / "stray", "alpha + stray")


async def test_base_that_is_gone_is_named(
    theme: Theme, tmp_path: Path, demo_model_path: Path, trained: Path
) -> None:
    async with SeveralModels(theme, tmp_path, demo_model_path, at_once=True) as several:
        library = several.window.model_library
        library.add_folder(trained)
        await eventually(lambda: "alpha + poems" in names(several))
        shutil.rmtree(several.folder / "alpha")
        library.refresh()
        await eventually(lambda: "poems" in names(several))
        found = next(one.found for one in library.local if one.found.name == "poems")
        assert not found.can_be_loaded
        assert "Its base alpha is not among the models" in found.trouble


def test_names_of_adapters_are_short() -> None:
    assert display_name("demo-model + poems") == "Fullstop Demo + poems"
    assert display_name("mlx-community/Qwen3-4B-4bit + jane/poems") == "Qwen3 4B + poems"


async def test_opened_adapter_is_loaded_and_listed(
    theme: Theme, tmp_path: Path, demo_model_path: Path, trained: Path
) -> None:
    async with SeveralModels(theme, tmp_path, demo_model_path, at_once=True) as several:
        seen: set[str] = set()
        several.answering.changed.connect(lambda: seen.add(several.answering.state.name))
        several.window.choosing_model.open_folder(trained / "poems")

        def loaded_name() -> str:
            state = several.answering.state
            return state.name if state.stage == "ready" else ""

        await eventually(lambda: loaded_name() == "alpha + poems")
        assert "poems" not in seen
        await eventually(lambda: "alpha + poems" in names(several))


async def test_chosen_adapter_is_remembered_by_its_whole_name(
    theme: Theme, tmp_path: Path, demo_model_path: Path, trained: Path
) -> None:
    async with SeveralModels(theme, tmp_path, demo_model_path, at_once=True) as several:
        several.window.model_library.add_folder(trained)
        await eventually(lambda: "alpha + poems" in names(several))
        chosen = several.answering.choice_of(trained / "poems")
        assert chosen == ChosenModel("alpha + poems", (trained / "poems").resolve())
        several.answering.choose(trained / "poems")
        assert several.workspace.current.conversation.model == chosen  # also while it loads
