"""Signs in to a tool server at an address, with OAuth 2.1: in the browser, and later with tokens.

https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization; the ``mcp`` package
does the protocol. Here are the tokens, in the keychain, and the address on loopback to which the
browser comes back. Tool thread.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)

from app.mcp.configuration import SIGNED_IN
from app.settings.keychain import ToolSecrets
from ui.records.tools import ToolsRefused

OpenPage = Callable[[str], Awaitable[None]]
SIGN_IN_TIME_OUT_S = 300.0
_TOKENS, _CLIENT = SIGNED_IN
_MOST_LINE_BYTES = 16_384
_PAGE = (
    "<!doctype html><meta charset=utf-8><title>Fullstop</title>"
    "<p>{}</p><p>You can close this page and go back to Fullstop.</p>"
)


class KeptTokens:
    """The tokens of one server, and how Fullstop is registered there. Fits ``TokenStorage``."""

    def __init__(self, secrets: ToolSecrets, server: str) -> None:
        self._secrets = secrets
        self._server = server

    async def get_tokens(self) -> OAuthToken | None:
        kept = await asyncio.to_thread(self._secrets.value, self._server, _TOKENS)
        with contextlib.suppress(ValueError):
            return OAuthToken.model_validate_json(kept) if kept else None
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        await asyncio.to_thread(self._secrets.keep, self._server, _TOKENS, tokens.model_dump_json())

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        kept = await asyncio.to_thread(self._secrets.value, self._server, _CLIENT)
        with contextlib.suppress(ValueError):
            return OAuthClientInformationFull.model_validate_json(kept) if kept else None
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        kept = client_info.model_dump_json()
        await asyncio.to_thread(self._secrets.keep, self._server, _CLIENT, kept)

    def forget(self) -> None:
        """Forget both; blocks."""
        for name in (_TOKENS, _CLIENT):
            self._secrets.forget(self._server, name)


async def kept_sign_in(secrets: ToolSecrets, server: str, url: str) -> httpx2.Auth | None:
    """Return what adds the tokens of an earlier sign-in to requests; None if there was none.

    Tokens are renewed without a person. Where that is refused, a person has to sign in again.
    """
    tokens = KeptTokens(secrets, server)
    if await tokens.get_tokens() is None:
        return None

    async def refuse(*_: object) -> AuthorizationCodeResult:
        raise ToolsRefused("You have to sign in again.")

    async def refuse_page(_: str) -> None:
        await refuse()

    # The address is not used: nobody is sent to it.
    return _provider(url, "http://127.0.0.1/callback", tokens, refuse_page, refuse)


@asynccontextmanager
async def new_sign_in(
    secrets: ToolSecrets, server: str, url: str, open_page: OpenPage
) -> AsyncIterator[httpx2.Auth]:
    """Yield what has a person sign in, in the browser, as soon as the server wants that.

    Args:
        secrets: Keeps the tokens.
        server: The server's name.
        url: Its address.
        open_page: Opens an address in the browser.
    """
    tokens = KeptTokens(secrets, server)
    await asyncio.to_thread(tokens.forget)
    came_back: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()
    is_wanted = True

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError):
            line = await reader.readline()
            said = _take_answer(line.decode("latin-1"), came_back)
            page = _PAGE.format(said).encode()
            head = f"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {len(page)}\r\n"
            writer.write(head.encode() + b"connection: close\r\n\r\n" + page)
            await writer.drain()
        writer.close()

    async def sent_to(address: str) -> None:
        if not is_wanted:
            raise ToolsRefused("You have to sign in again.")  # no browser opens by itself
        if urlsplit(address).scheme not in ("https", "http"):
            raise ToolsRefused("The server names a page to sign in that is no web page.")
        await open_page(address)

    async def answered() -> AuthorizationCodeResult:
        async with asyncio.timeout(SIGN_IN_TIME_OUT_S):
            return await came_back

    listening = await asyncio.start_server(take, "127.0.0.1", 0, limit=_MOST_LINE_BYTES)
    try:
        port = listening.sockets[0].getsockname()[1]
        back = f"http://127.0.0.1:{port}/callback"
        yield _provider(url, back, tokens, sent_to, answered)
    finally:
        is_wanted = False
        listening.close()


def _take_answer(line: str, came_back: "asyncio.Future[AuthorizationCodeResult]") -> str:
    """Take the code out of the request's first line; return the words for the browser."""
    method, _, rest = line.partition(" ")
    address = urlsplit(rest.partition(" ")[0])
    said = {name: values[0] for name, values in parse_qs(address.query).items()}
    if method != "GET" or address.path != "/callback" or came_back.done():
        return "There is nothing to do here."
    if code := said.get("code"):
        came_back.set_result(
            AuthorizationCodeResult(code=code, state=said.get("state"), iss=said.get("iss"))
        )
        return "You are signed in."
    came_back.set_exception(ToolsRefused("The sign-in was refused in the browser."))
    return "You are not signed in."


def _provider(
    url: str,
    back: str,
    tokens: KeptTokens,
    open_page: OpenPage,
    answered: Callable[[], Awaitable[AuthorizationCodeResult]],
) -> OAuthClientProvider:
    return OAuthClientProvider(
        url,
        OAuthClientMetadata.model_validate({"client_name": "Fullstop", "redirect_uris": [back]}),
        tokens,
        open_page,
        answered,
    )
