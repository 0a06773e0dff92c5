"""Other programs choose among the models of the window's engine, unless the person forbids it."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from app.composition import offered_models
from app.desktop.server import SharedModels, keep_offered, offer_found
from engine.errors import UnknownModel
from engine.library.local_models import FoundModel, ModelFolders, discover
from engine.library.memory import Fit
from engine.scheduling.service import Engine
from engine.values.chat import Message
from engine.values.request import GenerationRequest
from ui.models.model_library import LibraryModel, ModelLibrary

MODELS = ("alpha", "beta")


def asking(model: str) -> GenerationRequest:
    return GenerationRequest(messages=(Message("user", "Count from 1 to 3"),), model=model)


async def answered_by(served: SharedModels, name: str) -> str:
    """Return the model that answers a request."""
    [answer] = await served.generate_together([asking(name)])
    async for _ in answer.batches():
        pass
    assert answer.setting is not None
    return answer.setting.model


def with_models(
    folder: Path, model: Path, names: tuple[str, ...], play: Callable[[Engine], Awaitable[None]]
) -> None:
    """Run a test with an engine that offers models; the last one is loaded."""
    for name in names:
        shutil.copytree(model, folder / name)

    async def run() -> None:
        engine = Engine()
        try:
            engine.offer(offered_models(discover(ModelFolders(added=(folder,)))))
            await engine.load(folder / names[-1])
            await play(engine)
        finally:
            await engine.aclose()

    asyncio.run(run())


def test_a_request_is_answered_by_the_model_that_it_names(
    tmp_path: Path, demo_model_path: Path
) -> None:
    async def play(engine: Engine) -> None:
        served = SharedModels(engine, lambda: True)
        assert served.is_choosing
        assert sorted(one.id for one in served.models) == ["alpha", "beta"]
        assert [await answered_by(served, name) for name in ("beta", "alpha")] == ["beta", "alpha"]
        assert await served.count_tokens(asking("alpha")) > 0
        # The window's own choice has not changed.
        assert served.model is not None
        assert served.model.id == "beta"

    with_models(tmp_path, demo_model_path, MODELS, play)


def test_a_name_that_no_model_has_is_refused(tmp_path: Path, demo_model_path: Path) -> None:
    async def play(engine: Engine) -> None:
        served = SharedModels(engine, lambda: True)
        with pytest.raises(UnknownModel):
            await served.generate_together([asking("claude-of-no-such-name")])
        with pytest.raises(UnknownModel):
            served.model_status("claude-of-no-such-name")

    with_models(tmp_path, demo_model_path, MODELS, play)


def test_if_requests_do_not_choose_the_model_loaded_last_answers_all(
    tmp_path: Path, demo_model_path: Path
) -> None:
    async def play(engine: Engine) -> None:
        served = SharedModels(engine, lambda: False)
        assert not served.is_choosing
        assert await answered_by(served, "claude-of-no-such-name") == "beta"
        assert await answered_by(served, "alpha") == "beta"
        assert await served.count_tokens(asking("alpha")) > 0
        assert [one.id for one in served.models] == ["beta"]

    with_models(tmp_path, demo_model_path, MODELS, play)


def test_a_single_model_answers_requests_of_any_name(tmp_path: Path, demo_model_path: Path) -> None:
    async def play(engine: Engine) -> None:
        served = SharedModels(engine, lambda: True)
        assert not served.is_choosing
        assert await answered_by(served, "claude-of-no-such-name") == "alpha"

    with_models(tmp_path, demo_model_path, ("alpha",), play)


def test_the_preference_takes_effect_at_once(tmp_path: Path, demo_model_path: Path) -> None:
    is_on = True

    async def play(engine: Engine) -> None:
        nonlocal is_on
        served = SharedModels(engine, lambda: is_on)
        assert await answered_by(served, "alpha") == "alpha"
        is_on = False
        assert await answered_by(served, "alpha") == "beta"

    with_models(tmp_path, demo_model_path, MODELS, play)


def test_a_model_behind_a_link_answers_under_the_name_that_it_has_once_it_is_loaded(
    tmp_path: Path, demo_model_path: Path
) -> None:
    (tmp_path / "linked").symlink_to(demo_model_path)

    async def play() -> None:
        engine = Engine()
        try:
            [found] = [
                one for one in discover(ModelFolders(added=(tmp_path,))) if one.name == "linked"
            ]
            # The program loads its model before it has looked for others.
            info = await engine.load(tmp_path / "linked")
            offer_found(engine, cast(ModelLibrary, _Library(found)))
            assert info.id != "linked"
            assert await engine.count_tokens(asking(info.id)) > 0
            assert await engine.count_tokens(asking("linked")) > 0
        finally:
            await engine.aclose()

    asyncio.run(play())


def test_a_model_in_no_folder_of_the_library_is_offered_once_it_is_loaded(
    tmp_path: Path, demo_model_path: Path
) -> None:
    shutil.copytree(demo_model_path, tmp_path / "elsewhere")

    async def play() -> None:
        engine = Engine()
        try:
            [found] = discover(ModelFolders(demo_model_path))
            library = _Library(found)
            keep_offered(engine, cast(ModelLibrary, library))
            loading = asyncio.create_task(engine.load(tmp_path / "elsewhere"))
            await asyncio.sleep(0)
            library.changed.tell()  # the library is read while the model is loading
            info = await loading
            library.model.changed.tell()
            assert await engine.count_tokens(asking(info.id)) > 0
        finally:
            await engine.aclose()

    asyncio.run(play())


class _Signal:
    def __init__(self) -> None:
        self._told: list[Callable[[], object]] = []

    def connect(self, tell: Callable[[], object]) -> None:
        self._told.append(tell)

    def tell(self) -> None:
        for tell in self._told:
            tell()


class _Library:
    """The part of a library that tells which models there are."""

    is_looking, has_looked = False, True

    def __init__(self, found: FoundModel) -> None:
        self.models = (LibraryModel(found, None, Fit.FITS, 0.0),)
        self.changed = _Signal()
        self.model = SimpleNamespace(changed=_Signal())

    def draft_of(self, _folder: Path) -> None:
        return None
