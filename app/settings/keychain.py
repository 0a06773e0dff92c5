"""Secrets: in the system's keychain, or in a private file where there is none. None is logged.

A keychain may show a question or hang, so it is only used on threads that may wait.
"""

import asyncio
import json
import logging
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from app.damaged_files import set_aside
from app.paths import KEY_FILE, TOOL_SECRETS_FILE
from app.private_files import made_private
from engine.files.json_fields import DamagedFile, parsed_json
from engine.files.safe_files import read_bounded, write_whole
from ui.preferences import KeyLocation

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

_SERVICE = "fullstop"
_KEY = "api-key"

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


class NoKeychain(Exception):
    """There is no keychain, or it does not work."""


class KeychainFailed(NoKeychain):
    """The keychain refused, for example because it is locked."""


def system_keychain() -> "KeyringBackend":
    """Return the system's keychain, or raise ``NoKeychain``. Slow; it may start programs."""
    try:
        import keyring
        from keyring.backends import fail, null
    except ImportError as error:
        raise NoKeychain("the keyring package is not installed") from error
    keychain = keyring.get_keyring()
    if isinstance(keychain, fail.Keyring | null.Keyring):
        raise NoKeychain("this system has no keychain")
    return keychain


class SecretStore:
    """Secrets by name, in a file if there is no keychain: of one text (``only``), or JSON."""

    def __init__(self, file: Path, *, only: str = "", remedy: str) -> None:
        self._file = file
        self._only = only
        self._remedy = remedy
        self._lock = threading.Lock()

    def find(self, name: str) -> tuple[str | None, KeyLocation]:
        """Return a secret, or None, and where it is; ``OSError`` if the keychain is locked."""
        with self._lock:
            # It is in a file only if there was no keychain when it was made, so it is newer there.
            try:
                if (filed := self._filed().get(name)) is not None:
                    return filed, "file"
                stored = self._ask(lambda chain: chain.get_password(_SERVICE, name))
            except DamagedFile as error:
                raise OSError(str(error)) from error
            except KeychainFailed as error:
                raise OSError(f"{error}; unlock it, and try again") from error
            except NoKeychain:
                stored = None
            return (None, "none") if stored is None else (stored, "keychain")

    def save(self, name: str, value: str) -> NoKeychain | None:
        with self._lock:
            filed = self._usable()
            try:
                self._ask(lambda chain: chain.set_password(_SERVICE, name, value))
            except NoKeychain as error:
                self._write(filed | {name: value})
                return error
            if filed.pop(name, None) is not None:
                self._write(filed)
            return None

    def delete(self, name: str) -> NoKeychain | None:
        """Delete a secret; return why it could not be deleted from the keychain."""
        with self._lock:
            filed = self._usable()
            if filed.pop(name, None) is not None:
                self._write(filed)
            try:
                if self._ask(lambda chain: chain.get_password(_SERVICE, name)) is not None:
                    self._ask(lambda chain: chain.delete_password(_SERVICE, name))
            except KeychainFailed as error:
                return error
            except NoKeychain:
                return None
            return None

    def _usable(self) -> dict[str, str]:
        """Return the file's content; a damaged file is set aside, and never written over."""
        try:
            return self._filed()
        except DamagedFile as error:
            if self._only:
                return {self._only: ""}  # a key cannot be repaired by hand
            _log.warning("%s. It is kept as %s", error, set_aside(self._file).name)
            return {}

    def _filed(self) -> dict[str, str]:
        try:
            content = read_bounded(self._file).decode("ascii" if self._only else "utf-8")
            if self._only:
                return {self._only: content.strip()} if content.strip() else {}
            values = parsed_json(content)
            if not isinstance(values, dict):
                raise DamagedFile("it does not contain a JSON object")
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise DamagedFile(f"{self._file.name} is damaged; {self._remedy}") from error
        return {name: value for name, value in values.items() if isinstance(value, str)}

    def _write(self, values: dict[str, str]) -> None:
        made_private(self._file.parent)
        if values:
            text = values[self._only] if self._only else json.dumps(values, indent=1)
            write_whole(self._file, text + "\n")
        else:
            self._file.unlink(missing_ok=True)

    def _ask(self, question: Callable[["KeyringBackend"], _T]) -> _T:
        try:
            return question(system_keychain())
        except NoKeychain:
            raise
        except Exception as error:  # backends raise any exception; none may end the program
            raise KeychainFailed(f"the keychain failed ({type(error).__name__})") from error


class KeyStore:
    """The server's API key, used on another thread. Fits ``ui.server.local_server.ApiKeyStore``."""

    def __init__(self, folder: Path) -> None:
        file = folder / KEY_FILE
        self._secrets = SecretStore(file, only=_KEY, remedy="make a new key")

    async def key(self) -> str | None:
        return (await asyncio.to_thread(self._secrets.find, _KEY))[0]

    async def location(self) -> KeyLocation:
        return (await asyncio.to_thread(self._secrets.find, _KEY))[1]

    async def renew(self) -> str:
        """Replace the key by a new one and return it; ``OSError`` if it cannot be stored."""
        key = f"fs-{secrets.token_urlsafe(32)}"
        why = await asyncio.to_thread(self._secrets.save, _KEY, key)
        if why is not None:
            _log.warning("the API key is kept in a file: %s", why)
        return key

    async def forget(self) -> None:
        why = await asyncio.to_thread(self._secrets.delete, _KEY)
        if why is not None:
            raise OSError(f"The key could not be removed: {why}.") from why


class ToolSecrets:
    """The secrets of MCP servers, by server and variable; blocks."""

    def __init__(self, folder: Path) -> None:
        file = folder / TOOL_SECRETS_FILE
        self._secrets = SecretStore(file, remedy="fill in the secrets again")

    def save(self, server: str, name: str, value: str) -> None:
        why = self._secrets.save(_of_server(server, name), value)
        if why is not None:
            _log.warning("an MCP server's secret is kept in a file: %s", why)

    def value(self, server: str, name: str) -> str | None:
        return self._secrets.find(_of_server(server, name))[0]

    def forget(self, server: str, name: str) -> None:
        why = self._secrets.delete(_of_server(server, name))
        if why is not None:
            _log.info("a secret could not be deleted from the keychain: %s", why)


def _of_server(server: str, name: str) -> str:
    return f"tool-server/{server}/{name}"
