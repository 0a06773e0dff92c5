"""No other user of this computer reads what a person writes, whatever the umask says."""

import asyncio
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.private_files import made_private, tighten
from app.process import logs
from app.process.logs import log_to_file
from app.settings.keychain import KeyStore
from app.settings.settings_file import Settings, SettingsFile
from app.store.conversation_store import open_store
from ui.records.conversations import Conversation


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
async def test_database_files_are_private(tmp_path: Path) -> None:
    file = tmp_path / "data" / "conversations.db"

    store = await open_store(file)
    store.save(Conversation("a secret"))
    await store.flush()
    found = {path.name: mode(path) for path in file.parent.iterdir()}
    await store.aclose()
    assert found.keys() >= {"conversations.db", "conversations.db-wal"}
    assert set(found.values()) == {0o600}
    assert mode(file.parent) == 0o700


@pytest.mark.usefixtures("open_umask")
def test_settings_and_key_files_are_private(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    settings = SettingsFile(folder)
    settings.save(Settings())
    asyncio.run(KeyStore(folder).renew())
    assert mode(folder) == 0o700
    assert {mode(path) for path in folder.iterdir()} == {0o600}


@pytest.mark.usefixtures("open_umask")
def test_log_files_are_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    monkeypatch.setattr(logs, "_FILE_SIZE_BYTES", 200)
    file = made_private(tmp_path / "logs") / "fullstop.log"
    try:
        log_to_file(file)
        for number in range(20):
            logging.getLogger("app").info("a line about number %d", number)
        found = {path.name: mode(path) for path in file.parent.iterdir()}
    finally:
        for handler in root.handlers:
            handler.close()
        root.handlers[:] = handlers
        root.setLevel(level)
    assert found.keys() >= {"fullstop.log", "fullstop.log.1"}
    assert set(found.values()) == {0o600}
    assert mode(file.parent) == 0o700


def test_earlier_files_become_private(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("theirs")
    elsewhere.chmod(0o644)
    (folder / "conversations.db").write_text("mine")
    (folder / "conversations.db").chmod(0o664)
    (folder / "link").symlink_to(elsewhere)
    aside = [folder / "settings.json.broken-20260101-000000", folder / "settings.set-aside-1.json"]
    for read_only in aside:
        read_only.write_text("mine")
        read_only.chmod(0o444)

    tighten(folder)
    tighten(tmp_path / "nowhere")

    assert mode(folder) == 0o700
    assert mode(folder / "conversations.db") == 0o600
    assert [mode(read_only) for read_only in aside] == [0o400] * 2
    assert mode(elsewhere) == 0o644
