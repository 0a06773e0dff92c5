"""Slow, many or large requests cannot block the server."""

import json
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import Staged, acting
from tests.support.scripted import GO, Stage

pytestmark = pytest.mark.long

ASK = {"model": "m", "max_tokens": 4, "messages": [{"role": "user", "content": "Hi"}]}
FLOOD = "Say much"
HEAD = b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n"


def connected(site: Any) -> socket.socket:
    return socket.create_connection((site.host, site.address.port), timeout=60)


def rest_of(connection: socket.socket) -> bytes:
    found = b""
    try:
        while part := connection.recv(65536):
            found += part
    except ConnectionResetError:
        pass
    return found


@pytest.mark.parametrize("sent", [b"", b"POST /v1/mess", HEAD], ids=["nothing", "line", "half"])
def test_headers_that_do_not_arrive_in_time_end_the_connection(
    serve: Callable[..., Any], sent: bytes
) -> None:
    site = serve(header_timeout_s=0.2)
    with connected(site) as connection:
        connection.sendall(sent)
        assert rest_of(connection) == b""


def test_a_body_that_does_not_arrive_in_time_is_an_error(serve: Callable[..., Any]) -> None:
    site = serve(body_timeout_s=0.2)
    with connected(site) as connection:
        connection.sendall(HEAD + b'Content-Length: 100\r\n\r\n{"model"')
        head, _, body = connection.recv(65536).partition(b"\r\n\r\n")

    assert b" 408 " in head
    assert json.loads(body)["error"]["message"] == "the body did not arrive within 0.2 seconds"


def test_an_idle_connection_is_closed(serve: Callable[..., Any]) -> None:
    site = serve(idle_timeout_s=0.2)
    with connected(site) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"Fullstop" in rest_of(connection)


def test_a_stream_that_the_client_does_not_read_is_ended(tmp_path: Path) -> None:
    # The last frame alone, which has the whole text, is more than the system's buffers take:
    # a slow machine merges the text into a few frames.
    stage = Stage(tmp_path, {FLOOD: ["x" * 50_000] * 400, "Hi": ["Hello"]}, context=1000)
    ask = {
        "text": f"user:{FLOOD}{GO}",
        "stream": True,
        "sampling_params": {"max_new_tokens": 400},
    }
    body = json.dumps(ask).encode()
    with acting(stage, write_timeout_s=0.3) as (site, engine):
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect((site.host, site.address.port))
            connection.sendall(
                b"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
                % (len(body), body)
            )
            gone = b'route="POST /generate",status="499"} 1.0'
            served = Staged(engine, stage, site)
            assert served.wait_until(lambda _: gone in site.send("GET", "/metrics").body)
            assert served.wait_until_idle()

        assert site.send("POST", "/v1/messages", ASK).status == 200


def test_a_long_frame_is_sent_whole_to_a_client_that_reads_slowly(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {FLOOD: ["x" * 12_000_000]}, context=1000)
    ask = {"text": f"user:{FLOOD}{GO}", "stream": True, "sampling_params": {"max_new_tokens": 1}}
    body = json.dumps(ask).encode()
    with acting(stage, write_timeout_s=1.5) as (site, _), connected(site) as connection:
        connection.sendall(
            b"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
            % (len(body), body)
        )
        found = bytearray()
        while not found.endswith(b"\r\n0\r\n\r\n"):
            part = connection.recv(65536)
            assert part, "the server has ended the connection"
            found += part
            time.sleep(0.03)
        assert b"[DONE]" in found[-100:]


def test_a_connection_beyond_the_limit_is_refused_in_words(serve: Callable[..., Any]) -> None:
    site = serve(max_connections=3)
    with ExitStack() as stack:
        for _ in range(3):
            held = stack.enter_context(connected(site))
            held.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 200 " in held.recv(65536)
        reply = site.send("POST", "/v1/messages", ASK)

        assert reply.status == 429
        assert reply.json["error"]["message"] == "too many connections are open"
        assert float(reply.headers["retry-after"]) >= 1
    ends_at = time.monotonic() + 60
    while site.send("POST", "/v1/messages", ASK).status != 200:
        assert time.monotonic() < ends_at


def test_invalid_http_is_answered_with_an_error_in_json(site: Any) -> None:
    with connected(site) as connection:
        connection.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n"
        )
        head, _, body = rest_of(connection).partition(b"\r\n\r\n")

    assert b" 400 " in head
    assert json.loads(body).keys() == {"error"}
    assert b"no colon" not in body
