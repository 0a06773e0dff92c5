"""Compressed bodies, and bodies whose headers are wrong."""

import gzip
import json
import logging
import socket
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import pytest

ASK = {"model": "m", "max_tokens": 2, "messages": [{"role": "user", "content": "Hi"}]}
PLAIN = json.dumps(ASK).encode()
PATHS = ["/v1/messages", "/v1/chat/completions"]


def message_of(reply: Any) -> str:
    error = reply.json["error"]
    text: str = error if isinstance(error, str) else error["message"]
    return text


def packed(encoding: str, body: bytes, path: str, site: Any) -> Any:
    return site.send("POST", path, body, {"Content-Encoding": encoding})


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("", PLAIN),
        ("identity", PLAIN),
        ("gzip", gzip.compress(PLAIN)),
        ("GZIP", gzip.compress(PLAIN)),
        ("deflate", zlib.compress(PLAIN)),
        ("gzip", gzip.compress(json.dumps(ASK | {"padding": "x" * 500_000}).encode(), 0)),
    ],
    ids=["none", "identity", "gzip", "upper", "zlib", "large"],
)
def test_a_compressed_body_is_read(site: Any, encoding: str, body: bytes) -> None:
    assert packed(encoding, body, "/v1/messages", site).status == 200


@pytest.mark.parametrize("encoding", ["nonsense", "gzip, gzip"])
def test_unsupported_encoding_is_refused(site: Any, encoding: str) -> None:
    reply = packed(encoding, gzip.compress(PLAIN), "/v1/messages", site)

    assert reply.status == 415
    assert "gzip or deflate" in message_of(reply)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [("gzip", PLAIN), ("deflate", zlib.compress(PLAIN)[:-2]), ("gzip", gzip.compress(PLAIN)[:-19])],
    ids=["no gzip", "cut zlib", "cut gzip"],
)
def test_body_that_does_not_match_its_encoding_is_refused(
    site: Any, caplog: pytest.LogCaptureFixture, encoding: str, body: bytes
) -> None:
    with caplog.at_level(logging.WARNING):
        assert packed(encoding, body, "/v1/messages", site).status == 400
        assert site.send("GET", "/").status == 200

    assert caplog.text == ""


@pytest.fixture(scope="module")
def bomb() -> bytes:
    packing = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join(packing.compress(bytes(1 << 20)) for _ in range(50)) + packing.flush()


@pytest.mark.parametrize("path", PATHS)
def test_a_bomb_takes_no_more_memory_than_the_limit(
    serve: Callable[..., Any], path: str, bomb: bytes
) -> None:
    site = serve(max_body_bytes=1_000_000)
    assert len(bomb) < 1_000_000
    tracemalloc.start()
    try:
        reply = packed("gzip", bomb, path, site)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert reply.status == 413
    # The compressed body, and as much text as the limit; never the whole text.
    assert peak < len(bomb) + 4_000_000


@pytest.mark.parametrize(
    ("announced", "status"),
    [(b"40000000", 413), (b"9" * 18, 413), (b"9" * 5000, 400), (b"-5", 400), (b"1e3", 400)],
    ids=["large", "18 digits", "5,000 digits", "negative", "no integer"],
)
def test_an_absurd_length_is_refused_before_the_body_arrives(
    site: Any, announced: bytes, status: int
) -> None:
    with socket.create_connection((site.host, site.address.port), timeout=60) as connection:
        connection.sendall(
            b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nanthropic-version: x\r\n"
            b"Content-Length: " + announced + b"\r\n\r\n{"
        )
        head, _, body = connection.recv(65536).partition(b"\r\n\r\n")

    assert head.split()[1] == str(status).encode()
    error = json.loads(body)
    assert error["error"]["message"]
    # An answer to invalid HTTP has a request id, too.
    assert b"request-id: req_" in head.lower()
