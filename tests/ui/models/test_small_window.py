"""The models window on a small screen."""

from pathlib import Path

from PySide6.QtCore import QSize, Qt

from tests.ui.models.opened import OpenedModels
from ui.kit.theme import Theme
from ui.models.models_window import ModelsWindow


async def test_models_window_fits_640_by_400_points(
    theme: Theme, tmp_path: Path, demo_model_path: Path
) -> None:
    async with OpenedModels(theme, tmp_path, demo_model_path) as opened:
        window = ModelsWindow(opened.window.model_library, opened.window)
        window.resize(636, 368)
        window.show()
        assert window.size() == QSize(636, 368)
        assert window._splitter.orientation() == Qt.Orientation.Horizontal
        await window.finish()
