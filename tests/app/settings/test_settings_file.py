import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from app.settings.settings_file import FILE_NAME, Settings, SettingsFile, migrated
from ui.preferences.preferences import ServerPreferences


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


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"theme": "dark",', "line 1 is not valid JSON"),
        ("[" * 100_000, "it is not valid JSON"),
        ("[]", "it does not contain a JSON object"),
    ],
)
def test_a_file_that_cannot_be_used_is_set_aside_with_a_reason(
    tmp_path: Path, text: str, reason: str
) -> None:
    file = SettingsFile(tmp_path)
    file.path.write_text(text)
    loaded = file.load()
    assert loaded.settings == Settings()
    assert reason in loaded.notice
    (aside,) = broken(tmp_path)
    assert aside.read_text() == text
    assert aside.name in loaded.notice
    assert not file.path.exists()


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


def test_a_file_that_is_not_text_is_set_aside(tmp_path: Path) -> None:
    file = SettingsFile(tmp_path)
    file.path.write_bytes(b"\xff\xfe\x00")
    assert "it is not text" in file.load().notice
    assert len(broken(tmp_path)) == 1


def test_a_file_that_is_far_too_large_is_set_aside_unread(tmp_path: Path) -> None:
    file = SettingsFile(tmp_path)
    with file.path.open("wb") as opened:
        opened.truncate(1 << 34)  # takes no room on the disk
    assert "it is too large" in file.load().notice
    (aside,) = broken(tmp_path)
    assert aside.stat().st_size == 1 << 34


def test_an_unreadable_file_is_set_aside_before_a_change_replaces_it(
    tmp_path: Path,
) -> None:
    file = SettingsFile(tmp_path)
    file.path.mkdir()
    (file.path / "kept").write_text("mine")
    assert "it is a folder" in file.load().notice
    file.save(Settings(theme="light"))
    (aside,) = broken(tmp_path)
    assert (aside / "kept").read_text() == "mine"
    assert SettingsFile(tmp_path).load().settings == Settings(theme="light")


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


def test_a_pipe_instead_of_the_file_delays_nothing_and_is_set_aside(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / FILE_NAME)
    found = SettingsFile(tmp_path).load()

    assert found.settings == Settings()
    assert "it is not a regular file" in found.notice
    assert broken(tmp_path)


def test_numbers_beyond_the_range_of_floats_stay_as_written(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_text('{"version": 1, "later": 1e999, "deep": {"least": -2.5e4000}, "old": Infinity}')
    file = SettingsFile(tmp_path)
    file.save(file.load().settings)
    text = path.read_text()

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    json.loads(text, parse_constant=refuse)
    assert '"later": 1e999' in text
    assert '"least": -2.5e4000' in text
    assert '"old": 1e999' in text


def test_a_setting_is_never_infinite(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text('{"version": 1, "font_scale": 1e999, "last_model": 1e999}')
    found = SettingsFile(tmp_path).load()

    assert found.settings == Settings()
    assert "last_model" in found.notice
