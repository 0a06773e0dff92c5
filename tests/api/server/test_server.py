"""Starting, stopping and finding the server, and the routes that show that it runs."""

import asyncio
import dataclasses
import errno
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from api.server.server import ApiServer, CannotListen, ServerThread
from api.service.config import ConfigError, ServerConfig
from api.service.service import Service
from engine.engine import Engine
from engine.errors import NoModel


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


def test_change_of_address_leaves_the_making_of_requests_as_it_is(engine: Engine) -> None:
    async def move_twice() -> None:
        server = ApiServer(engine)
        await server.start()
        assert server._runner is not None
        assert server._runner.server is not None
        factory, config = server._runner.server.request_factory, server.config
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        for changed in (dataclasses.replace(config, port=port, strict=True), config):
            address = await server.apply(changed)
            assert server._runner.server.request_factory is factory
            assert await asyncio.to_thread(answers, "127.0.0.1", address.port)
        await server.stop()

    asyncio.run(move_twice())


def test_a_taken_port_is_reported_in_words(engine: Engine, site: Any) -> None:
    second = ServerThread(engine, ServerConfig(port=site.address.port))

    with pytest.raises(CannotListen, match=f"port {site.address.port} on 127.0.0.1 is taken"):
        second.start()
    assert second.address is None
    second.stop()


def test_failed_start_frees_the_port(engine: Engine, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "file").touch()
    server = ServerThread(engine, ServerConfig(port=port, kept_responses_folder=tmp_path / "file"))

    with pytest.raises(ConfigError) as caught:
        server.start()
    socket.create_server(("127.0.0.1", port)).close()
    assert caught.value.setting == "kept_responses_folder"


def test_a_loop_that_cannot_be_created_fails_the_start(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    errors: list[OSError] = []

    def start() -> None:
        try:
            ServerThread(engine).start()
        except OSError as error:
            errors.append(error)

    monkeypatch.setattr(asyncio.events, "new_event_loop", fail)
    thread = threading.Thread(target=start, daemon=True)
    thread.start()
    thread.join(10)
    assert [error.errno for error in errors] == [errno.EMFILE]


async def test_failing_model_is_not_loaded_again_by_every_poll(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[str] = []

    async def fail(text: str) -> None:
        attempts.append(text)
        await asyncio.sleep(0.05)
        raise NoModel("it cannot be read")

    monkeypatch.setattr(engine, "tokenize", fail)
    service = Service(engine, ServerConfig())
    for _ in range(20):
        service.restart_engine()
        await asyncio.sleep(0.01)
    assert len(attempts) == 1


def test_a_host_of_another_computer_is_reported_in_words(engine: Engine) -> None:
    server = ServerThread(engine, ServerConfig(host="192.0.2.1", api_key="secret"))

    with pytest.raises(CannotListen, match=r"^cannot listen on 192\.0\.2\.1"):
        server.start()


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


def test_failed_accepts_are_counted_in_few_log_lines(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    failed = {
        "message": "socket.accept() out of system resource",
        "exception": OSError(errno.EMFILE, "Too many open files"),
    }

    async def fail_accepts() -> None:
        server = ApiServer(engine)
        await server.start()
        loop = asyncio.get_running_loop()
        for _ in range(1000):
            loop.call_exception_handler(failed)
        loop.call_exception_handler({"message": "another failure"})
        await server.stop()

    asyncio.run(fail_accepts())
    messages = [record.getMessage() for record in caplog.records]
    accepts = [message for message in messages if "cannot be accepted" in message]
    assert accepts[0].endswith("(1 failed attempts): too many files are open")
    assert "512" in accepts[-1]
    assert len(accepts) == 10
    assert "another failure" in messages


def test_the_root_answers_get_and_head(site: Any) -> None:
    assert b"Fullstop" in site.send("GET", "/").body
    reply = site.send("HEAD", "/")
    assert (reply.status, reply.body) == (200, b"")


def test_health_reports_what_the_engine_is_doing(site: Any) -> None:
    reply = site.send("GET", "/health")

    assert reply.status == 200
    assert reply.json == {"status": "ok", "running": 0, "waiting": 0}
