"""The OpenAPI document is valid, and agrees with the table of routes."""

from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from api.server.openapi import document
from api.server.routes import ROUTES


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return document(ROUTES)


def test_the_document_is_valid(found: dict[str, Any]) -> None:
    OpenAPIV31SpecValidator(found).validate()


def test_the_document_has_every_route_and_no_other(found: dict[str, Any]) -> None:
    listed = {
        (method.upper(), path)
        for path, operations in found["paths"].items()
        for method in operations
    }

    assert listed == {(route.method, route.path) for route in ROUTES}


def test_every_posted_body_is_described(found: dict[str, Any]) -> None:
    for path, operations in found["paths"].items():
        if "post" in operations:
            body = operations["post"]["requestBody"]["content"]["application/json"]["schema"]
            name = body["$ref"].removeprefix("#/components/schemas/")
            assert found["components"]["schemas"][name]["properties"], path


def test_errors_are_shown_in_the_dialect_s_envelope(found: dict[str, Any]) -> None:
    for path, keys in (
        ("/v1/messages", {"type", "error", "request_id"}),
        ("/v1/chat/completions", {"error"}),
        ("/api/chat", {"error"}),
    ):
        failure = found["paths"][path]["post"]["responses"]["default"]
        assert failure["content"]["application/json"]["example"].keys() == keys
