"""The Fullstop servers that run on this computer: the window's, and that of ``serve``. Blocks.

Connects only to loopback, or to an address that the user gave.
"""

import asyncio
import http.client
import itertools
import json
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app import paths
from app.agents import NO_KEY
from app.exits import CommandError
from app.settings.keychain import KeyStore
from app.settings.serve import API_KEY_VARIABLE, DEFAULT_HOST, ServeOptions
from engine.files.safe_files import read_bounded
from ui.preferences import DEFAULT_PORT

_MAX_RESPONSE_BYTES = 4 << 20
_OWNER = "fullstop"
_EVERYWHERE = ("0.0.0.0", "::", "")


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that a server offers."""

    id: str
    context: int | None
    is_loaded: bool

    def is_meant_by(self, name: str) -> bool:
        """Return whether a name is this model's: its id, with or without owner, or its folder."""
        short = self.id.rpartition("/")[2]
        return name in (self.id, short) or Path(name).expanduser().name == short


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that answers."""

    url: str
    key: str
    models: tuple[ServedModel, ...]

    def model(self, name: str | None) -> ServedModel | None:
        if name is not None:
            return next((model for model in self.models if model.is_meant_by(name)), None)
        loaded = (model for model in self.models if model.is_loaded)
        return next(loaded, next(iter(self.models), None))

    def can_call_tools(self, model: ServedModel) -> bool | None:
        """Return whether a model can call tools; None if the server cannot say."""
        try:
            details = _request_json(f"{self.url}/api/show", self.key, {"model": model.id})
        except (OSError, ValueError):
            return None
        abilities = details.get("capabilities") if isinstance(details, dict) else None
        return "tools" in abilities if isinstance(abilities, list) else None

    def loaded(self) -> list[dict[str, Any]]:
        try:
            listed = _request_json(f"{self.url}/api/ps", self.key)
            return [dict(model) for model in listed["models"]]
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise CommandError(f"{self.url} does not say what it has loaded: {error}") from error

    def unload(self, model: str) -> None:
        try:
            _request_json(f"{self.url}/api/generate", self.key, {"model": model, "keep_alive": 0})
        except (OSError, ValueError) as error:
            raise CommandError(f"{self.url} does not unload {model}: {error}") from error


def server_addresses(options: ServeOptions) -> list[str]:
    """Return the possible addresses of our server: the window's port, and that of ``serve``."""
    host = DEFAULT_HOST if options.host in _EVERYWHERE else options.host
    addresses = [(DEFAULT_HOST, _window_port()), (host, options.port)]
    named = [(f"[{host}]" if ":" in host else host, port) for host, port in addresses if port]
    return list(dict.fromkeys(f"http://{host}:{port}" for host, port in named))


def running_server(url: str, keys: Iterable[str]) -> RunningServer | None:
    """Return the server at an address, or None; ``CommandError`` if it requires another key."""
    has_tried = False
    for key in itertools.chain((NO_KEY,), keys):
        try:
            listed = _request_json(f"{url}/v1/models", key)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != 401:
                return None
            has_tried = key != NO_KEY
        except (OSError, ValueError):
            return None
        else:
            models = _served_models(listed)
            return None if models is None else RunningServer(url, key, models)
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
        kept = asyncio.run(KeyStore(paths.config_folder()).key())
    except OSError:
        kept = None
    if kept:
        yield kept


def running_servers(settings: ServeOptions) -> Iterator[RunningServer]:
    """Yield the servers of the window and of ``serve``; ``CommandError`` if a key is unknown."""
    for url in server_addresses(settings):
        if (server := running_server(url, known_keys(settings))) is not None:
            yield server


def _window_port() -> int:
    """Return the port of the window's server; the usual one if the settings do not say."""
    try:
        port = json.loads(read_bounded(paths.settings_file()))["server"]["port"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return DEFAULT_PORT
    return port if type(port) is int and 0 < port < 65_536 else DEFAULT_PORT


def _served_models(listed: Any) -> tuple[ServedModel, ...] | None:
    """Return the models of a list; None if the list is another program's."""
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
        )
        for model in models
    )


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: our server sends none, and the key must not reach another one."""

    def redirect_request(self, *_: Any) -> None:
        """Treat a redirect as an error."""


def _request_json(url: str, key: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    request = urllib.request.Request(url, data, headers)
    # No proxy for addresses of this computer.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)
    try:
        with opener.open(request, timeout=20.0) as answer:
            content = answer.read(_MAX_RESPONSE_BYTES + 1)
    except http.client.HTTPException as error:
        raise OSError(f"the answer is not HTTP: {type(error).__name__}") from error
    if len(content) > _MAX_RESPONSE_BYTES:
        raise ValueError("the answer is too long")
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("the answer is nested too deeply") from error
