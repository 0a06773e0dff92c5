"""Hubs that flood: an answer is read up to a limit, that of an error as well."""

from collections.abc import Iterable

import pytest

from engine.library.hub import Hub, HubFailed
from tests.support.outside.raw_server import answering, raw_server


@pytest.mark.parametrize("status", ["200 OK", "500 Internal Server Error", "404 Not Found"])
def test_an_endless_answer_of_a_hub_is_read_up_to_a_limit(status: str) -> None:
    sent = 0

    def endless(_: bytes) -> Iterable[bytes]:
        nonlocal sent
        yield f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n\r\n".encode()
        while sent < 200:
            sent += 1
            yield b" " * (1 << 20)

    with raw_server(endless) as server, pytest.raises(HubFailed, match=r"the hub.s answer exceeds"):
        Hub(server.url).get("/api/models")
    assert sent < 100


def test_an_error_of_a_flooding_hub_still_has_a_clear_message() -> None:
    gone = answering(b'{"error": "no"}', "x-error-code: RepoNotFound", status="404 Not Found")
    with raw_server(lambda _: [gone]) as server, pytest.raises(HubFailed) as failure:
        Hub(server.url).get("/api/models/a/b", repository="a/b")
    assert "a/b" in str(failure.value)
