"""Qt without a screen, the loop of the product (qasync), and answers that a test dictates."""

import asyncio
import inspect
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import pytest
import qasync
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from tests.support.shown import main_window
from tests.ui.driving import Enter, Living, RunOnLoop, ScriptedEngine, T, opened
from ui.kit.theme import Theme
from ui.window.main_window import MainWindow


def pytest_configure(config: pytest.Config) -> None:
    # The offscreen platform says so of every window; it is no fault of ours.
    config.addinivalue_line("qt_log_ignore", "This plugin does not support")


@pytest.fixture(scope="session")
def shared_theme(qapp: QApplication) -> Theme:
    return Theme(qapp, "light")


@pytest.fixture
def theme(shared_theme: Theme) -> Iterator[Theme]:
    """The theme, which is light and has text of the usual size again afterwards."""
    Theme.current = shared_theme
    yield shared_theme
    if (shared_theme.mode, shared_theme.text_percent) != ("light", 100):
        # Windows that are about to go need no other look.
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
        shared_theme.set_text_size(100)
        shared_theme.set_mode("light")


@pytest.fixture
def run(qapp: QApplication) -> RunOnLoop:
    """Run a coroutine on Qt's loop, as the program does; the limit only ends what hangs."""
    qapp.setQuitOnLastWindowClosed(False)

    def run_until_done(work: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=lambda: qasync.QEventLoop(qapp)) as runner:
            return runner.run(asyncio.wait_for(work, 400))

    return run_until_done


@pytest.fixture
def living() -> list[Living[Any]]:
    """What an async test uses, in the order in which it begins."""
    return []


@pytest.fixture
def enter(living: list[Living[Any]]) -> Enter:
    """Enter a context once the test's loop runs: the test is given what the context yields."""

    def enter_context(make: Callable[[], AbstractAsyncContextManager[T]]) -> Living[T]:
        living.append(one := Living(make))
        return one

    return enter_context


def pytest_itemcollected(item: pytest.Item) -> None:
    """An async test runs in the application, also if it asks for no widget."""
    if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
        item.fixturenames.extend({"qapp", "run"}.difference(item.fixturenames))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test, and all that lives as long, on Qt's loop."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    living = pyfuncitem._request.getfixturevalue("living")

    async def whole() -> None:
        async with AsyncExitStack() as stack:
            for one in living:
                one.value = await stack.enter_async_context(one.make())
            given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
            await pyfuncitem.obj(
                **{name: x.value if isinstance(x, Living) else x for name, x in given.items()}
            )

    pyfuncitem.funcargs["run"](whole())
    return True


@pytest.fixture
def scripted() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
def parent(qtbot: QtBot, theme: Theme) -> QWidget:
    """A widget for others to stand in."""
    widget = QWidget()
    qtbot.addWidget(widget)
    return widget


@pytest.fixture
def window(enter: Enter, scripted: ScriptedEngine, theme: Theme) -> Living[MainWindow]:
    """The main window in front, whose answers a test dictates."""
    return enter(
        lambda: opened(
            main_window(scripted, theme), quits=True, is_in_front=True, scripted=scripted
        )
    )
