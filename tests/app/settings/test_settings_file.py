import json
import os
from collections.abc import Callable
from dataclasses import replace
from errno import EMFILE
from pathlib import Path
from unittest.mock import Mock

import pytest

from app.settings import settings_file
from app.settings.settings_file import Settings, SettingsFile
from tests.support.kept import nothing_is_set_aside


def broken(folder: Path) -> list[Path]:
    return list(folder.glob("settings.set-aside-*.json"))


def _sparse(path: Path) -> None:
    with path.open("wb") as opened:
        opened.truncate(1 << 34)  # takes no room on the disk


# What is in the place of the file, and the reason that is given.
UNUSABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut": (lambda path: path.write_text('{"theme": "dark",'), "line 1 is not valid JSON"),
    "deep": (lambda path: path.write_text("[" * 100_000), "it is not valid JSON"),
    "list": (lambda path: path.write_text("[]"), "it does not contain a JSON object"),
    "bytes": (lambda path: path.write_bytes(b"\xff\xfe\x00"), "it is not text"),
    "huge": (_sparse, "it is too large"),
    "folder": (Path.mkdir, "it is a folder"),
    "pipe": (os.mkfifo, "it is not a regular file"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_unusable_settings_file_is_set_aside(tmp_path: Path, name: str) -> None:
    make, reason = UNUSABLE[name]
    file = SettingsFile(tmp_path)
    make(file.path)
    before = file.path.stat()
    settings, notice = file.load()
    assert settings == Settings()
    assert reason in notice
    assert not file.path.is_file()
    file.save(Settings(theme="light"))
    (aside,) = broken(tmp_path)
    assert aside.name in notice
    assert (aside.stat().st_ino, aside.stat().st_size) == (before.st_ino, before.st_size)
    assert SettingsFile(tmp_path).load()[0] == Settings(theme="light")


def test_damaged_settings_are_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = SettingsFile(tmp_path)
    file.path.write_text("{damaged")
    with monkeypatch.context() as patched:
        nothing_is_set_aside(patched)
        assert "nothing is saved over it: you have no permission" in file.load()[1]
        with pytest.raises(PermissionError):
            file.save(Settings(theme="light"))
    assert file.path.read_text() == "{damaged"
    file.save(Settings(theme="light"))  # the folder can be written again
    (aside,) = broken(tmp_path)
    assert aside.read_text() == "{damaged"
    assert SettingsFile(tmp_path).load()[0] == Settings(theme="light")


def test_sound_settings_that_cannot_be_read_now_stay_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SettingsFile(tmp_path).save(Settings(theme="light"))
    file = SettingsFile(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(settings_file, "read_bounded", Mock(side_effect=OSError(EMFILE, "many")))
        settings, notice = file.load()
    assert settings == Settings()
    assert "could not be read: too many files are open" in notice
    with pytest.raises(OSError, match="could not be read at the start"):
        file.save(Settings(theme="dark"))
    assert broken(tmp_path) == []
    assert SettingsFile(tmp_path).load()[0] == Settings(theme="light")


def test_unknown_settings_are_kept_without_a_notice(tmp_path: Path) -> None:
    later = {
        "version": 99,
        "text_percent": 125,
        "colour": {"accent": "red"},
        "server": {"port": 9000, "protocol": 3},
    }
    file = SettingsFile(tmp_path)
    file.path.write_text(json.dumps(later))
    settings, notice = file.load()
    assert (settings.text_percent, settings.server.port) == (125, 9000)
    assert notice == ""
    file.save(replace(settings, text_percent=150))
    written = json.loads(file.path.read_text())
    assert (written["version"], written["colour"], written["text_percent"]) == (
        99,
        {"accent": "red"},
        150,
    )
    assert (written["server"]["protocol"], written["server"]["port"]) == (3, 9000)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"theme": "dark", "server": {"port": 70000}}', "server.port"),
        ('{"theme": "dark", "version": 1, "text_percent": "large"}', "text_percent"),
        ('{"theme": "dark", "models": {"folders": ["/a", 1]}}', "models.folders"),
        ('{"theme": "dark", "last_model": 1e999}', "last_model"),
    ],
)
def test_invalid_setting_is_named_and_the_others_apply(
    tmp_path: Path, text: str, name: str
) -> None:
    file = SettingsFile(tmp_path)
    file.path.write_text(text)
    settings, notice = file.load()
    assert settings == Settings(theme="dark")
    assert f"contains invalid settings: {name}. The others apply." in notice
    file.save(replace(settings, theme="light"))
    assert broken(tmp_path) == []
    assert SettingsFile(tmp_path).load()[0] == Settings(theme="light")
