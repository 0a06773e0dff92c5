"""A model of the list is unloaded by hand; others that are in memory stay."""

import asyncio
from pathlib import Path

import pytest

from engine.errors import EngineError
from engine.stopping.rules import StopRules
from engine.values.request import GenerationRequest
from tests.support.several.draft_models import write_draft
from tests.ui.chat.switching.several import SeveralModels
from tests.ui.driving import Enter, Living, eventually
from tests.ui.models.opened import commands_of, entry_of
from ui.kit.commands import Command
from ui.kit.theme import Theme
from ui.models.model_entries import ENTRY, EntryState
from ui.models.models_window import ModelsWindow


class Both:
    """A window with two models in memory, of which ``alpha`` answers by default."""

    def __init__(self, theme: Theme, folder: Path, demo: Path, count: int = 2) -> None:
        self._count = count
        self.several = SeveralModels(theme, folder, demo, at_once=True)

    async def __aenter__(self) -> "Both":
        await self.several.__aenter__()
        window = self.several.window
        window.others.show_models()
        library = window.model_library
        await eventually(lambda: len(library.local) == self._count)
        self.state.load(self.several.folder / "alpha")
        await eventually(lambda: self.loaded == {"alpha"})
        await self.answer("beta")
        await eventually(lambda: self.loaded == {"alpha", "beta"})
        await eventually(lambda: "Unload" in self.commands("beta"))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.several.__aexit__()

    @property
    def models(self) -> ModelsWindow:
        return self.several.window.others.models

    @property
    def state(self):  # type: ignore[no-untyped-def]
        return self.several.workspace.models

    @property
    def loaded(self) -> set[str]:
        return {one.id for one in self.several.engine.models if one.is_loaded}

    def commands(self, name: str) -> dict[str, Command]:
        return commands_of(self.models, name)

    def status(self, name: str) -> EntryState:
        return self.models.entries.state(entry_of(self.models, name))

    async def answer(self, name: str, tokens: int = 1) -> None:
        asked = GenerationRequest(prompt="Hello", max_tokens=tokens, model=name)
        async for _ in (await self.several.engine.generate(asked)).batches():
            pass


@pytest.fixture
def both(enter: Enter, theme: Theme, tmp_path: Path, demo_model_path: Path) -> Living[Both]:
    return enter(lambda: Both(theme, tmp_path, demo_model_path))


async def test_a_model_beside_the_default_one_is_unloaded_from_its_card(both: Both) -> None:
    both.commands("beta")["Unload"].run()
    await eventually(lambda: both.loaded == {"alpha"})
    assert both.state.name == "alpha"
    assert both.state.stage == "ready"
    await eventually(lambda: "Unload" not in both.commands("beta"))
    assert both.status("beta").action == "load"


async def test_card_of_a_loaded_model_does_not_follow_the_default_one(both: Both) -> None:
    both.several.engine.unload_when_idle("alpha")
    await eventually(lambda: both.state.status().is_idle)
    await eventually(lambda: "Unload" not in both.commands("alpha"))
    assert "Unload" in both.commands("beta")


async def test_failed_unload_is_reported(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise EngineError("the device is gone")

    monkeypatch.setattr(both.several.engine, "unload", fail)
    for name in ("beta", "alpha"):
        both.commands(name)["Unload"].run()
        await eventually(lambda name=name: "the device is gone" in both.status(name).text.lower())
        assert both.status(name).action == "loaded"


async def test_loaded_model_without_its_folder_can_be_unloaded(
    both: Both,
) -> None:
    folder = both.several.folder
    (folder / "beta").rename(folder / "gamma")
    library = both.several.window.model_library
    library.refresh()
    await eventually(lambda: not library.is_looking)
    assert [model.found.name for model in library.local] == ["alpha", "gamma"]
    assert "stays available" in both.status("beta").text
    heading = both.models.entries.index(0).data(ENTRY)
    assert heading.note.startswith("3 models")
    both.commands("beta")["Unload"].run()
    await eventually(lambda: both.loaded == {"alpha"})
    await eventually(lambda: not library.unlisted())
    assert both.state.name == "alpha"


async def test_a_model_that_answers_is_unloaded_only_after_a_question(both: Both) -> None:
    stops = StopRules(ignore_eos=True)
    asked = GenerationRequest(prompt="Hello", model="beta", max_tokens=8_000, stops=stops)
    answer = await both.several.engine.generate(asked)
    await eventually(
        lambda: any(one.running for one in both.several.engine.models if one.id == "beta")
    )
    both.commands("beta")["Unload"].run()
    question = both.models.question
    await eventually(question.isVisible)
    assert both.loaded == {"alpha", "beta"}
    answer.cancel()
    await asyncio.wait_for(answer.collect(), 60)


async def test_a_draft_model_is_set_without_a_change_of_any_chats_model(
    theme: Theme, tmp_path: Path, demo_model_path: Path
) -> None:
    write_draft(tmp_path / "models" / "small", demo_model_path, layers=1)
    async with Both(theme, tmp_path, demo_model_path, 3) as both:
        several = both.several
        assert several.answering.state.name == "alpha"
        both.commands("beta")["small"].run()
        await eventually(
            lambda: (
                (info := both.state.status((several.folder / "beta").resolve()).info) is not None
                and info.draft is not None
            )
        )
        await eventually(lambda: both.state.stage == "ready")
        assert (both.state.name, several.answering.state.name) == ("alpha", "alpha")
        several.workspace.new_conversation()
        assert (await several.ask()).model_id == "alpha"
