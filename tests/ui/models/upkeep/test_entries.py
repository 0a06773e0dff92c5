"""A downloaded model in the list: its folder in the file manager, and the focus."""

from pathlib import Path

import pytest
from PySide6.QtGui import QDesktopServices

from tests.support.hub import COMMIT
from tests.ui.models.opened import OpenedModels
from tests.ui.models.upkeep.conftest import choose


@pytest.mark.parametrize(
    ("platform", "words"), [("darwin", "Show in Finder"), ("linux", "Show in Folder")]
)
async def test_a_models_folder_is_shown_by_the_systems_file_manager(
    opened: OpenedModels,
    repository_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    platform: str,
    words: str,
) -> None:
    shown: list[str] = []
    monkeypatch.setattr("ui.kit.dialogs.sys.platform", platform)
    monkeypatch.setattr(
        QDesktopServices, "openUrl", lambda url: shown.append(url.toLocalFile()) or True
    )
    choose(opened, words)
    assert shown == [str(repository_folder / "snapshots" / COMMIT)]
