import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from app.settings.settings_file import FILE_NAME, Settings, SettingsFile, migrated
from tests.support.kept import nothing_is_set_aside
from ui.preferences import ServerPreferences


def broken(folder: Path) -> list[Path]:
    return list(folder.glob(f"{FILE_NAME}.broken-*"))


def test_saved_settings_are_read_back(tmp_path: Path) -> None:
    file = SettingsFile(tmp_path / "made" / "when needed")
    server = ServerPreferences(port=9000, allowed_origins=("https://example.org",))
    settings = Settings(theme="dark", server=server, last_model="/models/ü")
    file.save(settings)
    assert file.load().settings == settings
    assert file.load().notice == ""


def test_without_a_file_the_defaults_apply_silently(tmp_path: Path) -> None:
    loaded = SettingsFile(tmp_path).load()
    assert (loaded.settings, loaded.notice) == (Settings(), "")
    assert list(tmp_path.iterdir()) == []


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
def test_a_file_that_cannot_be_used_is_set_aside_whole_with_a_reason(
    tmp_path: Path, name: str
) -> None:
    make, reason = UNUSABLE[name]
    file = SettingsFile(tmp_path)
    make(file.path)
    before = file.path.stat()
    loaded = file.load()
    assert loaded.settings == Settings()
    assert reason in loaded.notice
    assert not file.path.is_file()
    file.save(Settings(theme="light"))
    (aside,) = broken(tmp_path)
    assert aside.name in loaded.notice
    assert (aside.stat().st_ino, aside.stat().st_size) == (before.st_ino, before.st_size)
    assert SettingsFile(tmp_path).load().settings == Settings(theme="light")


def test_settings_that_cannot_be_set_aside_are_not_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = SettingsFile(tmp_path)
    file.path.write_text("{damaged")
    with monkeypatch.context() as patched:
        nothing_is_set_aside(patched)
        assert "nothing is saved over it: you have no permission" in file.load().notice
        with pytest.raises(PermissionError):
            file.save(Settings(theme="light"))
    assert file.path.read_text() == "{damaged"
    file.save(Settings(theme="light"))  # the folder can be written again
    (aside,) = broken(tmp_path)
    assert aside.read_text() == "{damaged"
    assert SettingsFile(tmp_path).load().settings == Settings(theme="light")


def test_known_settings_of_a_newer_version_apply_and_the_others_are_kept(
    tmp_path: Path,
) -> None:
    later = {
        "version": 99,
        "theme": "sepia",
        "text_percent": 125,
        "colour": {"accent": "red"},
        "server": {"port": 9000, "at_launch": "at noon", "protocol": 3},
        "models": {"folders": ["/a"], "last_used": [["/a", "yesterday"]]},
        "new_conversation": "a template",
    }
    file = SettingsFile(tmp_path)
    file.path.write_text(json.dumps(later))
    loaded = file.load()
    assert (loaded.settings.theme, loaded.settings.text_percent) == ("system", 125)
    assert (loaded.settings.server.port, loaded.settings.server.at_launch) == (9000, "as_left")
    assert loaded.settings.models.folders == ("/a",)
    assert loaded.notice == ""
    assert broken(tmp_path) == []

    server = replace(loaded.settings.server, at_launch="off")
    changed = replace(loaded.settings, text_percent=150, server=server)
    file.save(changed)
    written = json.loads(file.path.read_text())
    assert {name: written[name] for name in later if name != "server"} == {
        **{name: value for name, value in later.items() if name != "server"},
        "text_percent": 150,
        "models": {**written["models"], "last_used": [["/a", "yesterday"]]},
    }
    assert written["server"]["protocol"] == 3
    assert written["server"]["at_launch"] == "off"
    assert SettingsFile(tmp_path).load().settings == changed


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"theme": "dark", "server": {"port": 70000}}', "server.port"),
        ('{"theme": "dark", "colour": "red"}', "colour"),
        ('{"theme": "dark", "version": 1, "text_percent": "large"}', "text_percent"),
    ],
)
def test_an_invalid_setting_is_named_and_the_others_apply(
    tmp_path: Path, text: str, name: str
) -> None:
    file = SettingsFile(tmp_path)
    file.path.write_text(text)
    loaded = file.load()
    assert loaded.settings == Settings(theme="dark")
    assert f"does not understand: {name}. They stay in the file." in loaded.notice
    file.save(replace(loaded.settings, theme="light"))
    assert broken(tmp_path) == []
    again = SettingsFile(tmp_path).load()
    assert again.settings == Settings(theme="light")
    assert name in again.notice


def test_a_file_without_a_version_counts_as_the_first_version(tmp_path: Path) -> None:
    file = SettingsFile(tmp_path)
    file.path.write_text('{"theme": "light"}')
    assert file.load().settings == Settings(theme="light")
    assert migrated({"theme": "light"})["version"] == 1


def test_a_failed_save_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = SettingsFile(tmp_path)
    file.save(Settings(theme="dark"))

    def full(_number: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="disk full"):
        file.save(Settings(theme="light"))
    assert json.loads(file.path.read_text())["theme"] == "dark"
    assert [one.name for one in tmp_path.iterdir()] == [FILE_NAME]


def test_a_setting_is_never_infinite(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text('{"version": 1, "font_scale": 1e999, "last_model": 1e999}')
    found = SettingsFile(tmp_path).load()

    assert found.settings == Settings()
    assert "last_model" in found.notice
