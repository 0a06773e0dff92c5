"""A session with one tool server: its offers, its calls, its questions, words for its failures."""

import asyncio
import contextlib
import hashlib
import json
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from contextvars import ContextVar
from dataclasses import dataclass
from time import monotonic as _now_s
from typing import Any
from urllib.parse import urlsplit

import httpx2
from mcp import Client, MCPError
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
    ElicitResult,
    ErrorData,
    Implementation,
)

from app import __version__
from app.mcp.processes import ServerLog, printable
from app.mcp.transports import (
    AnswerRefused,
    ProgramTransport,
    address_transport,
    sse_transport,
)
from engine import counted
from engine.files.causes import network_cause, os_cause
from ui.records.tools import (
    OnQuestion,
    PromptArgument,
    PromptInfo,
    QuestionField,
    QuestionReply,
    ResourceInfo,
    ServerQuestion,
    ServerStage,
    ToolInfo,
    ToolServerConfig,
    ToolsRefused,
)

# Lists a server's tools, resources and prompts, within limits. Tool thread.

MOST_PAGES = 50
MOST_TOOLS = 128
MOST_RESOURCES = 500
MOST_PROMPTS = 100
_MOST_NAME_CHARS = 200
_MOST_DESCRIPTION_CHARS = 4_000
_MOST_SCHEMA_CHARS = 65_536


async def listed_tools(
    client: Client, config: ToolServerConfig
) -> tuple[tuple[ToolInfo, ...], tuple[str, ...]]:
    """Ask a server for its tools; return them, with remarks about tools that are left out."""
    listed = [tool async for page in _pages(client.list_tools) for tool in page.tools]
    tools, remarks = tools_from(listed, config)
    return tuple(tools), tuple(remarks)


async def listed_resources(client: Client, server: str) -> tuple[ResourceInfo, ...]:
    """Ask a server for its resources."""
    listed = [
        resource async for page in _pages(client.list_resources) for resource in page.resources
    ]
    return tuple(resources_from(listed, server))


async def listed_prompts(client: Client, server: str) -> tuple[PromptInfo, ...]:
    """Ask a server for its prompts."""
    listed = [prompt async for page in _pages(client.list_prompts) for prompt in page.prompts]
    return tuple(prompts_from(listed, server))


def tools_from(listed: Iterable[Any], config: ToolServerConfig) -> tuple[list[ToolInfo], list[str]]:
    """Return a server's tools, with remarks about tools that are left out."""
    tools: dict[str, ToolInfo] = {}
    count, unusable, tasks = 0, 0, 0
    for tool_listed in listed:
        # https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks: a call is
        # an error there, and later versions of MCP have no such tasks.
        if tool_listed.execution is not None and tool_listed.execution.task_support == "required":
            tasks += 1
            continue
        count += 1
        if len(tools) >= MOST_TOOLS:
            continue
        tool = _tool(tool_listed, config)
        if tool is None or tool.name in tools:
            unusable += 1
        else:
            tools[tool.name] = tool
    remarks = []
    if unusable:
        remarks.append(
            f"{counted(unusable, 'tool')} cannot be used: the name is missing, too long or there "
            "twice, or the description of the arguments is too long."
        )
    if tasks:
        remarks.append(
            f"{counted(tasks, 'tool')} cannot be used: MCP’s tasks are required for a call, and "
            "Fullstop has none."
        )
    if count - unusable > len(tools):
        remarks.append(f"It lists more tools than can be used; the first {MOST_TOOLS} are.")
    return list(tools.values()), remarks


def resources_from(listed: Iterable[Any], server: str) -> list[ResourceInfo]:
    """Return a server's resources."""
    return [
        ResourceInfo(
            server,
            str(resource.uri),
            printable(resource.title or resource.name or str(resource.uri), 120),
        )
        for resource in list(listed)[:MOST_RESOURCES]
        if len(str(resource.uri)) <= 4_000
    ]


def prompts_from(listed: Iterable[Any], server: str) -> list[PromptInfo]:
    """Return a server's prompts."""
    return [
        PromptInfo(
            server,
            prompt.name,
            printable(prompt.title or prompt.name, 120),
            tuple(
                PromptArgument(
                    each.name, printable(each.description or "", 300), bool(each.required)
                )
                for each in (prompt.arguments or [])[:20]
            ),
        )
        for prompt in list(listed)[:MOST_PROMPTS]
        if prompt.name and len(prompt.name) <= _MOST_NAME_CHARS
    ]


def _tool(tool: Any, config: ToolServerConfig) -> ToolInfo | None:
    if not tool.name or len(tool.name) > _MOST_NAME_CHARS:
        return None
    try:
        schema = json.dumps(tool.input_schema, sort_keys=True)
        (tool.name + (tool.description or "") + schema).encode()
    except (ValueError, RecursionError):
        return None
    if len(schema) > _MOST_SCHEMA_CHARS:
        return None
    description = (tool.description or "")[:_MOST_DESCRIPTION_CHARS]
    return ToolInfo(
        config.name,
        tool.name,
        printable(tool.name, 80),
        "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in description),
        tool.input_schema,
        _fingerprint(config, tool.name, tool.description or "", schema),
    )


def _fingerprint(config: ToolServerConfig, *said: str) -> str:
    """Return the fingerprint that an approval is for: this server and this exact tool."""
    reached = [config.command, *config.args, config.cwd, config.url]
    whole = json.dumps([reached, said])
    return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:32]


async def _pages(ask: Callable[..., Awaitable[Any]]) -> AsyncIterator[Any]:
    """Yield the pages of a list, up to a limit."""
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await ask(cursor=cursor)
        yield page
        cursor = page.next_cursor
        if cursor is None:
            return


# Messages for a person about a failed tool server, in whole sentences.

_OLDER = (
    " If it is an older server, which is reached with SSE, add it by Paste JSON, and write "
    '"type": "sse" beside its address.'
)
_log = logging.getLogger(__name__)


class SessionWords:
    """The messages for the failures of one server."""

    def __init__(self, config: ToolServerConfig, log: ServerLog) -> None:
        self._config = config
        self._log = log
        self.exit_words = ""

    @property
    def name(self) -> str:
        """The server, at the beginning of a sentence."""
        return f"The tool server “{self._config.name}”"

    @property
    def ended(self) -> str:
        """A sentence that it ended, with how and its last line."""
        return f"{self.name} stopped: {self.exit_words or 'it ended'}.{self.last_words}"

    @property
    def last_words(self) -> str:
        """Its last log line as another sentence; empty if it logged nothing."""
        last = next((line for line in reversed(self._log.lines) if not line.startswith("— ")), "")
        return f" Last output: “{printable(last, 200)}”." if last.strip() else ""

    def failed(self, error: BaseException) -> str:
        """Return the message for an error."""
        if self.exit_words:
            return self.ended
        _log.info("the tool server %s failed", self._config.name, exc_info=error)
        if isinstance(error, OSError):
            # Our own errors are sentences.
            cause = str(error) if error.strerror is None else f"{os_cause(error).capitalize()}."
            return f"{self.name} could not be started. {cause}"
        if isinstance(error, MCPError):
            said = f"{self.name} could not be used: {printable(str(error), 300).rstrip('.')}."
            return said if self._config.is_program or self._config.is_sse else said + _OLDER
        if self._config.is_program:
            said = printable(str(error), 300) or type(error).__name__
            return f"{self.name} sent an invalid MCP response: {said}"
        cause = str(error) if isinstance(error, AnswerRefused) else network_cause(error)
        return f"{self.name} could not be reached at its address: {cause}."


# The session with one tool server: starts it, lists its tools, calls them, and ends it.
#
# Everything runs on the tool thread's loop, in one task for each session, as anyio requires.


_NO_HANDSHAKE = {
    METHOD_NOT_FOUND,
    INVALID_REQUEST,
    INVALID_PARAMS,
    UNSUPPORTED_PROTOCOL_VERSION,
}
# How often a call is looked at that a person may be thinking about.
_LOOK_EACH_S = 0.5


@dataclass(eq=False, slots=True)
class _Asker:
    """Asks the person about one call, and notes how long that took."""

    ask: OnQuestion
    _open: int = 0
    _since_s: float = 0.0
    _before_s: float = 0.0

    @property
    def thought_s(self) -> float:
        """For how long the person has had a question."""
        return self._before_s + (_now_s() - self._since_s if self._open else 0.0)

    async def reply_to(self, question: ServerQuestion) -> QuestionReply:
        if not self._open:
            self._since_s = _now_s()
        self._open += 1
        try:
            return await self.ask(question)
        finally:
            self._open -= 1
            if not self._open:
                self._before_s += _now_s() - self._since_s


_of_this_call: ContextVar[_Asker | None] = ContextVar("_of_this_call", default=None)


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
        died: Callable[[], None],
        log: ServerLog,
        auth: httpx2.Auth | None = None,
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
        self._tell_died = died
        self._client: Client | None = None
        self._askers: list[_Asker] = []
        self._auth = auth
        self._is_refused = False
        self.wants_sign_in = False
        self._words = SessionWords(config, log)
        self._ended = asyncio.Event()
        self._settled = asyncio.Event()
        self._wants_end = False
        self._list_again = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"tool server {config.name}")

    async def settled(self) -> None:
        """Wait until it is ready or has failed."""
        await self._settled.wait()

    async def gone(self) -> None:
        """Wait until it has ended by itself, with its processes."""
        await asyncio.wait({self._task})

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
        ask: OnQuestion,
    ) -> Any:
        """Call a tool and return its result. Cancelling this also cancels the call at the
        server.

        Args:
            tool: Its name on the server.
            arguments: Its arguments.
            tell: Called with its progress.
            ask: Called with what the server asks the person meanwhile.
        """

        async def told(
            progress: float, total: float | None = None, message: str | None = None
        ) -> None:
            tell(progress, total, message)

        asker = _Asker(ask)
        _of_this_call.set(asker)
        self._askers.append(asker)
        try:
            return await self._asked(
                f"the call of {printable(tool, 80)}",
                lambda client: client.call_tool(tool, arguments, progress_callback=told),
                asker,
            )
        finally:
            self._askers.remove(asker)

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

    async def _asked(
        self,
        what: str,
        ask: Callable[[Client], Awaitable[Any]],
        asker: "_Asker | None" = None,
    ) -> Any:
        client = self._client
        if client is None or self._ended.is_set():
            raise ToolsRefused(self.problem or f"{self._words.name} is not running.")
        limit_s = self._call_time_out_s()
        asking = asyncio.ensure_future(ask(client))
        ending = asyncio.ensure_future(self._ended.wait())
        try:
            begun_s, left_s = _now_s(), limit_s
            while left_s > 0 and not (asking.done() or ending.done()):
                await asyncio.wait(
                    {asking, ending},
                    timeout=min(left_s, _LOOK_EACH_S),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                # The time in which the person thinks about a question is not the server's.
                thought_s = 0.0 if asker is None else asker.thought_s
                left_s = limit_s - (_now_s() - begun_s - thought_s)
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
        """Connect with the handshake in which a server can ask the person something at any time.

        Servers that know only later versions of MCP, which have no handshake, refuse it.
        """
        try:
            return await stack.enter_async_context(self._new_client("legacy"))
        except (MCPError, BaseExceptionGroup) as error:
            first = _first(error)
            if not isinstance(first, MCPError) or first.error.code not in _NO_HANDSHAKE:
                raise
        self._words.exit_words = ""
        self._ended.clear()
        return await stack.enter_async_context(self._new_client("auto"))

    def _new_client(self, mode: str) -> Client:
        config = self.config
        if config.is_program:
            env = {variable.name: self._values[f"env/{variable.name}"] for variable in config.env}
            transport: Any = ProgramTransport(
                config.command, config.args, env, config.cwd, self.log, self._note_end
            )
        else:
            headers = {
                header.name: self._values[f"header/{header.name}"] for header in config.headers
            }
            reached = sse_transport if config.is_sse else address_transport
            transport = reached(
                config.url, headers, self._call_time_out_s(), self._auth, self._note_refusal
            )
        return Client(
            transport,
            mode=mode,
            client_info=Implementation(name="fullstop", version=__version__),
            logging_callback=self._take_log,
            elicitation_callback=self._ask_person,
            message_handler=self._take_message,
            cache=None,
        )

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

    async def _ask_person(self, context: Any, params: Any) -> ElicitResult | ErrorData:
        """Have the person answer a question of the server, in the card of the call.

        Earlier versions of MCP do not say which call a question belongs to: then it is the latest.
        """
        asker = _of_this_call.get()
        if asker not in self._askers:
            asker = self._askers[-1] if self._askers else None
        if asker is None:
            return ElicitResult(action="cancel")
        try:
            question = question_from(self.config.name, params)
        except BadQuestion as error:
            self.log.add(f"(a question that cannot be shown) {error}")
            return ErrorData(code=INVALID_PARAMS, message=str(error))
        reply = await asker.reply_to(question)
        is_form = reply.action == "accept" and not question.url
        return ElicitResult(action=reply.action, content=dict(reply.values) if is_form else None)

    async def _take_log(self, params: Any) -> None:
        self.log.add(f"[{params.level}] {params.data}"[:2_000])
        self._tell()

    async def _take_message(self, message: Any) -> None:
        if isinstance(message, Exception):
            self.log.add(f"(not understood) {message}"[:2_000])
        elif "list_changed" in str(getattr(message, "method", "")):
            self._list_again.set()

    def _note_refusal(self) -> None:
        self._is_refused = True

    def _note_end(self, why: str, breaks_limits: bool) -> None:
        self._words.exit_words = why
        if self.stage is ServerStage.READY:
            # Nobody is to be asked about its tools while its processes are being ended.
            self._fail(self._words.ended, has_died=not breaks_limits)
        self._ended.set()
        self._tell()

    def _fail(self, words: str, *, has_died: bool = True) -> None:
        if self._wants_end:
            self.stage = ServerStage.STOPPED
            return
        was_ready = self.stage is ServerStage.READY
        own_key = any(header.name.lower() == "authorization" for header in self.config.headers)
        if self._is_refused and not own_key:
            self.wants_sign_in, has_died = True, False
            words = f"{self._words.name} requires you to sign in. Choose Sign In."
        if self.problem != words:
            _log.warning("%s", words)
        self.stage, self.problem = ServerStage.FAILED, words
        if was_ready and has_died:
            self._tell_died()


def _first(error: BaseException) -> BaseException:
    """Return an error, or the first one of a group of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


# -- what a server asks of a person ------------------------------------------------------------
# A form's fields, or an address to visit.
# https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation


_MOST_FIELDS = 30
_MOST_CHOICES = 200
_MOST_MESSAGE_CHARS = 2_000
_FORMATS = ("email", "uri", "date", "date-time")


class BadQuestion(ValueError):
    """A question cannot be shown; the message tells the server why."""


def question_from(server: str, params: Any) -> ServerQuestion:
    """Return the question of a request.

    Args:
        server: The server's name.
        params: The parameters of ``elicitation/create``.

    Raises:
        BadQuestion: The form has what this version cannot show, or the address is none.
    """
    message = "\n".join(printable(line, 500) for line in params.message.splitlines())
    message = message[:_MOST_MESSAGE_CHARS]
    if params.mode == "url":
        return ServerQuestion(server, message, url=_address(params.url))
    schema = params.requested_schema
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise BadQuestion("requestedSchema must have an object of properties")
    if len(properties) > _MOST_FIELDS:
        raise BadQuestion(f"requestedSchema has more than {_MOST_FIELDS} properties")
    fields = [_field(name, values, name in required) for name, values in properties.items()]
    return ServerQuestion(server, message, tuple(fields))


def _address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable():
        raise BadQuestion("url must be an address that begins with https:// or http://")
    return url


def _field(name: str, values: Any, is_required: bool) -> QuestionField:
    if not isinstance(values, dict):
        raise BadQuestion(f"the property {name[:80]} must be an object")
    title = printable(str(values.get("title") or name), 120)
    says = printable(str(values.get("description") or ""), 500)
    default = values.get("default")
    choices = _choices(values)
    match values.get("type", "string"):
        case "string" if choices:
            return QuestionField(name, title, says, "choice", is_required, choices, default)
        case "string":
            least, most = _bound(values, "minLength"), _bound(values, "maxLength")
            form = values.get("format")
            form = form if form in _FORMATS else ""
            return QuestionField(
                name, title, says, "text", is_required, (), default, least, most, form
            )
        case "number" | "integer" as kind:
            least, most = _bound(values, "minimum"), _bound(values, "maximum")
            return QuestionField(
                name,
                title,
                says,
                "whole" if kind == "integer" else "number",
                is_required,
                default=default,
                least=least,
                most=most,
            )
        case "boolean":
            return QuestionField(name, title, says, "yes", is_required, (), default)
        case "array" if offered := _choices(values.get("items")):
            least, most = _bound(values, "minItems"), _bound(values, "maxItems")
            return QuestionField(
                name, title, says, "choices", is_required, offered, default, least, most
            )
    raise BadQuestion(f"the property {name[:80]} has a type that cannot be asked for in a form")


def _choices(values: Any) -> tuple[tuple[str, str], ...]:
    """Return the values that can be chosen, each with its words; empty for none."""
    if not isinstance(values, Mapping):
        return ()
    titled = values.get("oneOf") or values.get("anyOf")
    if isinstance(titled, list):
        pairs = [
            (choice.get("const"), choice.get("title") or choice.get("const"))
            for choice in titled[:_MOST_CHOICES]
            if isinstance(choice, dict)
        ]
    else:
        plain, names = values.get("enum"), values.get("enumNames")
        if not isinstance(plain, list):
            return ()
        words = names if isinstance(names, list) and len(names) == len(plain) else plain
        pairs = list(zip(plain, words, strict=True))[:_MOST_CHOICES]
    return tuple(
        (value, printable(str(words), 200)) for value, words in pairs if isinstance(value, str)
    )


def _bound(values: Mapping[str, Any], name: str) -> float | None:
    value = values.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None
