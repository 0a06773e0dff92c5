"""Paths and methods lead to routes as clients spell them."""

from typing import Any

import pytest

from api.server.routes import ROUTES
from tests.api.questions import PATHS, question


@pytest.mark.parametrize("path", PATHS)
def test_doubled_and_trailing_slashes_lead_to_the_route(site: Any, path: str) -> None:
    first, rest = path[1:].split("/", 1) if "/" in path[1:] else (path[1:], "")
    for spelled in (f"/{path}", f"{path}/", f"/{first}//{rest}", f"//{first}///{rest}//?beta=true"):
        reply = site.send("POST", spelled, question(path, "Hi", 1) | {"stream": False})
        assert reply.status == 200, (spelled, reply.body)


GETS = [route for route in ROUTES if route.method == "GET"]


@pytest.mark.parametrize("path", [route.path for route in GETS if route.is_safe])
def test_head_is_answered_wherever_a_safe_get_is(site: Any, path: str) -> None:
    path = path.replace("{id}", "demo-model")
    whole, head = (site.send(method, path) for method in ("GET", "HEAD"))
    assert head.status == whole.status
    assert head.body == b""


@pytest.mark.parametrize("path", ["/flush_cache", "/health_generate"])
def test_head_neither_clears_the_cache_nor_generates(
    site: Any, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    assert [route.path for route in GETS if not route.is_safe] == [
        "/flush_cache",
        "/health_generate",
    ]
    for name in ("forget_prompts", "generate_together"):
        monkeypatch.setattr(type(site.engine), name, lambda *_, **__: pytest.fail("it acts"))
    reply = site.send("HEAD", path)

    assert (reply.status, reply.body) == (405, b"")
    assert "GET" in reply.headers["allow"]


NOT_APPLIED = "x-fullstop-not-applied"


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("path", PATHS)
def test_a_parameter_without_effect_is_named_in_a_header(
    site: Any, path: str, is_streamed: bool
) -> None:
    plain = question(path, "Hi", 1) | {"stream": is_streamed}
    reply = site.send("POST", path, plain | {"sæmplers": ["x"], "user": "me", "mirostat": 0})
    assert reply.headers[NOT_APPLIED] == "s\\xe6mplers"
    assert NOT_APPLIED not in site.send("POST", path, plain).headers


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"input": "Hi"}),
        ("/api/embed", {"input": "Hi", "options": {"samplers": []}}),
        ("/tokenize", {"prompt": "Hi"}),
        ("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "Hi"}]}),
    ],
)
def test_a_route_without_an_answer_names_parameters_without_effect(
    site: Any, path: str, body: dict[str, Any]
) -> None:
    reply = site.send("POST", path, {"model": "m", **body, "samplers": ["x"]})
    assert (reply.status, reply.headers[NOT_APPLIED]) == (200, "samplers")
