"""A real MCP server over streamable HTTP that wants a sign-in; its page says yes at once."""

import secrets
import sys
import time

from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

port, refuses = int(sys.argv[1]), sys.argv[2:] == ["refuses"]
url = f"http://127.0.0.1:{port}"


class People:
    """Lets everybody in who comes by the page."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.tokens: dict[str, AccessToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id
        self.clients[client_info.client_id] = client_info

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        back = str(params.redirect_uri)
        if refuses:
            return construct_redirect_uri(back, error="access_denied", state=params.state)
        code = AuthorizationCode(
            code=secrets.token_hex(),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id or "",
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(back, code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        token = AccessToken(
            token=secrets.token_hex(),
            client_id=client.client_id or "",
            scopes=authorization_code.scopes,
            resource=authorization_code.resource,
        )
        self.tokens[token.token] = token
        return OAuthToken(access_token=token.token, token_type="Bearer", expires_in=3_600)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        return None

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.tokens.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.tokens.pop(token.token, None)


server = MCPServer(
    "signed",
    version="1.0",
    auth_server_provider=People(),
    auth=AuthSettings(
        issuer_url=url,
        resource_server_url=f"{url}/mcp",
        client_registration_options=ClientRegistrationOptions(enabled=True),
    ),
)


@server.tool()
def greet() -> str:
    """Greet who is signed in."""
    return "hello"


server.run("streamable-http", host="127.0.0.1", port=port)
