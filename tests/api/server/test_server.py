"""Starting, stopping and finding the server, and the routes that show that it runs."""

import asyncio
import contextlib
import gc
import socket
import threading
import warnings
from typing import Any

import pytest

from api.server.routes import ROUTES
from api.server.server import ApiServer, CannotListen, PortTaken, ServerThread
from api.transport.config import ServerConfig
from engine.engine import Engine


def answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=60).close()
    except OSError:
        return False
    return True


def test_port_zero_finds_a_free_port_and_stopping_frees_it(engine: Engine) -> None:
    async def come_and_go() -> int:
        server = ApiServer(engine)
        address = await server.start()
        assert address.port > 0
        assert server.address == address
        assert await asyncio.to_thread(answers, "127.0.0.1", address.port)
        await server.stop()
        assert server.address is None
        return address.port

    port = asyncio.run(come_and_go())
    assert not answers("127.0.0.1", port)
    asyncio.run(come_and_go())


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_a_connection_made_while_it_stops_is_closed(engine: Engine, turns: int) -> None:
    async def connect_and_stop() -> socket.socket:
        server = ApiServer(engine)
        address = await server.start()
        client = socket.create_connection(("127.0.0.1", address.port))
        for _ in range(turns):
            await asyncio.sleep(0)
        await server.stop()
        return client

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        client = asyncio.run(connect_and_stop())
        gc.collect()
    with client, contextlib.suppress(ConnectionResetError):
        client.settimeout(60)
        assert client.recv(1) == b""
    assert [str(one.message) for one in seen if one.category is ResourceWarning] == []


def test_a_taken_port_is_reported_in_words(engine: Engine, site: Any) -> None:
    second = ServerThread(engine, ServerConfig(port=site.address.port))

    with pytest.raises(PortTaken, match=f"port {site.address.port} on 127.0.0.1 is taken"):
        second.start()
    assert second.address is None
    second.stop()


def test_a_host_of_another_computer_is_reported_in_words(engine: Engine) -> None:
    server = ServerThread(engine, ServerConfig(host="192.0.2.1", api_key="secret"))

    with pytest.raises(CannotListen, match=r"^cannot listen on 192\.0\.2\.1"):
        server.start()


@pytest.mark.parametrize("host", ["localhost", "::1"])
def test_the_server_listens_on_the_given_host(engine: Engine, host: str) -> None:
    server = ServerThread(engine, ServerConfig(host=host))
    try:
        address = server.start()
    except OSError:
        pytest.skip(f"this machine has no {host}")
    try:
        assert answers("127.0.0.1" if host == "localhost" else host, address.port)
    finally:
        server.stop()


def test_a_server_thread_can_be_started_again(engine: Engine) -> None:
    server = ServerThread(engine)
    before = threading.active_count()
    for _ in range(2):
        address = server.start()
        assert server.start() == address
        assert answers("127.0.0.1", address.port)
        server.stop()
        server.stop()
        assert server.address is None
        assert threading.active_count() == before


def test_every_route_of_the_table_exists(site: Any) -> None:
    for route in ROUTES:
        path = route.path.replace("{id}", "demo-model").replace("{response_id}", "resp_x")
        reply = site.send(route.method, path, b"[]" if route.method == "POST" else None)
        if "resp_x" in path:
            assert b"was not stored" in reply.body
            continue
        assert reply.status == (200 if route.request is None else 400), route
        assert route.description


def test_the_root_answers_get_and_head(site: Any) -> None:
    assert b"Fullstop" in site.send("GET", "/").body
    reply = site.send("HEAD", "/")
    assert (reply.status, reply.body) == (200, b"")


def test_health_reports_what_the_engine_is_doing(site: Any) -> None:
    reply = site.send("GET", "/health")

    assert reply.status == 200
    assert reply.json == {"status": "ok", "running": 0, "waiting": 0}


def test_no_two_answers_share_a_request_id(site: Any) -> None:
    ids = [site.send("GET", path).headers["request-id"] for path in ("/", "/health", "/none")]

    assert len(set(ids)) == 3
    assert all(one.startswith("req_") for one in ids)


def test_a_query_and_unknown_headers_change_nothing(site: Any) -> None:
    ask = {"model": "m", "max_tokens": 4, "messages": [{"role": "user", "content": "Hi"}]}
    headers = {
        "anthropic-version": "2026-10-21",
        "anthropic-beta": "one-2025-01-01,two-2026-01-01",
        "accept": "application/json",
        "x-stainless-lang": "python",
    }
    reply = site.send("POST", "/v1/messages?beta=true", ask | {"stream": True}, headers)

    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert [name for name, _ in reply.events][-1] == "message_stop"
