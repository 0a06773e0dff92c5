"""Qt without a screen, the loop of the product (qasync), and answers that a test dictates."""

import asyncio
import os
from collections.abc import Coroutine
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import pytest
import qasync
from PySide6.QtWidgets import QApplication

from tests.ui.driving import RunOnLoop, ScriptedEngine
from ui.kit.theme import Theme


def pytest_configure(config: pytest.Config) -> None:
    # The offscreen platform says so of every window; it is no fault of ours.
    config.addinivalue_line("qt_log_ignore", "This plugin does not support")


@pytest.fixture(scope="session")
def shared_theme(qapp: QApplication) -> Theme:
    return Theme(qapp, "light")


@pytest.fixture
def theme(shared_theme: Theme) -> Theme:
    Theme.current = shared_theme
    if shared_theme.mode != "light":
        shared_theme.set_mode("light")
    return shared_theme


@pytest.fixture
def run(qapp: QApplication) -> RunOnLoop:
    """Run a coroutine on Qt's loop, as the program does; the limit only ends what hangs."""
    qapp.setQuitOnLastWindowClosed(False)

    def run_until_done(work: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=lambda: qasync.QEventLoop(qapp)) as runner:
            return runner.run(asyncio.wait_for(work, 400))

    return run_until_done


@pytest.fixture
def scripted() -> ScriptedEngine:
    return ScriptedEngine()
