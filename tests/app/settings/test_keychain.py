import asyncio
import errno
import logging
import os
import stat
import threading
from pathlib import Path

import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringError, PasswordDeleteError

from app.settings.keychain import FILE_NAME, KeyStore, system_keychain


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
    """A keychain that its owner does not unlock."""

    def get_password(self, service: str, username: str) -> str | None:
        raise KeyringError("locked")

    def set_password(self, service: str, username: str, password: str) -> None:
        raise KeyringError(f"locked, and {password} is not kept")


async def test_api_key_in_keychain(tmp_path: Path) -> None:
    drawer = Drawer()

    store = KeyStore(tmp_path, lambda: drawer)
    assert await store.location() == "none"
    assert await store.key() is None
    key = await store.renew()
    assert len(key) > 40
    assert await store.location() == "keychain"
    assert await KeyStore(tmp_path, lambda: drawer).key() == key
    assert await store.renew() != key
    assert threading.main_thread() not in drawer.threads
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("keychain", [Locked, system_keychain], ids=["locked", "none"])
def test_api_key_in_private_file(
    tmp_path: Path, keychain: type[Locked], caplog: pytest.LogCaptureFixture
) -> None:
    async def use() -> str:
        store = KeyStore(tmp_path / "folder", keychain)
        key = await store.renew()
        assert await store.location() == "file"
        assert await store.key() == key
        return key

    with caplog.at_level(logging.DEBUG):
        key = asyncio.run(use())
    path = tmp_path / "folder" / FILE_NAME
    assert path.read_text().strip() == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "kept in a file" in caplog.text
    assert key not in caplog.text


async def test_forgotten_api_key_is_deleted(tmp_path: Path) -> None:
    drawer = Drawer()

    await KeyStore(tmp_path, Locked).renew()
    store = KeyStore(tmp_path, lambda: drawer)
    assert await store.location() == "file"
    await store.renew()
    assert await store.location() == "keychain"
    await store.forget()
    assert await store.location() == "none"
    await store.forget()
    assert drawer.secrets == {}
    assert list(tmp_path.iterdir()) == []


async def test_old_api_key_is_kept_on_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = KeyStore(tmp_path, Locked)
    key = await store.renew()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            await store.renew()
    assert await store.key() == key
    assert [one.name for one in tmp_path.iterdir()] == [FILE_NAME]
