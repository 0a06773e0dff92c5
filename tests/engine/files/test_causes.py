"""Why a connection failed, from the errors that libraries for the network really raise."""

import asyncio
import socket

import aiohttp
import httpx
import pytest

from engine.files.causes import network_cause, os_cause

NO_ADDRESS = "the address was not found"


@pytest.fixture
def unknown_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def refused_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def raised_by_httpx(url: str) -> Exception:
    with pytest.raises(httpx.HTTPError) as raised:
        httpx.get(url, trust_env=False)
    return raised.value


def raised_by_aiohttp(url: str) -> Exception:
    async def ask() -> None:
        async with aiohttp.ClientSession() as session, session.get(url):
            pass

    with pytest.raises(aiohttp.ClientError) as raised:
        asyncio.run(ask())
    return raised.value


@pytest.mark.usefixtures("unknown_name")
@pytest.mark.parametrize("ask", [raised_by_httpx, raised_by_aiohttp])
def test_a_name_without_an_address_is_told_in_words(ask: object) -> None:
    error = ask("http://nowhere.invalid/")  # type: ignore[operator]
    assert network_cause(error).startswith(NO_ADDRESS)
    if isinstance(error, OSError):
        assert os_cause(error).startswith(NO_ADDRESS)


@pytest.mark.parametrize("ask", [raised_by_httpx, raised_by_aiohttp])
def test_a_port_that_nobody_listens_on_is_told_in_words(ask: object) -> None:
    error = ask(f"http://127.0.0.1:{refused_port()}/")  # type: ignore[operator]
    assert network_cause(error) == "nothing answers at that address"
