"""A main window that a test shows, uses and sees end; other parts stand in for the program's."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from app.agents.commands import CopiedLines
from app.desktop.window import create_main_window
from app.inspector.shown_apis import inspector_tools
from engine.library.local_models import ModelFolders
from tests.support.kept import preferences_state
from tests.support.memory_store import MemoryConversationStore
from tests.support.outside.tool_hosts import NoTools
from ui.chat.session.traces import TraceStore
from ui.inspector.shown_run import InspectorTools
from ui.kit.theme import Theme
from ui.preferences import KeyLocation, Preferences
from ui.preferences_state import PreferencesState
from ui.records.store import ConversationStore
from ui.records.tool_servers import ToolHost
from ui.server.requests import RequestEntry, RequestLog
from ui.server.server_switch import ServerControl
from ui.window.main_window import MainWindow

W = TypeVar("W", bound=Any)


class SilentServer:
    async def start(self) -> str:
        return "http://127.0.0.1:4711"

    async def apply(self) -> str:
        return "http://127.0.0.1:4711"

    async def stop(self) -> None:
        pass

    async def replay(self, entry: RequestEntry) -> None:
        pass


class NoKey:
    async def location(self) -> KeyLocation:
        return "none"

    async def renew(self) -> str:
        return "key"

    async def forget(self) -> None:
        pass


def main_window(
    engine: Any,
    theme: Theme,
    *,
    server: ServerControl | None = None,
    store: ConversationStore | None = None,
    preferences: PreferencesState | None = None,
    tools: Callable[[], InspectorTools] | None = None,
    model_folders: ModelFolders | None = None,
    trace_store: TraceStore | None = None,
    tool_host: ToolHost | None = None,
) -> MainWindow:
    """Return a window; parts that a test does not give keep everything in memory."""
    chosen = preferences or preferences_state(
        Preferences(theme=theme.mode, names_conversations=False)
    )
    return MainWindow(
        engine,
        server=server or SilentServer(),
        store=store or MemoryConversationStore(),
        preferences=chosen,
        key=NoKey(),
        log=RequestLog(),
        tools=tools or (lambda: inspector_tools(engine, lambda: "")),
        model_folders=model_folders or ModelFolders(),
        trace_store=trace_store,
        tool_host=tool_host or NoTools(),
        agents=CopiedLines(),
    )


def whole_window(
    engine: Any, theme: Theme, preferences: PreferencesState | None = None
) -> MainWindow:
    """Return a window with all that belongs to it, as in the program; call it on the loop."""
    store, loop = MemoryConversationStore(), asyncio.get_running_loop()
    return create_main_window(engine, theme, store, preferences or preferences_state(), loop)


@asynccontextmanager
async def shown(window: W, *, quits: bool = False) -> AsyncIterator[W]:
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
