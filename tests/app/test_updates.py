"""The newest version: where it is looked up, and which answers are refused."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from app import updates
from app.updates import find_updates, newest_release, parse_release
from ui.window.updates import Release, UpdateFailed, Updates

Answer = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture
def place() -> Iterator[tuple[str, list[Answer]]]:
    """The address of a local server, and the one answer that it gives."""
    answers: list[Answer] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answers[-1](self)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/json", answers
    server.shutdown()
    server.server_close()


def sends(body: bytes, status: int = 200, **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def pypi(version: Any) -> bytes:
    return json.dumps({"info": {"version": version}}).encode()


@pytest.mark.parametrize(
    ("current", "version", "is_newer"),
    [("0.1.0", "0.2.0", True), ("0.10.0", "0.9.9", False), ("1.0", "1.0.0", False)],
)
def test_update_versions_are_compared_by_number(current: str, version: str, is_newer: bool) -> None:
    found = parse_release(pypi(version), "pip install", current)
    assert found == Release(version, is_newer, "pip install")


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b"[" * 100_000, b'"x"', pypi(None), pypi("9" * 5_000), pypi("1; rm -rf /")],
)
def test_damaged_update_answers_are_refused(content: bytes) -> None:
    with pytest.raises(UpdateFailed, match="damaged"):
        parse_release(content, "pip install", "0.1.0")


def test_update_feed_names_only_https_downloads() -> None:
    feed = {"version": "0.2.0", "url": "https://example.org/Fullstop.zip"}
    found = parse_release(json.dumps(feed).encode(), "", "0.1.0")
    assert found.address == "https://example.org/Fullstop.zip"
    for url in ("file:///etc/passwd", "http://example.org/", None, "https://a b"):
        with pytest.raises(UpdateFailed, match="https"):
            parse_release(json.dumps(feed | {"url": url}).encode(), "", "0.1.0")
    with pytest.raises(UpdateFailed, match="https"):
        newest_release("http://example.org/json", "")


def test_update_answers_have_limits(
    place: tuple[str, list[Answer]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, answers = place
    answers.append(sends(pypi("0.2.0")))
    assert updates._fetch(address) == pypi("0.2.0")
    answers.append(sends(b"x" * (updates._MAX_BYTES + 1)))
    with pytest.raises(UpdateFailed, match="more than 4 MB"):
        updates._fetch(address)
    answers.append(sends(b"", 302, Location=address))
    with pytest.raises(UpdateFailed, match="HTTP 302"):
        updates._fetch(address)
    gate = threading.Event()
    monkeypatch.setattr(updates, "_MAX_S", 0.2)
    answers.append(lambda _: gate.wait(5) and None)
    with pytest.raises(UpdateFailed, match="could not be reached"):
        updates._fetch(address)
    gate.set()
    with pytest.raises(UpdateFailed, match=r"Check the connection"):
        updates._fetch("http://127.0.0.1:9/")


class Installed:
    """Stands in for the metadata of an installation."""

    def __init__(self, **files: str) -> None:
        self.files = files

    def read_text(self, name: str) -> str | None:
        return self.files.get(name.removesuffix(".json"))


def test_updates_come_from_where_the_program_came_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def found(**files: str) -> Updates:
        monkeypatch.setattr(updates, "distribution", lambda _: Installed(**files))
        return find_updates()

    assert found(INSTALLER="pip\n").host == "pypi.org"
    monkeypatch.setattr("sys.executable", "/My Apps/bin/python")
    for installer, command in (
        ("pip", "'/My Apps/bin/python' -m pip install --upgrade fullstop-chat"),
        ("uv", "uv pip install --python '/My Apps/bin/python' --upgrade fullstop-chat"),
    ):
        assert updates._install_command(Installed(INSTALLER=installer)) == command
    (tmp_path / "uv-receipt.toml").touch()
    monkeypatch.setattr("sys.prefix", f"{tmp_path}")
    command = updates._install_command(Installed(INSTALLER="uv"))
    assert command == "uv tool upgrade fullstop-chat"
    assert found(INSTALLER="pip\n", direct_url="{}").look is None
    assert found().reason.startswith("This copy runs from a folder")
    monkeypatch.setattr("sys.frozen", True, raising=False)
    assert find_updates().look is None
    assert find_updates("https://example.org/feed.json").host == "example.org"
