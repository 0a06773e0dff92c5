"""Sign-in to an MCP server with OAuth 2.1; the ``mcp`` package does the protocol.

Here are the tokens, in the keychain, and the address on loopback to which the browser is
redirected. https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)

from app.mcp.configuration import OAUTH_SECRETS
from app.settings.keychain import ToolSecrets
from ui.records.tool_servers import ToolServerConfig, ToolsRefused

SIGN_IN_TIMEOUT_S = 300.0
_TOKENS, _CLIENT = OAUTH_SECRETS
_PAGE = (
    "<!doctype html><meta charset=utf-8><title>Fullstop</title>"
    "<p>{}</p><p>You can close this page and go back to Fullstop.</p>"
)
_Stored = TypeVar("_Stored", OAuthToken, OAuthClientInformationFull)


class KeychainTokens:
    """The tokens and the client registration of one server. Fits ``TokenStorage``.

    They are stored with the address that they are for: a server may get another one, or its name.
    """

    def __init__(self, secrets: ToolSecrets, config: ToolServerConfig) -> None:
        self._secrets = secrets
        self._server = config.name
        self._address = config.url

    async def get_tokens(self) -> OAuthToken | None:
        return await self._get(_TOKENS, OAuthToken)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        await self._set(_TOKENS, tokens)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return await self._get(_CLIENT, OAuthClientInformationFull)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        await self._set(_CLIENT, client_info)

    async def delete(self) -> None:
        for name in OAUTH_SECRETS:
            await asyncio.to_thread(self._secrets.forget, self._server, name)

    async def _get(self, name: str, kind: type[_Stored]) -> _Stored | None:
        text = await asyncio.to_thread(self._secrets.value, self._server, name)
        with contextlib.suppress(ValueError, TypeError, KeyError):
            stored = json.loads(text or "{}")
            return kind.model_validate(stored["value"]) if stored["for"] == self._address else None
        return None

    async def _set(self, name: str, value: _Stored) -> None:
        text = json.dumps({"for": self._address, "value": value.model_dump(mode="json")})
        await asyncio.to_thread(self._secrets.save, self._server, name, text)


async def stored_sign_in(secrets: ToolSecrets, config: ToolServerConfig) -> httpx2.Auth | None:
    """Return the authentication by the tokens of an earlier sign-in; None if there are none."""
    tokens = KeychainTokens(secrets, config)
    if await tokens.get_tokens() is None:
        return None
    browser = _Browser(lambda _: None)
    browser.is_open = False
    return browser.provider(config, tokens)


@asynccontextmanager
async def browser_sign_in(
    secrets: ToolSecrets, config: ToolServerConfig, open_page: Callable[[str], object]
) -> AsyncIterator[httpx2.Auth]:
    """Yield the authentication that opens the server's sign-in page with ``open_page``."""
    tokens = KeychainTokens(secrets, config)
    await tokens.delete()
    browser = _Browser(open_page)
    server = await asyncio.start_server(browser.answer_redirect, "127.0.0.1", 0)
    try:
        browser.port = server.sockets[0].getsockname()[1]
        yield browser.provider(config, tokens)
    finally:
        browser.is_open = False
        server.close()


class _Browser:
    def __init__(self, open_page: Callable[[str], object]) -> None:
        self.port = 0
        self.is_open = True
        self._open_page = open_page
        self._code: asyncio.Future[AuthorizationCodeResult] = (
            asyncio.get_running_loop().create_future()
        )

    def provider(self, config: ToolServerConfig, tokens: KeychainTokens) -> OAuthClientProvider:
        redirect = f"http://127.0.0.1:{self.port or 80}/callback"
        metadata = {"client_name": "Fullstop", "redirect_uris": [redirect]}
        return OAuthClientProvider(
            config.url,
            OAuthClientMetadata.model_validate(metadata),
            tokens,
            self._redirect,
            self._wait_for_code,
        )

    async def answer_redirect(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError, ValueError):
            line = (await reader.readline()).decode("latin-1")
            page = _PAGE.format(self._take_code(line)).encode()
            head = f"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {len(page)}\r\n"
            writer.write(head.encode() + b"connection: close\r\n\r\n" + page)
            await writer.drain()
        writer.close()

    def _take_code(self, request_line: str) -> str:
        """Take the code from the request; return the message for the browser's page."""
        method, _, rest = request_line.partition(" ")
        address = urlsplit(rest.partition(" ")[0])
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        if method != "GET" or address.path != "/callback" or self._code.done():
            return "There is nothing to do here."
        if code := query.get("code"):
            result = AuthorizationCodeResult(
                code=code, state=query.get("state"), iss=query.get("iss")
            )
            self._code.set_result(result)
            return "You are signed in."
        self._code.set_exception(ToolsRefused("The sign-in was refused in the browser."))
        return "You are not signed in."

    async def _redirect(self, address: str) -> None:
        if not self.is_open:
            raise ToolsRefused("You have to sign in again.")
        if urlsplit(address).scheme not in ("https", "http"):
            raise ToolsRefused("The server names a sign-in page that is no web page.")
        self._open_page(address)

    async def _wait_for_code(self) -> AuthorizationCodeResult:
        async with asyncio.timeout(SIGN_IN_TIMEOUT_S):
            return await self._code
