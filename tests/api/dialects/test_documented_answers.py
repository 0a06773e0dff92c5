"""Every answer, whole and streamed, matches the OpenAPI document and has nothing beyond it."""

from collections.abc import Callable
from typing import Any

import pytest

from api.server.routes import ROUTES
from tests.api.dialects.documented import (
    ASKED,
    COUNT,
    EACH,
    WITH_BODIES,
    answer_schema,
    check,
)


def kept_by(site: Any) -> str:
    asked = {"model": "m", "input": COUNT, "max_output_tokens": 1}
    its_id: str = site.send("POST", "/v1/responses", asked).json["id"]
    return its_id


@pytest.mark.parametrize(("path", "body"), EACH)
def test_a_whole_answer_matches_the_document(site: Any, path: str, body: dict[str, Any]) -> None:
    reply = site.send("POST", path, {"model": "demo-model", "stream": False, **body})

    assert reply.status == 200, reply.body
    check(answer_schema(path), reply.json)


@pytest.mark.parametrize(
    "route",
    [one for one in ROUTES if one.method == "GET" and one.answer is not None],
    ids=lambda route: route.path,
)
def test_the_answer_to_a_get_matches_the_document(site: Any, route: Any) -> None:
    path = route.path.replace("{id}", "demo-model")
    if "{response_id}" in path:
        path = path.replace("{response_id}", kept_by(site))
    reply = site.send("GET", path)

    assert reply.status == 200
    check(answer_schema(route.path, "get"), reply.json)


@pytest.mark.parametrize("path", WITH_BODIES)
@pytest.mark.parametrize("body", [b"[]", b"{", b"\xff"], ids=["no object", "broken", "no text"])
def test_an_error_matches_the_document(site: Any, path: str, body: Any) -> None:
    reply = site.send("POST", path, body)

    assert reply.status == 400
    check(answer_schema(path, status="default"), reply.json)


def test_the_errors_for_a_wrong_method_and_a_wrong_key_match_the_document(
    serve: Callable[..., Any],
) -> None:
    site = serve(api_key="secret")
    for path in ASKED:
        for reply in (site.send("PUT", path), site.send("POST", path, {})):
            assert reply.status in (401, 405)
            check(answer_schema(path, status="default"), reply.json)
