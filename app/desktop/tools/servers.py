"""Tool servers for the window: passes its calls to the tool thread.

Fits ``ui.tools.tool_host.ToolHost``. Main thread.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from app.desktop.tools import results
from app.desktop.tools.process_groups import kill_all
from app.desktop.tools.secrets import ToolSecrets
from app.desktop.tools.server_fields import BadConfiguration
from app.desktop.tools.server_room import START_TIME_OUT_S, ServerRoom
from app.desktop.tools.servers_file import ServersFile, claude_desktop_file
from engine.files.causes import os_cause
from ui.records.tools import ServerState, ToolInfo, ToolServerConfig
from ui.tools.tool_host import OnProgress, ToolsRefused

_TOLD_EVERY_S = 0.1
_ENDS_WITHIN_S = 20.0
_MOST_ATTACHED_BYTES = 1_000_000
# Of a longer result, the rest is lost; the model is given less (``ToolPreferences``).
MOST_RESULT_BYTES = 16_000_000
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class ToolServers:
    """The servers of this person."""

    def __init__(
        self,
        folder: Path,
        *,
        call_time_out_s: Callable[[], float],
        most_result_bytes: int = MOST_RESULT_BYTES,
        secrets: ToolSecrets | None = None,
        claude_file: Path | None = None,
        start_time_out_s: float = START_TIME_OUT_S,
    ) -> None:
        self._folder = folder
        self._call_time_out_s = call_time_out_s
        self._most_result_bytes = most_result_bytes
        self._secrets = secrets or ToolSecrets(folder)
        self._claude_file = claude_file or claude_desktop_file()
        self._start_time_out_s = start_time_out_s
        self._listeners: list[Callable[[], None]] = []
        self._servers: tuple[ServerState, ...] = ()
        self._notice = ""
        self._main: asyncio.AbstractEventLoop | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._room: ServerRoom | None = None
        # An asyncio event belongs to the loop that first waits for it: the tool thread's.
        self._loaded = asyncio.Event()
        self._is_telling = False
        self._is_over = False

    @property
    def servers(self) -> tuple[ServerState, ...]:
        """The current state of all servers."""
        return self._servers

    @property
    def notice(self) -> str:
        """A notice for the person about the stored servers and secrets."""
        return self._notice

    def on_change(self, tell: Callable[[], None]) -> None:
        """Call ``tell`` on the main thread when servers change."""
        self._listeners.append(tell)

    def begin(self) -> None:
        """Read the configured servers, on the tool thread."""
        if self._thread is not None or self._is_over:
            return
        self._main = asyncio.get_running_loop()
        self._loop = asyncio.new_event_loop()
        self._room = ServerRoom(
            ServersFile(self._folder),
            self._secrets,
            self._call_time_out_s,
            self._tell_soon,
            self._start_time_out_s,
        )
        self._thread = threading.Thread(target=self._run, name="fullstop-tools", daemon=True)
        self._thread.start()

    async def add_text(self, text: str) -> list[str]:
        """Add the servers of a pasted JSON, switched off."""
        return await self._do(lambda room: room.add_text(text))

    async def import_claude_desktop(self) -> list[str]:
        """Add the servers of Claude Desktop, switched off."""
        return await self._do(lambda room: room.import_claude_desktop(self._claude_file))

    async def put(self, config: ToolServerConfig, replaced: str = "") -> None:
        """Add a server, or replace one."""
        await self._do(lambda room: room.put(config, replaced))

    async def remove(self, name: str) -> None:
        """End a server and forget it."""
        await self._do(lambda room: room.remove(name))

    async def switch(self, name: str, is_on: bool) -> None:
        """Switch a server on, which starts it, or off, which ends it."""
        await self._do(lambda room: room.switch(name, is_on))

    async def restart(self, name: str) -> None:
        """End a server and start it again."""
        await self._do(lambda room: room.restart(name))

    async def ready(self, names: Sequence[str]) -> None:
        """Start the servers that are on, and wait until each is ready or has failed."""
        await self._do(lambda room: room.ready(names))

    async def call(
        self, tool: ToolInfo, arguments: dict[str, Any], on_progress: OnProgress
    ) -> tuple[str, bool]:
        """Call a tool; return the result's text, and whether the tool reports an error."""
        progress = _Progress(self._main, on_progress)

        async def work(room: ServerRoom) -> tuple[str, bool]:
            session = await room.session(tool.server)
            result = await session.call(tool.name, arguments, progress.take)
            text = results.text_of_result(result, self._most_result_bytes)
            return text, bool(result.is_error)

        return await self._do(work)

    async def read_resource(self, server: str, uri: str) -> str:
        """Return the text of a resource."""

        async def work(room: ServerRoom) -> str:
            result = await (await room.session(server)).read(uri)
            if kind := results.only_unreadable(result):
                raise ToolsRefused(
                    f"This resource is not text ({kind}). Only text can be attached."
                )
            return results.text_of_resource(result, _MOST_ATTACHED_BYTES)

        return await self._do(work)

    async def prompt_text(self, server: str, name: str, arguments: dict[str, str]) -> str:
        """Return a prompt of a server."""

        async def work(room: ServerRoom) -> str:
            result = await (await room.session(server)).prompt(name, arguments)
            return results.text_of_prompt(result, _MOST_ATTACHED_BYTES)

        return await self._do(work)

    async def finish(self) -> None:
        """End all servers with their processes, and their thread."""
        self._is_over = True
        thread, loop, room = self._thread, self._loop, self._room
        if thread is None or loop is None:
            return
        try:
            if room is not None:
                ending = asyncio.run_coroutine_threadsafe(room.end(), loop)
                async with asyncio.timeout(_ENDS_WITHIN_S):
                    await asyncio.wrap_future(ending)
        except TimeoutError:
            _log.error("tool servers did not end in time")
        finally:
            loop.call_soon_threadsafe(loop.stop)
            await asyncio.to_thread(thread.join, _ENDS_WITHIN_S)
            kill_all()

    # -- inside ----------------------------------------------------------------------------

    async def _do(self, work: Callable[[ServerRoom], Coroutine[Any, Any, _T]]) -> _T:
        """Run something on the tool thread; cancelling this cancels it there."""
        self.begin()
        loop = self._loop
        if loop is None or self._is_over:
            raise ToolsRefused("Fullstop is ending.")
        doing = asyncio.run_coroutine_threadsafe(self._worded(work), loop)
        result, servers, notice = await asyncio.wrap_future(doing)
        self._take(servers, notice)
        return result

    async def _worded(
        self, work: Callable[[ServerRoom], Coroutine[Any, Any, _T]]
    ) -> tuple[_T, tuple[ServerState, ...], str]:
        """Run it on the tool thread; turn failures into words for a person."""
        await self._loaded.wait()
        room = self._room
        assert room is not None
        try:
            result = await work(room)
        except (ToolsRefused, asyncio.CancelledError):
            raise
        except BadConfiguration as error:
            raise ToolsRefused(str(error)) from error
        except OSError as error:
            raise ToolsRefused(f"This could not be kept: {os_cause(error)}.") from error
        except Exception as error:
            _log.exception("a tool server could not do what was asked")
            raise ToolsRefused("This failed unexpectedly; see the log for details.") from error
        return result, room.states(), room.notice

    def _run(self) -> None:
        """Run the servers' loop until it is stopped, on its own thread."""
        loop = self._loop
        assert loop is not None
        asyncio.set_event_loop(loop)
        try:
            loop.create_task(self._load())
            loop.run_forever()
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            kill_all()
            asyncio.set_event_loop(None)
            loop.close()

    async def _load(self) -> None:
        assert self._room is not None
        try:
            await self._room.load()
        except Exception:
            _log.exception("tool servers could not be read")
        finally:
            self._loaded.set()
            self._tell()

    def _tell_soon(self) -> None:
        """Report changes to the main thread, not more often than a person can see them."""
        if not self._is_telling:
            self._is_telling = True
            asyncio.get_running_loop().call_later(_TOLD_EVERY_S, self._tell)

    def _tell(self) -> None:
        self._is_telling = False
        room, main = self._room, self._main
        if room is not None and main is not None:
            with contextlib.suppress(RuntimeError):  # the window's loop is closed
                main.call_soon_threadsafe(self._take, room.states(), room.notice)

    def _take(self, servers: tuple[ServerState, ...], notice: str) -> None:
        if (servers, notice) != (self._servers, self._notice):
            self._servers, self._notice = servers, notice
            for tell in self._listeners:
                tell()


class _Progress:
    """Passes a call's progress to the main thread, not more often than a person can see it."""

    def __init__(self, main: asyncio.AbstractEventLoop | None, tell: OnProgress) -> None:
        self._main = main
        self._tell = tell
        self._last: tuple[float, float | None, str] | None = None

    def take(self, done: float, total: float | None, message: str | None) -> None:
        """Note the progress, on the tool thread."""
        is_waiting = self._last is not None
        self._last = done, total, (message or "")[:200]
        if not is_waiting:
            asyncio.get_running_loop().call_later(_TOLD_EVERY_S, self._pass_on)

    def _pass_on(self) -> None:
        last, self._last = self._last, None
        if last is not None and self._main is not None:
            with contextlib.suppress(RuntimeError):
                self._main.call_soon_threadsafe(self._tell, *last)
