"""Foreign programs at the address of the server: none gets a key, and none does harm."""

import pytest

from app.agents import NO_KEY
from app.exits import CommandError
from app.running_servers import (
    RunningServer,
    ServedModel,
    running_server,
)
from tests.support.outside.raw_server import answering, raw_server

_MODEL = ServedModel("m", None, True)


def test_running_server_key_follows_no_redirect() -> None:
    with raw_server(lambda _: [answering(b'{"data": []}')]) as other:
        where = f"location: {other.url}/v1/models"
        with raw_server(lambda _: [answering(b"", where, status="302 Found")]) as server:
            assert running_server(server.url, ["secret"]) is None
            shown = RunningServer(server.url, "secret", ())
            assert shown.can_call_tools(_MODEL) is None
        assert other.requests == []


def test_running_server_key_only_when_required() -> None:
    refused = answering(b"{}", status="401 Unauthorized")
    with raw_server(lambda _: [refused]) as server:
        with pytest.raises(CommandError, match="is wrong for the server"):
            running_server(server.url, ["one", "two"])
        asked = [one.lower().partition(b"bearer ")[2].split()[0] for one in server.requests]
        with pytest.raises(CommandError, match="requires an API key that is not known"):
            running_server(server.url, [])
    assert asked == [NO_KEY.lower().encode(), b"one", b"two"]
