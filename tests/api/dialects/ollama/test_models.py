"""Ollama's routes about models, and the lines of its streams, as its clients read them."""

import http.client
import json
from contextlib import closing
from typing import Any

import pytest

STATUSES = ["pulling manifest", "verifying sha256 digest", "writing manifest", "success"]


def pieces_of(site: Any, path: str, body: dict[str, Any]) -> list[bytes]:
    with closing(http.client.HTTPConnection(site.host, site.address.port, timeout=60)) as client:
        client.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = client.getresponse()
        assert answer.status == 200
        source, pieces = answer.fp, []
        while size := int(source.readline(), 16):
            pieces.append(source.read(size))
            source.readline()
        return pieces


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/chat", {"messages": [{"role": "user", "content": "Count from 1 to 5"}]}),
        ("/api/generate", {"prompt": "Count from 1 to 5", "raw": True}),
        ("/api/pull", {"model": "demo-model"}),
    ],
)
def test_each_line_of_a_stream_is_a_piece_of_its_own(
    site: Any, path: str, body: dict[str, Any]
) -> None:
    pieces = pieces_of(site, path, {"model": "m", "options": {"num_predict": 9}, **body})
    assert len(pieces) > 2
    lines = [json.loads(piece) for piece in pieces]
    assert all(piece.count(b"\n") == 1 and piece.endswith(b"\n") for piece in pieces)
    assert lines[-1].get("done", lines[-1].get("status")) in (True, "success")


@pytest.mark.parametrize("name", ["demo-model", "demo-model:latest", "Demo-Model:latest"])
@pytest.mark.parametrize("key", ["model", "name"])
def test_a_served_name_is_pulled_as_ollama_does(serve: Any, name: str, key: str) -> None:
    site = serve(strict=True)
    reply = site.send("POST", "/api/pull", {key: name})
    assert reply.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line)["status"] for line in reply.body.splitlines()] == STATUSES
    whole = site.send("POST", "/api/pull", {key: name, "stream": False, "insecure": True})
    assert whole.json == {"status": "success"}


def test_a_name_that_is_not_served_is_not_pulled(serve: Any) -> None:
    site = serve(strict=True)
    for more in ({}, {"stream": False}):
        reply = site.send("POST", "/api/pull", {"model": "llama3.2", **more})
        assert reply.status == 404
        assert "llama3.2" in reply.json["error"]
        assert "fullstop models download" in reply.json["error"]
    assert site.send("POST", "/api/pull", {}).status == 400


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/api/delete"),
        ("POST", "/api/copy"),
        ("POST", "/api/create"),
        ("POST", "/api/push"),
        ("POST", "/api/blobs/sha256:00"),
    ],
)
def test_models_are_not_changed_on_request(site: Any, method: str, path: str) -> None:
    reply = site.send(method, path, {"model": "demo-model"})
    assert reply.status == 404
    assert "fullstop models" in reply.json["error"]


def test_lists_and_details_name_size_and_kind_of_the_weights(site: Any) -> None:
    [listed] = site.send("GET", "/api/tags").json["models"]
    [running] = site.send("GET", "/api/ps").json["models"]
    shown = site.send("POST", "/api/show", {"model": "demo-model"}).json
    assert listed["details"] == running["details"] == shown["details"]
    count = shown["model_info"]["general.parameter_count"]
    assert listed["details"]["parameter_size"] == f"{count / 1e3:.0f}K"
    assert listed["details"]["quantization_level"] in ("F32", "F16", "BF16")
