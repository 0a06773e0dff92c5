"""Requests that an attacker would send, none of which has an effect."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from api.server.access import hmac
from api.server.routes import ROUTES

KEY = "correct-horse-battery-staple"


# -- keys -------------------------------------------------------------------------------------


def test_keys_are_compared_in_constant_time(
    serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest

    def noted(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return real(one, other)

    monkeypatch.setattr(hmac, "compare_digest", noted)
    site = serve(api_key=KEY)
    tried = ["", "c", KEY[:-1], KEY + "x", "x" * 5000, KEY]
    statuses = [site.send("GET", "/v1/models", headers={"x-api-key": key}).status for key in tried]

    assert statuses == [401] * 5 + [200]
    # Each key goes through the same comparison, and through nothing before it; empty is no key.
    assert compared == [(key.encode(), KEY.encode()) for key in tried if key]


def test_without_the_key_only_the_open_routes_answer(
    serve: Callable[..., Any],
) -> None:
    site = serve(api_key=KEY)
    for route in ROUTES:
        path = route.path.replace("{id}", "demo-model")
        reply = site.send(route.method, path, {} if route.method == "POST" else None)
        assert (reply.status == 401) is route.needs_key, path
    assert site.send("GET", "/nowhere").status == 401
    open_paths = {route.path for route in ROUTES if not route.needs_key}
    assert open_paths == {"/", "/health"}


def test_no_error_quotes_a_key(serve: Callable[..., Any]) -> None:
    site = serve(api_key=KEY)
    for path in ("/v1/messages", "/v1/chat/completions", "/generate", "/api/chat", "/nowhere"):
        for key in (KEY, "guessed-key-guessed"):
            for body in (b"{", b"", json.dumps({"api_key": key}).encode()):
                reply = site.send("POST", path, body, {"x-api-key": key})
                assert key.encode() not in reply.body
                assert KEY not in str(reply.headers)
