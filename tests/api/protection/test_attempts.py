"""Requests that an attacker would send, none of which has an effect."""

import json
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from api.server.access import hmac
from api.server.routes import ROUTES

ASK = {"model": "m", "max_tokens": 2, "messages": [{"role": "user", "content": "Hi"}]}
KEY = "correct-horse-battery-staple"


def raw(site: Any, sent: bytes) -> bytes:
    """Send bytes as they are; return the whole answer."""
    found = b""
    with socket.create_connection((site.host, site.address.port), timeout=60) as connection:
        try:
            connection.sendall(sent)
            while part := connection.recv(65536):
                found += part
        except ConnectionError:
            pass
    return found


# -- names ------------------------------------------------------------------------------------


def test_a_second_host_header_is_refused(site: Any) -> None:
    answer = raw(
        site,
        b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n"
        b"Connection: close\r\n\r\n",
    )

    assert answer.split(b" ")[1] in (b"400", b"403")


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "PUT", "DELETE", "PATCH"])
def test_other_methods_do_nothing_and_echo_nothing(site: Any, method: str) -> None:
    answer = raw(
        site,
        f"{method} /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Mark: echo-me\r\n"
        "Connection: close\r\n\r\n".encode(),
    )

    assert answer.split(b" ")[1] in (b"400", b"404", b"405")
    assert b"echo-me" not in answer


# -- files and addresses ----------------------------------------------------------------------


class Witness:
    """Notes the files and connections that the process opens; an audit hook cannot be removed."""

    def __init__(self) -> None:
        self.is_watching = False
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.is_watching and event in _WATCHED:
            self.seen.append(f"{event} {arguments!r}")


_WATCHED = {
    "open",
    "os.listdir",
    "os.scandir",
    "subprocess.Popen",
    "os.system",
    "urllib.Request",
    "socket.getaddrinfo",
    "import",
    "exec",
}
_WITNESS: list[Witness] = []


@pytest.fixture
def witness() -> Iterator[Witness]:
    if not _WITNESS:
        _WITNESS.append(Witness())
    [one] = _WITNESS
    one.seen.clear()
    one.is_watching = True
    yield one
    one.is_watching = False


BAITS = ("/etc/passwd-bait", "file:///etc/bait", "http://bait.example/x.png", "../../bait", "bait")


def baited(bait: str) -> list[tuple[str, dict[str, Any]]]:
    """Return requests with a bait wherever a careless server would use a path or an address."""
    picture = {"type": "image", "source": {"type": "url", "url": bait}}
    image = {"type": "image_url", "image_url": {"url": bait}}
    turns = [{"role": "user", "content": bait}]
    options = {"num_predict": 1}
    return [
        ("/v1/messages", ASK | {"model": bait}),
        ("/v1/messages", ASK | {"messages": [{"role": "user", "content": [picture]}]}),
        ("/v1/messages", ASK | {"mcp_servers": [{"type": "url", "url": bait, "name": "x"}]}),
        ("/v1/chat/completions", ASK | {"model": bait, "chat_template": bait}),
        ("/v1/chat/completions", ASK | {"messages": [{"role": "user", "content": [image]}]}),
        ("/v1/completions", {"model": bait, "prompt": bait, "max_tokens": 1}),
        ("/v1/responses", {"model": bait, "input": bait, "max_output_tokens": 16}),
        (
            "/v1/responses",
            {
                "model": "m",
                "input": [{"role": "user", "content": [{"type": "input_file", "file_url": bait}]}],
            },
        ),
        ("/generate", {"text": bait, "sampling_params": {"max_new_tokens": 1}}),
        ("/generate", {"text": "x", "image_data": bait}),
        ("/generate", {"text": "x", "lora_path": bait}),
        ("/api/chat", {"model": bait, "messages": turns, "options": options}),
        ("/api/generate", {"model": bait, "prompt": "x", "template": bait}),
        ("/api/generate", {"model": "m", "prompt": "x", "images": [bait]}),
        ("/api/show", {"model": bait}),
        ("/api/pull", {"model": bait}),
        ("/api/create", {"model": "x", "from": bait, "files": {"a": bait}}),
    ]


@pytest.mark.parametrize("bait", BAITS)
def test_no_file_and_no_address_of_a_request_is_ever_opened(
    site: Any, witness: Witness, bait: str
) -> None:
    for path, body in baited(bait):
        assert site.send("POST", path, body).status < 500, path

    assert [one for one in witness.seen if "bait" in one] == []


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd",
        "/..%2f..%2f..%2fetc%2fpasswd",
        "/v1/models/..%2f..%2f..%2fetc%2fpasswd",
        "/v1/models/%2fetc%2fpasswd",
        "/v1/models/http:%2f%2f169.254.169.254%2flatest",
        "/static/../api/../../etc/passwd",
        "//evil.example/%2f..",
        "/v1/models/%00",
        "/v1/models/" + "a" * 4000,
    ],
)
def test_only_routes_are_reachable_by_a_path(site: Any, witness: Witness, path: str) -> None:
    reply = site.send("GET", path)

    assert reply.status == 404
    assert b"root:" not in reply.body
    assert [one for one in witness.seen if "passwd" in one or "169.254" in one] == []


def test_no_answer_reveals_the_folder_of_the_model(site: Any, demo_model_path: Any) -> None:
    told = [
        site.send("GET", route.path.replace("{id}", "demo-model")).body
        for route in ROUTES
        if route.method == "GET"
    ]
    told.append(site.send("POST", "/api/show", {"model": "demo-model"}).body)

    assert not any(str(demo_model_path).encode() in body for body in told)


# -- headers ----------------------------------------------------------------------------------


def test_nothing_that_a_client_sends_becomes_a_header(site: Any) -> None:
    evil = "x\r\nSet-Cookie: a=b\r\n\r\n<script>"
    for path, body in (
        ("/v1/messages", ASK | {"model": evil}),
        ("/generate", {"text": "x", "rid": evil, "sampling_params": {"max_new_tokens": 1}}),
        ("/api/chat", {"model": evil, "messages": [], "options": {}}),
    ):
        reply = site.send("POST", path, body)
        assert "set-cookie" not in reply.headers
    reply = site.send("GET", "/v1/models/%0d%0aSet-Cookie:%20a=b")
    assert "set-cookie" not in reply.headers
    assert reply.headers["content-type"].startswith("application/json")


def test_the_server_makes_the_request_id_and_ignores_the_clients(site: Any) -> None:
    reply = site.send("GET", "/", headers={"x-request-id": "chosen", "request-id": "chosen"})

    assert "chosen" not in reply.headers.values()


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 2\r\nContent-Length: 3\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: 2, 3\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding : chunked\r\n",
    ],
)
def test_a_body_with_two_lengths_is_refused(site: Any, headers: bytes) -> None:
    answer = raw(
        site,
        b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n"
        + headers
        + b"\r\n{}GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    )

    assert answer.split(b" ")[1] == b"400"
    assert b"fullstop_requests" not in answer


@pytest.mark.parametrize(
    "head",
    [b"X-Large: " + b"a" * 70_000, b"\r\n".join(b"X-%d: 1" % n for n in range(500))],
    ids=["one large", "many"],
)
def test_large_headers_are_refused(site: Any, head: bytes) -> None:
    answer = raw(site, b"GET / HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n\r\n")

    # The connection may be closed before a client that is still sending reads the answer.
    assert answer == b"" or b" 400 " in answer[:20]
    assert site.send("GET", "/").status == 200


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


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": KEY},
        {"Authorization": f"Basic {KEY}"},
        {"Authorization": "Bearer"},
        {"Cookie": f"x-api-key={KEY}"},
    ],
)
def test_a_key_counts_only_in_its_headers(
    serve: Callable[..., Any], headers: dict[str, str]
) -> None:
    site = serve(api_key=KEY)

    assert site.send("GET", f"/v1/models?api_key={KEY}", headers=headers).status == 401


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


def test_a_body_full_of_empty_lines_arrives_whole(site: Any) -> None:
    body = json.dumps(ASK).encode() + b"\r\n\r\n" * 100_000
    answer = raw(
        site,
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
        b"\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body),
    )
    assert answer.startswith(b"HTTP/1.1 200")
