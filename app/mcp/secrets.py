"""Keeps the secrets of tool servers."""

import contextlib
import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from app.paths import made_private, set_aside
from app.settings.keychain import SERVICE, Keychain, NoKeychain, ask, system_keychain
from engine.files.bounded import read_bounded
from engine.files.fields import DamagedFile, parsed_json
from engine.files.whole_file import write_whole

# Keeps the secrets of tool servers: in the keychain, or in a private file if there is none.
#
# Keychains may ask the person or hang, so this is called on threads that may wait, never on the
# main thread.

FILE_NAME = "tool-secrets.json"

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


class ToolSecrets:
    """Stores secret values by server and variable."""

    def __init__(self, folder: Path, keychain: Callable[[], Keychain] = system_keychain) -> None:
        self._file = folder / FILE_NAME
        self._find_keychain = keychain
        self._lock = threading.Lock()
        self.place_words = ""

    def look(self) -> None:
        """Note whether earlier secrets are in the file, which a person should always know."""
        with self._lock, contextlib.suppress(OSError):
            if self._filed():
                self.place_words = (
                    "Secrets are in a private file, because there was no keychain when they were "
                    "kept."
                )

    def keep(self, server: str, name: str, value: str) -> None:
        """Keep a value."""
        with self._lock:
            filed = self._usable()
            user = _user(server, name)
            try:
                self._ask(lambda chain: chain.set_password(SERVICE, user, value))
            except NoKeychain as error:
                _log.warning("a tool server's secret is kept in a file: %s", error)
                self.place_words = f"Secrets are in a private file, because {error}."
                self._write(filed | {user: value})
            else:
                self.place_words = "Secrets are in the system’s keychain."
                if filed.pop(user, None) is not None:
                    self._write(filed)

    def value(self, server: str, name: str) -> str | None:
        """Return a value, or None if there is none."""
        user = _user(server, name)
        with self._lock:
            # A value is in the file only if there was no keychain when it was stored.
            if (filed := self._filed().get(user)) is not None:
                return filed
            try:
                return self._ask(lambda chain: chain.get_password(SERVICE, user))
            except NoKeychain:
                return None

    def forget(self, server: str, name: str) -> None:
        """Delete a value."""
        user = _user(server, name)
        with self._lock:
            filed = self._usable()
            if filed.pop(user, None) is not None:
                self._write(filed)
                if not filed:
                    self.place_words = ""
            try:
                if self._ask(lambda chain: chain.get_password(SERVICE, user)) is not None:
                    self._ask(lambda chain: chain.delete_password(SERVICE, user))
            except NoKeychain as error:
                _log.info("the keychain could not be searched for a secret: %s", error)

    def _usable(self) -> dict[str, str]:
        """Return the file's content; a damaged file is set aside and replaced."""
        try:
            return self._filed()
        except _DamagedSecrets as error:
            _log.warning("%s. %s", error, set_aside(self._file))
            return {}

    def _filed(self) -> dict[str, str]:
        try:
            values = parsed_json(read_bounded(self._file).decode("utf-8"))
            if not isinstance(values, dict):
                raise DamagedFile("it does not contain a JSON object")
        except FileNotFoundError:
            return {}
        except ValueError as error:
            words = f"{self._file.name} is damaged; fill in the secrets again"
            raise _DamagedSecrets(words) from error
        return {name: value for name, value in values.items() if isinstance(value, str)}

    def _write(self, values: dict[str, str]) -> None:
        made_private(self._file.parent)
        if values:
            write_whole(self._file, json.dumps(values, indent=1) + "\n")
        else:
            self._file.unlink(missing_ok=True)

    def _ask(self, question: Callable[[Keychain], _T]) -> _T:
        return ask(self._find_keychain, question)


class _DamagedSecrets(OSError):
    """The file of secrets is damaged."""


def _user(server: str, name: str) -> str:
    return f"tool-server/{server}/{name}"
