"""Other programs reach the default model of the window's engine, whatever name they give."""

import asyncio
import shutil
from pathlib import Path

from app.composition.offers import offered_models
from app.desktop.several_models import DefaultModel
from engine.library.discovery import ModelFolders, discover
from engine.scheduling.service import Engine
from engine.values.chat import Message
from engine.values.request import GenerationRequest


def test_a_request_of_any_name_is_answered_by_the_model_that_was_loaded_last(
    tmp_path: Path, demo_model_path: Path
) -> None:
    for name in ("alpha", "beta"):
        shutil.copytree(demo_model_path, tmp_path / name)

    async def play() -> None:
        engine = Engine()
        try:
            engine.offer(offered_models(discover(ModelFolders(added=(tmp_path,)))))
            await engine.load(tmp_path / "alpha")
            await engine.load(tmp_path / "beta")
            served = DefaultModel(engine)
            request = GenerationRequest(
                messages=(Message("user", "Count from 1 to 3"),), model="claude-of-no-such-name"
            )
            [answer] = await served.generate_together([request])
            async for _ in answer.batches():
                pass
            assert answer.setting.model == "beta"
            assert await served.count_tokens(request) > 0
            assert not served.is_choosing
            assert [one.id for one in served.models] == ["beta"]
            assert served.model is not None
            assert served.model.id == "beta"
        finally:
            await engine.aclose()

    asyncio.run(play())
