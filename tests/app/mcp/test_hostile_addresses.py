"""MCP servers at addresses that redirect, compress or flood: no key leaks, no memory grows."""

import gzip
import json
from collections.abc import Iterable

import pytest

from tests.app.mcp.served import Served
from tests.support.outside.raw_server import answering, raw_server
from ui.records.tool_servers import NamedValue, ToolServerConfig

_JSON = "content-type: application/json"


def started(served: Served, name: str, url: str) -> str:
    key = NamedValue("X-Key", "secret-key", is_secret=True)
    served.do(served.host.put(ToolServerConfig(name, url=url, headers=(key,), is_on=True)))
    served.do(served.host.ensure_ready([name]))
    state = served.state(name)
    assert state.stage == "failed"
    return state.problem


@pytest.mark.parametrize("status", ["302 Found", "307 Temporary Redirect"])
def test_mcp_redirect_does_not_leak_headers(served: Served, status: str) -> None:
    with raw_server(lambda _: [answering(b"{}", _JSON)]) as other:
        where = f"location: {other.url}/mcp"
        with raw_server(lambda _: [answering(b"", where, status=status)]) as server:
            problem = started(served, f"redirects-{status[:3]}", f"{server.url}/mcp")
            assert any(b"secret-key" in one for one in server.requests)
        assert other.requests == []
    assert problem.isprintable()


def test_mcp_compressed_response_is_refused(served: Served) -> None:
    bomb = gzip.compress(bytes(1 << 24))
    with raw_server(lambda _: [answering(bomb, _JSON, "content-encoding: gzip")]) as server:
        problem = started(served, "packs", f"{server.url}/mcp")
        assert b"accept-encoding: identity" in server.requests[0].lower()
    assert "it compresses its answers, which was not requested" in problem


def test_mcp_http_message_size_limit(served: Served) -> None:
    sent = 0

    def endless(_: bytes) -> Iterable[bytes]:
        nonlocal sent
        yield b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"
        while sent < 200:
            sent += 1
            yield b" " * (1 << 20)

    with raw_server(endless) as server:
        problem = started(served, "endless", f"{server.url}/mcp")
    assert "more than 16 MB" in problem
    assert sent < 100


def test_mcp_error_message_has_no_control_characters(served: Served) -> None:
    def refuses(request: bytes) -> Iterable[bytes]:
        asked = json.loads(request.partition(b"\r\n\r\n")[2])
        error = {"code": -1, "message": "a\x1b[2J\u202eb"}
        reply = {"jsonrpc": "2.0", "id": asked["id"], "error": error}
        return [answering(json.dumps(reply).encode(), _JSON)]

    with raw_server(refuses) as server:
        problem = started(served, "steers", f"{server.url}/mcp")
    assert problem.isprintable()
    assert "[2J" in problem
