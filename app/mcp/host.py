"""All tool servers of the window, on a thread of their own."""

import asyncio
import base64
import binascii
import contextlib
import json
import logging
import math
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from app.mcp.configuration import (
    SIGNED_IN,
    BadConfiguration,
    ReadServers,
    ServersFile,
    checked,
    claude_desktop_file,
    claude_desktop_servers,
    servers_from,
)
from app.mcp.processes import ServerLog, kill_all
from app.settings.keychain import ToolSecrets
from engine import size_in_words
from engine.files.causes import os_cause
from ui.records.attachments import picture_kind
from ui.records.tools import (
    AddedServers,
    NamedValue,
    OnPage,
    OnProgress,
    OnQuestion,
    QuestionReply,
    ServerQuestion,
    ServerStage,
    ServerState,
    ToolAnswer,
    ToolInfo,
    ToolServerConfig,
    ToolsRefused,
)

# Converts a tool server's answers to text for the model and the person, within a limit.

_UNREAD = ", which the model cannot read"


def text_of_result(result: Any, most_bytes: int) -> str:
    """Return the text of a call's result.

    What is not text (pictures, sound, other files) is named with its kind and size.
    """
    parts = [_block(block) for block in result.content[:1_000]]
    if not any(part.strip() for part in parts) and result.structured_content is not None:
        parts = [json.dumps(result.structured_content, ensure_ascii=False)]
    return shortened("\n".join(parts), most_bytes) or "(no output)"


def pictures_of(result: Any) -> tuple[bytes, ...]:
    """Return the contents of a result's pictures that can be shown, within limits."""
    pictures: list[bytes] = []
    for block in result.content[:1_000]:
        content = block.resource if block.type == "resource" else block
        data = getattr(content, "data", None) or getattr(content, "blob", None)
        if data is None or len(pictures) >= _MOST_PICTURES:
            continue
        if len(data) > _MOST_PICTURE_BYTES * 4 // 3 + 4:
            continue
        with contextlib.suppress(binascii.Error, ValueError):
            if picture_kind(decoded := base64.b64decode(data, validate=False)):
                pictures.append(decoded)
    return tuple(pictures)


def text_of_resource(result: Any, most_bytes: int) -> str:
    """Return the text of a resource."""
    return shortened(
        "\n".join(_contents(content) for content in result.contents[:1_000]), most_bytes
    )


def only_unreadable(result: Any) -> str:
    """Return what something is that was read and has no text at all; empty where it has some."""
    contents = result.contents[:1_000]
    if not contents or any(getattr(content, "text", None) is not None for content in contents):
        return ""
    return f"{contents[0].mime_type or 'binary data'}, {_size(contents[0].blob)}"


def text_of_prompt(result: Any, most_bytes: int) -> str:
    """Return a server's prompt as one text."""
    messages = result.messages[:200]
    texts = [_block(message.content) for message in messages]
    if len({message.role for message in messages}) > 1:
        texts = [
            f"{'Me' if message.role == 'user' else 'You'}: {text}"
            for message, text in zip(messages, texts, strict=True)
        ]
    return shortened("\n\n".join(texts), most_bytes)


def shortened(text: str, most_bytes: int) -> str:
    """Return a text of at most this many bytes; a note at its end tells what was cut off."""
    data = text.encode("utf-8", "replace")
    if len(data) <= most_bytes:
        return data.decode()
    kept = data[:most_bytes].decode("utf-8", "ignore")
    return (
        f"{kept}\n[Cut: this is the first {size_in_words(most_bytes)} of "
        f"{size_in_words(len(data))}.]"
    )


def _block(block: Any) -> str:
    match block.type:
        case "text":
            return str(block.text)
        case "image" | "audio":
            return f"[{block.type} {block.mime_type}, {_size(block.data)}{_UNREAD}]"
        case "resource":
            return _contents(block.resource)
        case "resource_link":
            return f"[resource {block.uri}: {block.title or block.name}]"
        case other:
            return f"[{other}{_UNREAD}]"


def _contents(contents: Any) -> str:
    text = getattr(contents, "text", None)
    if text is not None:
        return str(text)
    kind = contents.mime_type or "binary data"
    return f"[{kind}, {_size(contents.blob)}{_UNREAD}]"


def _size(data: str) -> str:
    try:
        return size_in_words(len(base64.b64decode(data, validate=False)))
    except (binascii.Error, ValueError):
        return size_in_words(len(data))


if TYPE_CHECKING:
    import httpx2

    from app.mcp.session import ServerSession
    from app.mcp.transports import OpenPage

_MOST_PICTURES = 20
_MOST_PICTURE_BYTES = 10 << 20
START_TIME_OUT_S = 60.0
# A server that died is started again after each of these pauses; then a person has to do it.
RESTART_PAUSES_S = (1.0, 5.0, 20.0)
# One that has run for so long is given all of them again.
_STEADY_S = 120.0


@dataclass(slots=True)
class _Restart:
    """How a server that died is started again."""

    count: int = 0
    problem: str = ""
    ready_at_s: float = -math.inf
    task: asyncio.Task[None] | None = None

    @property
    def is_under_way(self) -> bool:
        return self.task is not None


class ServerRoom:
    """Keeps the configured servers and runs those that are switched on."""

    def __init__(
        self,
        file: ServersFile,
        secrets: ToolSecrets,
        call_time_out_s: Callable[[], float],
        changed: Callable[[], None],
        restart_pauses_s: Sequence[float] = RESTART_PAUSES_S,
    ) -> None:
        self._file = file
        self._secrets = secrets
        self._call_time_out_s = call_time_out_s
        self._tell = changed
        self._configs: dict[str, ToolServerConfig] = {}
        self._sessions: dict[str, ServerSession] = {}
        self._problems: dict[str, str] = {}
        self._changing = asyncio.Lock()
        self._starting: dict[str, asyncio.Lock] = {}
        self._restart_pauses_s = restart_pauses_s
        self._restarts: dict[str, _Restart] = {}

    @property
    def notice(self) -> str:
        """A notice for the person about the stored servers and secrets."""
        return " ".join(filter(None, (self._file.notice, self._secrets.place_words)))

    def states(self) -> tuple[ServerState, ...]:
        return tuple(self._state(config) for config in self._configs.values())

    async def load(self) -> None:
        """Read the configured servers."""
        async with self._changing:
            configs = await asyncio.to_thread(self._file.load)
            await asyncio.to_thread(self._secrets.look)
            # A person may have written a secret into the file by hand.
            kept = [
                await asyncio.to_thread(self._without_secrets, config, "") for config in configs
            ]
            self._configs = {config.name: config for config in kept}
            if kept != configs:
                try:
                    await asyncio.to_thread(self._file.save, kept)
                except OSError as error:
                    _log.warning("the tool servers cannot be saved: %s", error)

    async def add_text(self, text: str) -> AddedServers:
        """Add the servers of a pasted JSON, switched off."""
        return await self._add(servers_from(text))

    async def import_claude_desktop(self, path: Path) -> AddedServers:
        """Add the servers of Claude Desktop, switched off."""
        return await self._add(await asyncio.to_thread(claude_desktop_servers, path))

    async def put(self, config: ToolServerConfig, replaced: str) -> None:
        """Add a server, or replace one."""
        config = checked(config)
        async with self._changing:
            if config.name != replaced and config.name in self._configs:
                raise BadConfiguration(
                    f"There is already a server called {config.name}. Choose another name."
                )
            before = self._configs.get(replaced)
            kept = await asyncio.to_thread(self._without_secrets, config, replaced)
            configs = {
                (kept.name if name == replaced else name): (kept if name == replaced else other)
                for name, other in self._configs.items()
            }
            configs[kept.name] = kept
            await self._take(configs)
            if before is not None:
                await self._end(replaced)
                gone = set(before.secrets) - (set(kept.secrets) if kept.name == replaced else set())
                for name in gone:
                    await asyncio.to_thread(self._secrets.forget, replaced, name)

    async def remove(self, name: str) -> None:
        """End a server and forget it."""
        async with self._changing:
            config = self._configs.get(name)
            if config is None:
                return
            await self._take({key: config for key, config in self._configs.items() if key != name})
            await self._end(name)
            for secret in (*config.secrets, *SIGNED_IN):
                await asyncio.to_thread(self._secrets.forget, name, secret)

    async def switch(self, name: str, is_on: bool) -> None:
        """Switch a server on or off; one that is switched on is started."""
        async with self._changing:
            config = self._configs.get(name)
            if config is None:
                return
            if config.is_on != is_on:
                await self._take({**self._configs, name: replace(config, is_on=is_on)})
            if not is_on:
                await self._end(name)
        if is_on:
            await self._started(name)

    async def restart(self, name: str) -> None:
        """End a server and start it again."""
        await self._end(name)
        await self._started(name)

    async def sign_in(self, name: str, open_page: "OpenPage") -> None:
        """Start a server; a person signs in in the browser if it wants that."""
        from app.mcp.transports import SIGN_IN_TIME_OUT_S, new_sign_in

        config = self._configs.get(name)
        if config is None or config.is_program:
            return
        await self._end(name)
        async with new_sign_in(self._secrets, name, config.url, open_page) as auth:
            await self._started(name, auth, SIGN_IN_TIME_OUT_S)

    async def ready(self, names: Sequence[str]) -> None:
        """Start the servers that are on, and wait for them; failed ones are not restarted."""
        await asyncio.gather(*(self._ready(name) for name in names))

    async def session(self, name: str) -> "ServerSession":
        """Return the session of a server; start it if needed."""
        await self._ready(name)
        session = self._sessions.get(name)
        if session is None or session.stage is not ServerStage.READY:
            config = self._configs.get(name)
            if config is None:
                raise ToolsRefused(f"There is no tool server called “{name}” any more.")
            if not config.is_on:
                raise ToolsRefused(f"The tool server “{name}” is switched off.")
            problem = self._state(config).problem or f"The tool server “{name}” is not running."
            raise ToolsRefused(problem)
        return session

    async def end(self) -> None:
        names = {*self._sessions, *self._restarts}
        await asyncio.gather(*(self._end(name) for name in names))

    # -- inside ----------------------------------------------------------------------------

    def _state(self, config: ToolServerConfig) -> ServerState:
        session = self._sessions.get(config.name)
        if session is None:
            problem = self._problems.get(config.name, "")
            idle = ServerStage.STOPPED if config.is_on else ServerStage.OFF
            return ServerState(config, ServerStage.FAILED if problem else idle, problem)
        stage, problem = session.stage, session.problem
        restart = self._restarts.get(config.name)
        if restart is not None and restart.is_under_way and stage is not ServerStage.READY:
            stage, problem = ServerStage.RESTARTING, restart.problem
        return ServerState(
            config,
            stage,
            problem,
            session.tools,
            session.resources,
            session.prompts,
            session.remarks,
            session.log.lines,
            session.version,
            session.wants_sign_in and stage is ServerStage.FAILED,
        )

    async def _add(self, read: ReadServers) -> AddedServers:
        names: list[str] = []
        async with self._changing:
            together = dict(self._configs)
            for config in read.servers:
                name = _free_name(config.name, together)
                off = replace(config, name=name, is_on=False)
                together[name] = await asyncio.to_thread(self._without_secrets, off, "")
                names.append(name)
            await self._take(together)
        return AddedServers(tuple(names), read.refused)

    async def _take(self, configs: dict[str, ToolServerConfig]) -> None:
        await asyncio.to_thread(self._file.save, configs.values())
        self._configs = configs
        self._tell()

    def _without_secrets(self, config: ToolServerConfig, replaced: str) -> ToolServerConfig:
        """Keep the values of secrets, and return the server without them."""

        def kept(kind: str, values: Iterable[NamedValue]) -> tuple[NamedValue, ...]:
            out = []
            for variable in values:
                if variable.is_secret:
                    name = f"{kind}/{variable.name}"
                    value: str | None = variable.value
                    if not value and replaced and replaced != config.name:
                        value = self._secrets.value(replaced, name)
                    if value:
                        self._secrets.keep(config.name, name, value)
                    variable = replace(variable, value="")
                out.append(variable)
            return tuple(out)

        return replace(config, env=kept("env", config.env), headers=kept("header", config.headers))

    def _values(self, config: ToolServerConfig) -> dict[str, str]:
        """Return the values of all variables and headers."""
        values: dict[str, str] = {}
        for kind, named in (("env", config.env), ("header", config.headers)):
            for variable in named:
                value: str | None = variable.value
                if variable.is_secret:
                    value = self._secrets.value(config.name, f"{kind}/{variable.name}")
                    if value is None:
                        raise ToolsRefused(
                            f"The tool server “{config.name}” needs a value for {variable.name}. "
                            "Fill it in: choose Edit."
                        )
                values[f"{kind}/{variable.name}"] = value or ""
        return values

    async def _ready(self, name: str) -> None:
        session, config = self._sessions.get(name), self._configs.get(name)
        if config is None or not config.is_on or name in self._problems:
            return
        restart = self._restarts.get(name)
        if restart is not None and restart.is_under_way and restart.task is not None:
            await asyncio.wait({restart.task})
            return
        if session is not None and session.stage is ServerStage.FAILED:
            return  # a person starts it again
        await self._started(name)

    async def _started(
        self, name: str, auth: "httpx2.Auth | None" = None, time_out_s: float | None = None
    ) -> None:
        """Start a server if it does not run, and wait until it is ready or has failed.

        Args:
            name: The server.
            auth: How it is told who asks; None for as before.
            time_out_s: How long that may take; None for the usual time.
        """
        async with self._starting.setdefault(name, asyncio.Lock()):
            config, session = self._configs.get(name), self._sessions.get(name)
            if config is None or not config.is_on:
                return
            if session is None or session.stage in (ServerStage.STOPPED, ServerStage.FAILED):
                self._problems.pop(name, None)
                try:
                    values = await asyncio.to_thread(self._values, config)
                    kind = await asyncio.to_thread(_session_kind)
                    if auth is None and not config.is_program:
                        auth = await _kept_sign_in(self._secrets, config)
                except (ToolsRefused, OSError) as error:
                    words = str(error) if isinstance(error, ToolsRefused) else os_cause(error)
                    self._problems[name] = words
                    self._sessions.pop(name, None)
                    self._tell()
                    return
                session = self._sessions[name] = kind(
                    config,
                    values,
                    start_time_out_s=time_out_s or START_TIME_OUT_S,
                    call_time_out_s=self._call_time_out_s,
                    changed=self._tell,
                    died=partial(self._begin_restart, name),
                    log=ServerLog() if session is None else session.log,
                    auth=auth,
                )
                self._tell()
            await session.settled()

    def _begin_restart(self, name: str) -> None:
        """Begin to start a server again that died by itself."""
        restart = self._restarts.setdefault(name, _Restart())
        now = asyncio.get_running_loop().time()
        if now - restart.ready_at_s > _STEADY_S:
            restart.count = 0
        if not restart.is_under_way and restart.count < len(self._restart_pauses_s):
            restart.problem = self._sessions[name].problem
            restart.task = asyncio.create_task(self._restart(name, restart))

    async def _restart(self, name: str, restart: "_Restart") -> None:
        session = self._sessions.get(name)
        if session is not None:
            await session.gone()
        while restart.count < len(self._restart_pauses_s):
            self._tell()
            await asyncio.sleep(self._restart_pauses_s[restart.count])
            restart.count += 1
            await self._started(name)
            session = self._sessions.get(name)
            if session is None or session.stage is ServerStage.READY:
                break
        restart.ready_at_s = asyncio.get_running_loop().time()
        restart.task = None
        self._tell()

    async def _end(self, name: str) -> None:
        self._problems.pop(name, None)
        restart = self._restarts.pop(name, None)
        if restart is not None and restart.task is not None:
            restart.task.cancel()
        session = self._sessions.pop(name, None)
        if session is not None:
            await session.end()
        self._tell()


def _session_kind() -> "type[ServerSession]":
    """Import what a session needs, which takes a second."""
    from app.mcp.session import ServerSession

    return ServerSession


async def _kept_sign_in(secrets: ToolSecrets, config: ToolServerConfig) -> "httpx2.Auth | None":
    from app.mcp.transports import kept_sign_in

    return await kept_sign_in(secrets, config.name, config.url)


def _free_name(name: str, taken: dict[str, Any]) -> str:
    number = 2
    free = name
    while free in taken:
        free = f"{name} {number}"
        number += 1
    return free


# Tool servers for the window: passes its calls to the tool thread.
#
# Fits ``ui.records.tools.ToolHost``. Main thread.

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
        restart_pauses_s: Sequence[float] = RESTART_PAUSES_S,
    ) -> None:
        self._folder = folder
        self._call_time_out_s = call_time_out_s
        self._most_result_bytes = most_result_bytes
        self._secrets = secrets or ToolSecrets(folder)
        self._claude_file = claude_file or claude_desktop_file()
        self._restart_pauses_s = restart_pauses_s
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
            self._restart_pauses_s,
        )
        self._thread = threading.Thread(target=self._run, name="fullstop-tools", daemon=True)
        self._thread.start()

    async def add_text(self, text: str) -> AddedServers:
        """Add the servers of a pasted JSON, switched off."""
        return await self._do(lambda room: room.add_text(text))

    async def import_claude_desktop(self) -> AddedServers:
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

    async def sign_in(self, name: str, open_page: OnPage) -> None:
        """Have a person sign in to a server in the browser, and start it."""

        async def opened(address: str) -> None:
            assert self._main is not None
            self._main.call_soon_threadsafe(open_page, address)

        await self._do(lambda room: room.sign_in(name, opened))

    async def ready(self, names: Sequence[str]) -> None:
        """Start the servers that are on, and wait until each is ready or has failed."""
        await self._do(lambda room: room.ready(names))

    async def call(
        self,
        tool: ToolInfo,
        arguments: dict[str, Any],
        on_progress: OnProgress,
        on_question: OnQuestion,
    ) -> ToolAnswer:
        """Call a tool and return what it answered."""
        progress = _Progress(self._main, on_progress)

        async def asked(question: ServerQuestion) -> QuestionReply:
            assert self._main is not None
            answering = asyncio.run_coroutine_threadsafe(
                _awaited(on_question, question), self._main
            )
            return await asyncio.wrap_future(answering)

        async def work(room: ServerRoom) -> ToolAnswer:
            session = await room.session(tool.server)
            result = await session.call(tool.name, arguments, progress.take, asked)
            pictures = pictures_of(result)
            text = text_of_result(result, self._most_result_bytes)
            return ToolAnswer(text, bool(result.is_error), pictures)

        return await self._do(work)

    async def read_resource(self, server: str, uri: str) -> str:
        """Return the text of a resource."""

        async def work(room: ServerRoom) -> str:
            result = await (await room.session(server)).read(uri)
            if kind := only_unreadable(result):
                raise ToolsRefused(
                    f"This resource is not text ({kind}). Only text can be attached."
                )
            return text_of_resource(result, _MOST_ATTACHED_BYTES)

        return await self._do(work)

    async def prompt_text(self, server: str, name: str, arguments: dict[str, str]) -> str:
        async def work(room: ServerRoom) -> str:
            result = await (await room.session(server)).prompt(name, arguments)
            return text_of_prompt(result, _MOST_ATTACHED_BYTES)

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
            raise ToolsRefused("Fullstop is quitting.")
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
            raise ToolsRefused(f"Couldn’t save: {os_cause(error)}.") from error
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


async def _awaited(ask: OnQuestion, question: ServerQuestion) -> QuestionReply:
    return await ask(question)


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
