"""The session with one tool server: starts it, lists its tools, calls them, and ends it.

Everything runs on the tool thread's loop, in one task for each session, as anyio requires.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

from mcp import Client, MCPError
from mcp_types import Implementation

from app import __version__
from app.desktop.tools.http import address_transport, sse_transport
from app.desktop.tools.offers import listed_prompts, listed_resources, listed_tools
from app.desktop.tools.server_log import ServerLog, printable
from app.desktop.tools.session_words import SessionWords
from app.desktop.tools.stdio import ProgramTransport
from ui.records.tools import PromptInfo, ResourceInfo, ServerStage, ToolInfo, ToolServerConfig
from ui.tools.tool_host import ToolsRefused

_log = logging.getLogger(__name__)


class ServerSession:
    """One server, from its start to its end; a restart makes a new one."""

    def __init__(
        self,
        config: ToolServerConfig,
        values: Mapping[str, str],
        *,
        start_time_out_s: float,
        call_time_out_s: Callable[[], float],
        changed: Callable[[], None],
        log: ServerLog,
    ) -> None:
        self.config = config
        self.stage = ServerStage.STARTING
        self.problem = ""
        self.log = log
        self.version = ""
        self.tools: tuple[ToolInfo, ...] = ()
        self.resources: tuple[ResourceInfo, ...] = ()
        self.prompts: tuple[PromptInfo, ...] = ()
        self.remarks: tuple[str, ...] = ()
        self._values = values
        self._start_time_out_s = start_time_out_s
        self._call_time_out_s = call_time_out_s
        self._tell = changed
        self._client: Client | None = None
        self._words = SessionWords(config, log)
        self._ended = asyncio.Event()
        self._settled = asyncio.Event()
        self._wants_end = False
        self._list_again = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"tool server {config.name}")

    async def settled(self) -> None:
        """Wait until it is ready or has failed."""
        await self._settled.wait()

    async def end(self) -> None:
        """End it, and wait until its processes are gone."""
        self._wants_end = True
        self._ended.set()
        if not self._settled.is_set():
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        tell: Callable[[float, float | None, str | None], None],
    ) -> Any:
        """Call a tool and return its result. Cancelling this also cancels the call at the
        server.
        """

        async def told(
            progress: float, total: float | None = None, message: str | None = None
        ) -> None:
            tell(progress, total, message)

        return await self._asked(
            f"the call of {printable(tool, 80)}",
            lambda client: client.call_tool(tool, arguments, progress_callback=told),
        )

    async def read(self, uri: str) -> Any:
        """Read a resource; raises ``ToolsRefused`` as ``call`` does."""
        return await self._asked(
            f"reading {printable(uri, 80)}", lambda client: client.read_resource(uri)
        )

    async def prompt(self, name: str, arguments: dict[str, str]) -> Any:
        """Return a prompt of the server; raises ``ToolsRefused`` as ``call`` does."""
        return await self._asked(
            f"the prompt {printable(name, 80)}",
            lambda client: client.get_prompt(name, arguments),
        )

    async def _asked(self, what: str, ask: Callable[[Client], Awaitable[Any]]) -> Any:
        client = self._client
        if client is None or self._ended.is_set():
            raise ToolsRefused(self.problem or f"{self._words.name} is not running.")
        limit_s = self._call_time_out_s()
        asking = asyncio.ensure_future(ask(client))
        ending = asyncio.ensure_future(self._ended.wait())
        try:
            await asyncio.wait(
                {asking, ending}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED
            )
            if asking.done():
                return asking.result()
            if self._ended.is_set():
                await asyncio.sleep(0)
                raise ToolsRefused(f"{self._words.ended} This was during {what}.")
            raise ToolsRefused(
                f"{self._words.name} took longer than {limit_s:g} s; {what} was cancelled."
            )
        except ToolsRefused:
            raise
        except asyncio.CancelledError:
            raise
        except MCPError as error:
            if self._ended.is_set() or "closed" in str(error).lower():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(5):
                        await self._ended.wait()
            if self._ended.is_set():
                raise ToolsRefused(f"{self._words.ended} This was during {what}.") from error
            said = printable(str(error), 500)
            raise ToolsRefused(f"{self._words.name} refused {what}: {said}") from error
        except Exception as error:
            _log.info("%s sent an answer that cannot be read", self.config.name, exc_info=error)
            raise ToolsRefused(
                f"{self._words.name} gave an answer that is not valid MCP ({type(error).__name__})."
            ) from error
        finally:
            ending.cancel()
            if not asking.done():
                asking.cancel()
            with contextlib.suppress(BaseException):
                await asyncio.wait({asking}, timeout=2)
            if asking.done() and not asking.cancelled():
                asking.exception()

    # -- the session's own task -------------------------------------------------------------

    async def _run(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._start_time_out_s):
                    client = await self._connected(stack)
                    await self._learn(client)
                self._client = client
                self.stage = ServerStage.READY
                self._settled.set()
                self._tell()
                await self._stay(client)
                self._client = None
                self.stage = ServerStage.STOPPED
                if not self._wants_end:
                    self._fail(self._words.ended)
        except TimeoutError:
            limit = f"{self._start_time_out_s:g} s"
            self._fail(f"{self._words.name} was not ready within {limit}.{self._words.last_words}")
        except asyncio.CancelledError:
            self.stage = ServerStage.STOPPED
        except BaseExceptionGroup as group:
            self._fail(self._words.failed(_first(group)))
        except Exception as error:
            self._fail(self._words.failed(error))
        finally:
            self._client = None
            self._ended.set()
            self._settled.set()
            self._tell()

    async def _connected(self, stack: AsyncExitStack) -> Client:
        config = self.config
        if config.is_program:
            env = {one.name: self._values[f"env/{one.name}"] for one in config.env}
            transport: Any = ProgramTransport(
                config.command, config.args, env, config.cwd, self.log, self._note_end
            )
        else:
            headers = {one.name: self._values[f"header/{one.name}"] for one in config.headers}
            reached = sse_transport if config.is_sse else address_transport
            transport = reached(config.url, headers, self._call_time_out_s())
        client = Client(
            transport,
            client_info=Implementation(name="fullstop", version=__version__),
            logging_callback=self._take_log,
            message_handler=self._take_message,
            cache=None,
        )
        return await stack.enter_async_context(client)

    async def _learn(self, client: Client) -> None:
        """List what the server offers, among the kinds that it announces."""
        offered = client.server_capabilities
        if (info := client.server_info) is not None:
            self.version = printable(f"{info.name} {info.version}", 80)
        if offered.tools is not None:
            self.tools, self.remarks = await listed_tools(client, self.config)
        if offered.resources is not None:
            self.resources = await listed_resources(client, self.config.name)
        if offered.prompts is not None:
            self.prompts = await listed_prompts(client, self.config.name)

    async def _stay(self, client: Client) -> None:
        """Wait until the end; list the server's offers again when it reports changes."""
        while not self._ended.is_set():
            ended = asyncio.ensure_future(self._ended.wait())
            again = asyncio.ensure_future(self._list_again.wait())
            try:
                await asyncio.wait({ended, again}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                ended.cancel()
                again.cancel()
            if self._list_again.is_set() and not self._ended.is_set():
                self._list_again.clear()
                with contextlib.suppress(MCPError, TimeoutError, ValueError):
                    async with asyncio.timeout(self._start_time_out_s):
                        await self._learn(client)
                self._tell()
                # A server that changes its lists all the time is asked at most once a second.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1):
                        await self._ended.wait()

    async def _take_log(self, params: Any) -> None:
        self.log.add(f"[{params.level}] {params.data}"[:2_000])
        self._tell()

    async def _take_message(self, message: Any) -> None:
        if isinstance(message, Exception):
            self.log.add(f"(not understood) {message}"[:2_000])
        elif "list_changed" in str(getattr(message, "method", "")):
            self._list_again.set()

    def _note_end(self, why: str) -> None:
        self._words.exit_words = why
        if self.stage is ServerStage.READY and not self._wants_end:
            # Nobody is to be asked about its tools while its processes are being ended.
            self.stage, self.problem = ServerStage.FAILED, self._words.ended
        self._ended.set()
        self._tell()

    def _fail(self, words: str) -> None:
        if self._wants_end:
            self.stage = ServerStage.STOPPED
            return
        self.stage, self.problem = ServerStage.FAILED, words
        _log.warning("%s", words)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error that is not a group of errors."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
