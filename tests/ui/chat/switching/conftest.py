"""A window on several small models."""

from pathlib import Path

import pytest

from tests.ui.chat.switching.several import SeveralModels
from tests.ui.driving import Enter, Living
from ui.kit.theme import Theme


@pytest.fixture
def several(
    enter: Enter, theme: Theme, tmp_path: Path, demo_model_path: Path
) -> Living[SeveralModels]:
    return enter(lambda: SeveralModels(theme, tmp_path, demo_model_path))
