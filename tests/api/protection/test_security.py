"""Attempts to reach the server from pages and names that must not reach it."""

import logging
import socket
from collections.abc import Callable
from typing import Any

import pytest

from api.server.routes import ROUTES

ASK = {"model": "m", "max_tokens": 4, "messages": [{"role": "user", "content": "Hi"}]}
PAGE = "https://app.example"


@pytest.mark.parametrize("path", ["/", "/health", "/v1/models", "/v1/messages", "/v1/nowhere"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": ""},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ],
    ids=["rebound name", "no name", "foreign page", "nameless page"],
)
def test_a_foreign_name_or_page_is_refused_everywhere(
    site: Any, path: str, headers: dict[str, str]
) -> None:
    method = "POST" if path == "/v1/messages" else "GET"
    reply = site.send(method, path, ASK if method == "POST" else None, headers)

    assert reply.status == 403
    assert "access-control-allow-origin" not in reply.headers
    assert "error" in reply.json


# The headers of requests that a page makes without an origin.
LOADED = {
    "image": {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
    "script": {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"},
    "link": {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-User": "?1"},
    "frame": {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
}


@pytest.mark.parametrize(
    "path", [*(one.path for one in ROUTES if one.method == "GET"), "/v1/nowhere"]
)
def test_a_foreign_page_cannot_load_anything_without_an_origin(
    serve: Callable[..., Any], path: str
) -> None:
    site = serve(allowed_origins=(PAGE,))
    for origin_of in ("cross-site", "same-site"):
        for loaded in LOADED.values():
            reply = site.send("GET", path, headers={"Sec-Fetch-Site": origin_of, **loaded})
            assert reply.status == 403
            assert "--allow-origin" in str(reply.json["error"])


@pytest.mark.parametrize(
    ("place", "status"),
    [
        ("evil.example", 403),
        ("evil.example/", 403),
        ("me@evil.example:80", 403),
        ("127.0.0.1", 200),
    ],
)
def test_an_address_in_the_request_line_must_name_this_server_too(
    site: Any, place: str, status: int
) -> None:
    with socket.create_connection((site.host, site.address.port), timeout=60) as client:
        request = f"GET http://{place}/v1/models HTTP/1.1\r\nHost: localhost\r\n"
        client.sendall(f"{request}Connection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: client.recv(65_536), b""))
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer[:200]


def test_a_key_in_a_path_is_not_logged(
    serve: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    site = serve(api_key="a-secret-key")
    with caplog.at_level(logging.INFO, logger="api.access"):
        site.send("GET", "/v1/a-secret-key/models")
        site.send("GET", "/v1/%61-secret-key/models")
    lines = [record for record in caplog.records if record.name == "api.access"]
    assert len(lines) == 2
    assert "secret" not in "".join(f"{one.getMessage()} {vars(one)}" for one in lines)


def test_a_preflight_is_answered_only_for_allowed_pages(serve: Callable[..., Any]) -> None:
    asks = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type, x-api-key, anthropic-version",
        "Access-Control-Request-Private-Network": "true",
    }
    site = serve(allowed_origins=(PAGE,), api_key="secret")

    reply = site.send("OPTIONS", "/v1/messages", headers={"Origin": PAGE, **asks})
    assert reply.status == 204
    assert reply.headers["access-control-allow-origin"] == PAGE
    assert "POST" in reply.headers["access-control-allow-methods"]
    assert "x-api-key" in reply.headers["access-control-allow-headers"]
    assert reply.headers["access-control-allow-private-network"] == "true"
    refused = site.send("OPTIONS", "/v1/messages", headers={"Origin": "https://evil.example"})
    assert refused.status == 403
    assert not any(name.startswith("access-control") for name in refused.headers)


@pytest.mark.parametrize(
    ("headers", "word"),
    [
        ({}, "is required"),
        ({"x-api-key": ""}, "is required"),
        ({"Authorization": "Bearer "}, "is required"),
        ({"x-api-key": "other"}, "is wrong"),
        ({"Authorization": "Bearer other"}, "is wrong"),
        ({"Authorization": "secret"}, "is wrong: Authorization must be"),
        ({"Authorization": "Basic c2VjcmV0"}, "is wrong: Authorization must be"),
    ],
)
def test_a_wrong_key_is_called_wrong_and_a_missing_one_missing(
    serve: Callable[..., Any], headers: dict[str, str], word: str
) -> None:
    reply = serve(api_key="secret").send("POST", "/v1/responses", ASK, headers)

    assert reply.status == 401
    assert f"API key {word}" in reply.json["error"]["message"]


def test_logs_contain_the_request_but_no_body_key_or_query(
    serve: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    site = serve(api_key="secret-key")
    with caplog.at_level(logging.DEBUG):
        body = ASK | {"messages": [{"role": "user", "content": "private-words"}]}
        reply = site.send(
            "POST", "/v1/messages?token=hidden-token", body, {"x-api-key": "secret-key"}
        )
        site.send("POST", "/v1/messages", b"{private-words", {"x-api-key": "wrong-key"})

    assert reply.status == 200
    lines = [record.getMessage() for record in caplog.records if record.name == "api.access"]
    assert any("POST /v1/messages 200" in line for line in lines)
    assert any(reply.headers["request-id"] in line for line in lines)
    assert any("POST /v1/messages 401" in line for line in lines)
    for secret in ("private-words", "secret-key", "hidden-token", "wrong-key"):
        assert secret not in caplog.text


@pytest.mark.parametrize(
    "raw",
    [b"x-api-key: secret-key" + b"k" * 9000, b"x-api-key secret-key", b"\x00secret-key: 1"],
    ids=["too long", "no colon", "no token"],
)
def test_a_malformed_header_is_refused_and_not_quoted_in_the_log(
    site: Any, caplog: pytest.LogCaptureFixture, raw: bytes
) -> None:
    with caplog.at_level(logging.DEBUG):
        with socket.create_connection((site.host, site.address.port), timeout=60) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + raw + b"\r\n\r\n")
            assert b" 400 " in connection.recv(64)
        assert site.send("GET", "/").status == 200

    assert "secret-key" not in caplog.text
