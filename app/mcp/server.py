"""One MCP server: starts it, lists its offers, calls its tools, restarts it after a crash."""

import asyncio
import contextlib
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, TypeVar

import httpx2
from mcp import Client, MCPError
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
    CallToolResult,
    ContentBlock,
    ElicitRequestParams,
    ElicitResult,
    EmbeddedResource,
    ErrorData,
    GetPromptResult,
    Implementation,
    LoggingMessageNotificationParams,
    ReadResourceResult,
)

from app import __version__
from app.mcp.conversion import (
    MAX_PICTURES,
    convert_elicitation,
    convert_prompts,
    convert_resources,
    convert_tools,
    list_pages,
)
from app.mcp.server_log import ServerLog, printable
from app.mcp.transports import ResponseRefused, http_transport, stdio_transport
from engine.files.causes import network_cause, os_cause
from ui.records.tool_servers import (
    OnProgress,
    OnQuestion,
    ServerStage,
    ServerState,
    ToolServerConfig,
    ToolsRefused,
)

START_TIMEOUT_S = 60.0
RESTART_PAUSES_S = (1.0, 5.0, 20.0)
"""The pauses before the restarts of a server that crashed; after the last the user restarts it."""
_NO_HANDSHAKE = {
    METHOD_NOT_FOUND,
    INVALID_REQUEST,
    INVALID_PARAMS,
    UNSUPPORTED_PROTOCOL_VERSION,
}
_SSE_HINT = (
    " If it is an older server, which is reached with SSE, add it by Paste JSON, and write "
    '"type": "sse" beside its address.'
)
_NOTE = "— "  # begins a line of the log that is not the server's
_ERROR = re.compile(r"(npm )?\w*error\b", re.IGNORECASE)
"""Begins the line with the cause, after which programs print hints and places of logs."""
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(eq=False, slots=True)
class _Call:
    """A running call of a tool; its lock admits one question at a time to the card of the call."""

    on_question: OnQuestion
    timeout: asyncio.Timeout
    question_lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class ToolServer:
    """A server from its start until it is stopped, with its restarts after crashes.

    Its ``stage``, and what sets and ends it (``settled`` is set in the last three):

    - starting: from the beginning until the handshake and the first lists have ended.
    - restarting: ``_note_exit`` sets it when a ready server exits. ``_run`` then waits for the next
      of ``RESTART_PAUSES_S`` and connects again, until the server is ready or no pause is left.
    - ready: ``_run_once`` sets it; ``_note_exit`` or ``stop`` ends it. Changed offers are listed
      again meanwhile (``_is_listing``).
    - failed: ``_run`` sets it and ends: never ready, no pause left, or a sign-in is needed. The
      user restarts the server, as another object.
    - stopped: ``stop`` sets it, for good.
    """

    def __init__(
        self,
        config: ToolServerConfig,
        values: Mapping[str, str],
        auth: httpx2.Auth | None,
        on_change: Callable[[], None],
        start_timeout_s: float | None = None,
    ) -> None:
        self.config = config
        self._values = values
        self._auth = auth
        self._on_change = on_change
        self._start_timeout_s = start_timeout_s or START_TIMEOUT_S
        self.stage: ServerStage = "starting"
        self._problem = ""
        self._offers = ServerState(config)
        self._log = ServerLog()
        self._client: Client | None = None
        self._calls: list[_Call] = []
        self._exit_reason = ""
        self._is_stopping = False
        self._was_ready = False
        self._is_unauthorized = False
        self._have_offers_changed = False
        self._is_listing = False
        self._wake = asyncio.Event()
        self.settled = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"MCP server {config.name}")

    @property
    def state(self) -> ServerState:
        return replace(
            self._offers,
            stage=self.stage,
            problem=self._problem,
            log=self._log.lines,
            needs_sign_in=self._needs_sign_in and self.stage == "failed",
        )

    async def stop(self) -> None:
        self._is_stopping = True
        self._wake.set()
        if self.stage != "ready" or self._is_listing:
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self.stage = "stopped"
        self.settled.set()

    async def call_tool(
        self,
        tool: str,
        arguments: dict[str, Any],
        timeout_s: float,
        on_progress: OnProgress,
        on_question: OnQuestion,
    ) -> CallToolResult:
        """Return the result of a call; cancelling this cancels the call at the server.

        The time in which the user answers a question does not count for ``timeout_s``.

        Raises:
            ToolsRefused: The server ended, took too long, refused, or sent an invalid result.
        """

        async def report(
            progress: float, total: float | None = None, message: str | None = None
        ) -> None:
            on_progress(progress, total, (message or "")[:200])

        return await self._request(
            f"the call of {printable(tool, 80)}",
            self._ready_client.call_tool(tool, arguments, progress_callback=report),
            timeout_s,
            on_question,
        )

    async def read_linked_images(self, result: CallToolResult, timeout_s: float) -> CallToolResult:
        """Return a call's result with the images behind its links; some cannot be read."""
        content: list[ContentBlock] = []
        links = 0
        for block in result.content:
            content.append(block)
            if block.type != "resource_link" or not (block.mime_type or "").startswith("image/"):
                continue
            links += 1
            if links <= MAX_PICTURES:
                with contextlib.suppress(ToolsRefused):
                    read = await self.read_resource(str(block.uri), timeout_s)
                    content += (
                        EmbeddedResource(type="resource", resource=each) for each in read.contents
                    )
        return result.model_copy(update={"content": content})

    async def read_resource(self, uri: str, timeout_s: float) -> ReadResourceResult:
        return await self._request(
            f"reading {printable(uri, 80)}", self._ready_client.read_resource(uri), timeout_s
        )

    async def get_prompt(
        self, name: str, arguments: dict[str, str], timeout_s: float
    ) -> GetPromptResult:
        return await self._request(
            f"the prompt {printable(name, 80)}",
            self._ready_client.get_prompt(name, arguments),
            timeout_s,
        )

    @property
    def _ready_client(self) -> Client:
        if self._client is None or self.stage != "ready":
            raise ToolsRefused(self._problem or f"{self._name} is not running.")
        return self._client

    async def _request(
        self,
        action: str,
        response: Awaitable[_T],
        timeout_s: float,
        on_question: OnQuestion | None = None,
    ) -> _T:
        call: _Call | None = None
        try:
            async with asyncio.timeout(timeout_s) as timeout:
                if on_question is not None:
                    self._calls.append(call := _Call(on_question, timeout))
                return await response
        except TimeoutError:
            raise ToolsRefused(f"{action} timed out after {timeout_s:g} s.") from None
        except Exception as error:
            if self._exit_reason:
                raise ToolsRefused(f"{self._exit_message} This was during {action}.") from error
            if isinstance(error, MCPError):
                message = printable(str(error), 500)
                raise ToolsRefused(f"{self._name} refused {action}: {message}") from error
            _log.info("invalid answer of %s", self.config.name, exc_info=error)
            raise ToolsRefused(
                f"{self._name} sent an invalid MCP response ({type(error).__name__})."
            ) from error
        finally:
            if call is not None:
                self._calls.remove(call)

    # -- running ---------------------------------------------------------------------------

    async def _run(self) -> None:
        """Run the server, and restart it after crashes, until it is stopped or has failed."""
        loop = asyncio.get_running_loop()
        pauses = list(RESTART_PAUSES_S)
        while True:
            started_s = loop.time()
            self._problem = await self._run_once()
            if self._is_stopping:
                return
            # A server that ran for this long gets all restarts again.
            if loop.time() - started_s > 120.0:
                pauses = list(RESTART_PAUSES_S)
            _log.warning("%s", self._problem)
            if not (self._was_ready and pauses) or self._needs_sign_in:
                self.stage = "failed"
                break
            self.stage = "restarting"
            self._on_change()
            await asyncio.sleep(pauses.pop(0))
        self.settled.set()
        self._on_change()

    async def _run_once(self) -> str:
        self._exit_reason, self._is_unauthorized = "", False
        self._wake.clear()
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._start_timeout_s):
                    client = await self._connect(stack)
                    await self._list_offers(client)
                self._client, self._was_ready, self._is_unauthorized = client, True, False
                self.stage, self._problem = "ready", ""
                self.settled.set()
                self._on_change()
                await self._wait_for_end(client)
            return self._exit_message
        except TimeoutError:
            limit = f"{self._start_timeout_s:g} s"
            return f"{self._name} was not ready within {limit}.{self._last_output}"
        except (Exception, BaseExceptionGroup) as error:
            return self._describe_failure(_first(error))
        finally:
            self._client = None

    async def _connect(self, stack: AsyncExitStack) -> Client:
        """Connect with the handshake, which servers that only have later versions of MCP refuse."""
        try:
            return await stack.enter_async_context(self._create_client("legacy"))
        except (MCPError, BaseExceptionGroup) as error:
            first = _first(error)
            if not isinstance(first, MCPError) or first.error.code not in _NO_HANDSHAKE:
                raise
        self._exit_reason = ""
        self._wake.clear()
        return await stack.enter_async_context(self._create_client("auto"))

    def _create_client(self, mode: str) -> Client:
        config = self.config
        if config.is_program:
            env = {variable.name: self._values[f"env/{variable.name}"] for variable in config.env}
            transport: Any = stdio_transport(config, env, self._log, self._note_exit)
        else:
            headers = {
                header.name: self._values[f"header/{header.name}"] for header in config.headers
            }
            transport = http_transport(config, headers, self._auth, self._note_refusal)
        return Client(
            transport,
            mode=mode,
            client_info=Implementation(name="fullstop", version=__version__),
            logging_callback=self._take_log,
            elicitation_callback=self._elicit,
            message_handler=self._take_message,
            cache=None,
        )

    async def _list_offers(self, client: Client) -> None:
        """List the tools, resources and prompts, among the capabilities that it announces."""
        offers = ServerState(self.config)
        capabilities = client.server_capabilities
        if (info := client.server_info) is not None:
            offers = replace(offers, version=printable(f"{info.name} {info.version}", 80))
        if capabilities.tools is not None:
            tools = [tool async for page in list_pages(client.list_tools) for tool in page.tools]
            usable, remarks = convert_tools(tools, self.config)
            offers = replace(offers, tools=usable, remarks=remarks)
        if capabilities.resources is not None:
            resources = [
                resource
                async for page in list_pages(client.list_resources)
                for resource in page.resources
            ]
            offers = replace(offers, resources=convert_resources(resources, self.config.name))
        if capabilities.prompts is not None:
            prompts = [
                prompt async for page in list_pages(client.list_prompts) for prompt in page.prompts
            ]
            offers = replace(offers, prompts=convert_prompts(prompts, self.config.name))
        self._offers = offers

    async def _wait_for_end(self, client: Client) -> None:
        """Wait for the end; list the offers again when the server reports a change."""
        while True:
            await self._wake.wait()
            if self._is_stopping or self._exit_reason:
                return
            self._wake.clear()
            if self._have_offers_changed:
                self._have_offers_changed, self._is_listing = False, True
                with contextlib.suppress(MCPError, TimeoutError, ValueError):
                    async with asyncio.timeout(self._start_timeout_s):
                        await self._list_offers(client)
                self._is_listing = False
                self._on_change()

    # -- callbacks of the client and the transports ----------------------------------------

    async def _elicit(
        self, context: object, params: ElicitRequestParams
    ) -> ElicitResult | ErrorData:
        """Show a question of the server in the card of its latest call."""
        if not self._calls:
            return ElicitResult(action="cancel")
        try:
            question = convert_elicitation(self.config.name, params)
        except ValueError as error:
            self._log.add(f"(a question that cannot be shown) {error}")
            return ErrorData(code=INVALID_PARAMS, message=str(error))
        call = self._calls[-1]
        async with call.question_lock:
            if call not in self._calls:  # it ended while another question was open
                return ElicitResult(action="cancel")
            loop = asyncio.get_running_loop()
            deadline_s = call.timeout.when()
            remaining_s = None if deadline_s is None else deadline_s - loop.time()
            call.timeout.reschedule(None)
            try:
                reply = await call.on_question(question)
            finally:
                if remaining_s is not None and call in self._calls:
                    call.timeout.reschedule(loop.time() + remaining_s)
        is_form = reply.action == "accept" and not question.url
        return ElicitResult(action=reply.action, content=dict(reply.values) if is_form else None)

    async def _take_log(self, params: LoggingMessageNotificationParams) -> None:
        self._log.add(f"[{params.level}] {params.data}")
        self._on_change()

    async def _take_message(self, message: object) -> None:
        if "list_changed" in str(getattr(message, "method", "")):
            self._have_offers_changed = True
            self._wake.set()

    def _note_refusal(self, status: int) -> None:
        if status == httpx2.codes.UNAUTHORIZED:
            self._is_unauthorized = True
        else:  # 404: the server has forgotten the session, and the client begins a new one
            self._note_exit("it was restarted")

    def _note_exit(self, reason: str) -> None:
        self._exit_reason = reason
        if self.stage == "ready" and not self._is_stopping:
            self.stage, self._problem = "restarting", self._exit_message
            self.settled.clear()
        self._wake.set()
        self._on_change()

    # -- messages --------------------------------------------------------------------------

    @property
    def _needs_sign_in(self) -> bool:
        has_own_key = any(header.name.lower() == "authorization" for header in self.config.headers)
        return self._is_unauthorized and not has_own_key

    @property
    def _name(self) -> str:
        return f"The MCP server “{self.config.name}”"

    @property
    def _exit_message(self) -> str:
        return f"{self._name} stopped: {self._exit_reason or 'it ended'}.{self._last_output}"

    @property
    def _last_output(self) -> str:
        lines = list(self._log.lines)
        while lines and lines[-1].startswith(_NOTE):
            lines.pop()
        # Newest first, back to the end of an earlier start.
        newest = list(takewhile(lambda line: not line.startswith(_NOTE), reversed(lines)))
        errors = [line for line in newest if _ERROR.match(line)]
        output = next(iter(errors[-1:] or newest), "")
        return f" Last output: “{printable(output, 200)}”." if output.strip() else ""

    def _describe_failure(self, error: BaseException) -> str:
        if self._needs_sign_in:
            return f"{self._name} requires you to sign in. Choose Sign In."
        if self._exit_reason:
            return self._exit_message
        _log.info("the MCP server %s failed", self.config.name, exc_info=error)
        if isinstance(error, OSError):
            # Errors of our own are sentences.
            cause = str(error) if error.strerror is None else f"{os_cause(error).capitalize()}."
            return f"{self._name} could not be started. {cause}"
        message = printable(str(error), 300).rstrip(".")
        if isinstance(error, MCPError):
            hint = "" if self.config.is_program or self.config.is_sse else _SSE_HINT
            return f"{self._name} could not be used: {message}.{hint}"
        if self.config.is_program:
            return f"{self._name} sent an invalid MCP response: {message or type(error).__name__}"
        cause = str(error) if isinstance(error, ResponseRefused) else network_cause(error)
        return f"{self._name} could not be reached at its address: {cause}."


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
