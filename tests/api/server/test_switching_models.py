"""A model that is being loaded answers the requests that arrive meanwhile, in every dialect."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from api.server.server import ApiServer
from api.service.config import ServerConfig
from engine.engine import Engine
from tests.api.questions import question
from tests.api.server.test_load import ROUTES, text_of
from tests.support.scripted import Stage


@pytest.mark.parametrize("path", [*ROUTES, "/get_model_info"])
async def test_a_request_waits_for_the_model_that_is_being_loaded(
    tmp_path: Path, path: str
) -> None:
    stage = Stage(tmp_path, {"Q1": ["a", "b"]})
    has_begun, may_go_on = threading.Event(), threading.Event()

    def slow_load(*words: Any, **options: Any) -> Any:
        has_begun.set()
        may_go_on.wait(60)
        return stage.load(*words, **options)

    engine = Engine(loader=slow_load)
    server = ApiServer(engine, ServerConfig())
    address = await server.start()
    loading = asyncio.create_task(engine.load(Path("scripted")))
    await asyncio.to_thread(has_begun.wait)
    try:
        async with aiohttp.ClientSession(address.url) as session:
            asking = asyncio.create_task(asked(session, path))
            await asyncio.sleep(0.05)
            assert not asking.done()
            may_go_on.set()
            status, text = await asking
            await loading
    finally:
        await server.stop()
        await engine.aclose()
    assert status == 200
    assert "scripted" in text if path == "/get_model_info" else text == "ab"


async def asked(session: aiohttp.ClientSession, path: str) -> tuple[int, str]:
    if path == "/get_model_info":
        async with session.get(path) as response:
            return response.status, await response.text()
    text = ""
    async with session.post(path, json=question(path, "Q1", 9) | {"stream": True}) as response:
        async for line in response.content:
            line = line.removeprefix(b"data: ").strip()
            if line.startswith(b"{"):
                text = text_of(path, line, text)
        return response.status, text
