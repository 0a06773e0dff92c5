import asyncio
import errno
import logging
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringError, PasswordDeleteError

from app.paths import KEY_FILE
from app.settings import keychain
from app.settings.keychain import KeyStore


class Drawer(KeyringBackend):
    """A keychain that keeps secrets in memory."""

    priority = 1.0  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.secrets: dict[tuple[str, str], str] = {}
        self.threads: set[threading.Thread] = set()

    def get_password(self, service: str, username: str) -> str | None:
        self.threads.add(threading.current_thread())
        return self.secrets.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.secrets[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if self.secrets.pop((service, username), None) is None:
            raise PasswordDeleteError("nothing there")


class Locked(Drawer):
    def get_password(self, service: str, username: str) -> str | None:
        raise KeyringError("locked")

    def set_password(self, service: str, username: str, password: str) -> None:
        raise KeyringError(f"locked, and {password} is not kept")


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[KeyringBackend], None]:
    return lambda backend: monkeypatch.setattr(keychain, "system_keychain", lambda: backend)


async def test_api_key_in_keychain(tmp_path: Path, use: Callable[[KeyringBackend], None]) -> None:
    drawer = Drawer()
    use(drawer)
    store = KeyStore(tmp_path)
    assert await store.location() == "none"
    assert await store.key() is None
    key = await store.renew()
    assert len(key) > 40
    assert await store.location() == "keychain"
    assert await KeyStore(tmp_path).key() == key
    assert await store.renew() != key
    assert threading.main_thread() not in drawer.threads
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_locked", [True, False], ids=["locked", "none"])
def test_api_key_in_private_file(
    tmp_path: Path,
    is_locked: bool,
    caplog: pytest.LogCaptureFixture,
    use: Callable[[KeyringBackend], None],
) -> None:
    if is_locked:
        use(Locked())

    async def renewed() -> str:
        store = KeyStore(tmp_path / "folder")
        key = await store.renew()
        assert await store.location() == "file"
        assert await store.key() == key
        return key

    with caplog.at_level(logging.DEBUG):
        key = asyncio.run(renewed())
    path = tmp_path / "folder" / KEY_FILE
    assert path.read_text().strip() == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "kept in a file" in caplog.text
    assert key not in caplog.text


async def test_forgotten_api_key_is_deleted(
    tmp_path: Path, use: Callable[[KeyringBackend], None]
) -> None:
    drawer = Drawer()
    await KeyStore(tmp_path).renew()
    use(drawer)
    store = KeyStore(tmp_path)
    assert await store.location() == "file"
    await store.renew()
    assert await store.location() == "keychain"
    await store.forget()
    assert await store.location() == "none"
    await store.forget()
    assert drawer.secrets == {}
    assert list(tmp_path.iterdir()) == []


async def test_key_in_a_locked_keychain_does_not_count_as_missing_or_deleted(
    tmp_path: Path, use: Callable[[KeyringBackend], None]
) -> None:
    use(Locked())
    with pytest.raises(OSError, match="unlock it"):
        await KeyStore(tmp_path).key()
    with pytest.raises(OSError, match="could not be removed: the keychain failed"):
        await KeyStore(tmp_path).forget()


async def test_old_api_key_is_kept_on_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = KeyStore(tmp_path)
    key = await store.renew()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            await store.renew()
    assert await store.key() == key
    assert [one.name for one in tmp_path.iterdir()] == [KEY_FILE]
