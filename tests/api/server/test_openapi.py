"""The OpenAPI document is valid, and agrees with the table of routes."""

import threading
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from api.server.openapi import document
from api.server.routes import ROUTES, openapi_text


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return document(ROUTES)


def test_the_server_makes_the_document_once_on_a_thread(
    serve: Any, monkeypatch: pytest.MonkeyPatch, found: dict[str, Any]
) -> None:
    threads = []

    def made(table: Any) -> dict[str, Any]:
        threads.append(threading.current_thread())
        return document(table)

    monkeypatch.setattr("api.server.routes.document", made)
    openapi_text.cache_clear()
    site = serve()
    replies = [site.send("GET", "/openapi.json") for _ in range(3)]
    assert [one.status for one in replies] == [200] * 3
    assert all(one.json == found for one in replies)
    assert replies[0].headers["content-type"].startswith("application/json")
    [thread] = threads
    assert thread.name.startswith("asyncio")


def test_the_document_is_valid(found: dict[str, Any]) -> None:
    OpenAPIV31SpecValidator(found).validate()


def test_the_document_has_every_route_and_no_other(found: dict[str, Any]) -> None:
    listed = {
        (method.upper(), path)
        for path, operations in found["paths"].items()
        for method in operations
    }

    assert listed == {(route.method, route.path) for route in ROUTES}


def test_no_two_operations_share_a_name(found: dict[str, Any]) -> None:
    names = [one["operationId"] for path in found["paths"].values() for one in path.values()]

    assert len(set(names)) == len(names)


def test_every_posted_body_is_described(found: dict[str, Any]) -> None:
    for path, operations in found["paths"].items():
        if "post" in operations and path != "/flush_cache":
            body = operations["post"]["requestBody"]["content"]["application/json"]["schema"]
            name = body["$ref"].removeprefix("#/components/schemas/")
            assert found["components"]["schemas"][name]["properties"], path


def test_a_content_can_be_a_text_or_parts(found: dict[str, Any]) -> None:
    schemas = found["components"]["schemas"]
    content = schemas["UserMessage"]["properties"]["content"]["anyOf"]

    assert {"type": "string"} in content
    assert any(one.get("type") == "array" for one in content)


def test_errors_are_shown_in_the_dialect_s_envelope(found: dict[str, Any]) -> None:
    for path, keys in (
        ("/v1/messages", {"type", "error", "request_id"}),
        ("/v1/chat/completions", {"error"}),
        ("/api/chat", {"error"}),
    ):
        failure = found["paths"][path]["post"]["responses"]["default"]
        assert failure["content"]["application/json"]["example"].keys() == keys
