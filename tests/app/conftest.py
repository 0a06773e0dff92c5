"""Qt without a screen, for the parts of the program that surround the window."""

import os

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import pytest


def pytest_configure(config: pytest.Config) -> None:
    # The offscreen platform prints this for every window; it is not a fault of the program.
    config.addinivalue_line("qt_log_ignore", "This plugin does not support")
