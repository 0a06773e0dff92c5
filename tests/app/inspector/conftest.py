"""Qt's loop and theme, as the tests of the window have them."""

from tests.ui.conftest import (
    enter,
    living,
    pytest_itemcollected,
    pytest_pyfunc_call,
    run,
    shared_theme,
    theme,
)

__all__ = [
    "enter",
    "living",
    "pytest_itemcollected",
    "pytest_pyfunc_call",
    "run",
    "shared_theme",
    "theme",
]
