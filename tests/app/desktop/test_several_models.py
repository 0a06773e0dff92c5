"""Other programs choose among the models of the window's engine, unless the person forbids it."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from app.composition.offers import offered_models
from app.desktop.several_models import SharedModels
from engine.errors import UnknownModel
from engine.library.discovery import ModelFolders, discover
from engine.scheduling.service import Engine
from engine.values.chat import Message
from engine.values.request import GenerationRequest

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
