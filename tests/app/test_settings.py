import json
from pathlib import Path

import pytest

from app.settings import FILE_NAME, Settings, SettingsFile, migrated


def broken(folder: Path) -> list[Path]:
    return list(folder.glob(f"{FILE_NAME}.broken-*"))


def test_what_is_saved_is_found_again(tmp_path: Path) -> None:
    file = SettingsFile(tmp_path / "made" / "when needed")
    settings = Settings(theme="dark", last_model="/models/ü")
    settings.server.port = 9000
    settings.server.allowed_origins = ("https://example.org",)
    file.save(settings)
    assert file.load().settings == settings
    assert file.load().notice == ""


def test_without_a_file_the_usual_settings_apply_silently(tmp_path: Path) -> None:
    loaded = SettingsFile(tmp_path).load()
    assert (loaded.settings, loaded.notice) == (Settings(), "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"theme": "dark",', "line 1 is not valid JSON"),
        ("[]", "valid dictionary"),
        ('{"server": {"port": 70000}}', "server.port: Input should be less than"),
        ('{"colour": "red"}', "colour: Extra inputs are not permitted"),
        ('{"version": 99}', "it is of version 99, which this program does not know"),
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


def test_bytes_that_are_no_text_are_set_aside(tmp_path: Path) -> None:
    file = SettingsFile(tmp_path)
    file.path.write_bytes(b"\xff\xfe\x00")
    assert "it is not text" in file.load().notice
    assert len(broken(tmp_path)) == 1


def test_a_file_without_a_version_is_taken_as_the_first(tmp_path: Path) -> None:
    file = SettingsFile(tmp_path)
    file.path.write_text('{"theme": "light"}')
    assert file.load().settings == Settings(theme="light")
    assert migrated({"theme": "light"})["version"] == 1


def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(
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
