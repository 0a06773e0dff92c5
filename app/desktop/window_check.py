"""The self-test of the window: the real one, off screen, asks one question by its controls.

Main thread, on a Qt and asyncio loop of its own.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import qasync
from PySide6.QtCore import QtMsgType, qInstallMessageHandler
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication

from app import paths
from app.desktop.window import kept_conversations, server_window
from app.settings.settings_file import StoredPreferences
from engine import Engine
from ui.chat.messages.message_foot import ReasonLine
from ui.kit.theme import Theme
from ui.preferences_state import PreferencesState
from ui.window.main_window import MainWindow

_SIZE = 1200, 800
_GLANCE_S = 0.02
_SAMPLES = 40

Check = Callable[[str, Callable[[], Awaitable[str]]], Coroutine[Any, Any, bool]]


class WindowProblem(Exception):
    """The window did something unexpected; the message says what."""


def check_window(check: Check, engine: Engine, question: str, stop: str) -> None:
    """Build the window with an engine that has the demo model, and check it."""
    # The offscreen platform logs for each window what it does not support; hide that.
    before = qInstallMessageHandler(_only_serious)
    application = QApplication.instance() or QApplication(sys.argv[:1])
    assert isinstance(application, QApplication)
    application.setQuitOnLastWindowClosed(False)
    try:
        with asyncio.Runner(loop_factory=lambda: qasync.QEventLoop(application)) as runner:
            runner.run(check("window", lambda: _asked_window(application, engine, question, stop)))
    finally:
        qInstallMessageHandler(before)


async def _asked_window(application: QApplication, engine: Engine, question: str, stop: str) -> str:
    stored = StoredPreferences(paths.config_folder())
    preferences = PreferencesState(stored.preferences(), stored)
    async with kept_conversations() as store:
        theme = Theme(application, preferences.now.theme)
        loop = asyncio.get_running_loop()
        window = server_window(engine, theme, store, preferences, loop)
        try:
            window.resize(*_SIZE)
            window.show()
            window.start(paths.demo_model())
            return await _asked(window, question, stop)
        finally:
            window.close()
            await window.finish()
            await preferences.finish()
            window.deleteLater()


async def _asked(window: MainWindow, question: str, stop: str) -> str:
    workspace = window.workspace
    await _until(lambda: workspace.model.stage not in ("none", "loading"))
    if workspace.model.stage != "ready":
        raise WindowProblem(f"the model is {workspace.model.stage}")
    workspace.current.stops.ensure(stop)
    workspace.send(question)
    verdict = window.stop_panel.verdict
    await _until(lambda: verdict.run is not None and verdict.run.is_over)
    [reason] = window.chat.column.findChildren(ReasonLine)
    await _until(reason.isVisible)
    reason.click()
    await _until(window.stop_panel.isVisible)
    told = verdict.sentence.text()
    if stop not in told:
        raise WindowProblem(f"the stop panel says {told!r}")
    picture = window.grab().toImage()
    if _colors(picture) < 2:
        raise WindowProblem("its picture is empty")
    return f"{picture.width()} × {picture.height()}, it says: {told}"


async def _until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 - what is awaited is the window's look
        await asyncio.sleep(_GLANCE_S)


def _colors(picture: QImage) -> int:
    """Return how many colors a grid of samples of a picture has."""
    columns = range(0, picture.width(), max(1, picture.width() // _SAMPLES))
    rows = range(0, picture.height(), max(1, picture.height() // _SAMPLES))
    return len({picture.pixel(x, y) for x in columns for y in rows})


def _only_serious(kind: QtMsgType, _: object, message: str) -> None:
    if kind in (QtMsgType.QtCriticalMsg, QtMsgType.QtFatalMsg):
        os.write(sys.stderr.fileno(), f"Qt: {message}\n".encode())
