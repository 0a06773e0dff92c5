import asyncio
import json
import socket
import threading
import urllib.error
import urllib.request
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.desktop.server import LocalServer, own_address
from engine.engine import Engine
from tests.support.kept import preferences_state
from tests.support.scripted import Stage
from ui.preferences import Preferences, ServerPreferences
from ui.server.server_switch import AddressRefused


async def test_local_server_start_stop_restart() -> None:
    engine = Engine()

    server = served(engine, ServerPreferences(port=0))
    for _ in range(2):
        url = await server.start()
        # Without a model it answers that it is not ready.
        assert await asyncio.to_thread(get, f"{url}/health") == 503
        await server.stop()
        with pytest.raises(urllib.error.URLError, match="refused"):
            await asyncio.to_thread(get, f"{url}/health")
    await server.stop()
    engine.close()


def get(url: str, **headers: str) -> int:
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return int(error.code)


class Key:
    async def key(self) -> str | None:
        return "a-key"


class NoKey:
    async def key(self) -> str | None:
        return None


def served(
    engine: Engine, server: ServerPreferences, *, key: Any = None, observer: Any = None
) -> LocalServer:
    state = preferences_state(Preferences(server=server))
    return LocalServer(engine, state, key or NoKey(), observer)


async def streamed(url: str, began: threading.Event, **headers: str) -> str:
    def ask() -> str:
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "go"}]}
        request = urllib.request.Request(
            f"{url}/v1/chat/completions", json.dumps(body).encode(), headers
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            lines = []
            for line in answer:
                lines.append(line.decode())
                began.set()
        return "".join(lines)

    return await asyncio.to_thread(ask)


@pytest.mark.parametrize(
    "change",
    [
        {"allowed_hosts": ("me.example.org",)},
        {"allowed_origins": ("https://example.org",)},
        {"is_key_required": True},
        {"is_on_network": True},
        {"port": 0},
    ],
    ids=str,
)
async def test_local_server_applies_settings_to_next_request(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    goes_on, began = threading.Event(), threading.Event()
    stage = Stage(tmp_path, {"go": ["a ", "b ", "c ", "d "]})
    stage.hold_at(3, goes_on)
    engine = Engine(loader=stage.load)
    await engine.load(tmp_path)
    free = [free_port() for _ in range(2)]
    wanted = ServerPreferences(port=free[0])
    server = served(engine, wanted, key=Key())
    before = await server.start()
    answer = asyncio.ensure_future(streamed(before, began))
    try:
        assert await asyncio.to_thread(began.wait, 60)
        changed: dict[str, Any] = change if "port" not in change else {"port": free[1]}
        wanted = replace(wanted, **changed)
        server._preferences.change(server=wanted)
        after = await server.apply()
        assert not answer.done()
        asked = {
            "host": {"Host": "me.example.org"},
            "page": {"Origin": "https://example.org"},
            "none": {},
        }
        status = {
            name: await asyncio.to_thread(partial(get, f"{after}/v1/models", **headers))
            for name, headers in asked.items()
        }
        assert status == {
            "host": 200 if wanted.allowed_hosts else 403,
            "page": 200 if wanted.allowed_origins else 403,
            "none": 401 if wanted.is_key_required else 200,
        }
        assert after == (
            f"http://{own_address()}:{wanted.port}"
            if wanted.is_on_network
            else f"http://127.0.0.1:{wanted.port}"
        )
        if wanted.port != free[0]:
            with pytest.raises(urllib.error.URLError, match="refused"):
                await asyncio.to_thread(get, f"{before}/health")
    finally:
        goes_on.set()
        text = await answer
        await server.stop()
        await engine.aclose()
    assert "d " in text
    assert text.endswith("data: [DONE]\n\n")


async def test_local_server_keeps_port_if_new_one_is_taken() -> None:
    wanted = ServerPreferences(port=free_port())
    server = served(Engine(), wanted)
    before = await server.start()
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        wanted = replace(wanted, port=taken, allowed_hosts=("me.example.org",))
        server._preferences.change(server=wanted)
        with pytest.raises(AddressRefused, match=rf"^Port {taken} is taken by another program\."):
            await server.apply()
        host = {"Host": "me.example.org"}
        assert await asyncio.to_thread(lambda: get(f"{before}/v1/models", **host)) == 200
    assert await server.apply() == f"http://127.0.0.1:{taken}"
    assert await asyncio.to_thread(get, f"http://127.0.0.1:{taken}/health") == 503
    await server.stop()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as other:
        return int(other.getsockname()[1])


def test_local_server_needs_key_on_network() -> None:
    server = served(Engine(), ServerPreferences(is_on_network=True, port=0))
    with pytest.raises(OSError, match="API key is required"):
        asyncio.run(server.start())


@pytest.mark.parametrize("is_key_required", [False, True])
async def test_local_server_key_for_loopback_clients(is_key_required: bool) -> None:
    wanted = ServerPreferences(is_on_network=True, is_key_required=is_key_required, port=0)

    server = served(Engine(), wanted, key=Key())
    url = await server.start()
    port = url.rpartition(":")[2]

    async def asked(base: str, **headers: str) -> int:
        return await asyncio.to_thread(lambda: get(f"{base}/v1/models", **headers))

    for own in (f"http://127.0.0.1:{port}", url):  # loopback, and our address on the network
        assert await asked(own) == (401 if is_key_required else 200)
        assert await asked(own, **{"X-Api-Key": "a-key"}) == 200
        # A proxy on this computer passes on what others ask.
        assert await asked(own, **{"X-Forwarded-For": "192.0.2.7"}) == 401
    await server.stop()
