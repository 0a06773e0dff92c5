"""The window of models beside a main window, on a real engine."""

from pathlib import Path

import pytest

from tests.ui.driving import Enter, Living
from tests.ui.models.opened import OpenedModels
from ui.kit.theme import Theme


@pytest.fixture
def opened(
    enter: Enter, theme: Theme, tmp_path: Path, demo_model_path: Path
) -> Living[OpenedModels]:
    return enter(lambda: OpenedModels(theme, tmp_path, demo_model_path))
