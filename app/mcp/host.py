"""All MCP servers of the window. Fits ``ui.records.tool_servers.ToolHost``."""

import asyncio
import contextlib
import importlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.mcp.configuration import (
    OAUTH_SECRETS,
    BadConfiguration,
    ParsedServers,
    ServersFile,
    parse_servers,
    read_claude_desktop,
    unique_name,
    validate_config,
)
from app.private_files import access_problem
from app.settings.keychain import ToolSecrets
from engine.files.causes import os_cause
from ui.records.tool_servers import (
    AddedServers,
    NamedValue,
    OnProgress,
    OnQuestion,
    ServerState,
    ToolAnswer,
    ToolInfo,
    ToolServerConfig,
    ToolsRefused,
)

if TYPE_CHECKING:
    import httpx2

    from app.mcp.server import ToolServer

MAX_RESULT_BYTES = 16_000_000
"""A longer result is shortened; the model gets less (``ToolPreferences``)."""
_MAX_ATTACHED_BYTES = 1_000_000
_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Entry:
    """A config with its server, if it runs; another config gets another entry (``_replace``)."""

    config: ToolServerConfig
    server: "ToolServer | None" = None
    problem: str = ""  # why the server could not be created
    start_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def state(self) -> ServerState:
        if self.server is not None:
            return self.server.state
        if self.problem:
            return ServerState(self.config, "failed", self.problem)
        return ServerState(self.config, "stopped" if self.config.is_on else "off")


class ToolServers:
    """The configured servers; enabled ones start on demand."""

    def __init__(
        self,
        folder: Path,
        *,
        call_timeout_s: Callable[[], float],
        max_result_bytes: int = MAX_RESULT_BYTES,
    ) -> None:
        self._file = ServersFile(folder)
        self._call_timeout_s = call_timeout_s
        self._max_result_bytes = max_result_bytes
        self._secrets = ToolSecrets(folder)
        self._entries: dict[str, _Entry] = {}
        self._edit_lock = asyncio.Lock()
        self._loading: asyncio.Task[None] | None = None
        self._listeners: list[Callable[[], None]] = []
        self._notification: asyncio.TimerHandle | None = None
        self._is_finished = False

    @property
    def servers(self) -> tuple[ServerState, ...]:
        return tuple(entry.state for entry in self._entries.values())

    @property
    def notice(self) -> str:
        return self._file.notice

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def begin(self) -> None:
        if self._loading is None:
            self._loading = asyncio.create_task(self._load())

    async def add_text(self, text: str) -> AddedServers:
        async with self._operation():
            return await self._add(parse_servers(text))

    async def import_claude_desktop(self) -> AddedServers:
        async with self._operation():
            return await self._add(await asyncio.to_thread(read_claude_desktop))

    async def put(self, config: ToolServerConfig, replaced: str = "") -> None:
        async with self._operation(), self._edit():
            config = validate_config(config)
            if config.name != replaced and config.name in self._entries:
                raise BadConfiguration(
                    f"There is already a server called {config.name}. Choose another name."
                )
            before = self._entries.get(replaced)
            new = await asyncio.to_thread(self._store_secrets, config, replaced)
            if before is None:
                await self._save([*self._configs, new])
                return
            await self._save([new if old is before.config else old for old in self._configs])
            obsolete = {*before.config.secrets, *OAUTH_SECRETS}
            if new.name == replaced:
                has_same_url = new.url == before.config.url
                obsolete -= {*new.secrets, *(OAUTH_SECRETS if has_same_url else ())}
            await self._delete_secrets(replaced, obsolete)

    async def remove(self, name: str) -> None:
        async with self._operation(), self._edit():
            if (entry := self._entries.get(name)) is not None:
                await self._save([other for other in self._configs if other is not entry.config])
                await self._delete_secrets(name, (*entry.config.secrets, *OAUTH_SECRETS))

    async def switch(self, name: str, is_on: bool) -> None:
        async with self._operation():
            async with self._edit():
                entry = self._entries.get(name)
                if entry is not None and entry.config.is_on != is_on:
                    new = replace(entry.config, is_on=is_on)
                    await self._save([new if old is entry.config else old for old in self._configs])
            if is_on:
                await self._start(name)

    async def restart(self, name: str) -> None:
        async with self._operation():
            if (entry := self._entries.get(name)) is not None:
                await self._stop(entry)
                await self._start(name)

    async def sign_in(self, name: str, open_page: Callable[[str], object]) -> None:
        async with self._operation():
            entry = self._entries.get(name)
            if entry is None or entry.config.is_program:
                return
            oauth = await asyncio.to_thread(importlib.import_module, "app.mcp.oauth")
            await self._stop(entry)
            async with oauth.browser_sign_in(self._secrets, entry.config, open_page) as auth:
                await self._start(name, auth, oauth.SIGN_IN_TIMEOUT_S)

    async def ensure_ready(self, names: Sequence[str]) -> None:
        async with self._operation():
            await asyncio.gather(*(self._ensure_ready(name) for name in names))

    async def call(
        self,
        tool: ToolInfo,
        arguments: dict[str, Any],
        on_progress: OnProgress,
        on_question: OnQuestion,
    ) -> ToolAnswer:
        async with self._operation():
            server = await self._ready_server(tool.server)
            result = await server.call_tool(
                tool.name, arguments, self._call_timeout_s(), on_progress, on_question
            )
            result = await server.read_linked_images(result, self._call_timeout_s())
            from app.mcp.conversion import result_pictures, result_text

            text = result_text(result, self._max_result_bytes)
            return ToolAnswer(text, bool(result.is_error), result_pictures(result))

    async def read_resource(self, server: str, uri: str) -> ToolAnswer:
        async with self._operation():
            ready = await self._ready_server(server)
            result = await ready.read_resource(uri, self._call_timeout_s())
            from app.mcp.conversion import binary_type, resource_pictures, resource_text

            pictures, kind = resource_pictures(result), binary_type(result)
            if kind and not pictures:
                raise ToolsRefused(
                    f"This resource is neither text nor a picture ({kind}). Only these can be "
                    "attached."
                )
            text = "" if kind else resource_text(result, _MAX_ATTACHED_BYTES)
            return ToolAnswer(text, pictures=pictures)

    async def get_prompt(self, server: str, name: str, arguments: dict[str, str]) -> ToolAnswer:
        async with self._operation():
            ready = await self._ready_server(server)
            result = await ready.get_prompt(name, arguments, self._call_timeout_s())
            from app.mcp.conversion import prompt_pictures, prompt_text

            text = prompt_text(result, _MAX_ATTACHED_BYTES)
            return ToolAnswer(text, pictures=prompt_pictures(result))

    async def finish(self) -> None:
        self._is_finished = True
        if self._loading is not None:
            await asyncio.wait({self._loading})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(20.0):
                await asyncio.gather(*map(self._stop, self._entries.values()))
        if self._notification is not None:
            self._notification.cancel()

    # -- inside ----------------------------------------------------------------------------

    @property
    def _configs(self) -> list[ToolServerConfig]:
        return [entry.config for entry in self._entries.values()]

    @asynccontextmanager
    async def _operation(self) -> AsyncIterator[None]:
        """Wait until the file is read; turn failures into ``ToolsRefused``."""
        if self._is_finished:
            raise ToolsRefused("Fullstop is quitting.")
        self.begin()
        assert self._loading is not None
        await asyncio.wait({self._loading})
        try:
            yield
        except ToolsRefused:
            raise
        except BadConfiguration as error:
            raise ToolsRefused(str(error)) from error
        except OSError as error:
            raise ToolsRefused(f"This failed: {os_cause(error)}.") from error
        except Exception as error:
            _log.exception("an operation of an MCP server failed")
            raise ToolsRefused("This failed unexpectedly; see the log for details.") from error

    async def _load(self) -> None:
        try:
            configs = await asyncio.to_thread(self._file.load)
            await self._replace(configs)
            # The user may have written a secret into the file by hand.
            if any(_has_secret_values(config) for config in configs):
                await self._save(configs)
        except OSError as error:
            cause = access_problem(self._file.path, os.R_OK) or os_cause(error)
            self._file.notice = f"{self._file.path.name} could not be read: {cause}."
        except ToolsRefused as refused:
            self._file.notice = f"{self._file.notice} {self._file.path.name}: {refused}".strip()
        except Exception:
            _log.exception("the MCP servers could not be read")
        self._notify()

    @asynccontextmanager
    async def _edit(self) -> AsyncIterator[None]:
        """Change the servers as they are in the file now: a chat and the window share it."""
        async with self._edit_lock:
            if self._file.path.exists():
                known = {config.name: config for config in self._configs}
                loaded = await asyncio.to_thread(self._file.load)
                await self._replace(
                    old if (old := known.get(new.name)) == new else new for new in loaded
                )
            yield

    async def _replace(self, configs: Iterable[ToolServerConfig]) -> None:
        """Set the configs; servers whose config is another object, or gone, are ended."""
        before = self._entries
        self._entries = {
            config.name: entry
            if (entry := before.get(config.name)) is not None and entry.config is config
            else _Entry(config)
            for config in configs
        }
        self._notify()
        kept = self._entries.values()
        await asyncio.gather(*(self._stop(entry) for entry in before.values() if entry not in kept))

    async def _add(self, parsed: ParsedServers) -> AddedServers:
        names: list[str] = []
        servers, errors = parsed
        async with self._edit():
            for config in servers:
                names.append(unique_name(config.name, {*self._entries, *names}))
            added = (
                replace(config, name=name, is_on=False)
                for config, name in zip(servers, names, strict=True)
            )
            await self._save([*self._configs, *added])
        return names, errors

    async def _save(self, configs: Iterable[ToolServerConfig]) -> None:
        try:
            saved = [
                await asyncio.to_thread(self._store_secrets, config, "")
                if _has_secret_values(config)
                else config
                for config in configs
            ]
            await asyncio.to_thread(self._file.save, saved)
        except OSError as error:
            raise ToolsRefused(f"Couldn’t save: {os_cause(error)}.") from error
        await self._replace(saved)

    def _store_secrets(self, config: ToolServerConfig, replaced: str) -> ToolServerConfig:
        """Store the values of secrets in the keychain; return the config without them."""

        def store(kind: str, values: Iterable[NamedValue]) -> tuple[NamedValue, ...]:
            without = []
            for variable in values:
                if variable.is_secret:
                    name = f"{kind}/{variable.name}"
                    value: str | None = variable.value
                    if not value and replaced and replaced != config.name:
                        value = self._secrets.value(replaced, name)
                    if value:
                        self._secrets.save(config.name, name, value)
                    variable = replace(variable, value="")
                without.append(variable)
            return tuple(without)

        return replace(
            config, env=store("env", config.env), headers=store("header", config.headers)
        )

    async def _delete_secrets(self, server: str, names: Iterable[str]) -> None:
        for name in names:
            await asyncio.to_thread(self._secrets.forget, server, name)

    def _secret_values(self, config: ToolServerConfig) -> dict[str, str]:
        values: dict[str, str] = {}
        for kind, named in (("env", config.env), ("header", config.headers)):
            for variable in named:
                value: str | None = variable.value
                if variable.is_secret:
                    # The value is here if the keychain did not take it.
                    value = value or self._secrets.value(config.name, f"{kind}/{variable.name}")
                    if value is None:
                        raise ToolsRefused(
                            f"The MCP server “{config.name}” needs a value for {variable.name}. "
                            "Fill it in: choose Edit."
                        )
                values[f"{kind}/{variable.name}"] = value or ""
        return values

    async def _ready_server(self, name: str) -> "ToolServer":
        await self._ensure_ready(name)
        if (entry := self._entries.get(name)) is None:
            raise ToolsRefused(f"There is no MCP server called “{name}” any more.")
        if entry.server is None or entry.server.stage != "ready":
            if not entry.config.is_on:
                raise ToolsRefused(f"The MCP server “{name}” is switched off.")
            problem = entry.state.problem
            raise ToolsRefused(problem or f"The MCP server “{name}” is not running.")
        return entry.server

    async def _ensure_ready(self, name: str) -> None:
        """Start a server, or wait for its start; a failed one is restarted only by the user."""
        entry = self._entries.get(name)
        if entry is not None and not entry.problem:
            await self._start(name)

    async def _start(
        self,
        name: str,
        auth: "httpx2.Auth | None" = None,
        start_timeout_s: float | None = None,
    ) -> None:
        """Start a server that is on and does not run; wait until it is ready or has failed."""
        entry = self._entries.get(name)
        if entry is None or not entry.config.is_on:
            return
        async with entry.start_lock:
            if entry.server is None:
                await self._create_server(entry, auth, start_timeout_s)
            server = entry.server
        if server is not None:
            await server.settled.wait()

    async def _create_server(
        self, entry: _Entry, auth: "httpx2.Auth | None", start_timeout_s: float | None
    ) -> None:
        config, entry.problem, problem = entry.config, "", ""
        try:
            values = await asyncio.to_thread(self._secret_values, config)
            module = await asyncio.to_thread(importlib.import_module, "app.mcp.server")
            if auth is None and not config.is_program:
                oauth = await asyncio.to_thread(importlib.import_module, "app.mcp.oauth")
                auth = await oauth.stored_sign_in(self._secrets, config)
        except (ToolsRefused, OSError) as error:
            problem = os_cause(error) if isinstance(error, OSError) else str(error)
        if self._is_finished or self._entries.get(config.name) is not entry:
            return  # removed, edited or switched off meanwhile
        entry.problem = problem
        if not problem:
            entry.server = module.ToolServer(
                config, values, auth, self._notify_soon, start_timeout_s
            )
        self._notify()

    async def _stop(self, entry: _Entry) -> None:
        entry.problem = ""
        server, entry.server = entry.server, None
        if server is not None:
            await server.stop()
        self._notify()

    def _notify_soon(self) -> None:
        """Notify the listeners at most ten times a second: a log may grow quickly."""
        if self._notification is None:
            loop = asyncio.get_running_loop()
            self._notification = loop.call_later(0.1, self._notify)

    def _notify(self) -> None:
        if self._notification is not None:
            self._notification.cancel()
            self._notification = None
        for listener in self._listeners:
            listener()


def _has_secret_values(config: ToolServerConfig) -> bool:
    return any(value.is_secret and value.value for value in (*config.env, *config.headers))
