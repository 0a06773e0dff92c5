"""Servers of this program are found, also by TLS; a foreign one gets no key and does no harm."""

import contextlib
import ssl
from pathlib import Path

import pytest

from api.service.config import GREETING
from app import running_servers
from app.agents.programs import NO_KEY
from app.exits import CommandError
from app.process.registered_servers import register_server, registered_addresses
from app.running_servers import (
    RunningServer,
    ServedModel,
    running_server,
    server_addresses,
)
from app.settings.serve import ServeOptions
from tests.support.outside.certificates import write_certificate
from tests.support.outside.raw_server import RawServer, answering, raw_server

_REFUSED = answering(b"{}", status="401 Unauthorized")


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    known = ["one", "two"]
    monkeypatch.setattr(running_servers, "known_keys", lambda _: known)
    return known


def sent_keys(server: RawServer) -> list[str]:
    requests = [one.decode() for one in server.requests]
    return [
        one.lower().partition("bearer ")[2].split()[0] for one in requests if "/v1/models" in one
    ]


def test_running_server_key_follows_no_redirect() -> None:
    with raw_server(lambda _: [answering(b'{"data": []}')]) as other:
        where = f"location: {other.url}/v1/models"
        with raw_server(lambda _: [answering(b"", where, status="302 Found")]) as server:
            assert running_server(server.url, ServeOptions(api_key="secret")) is None
            with pytest.raises(CommandError):
                RunningServer(server.url, "secret", ()).loaded()
        assert other.requests == []


def test_running_server_key_only_when_required(keys: list[str]) -> None:
    def answer(request: bytes) -> list[bytes]:
        return [answering(GREETING.encode()) if request.startswith(b"GET / ") else _REFUSED]

    with raw_server(answer) as server:
        with pytest.raises(CommandError, match="is wrong for the server"):
            running_server(server.url, ServeOptions())
        assert sent_keys(server) == [NO_KEY.lower(), "one", "two"]
        keys.clear()
        with pytest.raises(CommandError, match="requires an API key that is not known"):
            running_server(server.url, ServeOptions())


@pytest.mark.usefixtures("keys")
def test_foreign_server_that_requires_a_key_gets_none() -> None:
    with raw_server(lambda _: [_REFUSED]) as server:
        assert running_server(server.url, ServeOptions()) is None
        assert sent_keys(server) == [NO_KEY.lower()]


@pytest.mark.usefixtures("keys")
def test_encrypted_server_is_found_by_its_certificate(tmp_path: Path) -> None:
    ours, other = (write_certificate(tmp_path, name=name) for name in ("ours", "other"))
    listed = b'{"data": [{"id": "m", "owned_by": "fullstop"}]}'
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(raw_server(lambda _: [answering(listed)]))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(ours.cert, ours.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        options = ServeOptions(port=server.server_address[1], tls_cert=ours.cert)
        url = server_addresses(options)[-1]
        assert url == f"https://127.0.0.1:{options.port}"
        found = running_server(url, options)
        assert found is not None
        assert found.models == (ServedModel("m", None, True, None),)
        pretended = ServeOptions(port=options.port, tls_cert=other.cert)
        assert running_server(url, pretended) is None


def test_registered_server_is_found_at_any_port(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FULLSTOP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(running_servers, "server_addresses", lambda _: ["http://127.0.0.1:9"])
    with raw_server(lambda _: [answering(b'{"data": []}')]) as server:
        with register_server(server.url):
            (tmp_path / "servers" / "999999999").write_text("http://127.0.0.1:1")
            (found,) = running_servers.running_servers(ServeOptions())
            assert found.url == server.url
            assert registered_addresses() == [server.url]
        assert list(running_servers.running_servers(ServeOptions())) == []
    assert list((tmp_path / "servers").iterdir()) == [], "of processes that have ended, too"
