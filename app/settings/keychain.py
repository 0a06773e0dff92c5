"""Keeps the server's API key: in the system's keychain, or in a private file without one.

The keychain may ask the person something or hang, so it is only used on a separate thread. The key
is never logged. Fits ``ui.server.server_panel.KeyKeeper``.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from app.paths import made_private
from engine.files.bounded import read_bounded
from engine.files.whole_file import write_whole
from ui.preferences.preferences import KeyPlace

SERVICE = "fullstop"
USER = "api-key"
FILE_NAME = "api-key"
_BYTES = 32

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


class Keychain(Protocol):
    """The part of a ``keyring`` backend that we use."""

    def get_password(self, service: str, username: str) -> str | None:
        """Return a secret, or None."""

    def set_password(self, service: str, username: str, password: str) -> None:
        """Keep a secret.

        Args:
            service: The program that it belongs to.
            username: The name of the secret.
            password: The secret.
        """

    def delete_password(self, service: str, username: str) -> None:
        """Delete a secret."""


class NoKeychain(Exception):
    """There is no keychain, or it does not work."""


def ask(find: Callable[[], Keychain], question: Callable[[Keychain], _T]) -> _T:
    """Run a query on the keychain; may take long.

    Args:
        find: Returns the keychain or raises ``NoKeychain``.
        question: The query.

    Raises:
        NoKeychain: There is no keychain, or it failed.
    """
    try:
        return question(find())
    except NoKeychain:
        raise
    except Exception as error:  # backends raise any exception; none may end the program
        raise NoKeychain(f"the keychain failed ({type(error).__name__})") from error


def system_keychain() -> Keychain:
    """Return the system's keychain. Slow; it may start programs.

    Raises:
        NoKeychain: There is none.
    """
    try:
        import keyring
        from keyring.backends import fail, null
    except ImportError as error:
        raise NoKeychain("the keyring package is not installed") from error
    found = keyring.get_keyring()
    if isinstance(found, fail.Keyring | null.Keyring):
        raise NoKeychain("this system has no keychain")
    return found


class KeyStore:
    """Stores the API key.

    Args:
        folder: The folder of the file, if there is no keychain.
        keychain: Returns the keychain or raises ``NoKeychain``; called on another thread.
    """

    def __init__(self, folder: Path, keychain: Callable[[], Keychain] = system_keychain) -> None:
        self._file = folder / FILE_NAME
        self._find_keychain = keychain
        self._lock = asyncio.Lock()

    async def key(self) -> str | None:
        """Return the key, or None if there is none.

        Raises:
            OSError: The file cannot be read.
        """
        return (await self._found())[0]

    async def place(self) -> KeyPlace:
        """Return where the key is stored.

        Raises:
            OSError: The file cannot be read.
        """
        return (await self._found())[1]

    async def renew(self) -> str:
        """Replace the key by a new one and return it.

        Raises:
            OSError: It cannot be stored anywhere.
        """
        key = f"fs-{secrets.token_urlsafe(_BYTES)}"
        async with self._lock:
            await asyncio.to_thread(self._keep, key)
        return key

    async def forget(self) -> None:
        """Delete the key.

        Raises:
            OSError: It cannot be removed.
        """
        async with self._lock:
            await asyncio.to_thread(self._remove)

    async def _found(self) -> tuple[str | None, KeyPlace]:
        async with self._lock:
            return await asyncio.to_thread(self._find)

    def _find(self) -> tuple[str | None, KeyPlace]:
        # A file exists only if there was no keychain when the key was made, so its key is newer.
        with contextlib.suppress(FileNotFoundError):
            try:
                filed = read_bounded(self._file).decode("ascii").strip()
            except UnicodeDecodeError as error:
                raise OSError(f"{self._file.name} is damaged; make a new key") from error
            if filed:
                return filed, "file"
        with contextlib.suppress(NoKeychain):
            if kept := self._ask(lambda chain: chain.get_password(SERVICE, USER)):
                return kept, "keychain"
        return None, "none"

    def _keep(self, key: str) -> None:
        try:
            self._ask(lambda chain: chain.set_password(SERVICE, USER, key))
        except NoKeychain as error:
            _log.warning("the API key is kept in a file: %s", error)
            _write_private(self._file, key)
        else:
            self._file.unlink(missing_ok=True)

    def _remove(self) -> None:
        self._file.unlink(missing_ok=True)
        with contextlib.suppress(NoKeychain):
            if self._ask(lambda chain: chain.get_password(SERVICE, USER)) is not None:
                try:
                    self._ask(lambda chain: chain.delete_password(SERVICE, USER))
                except NoKeychain as error:
                    raise OSError(f"The key could not be removed: {error}.") from error

    def _ask(self, question: Callable[[Keychain], _T]) -> _T:
        return ask(self._find_keychain, question)


def _write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read; the old file stays if that fails."""
    made_private(path.parent)
    write_whole(path, text + "\n")
