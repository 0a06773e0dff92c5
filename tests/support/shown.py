"""A main window that a test shows, uses and sees end, and a server that only says where it is."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from ui.window.main_window import MainWindow

Use = Callable[[Callable[[MainWindow], Coroutine[Any, Any, None]]], None]


class SilentServer:
    async def start(self) -> str:
        return "http://127.0.0.1:4711"

    async def stop(self) -> None:
        pass


@asynccontextmanager
async def shown(window: MainWindow, *, quits: bool = False) -> AsyncIterator[MainWindow]:
    """Show a window, and close it (or quit) whatever becomes of the test."""
    window.show()
    try:
        yield window
    finally:
        if quits:
            window.quit()
        else:
            window.close()
        await window.finish()
        window.deleteLater()
