"""``fullstop ps`` and ``fullstop stop`` against servers on this machine."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import running_servers
from app.cli import main
from tests.support.outside.raw_server import RawServer, answering, raw_server

MODEL = {
    "name": "makers/small:latest",
    "size": 2_000_000,
    "context_length": 4096,
    "expires_at": "2318-01-01T00:00:00.000000Z",
}
LISTED = {"data": [{"id": "makers/small", "owned_by": "fullstop"}]}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[RawServer]:
    monkeypatch.setenv("FULLSTOP_CONFIG_DIR", str(tmp_path))
    bodies = {b"/v1/models": LISTED, b"/api/ps": {"models": [MODEL]}}

    def answer(request: bytes) -> list[bytes]:
        return [answering(json.dumps(bodies.get(request.split()[1], {})).encode())]

    with raw_server(answer) as served:
        monkeypatch.setattr(running_servers, "server_addresses", lambda _: [served.url])
        yield served


def test_ps_lists_what_servers_have_loaded(
    server: RawServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ps"]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["NAME", "SIZE", "CONTEXT", "UNTIL", "SERVER"]
    assert row.split("  ")[0] == "makers/small"
    assert row.endswith(f"2.0 MB  4,096    for ever  {server.url}")
    assert main(["ps", "--json"]) == 0
    [model] = json.loads(capsys.readouterr().out)["models"]
    assert model == {**MODEL, "server": server.url}


@pytest.mark.parametrize("name", ["makers/small", "small", "makers/small:latest"])
def test_stop_unloads_a_model_by_any_of_its_names(
    server: RawServer, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stop", name]) == 0
    assert "makers/small is unloaded" in capsys.readouterr().out
    head, _, body = server.requests[-1].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /api/generate ")
    assert json.loads(body) == {"model": "makers/small", "keep_alive": 0}


def test_stop_unloaded_model_suggests_loaded_one(
    server: RawServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stop", "smal"]) == 1
    said = capsys.readouterr().err
    assert "no server has loaded smal. Did you mean makers/small?" in said
    assert not any(b"/api/generate" in request for request in server.requests)


@pytest.mark.parametrize("words", [["ps"], ["stop", "small"]])
def test_ps_and_stop_without_server(
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("FULLSTOP_CONFIG_DIR", str(tmp_path))
    monkeypatch.setattr(running_servers, "server_addresses", lambda _: ["http://127.0.0.1:9"])
    assert main(words) == 1
    assert "fullstop serve starts one" in capsys.readouterr().err
