from collections.abc import Callable
from typing import Any

import pytest
from multidict import CIMultiDict

from api.server.access import (
    check_host,
    check_key,
    check_origin,
    cors_headers,
    is_from_here,
    socket,
)
from api.service.config import ServerConfig
from api.service.errors import ApiError, ErrorKind

HOME = ServerConfig()


def refusal(check: Callable[..., None], *facts: Any) -> ErrorKind | None:
    try:
        check(*facts)
    except ApiError as error:
        return error.kind
    return None


def passes_host(header: str | None, config: ServerConfig, local: str | None = None) -> bool:
    found = refusal(check_host, header, config, local)
    assert found in (None, ErrorKind.PERMISSION)
    return found is None


def passes_origin(origin: str | None, config: ServerConfig) -> bool:
    found = refusal(check_origin, origin, "127.0.0.1:8080", config)
    assert found in (None, ErrorKind.PERMISSION)
    return found is None


def passes_key(headers: dict[str, str], key: str | None) -> bool:
    found = refusal(check_key, headers, key)
    assert found in (None, ErrorKind.AUTHENTICATION)
    return found is None


@pytest.mark.parametrize(
    ("peer", "local", "header", "is_here"),
    [
        ("127.0.0.1", "127.0.0.1", "", True),
        ("::1", "::1", "", True),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1", "", True),
        ("192.168.1.5", "192.168.1.5", "", True),
        ("::ffff:192.168.1.5", "192.168.1.5", "", True),
        ("192.168.1.9", "192.168.1.5", "", False),
        ("192.168.1.9", None, "", False),
        (None, None, "", False),
        ("127.0.0.1", "127.0.0.1", "x-forwarded-for", False),
        ("127.0.0.1", "127.0.0.1", "forwarded", False),
        ("127.0.0.1", "127.0.0.1", "via", False),
    ],
)
def test_only_a_program_on_this_computer_is_from_here(
    peer: str | None, local: str | None, header: str, is_here: bool
) -> None:
    headers = CIMultiDict({header: "192.0.2.7"} if header else {})
    assert is_from_here(headers, peer, local) is is_here


@pytest.fixture
def own_name(monkeypatch: pytest.MonkeyPatch) -> str:
    name = "Studio.corp.example"
    monkeypatch.setattr(socket, "gethostname", lambda: name)
    return name


@pytest.mark.parametrize(
    "header",
    [
        "localhost",
        "LOCALHOST:1",
        "localhost.:80",
        "app.localhost",
        "127.0.0.1:8080",
        "127.1.2.3",
        "[::1]",
        "[::1]:8080",
        "[0:0:0:0:0:0:0:1]",
        "my-mac.local",
        "My-Mac.local.:8080",
        "host.docker.internal:8642",
        "host.containers.internal",
        "gateway.docker.internal",
        "fullstop.localhost:8642",
        "studio.corp.example",
        "STUDIO.corp.example:8642",
    ],
)
def test_every_name_of_this_computer_is_accepted(header: str, own_name: str) -> None:
    assert own_name == "Studio.corp.example"
    assert passes_host(header, HOME)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "localhost@evil.example",
        "evil.example#localhost",
        "[::1].evil.example",
        "127.0.0.1:99999999",
        "2130706433.evil.example",
        "127.0.0.1.nip.io",
        "evil@localhost",
        "localhost/evil",
        "192.168.1.5",
        "0.0.0.0",
        "[::",
        "localhost:port",
        "notlocalhost",
        "localhost, evil.example",
        "2130706433",
        "local",
        "internal",
        "evil.local.example",
        "notlocal",
        "evil-local",
        "host.docker.internal.evil.example",
        "evil.example.local.nip.io",
        "fullstop",
        "corp.example",
        "evil.studio.corp.example",
        "0x7f000001",
    ],
)
def test_no_other_name_is_accepted(header: str | None, own_name: str) -> None:
    assert not passes_host(header, HOME)


def test_a_page_of_a_name_that_a_neighbour_can_claim_is_refused() -> None:
    """Anyone on the same network can claim x.local and answer with an address of this computer."""
    for name in ("x.local:8080", "x.internal:8080"):
        assert passes_host(name, HOME)
        assert refusal(check_origin, f"http://{name}", name, HOME) is ErrorKind.PERMISSION
        allowed = ServerConfig(allowed_hosts=(name.partition(":")[0],))
        assert refusal(check_origin, f"http://{name}", name, allowed) is None


EXTENSIONS = ServerConfig(allowed_origins=("chrome-extension://*", "FILE://*"))


@pytest.mark.parametrize("origin", ["chrome-extension://abc", "file://", "CHROME-EXTENSION://x"])
def test_a_whole_scheme_can_be_allowed(origin: str) -> None:
    assert not passes_origin(origin, HOME)
    assert passes_origin(origin, EXTENSIONS)
    assert cors_headers(origin, EXTENSIONS)["Access-Control-Allow-Origin"] == origin


@pytest.mark.parametrize(
    "origin",
    [
        "http://localhost",
        "http://localhost:3000",
        "https://127.0.0.1:5173",
        "http://[::1]:8081",
        "http://0.0.0.0:8000",
        "https://tauri.localhost",
        "app://obsidian.md",
        "app://-",
        "tauri://localhost",
        "vscode-webview://0a1b-2c",
        "vscode-file://vscode-app",
    ],
)
def test_pages_and_apps_of_this_computer_may_call(origin: str) -> None:
    assert passes_origin(origin, HOME)
    assert cors_headers(origin, HOME)["Access-Control-Allow-Origin"] == origin


def test_a_request_from_no_page_or_from_our_own_page_is_accepted() -> None:
    assert passes_origin(None, HOME)
    assert passes_origin("http://127.0.0.1:8080", HOME)


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "",
        "file://",
        "http://127.0.0.1:8080.evil.example",
        "http://localhost.evil.example",
        "http://localhost@evil.example",
        "http://localhost:80:90",
        "http://evil.example/localhost",
        "http://127.0.0.1.nip.io",
        "http://x.local:8080",
        "http://192.168.1.5:8080",
        "chrome-extension://abcdef",
        "myapp://localhost",
        "app:",
    ],
)
def test_a_request_from_a_foreign_page_is_refused(origin: str) -> None:
    assert not passes_origin(origin, HOME)
    assert cors_headers(origin, HOME) == {}


@pytest.mark.parametrize(
    "headers",
    [
        {"x-api-key": "secret"},
        {"api-key": "secret"},  # Azure's
        {"Authorization": "Bearer secret"},
        {"Authorization": "bearer  secret"},
        {"x-api-key": "none", "Authorization": "Bearer secret"},
    ],
)
def test_the_key_is_read_from_each_of_its_headers(headers: dict[str, str]) -> None:
    assert passes_key(headers, "secret")


@pytest.mark.parametrize(
    "headers",
    [
        {"x-api-key": "secre"},
        {"x-api-key": "secret x"},
        {"x-api-key": "sécret"},
        {"x-api-key": "\udcff"},
        {"Authorization": "Bearer"},
    ],
)
def test_anything_else_is_not_accepted_as_the_key(headers: dict[str, str]) -> None:
    assert not passes_key(headers, "secret")
