"""Many clients at once: those that stay get every word, those that leave leave nothing behind."""

import asyncio
import gc
import json
import os
import time
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from api.server.server import ApiServer
from engine.engine import Engine
from tests.api.questions import PATHS, question
from tests.support.asking import run
from tests.support.scripted import Stage

pytestmark = pytest.mark.long

MAX_CLIENTS, TOKENS = 200, 64
# Those whose streams have texts of their own.
ROUTES = [path for path in PATHS if path != "/api/generate"]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    scripts = {f"Q{n}": [f"c{n} "] * 2 * TOKENS for n in range(MAX_CLIENTS)}
    return Stage(tmp_path, scripts)


@pytest.fixture
def engine(stage: Stage) -> Iterator[Engine]:
    engine = Engine(loader=stage.load)
    run(engine.load(Path("scripted")))
    yield engine
    engine.close()


def text_of(path: str, line: bytes, before: str) -> str:
    value = json.loads(line)
    match path:
        case "/v1/messages":
            return before + value.get("delta", {}).get("text", "")
        case "/v1/chat/completions":
            return before + (value["choices"][0]["delta"].get("content") or "")
        case "/v1/completions":
            return before + value["choices"][0]["text"]
        case "/v1/responses":
            is_delta = value["type"] == "response.output_text.delta"
            return before + (value["delta"] if is_delta else "")
        case "/generate":
            return str(value["text"])
        case _:
            return before + str(value["message"]["content"])


@asynccontextmanager
async def asking(server: ApiServer, path: str, body: dict[str, Any]) -> Any:
    assert server.address is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", server.address.port)
    sent = json.dumps(body).encode()
    writer.write(
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Length: {len(sent)}\r\n\r\n".encode()
        + sent
    )
    try:
        yield reader
    finally:
        writer.close()


async def client(server: ApiServer, n: int, *, leaves: bool, is_slow: bool) -> str | None:
    path = ROUTES[n % len(ROUTES)]
    text, body = "", question(path, f"Q{n}", TOKENS) | {"stream": True}
    async with asking(server, path, body) as reader:
        while line := await reader.readline():
            line = line.removeprefix(b"data: ").strip()
            if is_slow:
                await asyncio.sleep(0.01)
            if line.startswith(b"{"):
                text = text_of(path, line, text)
            if leaves and len(text.split()) >= TOKENS // 2:
                return None
    return text


async def rush(server: ApiServer, clients: int) -> list[str | None]:
    return await asyncio.gather(
        *(client(server, n, leaves=n % 3 == 0, is_slow=n % 10 == 1) for n in range(clients))
    )


async def until_quiet(engine: Engine, tasks: int) -> None:
    ends_at = time.monotonic() + 60
    while (engine.status.running, engine.status.waiting, len(asyncio.all_tasks())) != (0, 0, tasks):
        assert time.monotonic() < ends_at, asyncio.all_tasks()
        await asyncio.sleep(0.01)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def memory_mb() -> float:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.mark.parametrize("clients", [30, pytest.param(MAX_CLIENTS, marks=pytest.mark.slow)])
async def test_many_clients_at_once(engine: Engine, clients: int) -> None:
    server = ApiServer(engine)
    await server.start()
    tasks = len(asyncio.all_tasks())
    await rush(server, clients)
    await until_quiet(engine, tasks)
    files, memory = open_files(), memory_mb()
    answers = await rush(server, clients)
    await until_quiet(engine, tasks)

    for n, answer in enumerate(answers):
        assert answer == (None if n % 3 == 0 else f"c{n} " * TOKENS), n
    assert open_files() == files
    assert memory_mb() < memory * 1.05 + 10
    await server.stop()
