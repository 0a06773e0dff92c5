"""A real server that wants a sign-in: it is said, done in the browser, and kept for later."""

import asyncio
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from app.mcp.oauth import KeychainTokens
from tests.app.mcp.served import Served, free_port, listening
from ui.records.tool_servers import NamedValue, ToolServerConfig

Begin = Callable[..., str]


@pytest.fixture
def signed(served: Served) -> Iterator[Begin]:
    with ExitStack() as ends:

        def begin(*how: str) -> str:
            port = free_port()
            ends.enter_context(listening(served, "signed.py", port, *how))
            return f"http://127.0.0.1:{port}/mcp"

        yield begin


def test_oauth_sign_in_is_stored(served: Served, signed: Begin) -> None:
    url = signed()
    served.do(served.host.put(ToolServerConfig("signed", url=url, is_on=True)))
    served.do(served.host.ensure_ready(["signed"]))
    state = served.state("signed")
    assert (state.stage, state.needs_sign_in) == ("failed", True)
    assert state.problem == ("The MCP server “signed” requires you to sign in. Choose Sign In.")
    pages: list[str] = []

    def browse(address: str) -> None:
        pages.append(address)
        asyncio.get_running_loop().run_in_executor(None, read, address)

    def read(address: str) -> None:
        with urllib.request.urlopen(address, timeout=60) as page:
            assert b"You are signed in." in page.read()

    served.do(served.host.sign_in("signed", browse))
    state = served.state("signed")
    assert (state.problem, state.needs_sign_in) == ("", False)
    assert served.call("signed", "greet") == ("hello", False)
    [page] = pages
    assert page.startswith(url.removesuffix("/mcp"))
    served.do(served.host.restart("signed"))
    assert served.call("signed", "greet") == ("hello", False)
    assert len(pages) == 1
    secrets = served.host._secrets
    assert "access_token" in str(secrets.value("signed", "oauth/tokens"))
    assert "access_token" not in (served.folder / "tool-servers.json").read_text()
    other = ToolServerConfig("signed", url="http://127.0.0.1:9/mcp")
    assert served.do(KeychainTokens(secrets, other).get_tokens()) is None
    served.do(served.host.put(other, "signed"))
    assert secrets.value("signed", "oauth/tokens") is None
    secrets.save("signed", "oauth/tokens", "{}")
    served.do(served.host.put(replace(other, name="renamed"), "signed"))
    assert secrets.value("signed", "oauth/tokens") is None
    secrets.save("renamed", "oauth/tokens", "{}")
    served.do(served.host.remove("renamed"))
    assert secrets.value("renamed", "oauth/tokens") is None


def test_oauth_refused_sign_in_can_be_tried_again(served: Served, signed: Begin) -> None:
    url = signed("refuses")
    served.do(served.host.put(ToolServerConfig("signed", url=url, is_on=True)))

    def browse(address: str) -> None:
        loop = asyncio.get_running_loop()
        loop.run_in_executor(None, urllib.request.urlopen, address)

    served.do(served.host.sign_in("signed", browse))
    state = served.state("signed")
    assert (state.stage, state.needs_sign_in) == ("failed", True)


def test_refused_api_key_needs_no_sign_in(served: Served, signed: Begin) -> None:
    key = NamedValue("Authorization", "Bearer wrong", is_secret=True)
    config = ToolServerConfig("signed", url=signed(), headers=(key,), is_on=True)
    served.do(served.host.put(config))
    served.do(served.host.ensure_ready(["signed"]))
    state = served.state("signed")
    assert (state.stage, state.needs_sign_in) == ("failed", False)
