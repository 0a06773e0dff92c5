"""The Fullstop servers that run on this computer: the window's, and that of ``serve``. Blocks.

Connects only to loopback, or to an address that the user gave.
"""

import asyncio
import http.client
import itertools
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from api.service.config import GREETING
from app import paths
from app.agents.programs import NO_KEY
from app.exits import CommandError
from app.process.registered_servers import registered_addresses
from app.settings.keychain import KeyStore
from app.settings.serve import DEFAULT_HOST, ServeOptions
from engine.files.safe_files import read_bounded
from ui.preferences import API_KEY_VARIABLE, DEFAULT_PORT

_MAX_RESPONSE_BYTES = 4 << 20
_OWNER = "fullstop"
_EVERYWHERE = ("0.0.0.0", "::", "")


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that a server offers; ``can_call_tools`` is None where the server does not say."""

    id: str
    context: int | None
    is_loaded: bool
    can_call_tools: bool | None

    def is_meant_by(self, name: str) -> bool:
        """Return whether a name is this model's: its id, with or without owner, or its folder."""
        short = self.id.rpartition("/")[2]
        return name in (self.id, short) or paths.typed_path(name).name == short


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that answers."""

    url: str
    key: str
    models: tuple[ServedModel, ...]
    certificate: Path | None = None

    def model(self, name: str | None) -> ServedModel | None:
        if name is not None:
            return next((model for model in self.models if model.is_meant_by(name)), None)
        loaded = (model for model in self.models if model.is_loaded)
        return next(loaded, next(iter(self.models), None))

    def loaded(self) -> list[dict[str, Any]]:
        try:
            listed = self._request("/api/ps")
            return [dict(model) for model in listed["models"]]
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise CommandError(f"{self.url} does not say what it has loaded: {error}") from error

    def unload(self, model: str) -> None:
        try:
            self._request("/api/generate", {"model": model, "keep_alive": 0})
        except (OSError, ValueError) as error:
            raise CommandError(f"{self.url} does not unload {model}: {error}") from error

    def _request(self, path: str, body: dict[str, Any] | None = None) -> Any:
        return _request_json(self.url + path, self.key, self.certificate, body)


def server_addresses(options: ServeOptions) -> list[str]:
    """Return the possible addresses of our server: the window's port, and that of ``serve``."""
    host = DEFAULT_HOST if options.host in _EVERYWHERE else options.host
    scheme = "http" if options.tls_cert is None else "https"
    addresses = [("http", DEFAULT_HOST, _window_port()), (scheme, host, options.port)]
    named = [(way, f"[{host}]" if ":" in host else host, port) for way, host, port in addresses]
    return list(dict.fromkeys(f"{way}://{host}:{port}" for way, host, port in named if port))


def running_server(url: str, options: ServeOptions) -> RunningServer | None:
    """Return the server at an address, or None; ``CommandError`` if it requires another key.

    Another program gets no key, even if it requires one.
    """
    has_tried = False
    certificate = _certificate(url, options)
    for key in itertools.chain((NO_KEY,), known_keys(options)):
        try:
            listed = _request_json(f"{url}/v1/models", key, certificate)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != 401 or not _is_ours(url, certificate):
                return None
            has_tried = key != NO_KEY
        except (OSError, ValueError):
            return None
        else:
            models = _served_models(listed)
            return None if models is None else RunningServer(url, key, models, certificate)
    if has_tried:
        raise CommandError(
            f"the API key that is known here is wrong for the server at {url}; set "
            f"{API_KEY_VARIABLE} to the right one"
        )
    raise CommandError(
        f"the server at {url} requires an API key that is not known here; set {API_KEY_VARIABLE} "
        "to it"
    )


def known_keys(options: ServeOptions) -> Iterable[str]:
    """Yield the API keys that are known here: of ``serve``'s settings, then of the window."""
    if options.api_key:
        yield options.api_key
    try:
        stored = asyncio.run(KeyStore(paths.config_folder()).key())
    except OSError:
        stored = None
    if stored:
        yield stored


def running_servers(settings: ServeOptions) -> Iterator[RunningServer]:
    """Yield the servers of the window and of ``serve``; ``CommandError`` if a key is unknown."""
    for url in dict.fromkeys((*server_addresses(settings), *registered_addresses())):
        if (server := running_server(url, settings)) is not None:
            yield server


def _certificate(url: str, options: ServeOptions) -> Path | None:
    """Return the certificate of ``serve`` for its own addresses, which it may not be made for."""
    own = {urlsplit(address).hostname for address in server_addresses(options)}
    if options.tls_cert is None or urlsplit(url).hostname not in {*own, "localhost"}:
        return None
    return options.tls_cert.expanduser()


def _is_ours(url: str, certificate: Path | None) -> bool:
    """Return whether a server that requires a key is this program's, by its greeting."""
    try:
        return _request(f"{url}/", NO_KEY, certificate) == GREETING.encode()
    except (OSError, ValueError):
        return False


def _window_port() -> int:
    """Return the port of the window's server; the usual one if the settings do not say."""
    try:
        port = json.loads(read_bounded(paths.settings_file()))["server"]["port"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return DEFAULT_PORT
    return port if type(port) is int and 0 < port < 65_536 else DEFAULT_PORT


def _served_models(listed: Any) -> tuple[ServedModel, ...] | None:
    entries = listed.get("data") if isinstance(listed, dict) else None
    if not isinstance(entries, list):
        return None
    models = [
        model for model in entries if isinstance(model, dict) and model.get("owned_by") == _OWNER
    ]
    if len(models) < len(entries):
        return None
    return tuple(
        ServedModel(
            str(model.get("id")),
            context if type(context := model.get("context_length")) is int else None,
            model.get("loaded") is not False,
            "tools" in abilities
            if isinstance(abilities := model.get("capabilities"), list)
            else None,
        )
        for model in models
    )


def _request_json(
    url: str, key: str, certificate: Path | None, body: dict[str, Any] | None = None
) -> Any:
    try:
        return json.loads(_request(url, key, certificate, body))
    except RecursionError as error:
        raise ValueError("the answer is nested too deeply") from error


def _request(
    url: str, key: str, certificate: Path | None, body: dict[str, Any] | None = None
) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    request = urllib.request.Request(url, data, headers)
    trust = None
    if certificate is not None and url.startswith("https:"):
        trust = ssl.create_default_context(cafile=certificate)
        trust.check_hostname = False
        trust.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # it need not be an authority's
    # Without proxies, and without redirects: the key must not reach another server.
    opener = urllib.request.OpenerDirector()
    opener.add_handler(urllib.request.HTTPHandler())
    opener.add_handler(urllib.request.HTTPSHandler(context=trust))
    opener.add_handler(urllib.request.HTTPErrorProcessor())
    opener.add_handler(urllib.request.HTTPDefaultErrorHandler())
    try:
        with opener.open(request, timeout=20.0) as answer:
            content: bytes = answer.read(_MAX_RESPONSE_BYTES + 1)
    except http.client.HTTPException as error:
        raise OSError(f"the answer is not HTTP: {type(error).__name__}") from error
    if len(content) > _MAX_RESPONSE_BYTES:
        raise ValueError("the answer is too long")
    return content
