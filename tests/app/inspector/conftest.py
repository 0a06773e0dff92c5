"""Qt's loop and theme, as the tests of the window have them."""

from tests.ui.conftest import run, shared_theme, theme

__all__ = ["run", "shared_theme", "theme"]
