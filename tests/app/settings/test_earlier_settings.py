"""Settings of an earlier version are read unchanged, and written in the same form."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.paths import SETTINGS_FILE
from app.settings.settings_file import StoredPreferences
from ui.preferences import (
    ModelChoices,
    ModelPreferences,
    NewConversation,
    Preferences,
    ServerPreferences,
)

EARLIER = Path(__file__).parent / "earlier" / "settings-1.json"


def opened(folder: Path) -> StoredPreferences:
    shutil.copy(EARLIER, folder / SETTINGS_FILE)
    return StoredPreferences(folder)


def test_earlier_settings_are_read(tmp_path: Path) -> None:
    stored = opened(tmp_path)
    assert stored.notice == ""
    assert stored.preferences() == Preferences(
        theme="dark",
        has_high_contrast=True,
        text_percent=125,
        stays_in_tray=False,
        server=ServerPreferences(
            port=9001,
            is_on_network=True,
            is_key_required=True,
            allowed_origins=("https://example.org", "app://*"),
            at_launch="on",
            was_on=True,
        ),
        models=ModelPreferences(
            folders=("/models/a", "/models/ü"),
            rests_after_min=15,
            choices=(
                ModelChoices("/models/a", draft="/models/small", used_at=1700000000.25),
                ModelChoices("/models/b", is_pinned=True),
            ),
        ),
        new_conversation=NewConversation("Be brief.\nÜ\u00a0x", 0.25, 77, True),
    )
    assert stored.window_layout == b"\0layout\xff"


def test_earlier_settings_are_written_unchanged(tmp_path: Path) -> None:
    stored = opened(tmp_path)
    stored.save_last_model(None)
    written = json.loads((tmp_path / SETTINGS_FILE).read_text(encoding="utf-8"))
    earlier = json.loads(EARLIER.read_text(encoding="utf-8"))
    usual = json.loads(json.dumps(asdict(stored.preferences())))
    assert written == with_newer(earlier, usual) | {"last_model": ""}


def with_newer(earlier: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any]:
    """Return settings together with the defaults of those that are newer."""
    settings = usual | earlier
    for name, section in usual.items():
        if isinstance(section, dict):
            settings[name] = with_newer(earlier.get(name, {}), section)
    return settings
