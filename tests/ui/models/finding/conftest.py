"""A window of models beside a hub on this machine, whose models the tests add."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt

from engine.library.memory_need import Memory
from tests.support.hub import Hub, hub
from tests.ui.driving import Enter, Living
from tests.ui.models.opened import OpenedModels
from ui.kit.theme import Theme
from ui.models.model_entries import ENTRY
from ui.models.models_window import ModelsWindow

GIB = 1 << 30


SMALL = {"parameters": {"U32": 1_000_000}, "total": 1_000_000}

LARGE = {"parameters": {"U32": 10**10}, "total": 10**10}


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(
        "ui.models.model_library.memory", lambda: Memory(usable=16 * GIB, available=8 * GIB)
    )
    with hub() as served:
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        yield served


@pytest.fixture
def opened(
    enter: Enter, theme: Theme, tmp_path: Path, demo_model_path: Path, site: Hub
) -> Living[OpenedModels]:
    return enter(lambda: OpenedModels(theme, tmp_path, demo_model_path))


def spoken(models: ModelsWindow) -> list[str]:
    """Return the rows of models that are not on this computer as a screen reader reads them."""
    entries, role = models.entries, int(Qt.ItemDataRole.AccessibleTextRole)
    rows = [entries.index(row) for row in range(entries.rowCount())]
    hub = [row for row in rows if (e := row.data(ENTRY)).hub is not None and e.local is None]
    return [str(entries.data(row, role)) for row in hub]
