"""All tool servers: their configuration, secrets and running sessions. Tool thread."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.desktop.tools.configuration import checked, servers_from
from app.desktop.tools.secrets import ToolSecrets
from app.desktop.tools.server_fields import BadConfiguration
from app.desktop.tools.server_log import ServerLog
from app.desktop.tools.servers_file import ServersFile, claude_desktop_servers
from engine.files.causes import os_cause
from ui.records.tools import NamedValue, ServerStage, ServerState, ToolServerConfig
from ui.tools.tool_host import ToolsRefused

if TYPE_CHECKING:
    from app.desktop.tools.server_session import ServerSession

START_TIME_OUT_S = 60.0


class ServerRoom:
    """Keeps the configured servers and runs those that are switched on."""

    def __init__(
        self,
        file: ServersFile,
        secrets: ToolSecrets,
        call_time_out_s: Callable[[], float],
        changed: Callable[[], None],
        start_time_out_s: float = START_TIME_OUT_S,
    ) -> None:
        self._file = file
        self._secrets = secrets
        self._call_time_out_s = call_time_out_s
        self._start_time_out_s = start_time_out_s
        self._tell = changed
        self._configs: dict[str, ToolServerConfig] = {}
        self._sessions: dict[str, ServerSession] = {}
        self._problems: dict[str, str] = {}
        self._changing = asyncio.Lock()
        self._starting: dict[str, asyncio.Lock] = {}

    @property
    def notice(self) -> str:
        """A notice for the person about the stored servers and secrets."""
        return " ".join(filter(None, (self._file.notice, self._secrets.place_words)))

    def states(self) -> tuple[ServerState, ...]:
        """Return the current state of all servers."""
        return tuple(self._state(config) for config in self._configs.values())

    async def load(self) -> None:
        """Read the configured servers."""
        async with self._changing:
            configs = await asyncio.to_thread(self._file.load)
            await asyncio.to_thread(self._secrets.look)
            # A person may have written a secret into the file by hand.
            kept = [await asyncio.to_thread(self._without_secrets, one, "") for one in configs]
            self._configs = {one.name: one for one in kept}
            if kept != configs:
                await asyncio.to_thread(self._file.save, kept)

    async def add_text(self, text: str) -> list[str]:
        """Add the servers of a pasted JSON, switched off."""
        return await self._add(servers_from(text))

    async def import_claude_desktop(self, path: Path) -> list[str]:
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
                (kept.name if name == replaced else name): (kept if name == replaced else one)
                for name, one in self._configs.items()
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
            await self._take({key: one for key, one in self._configs.items() if key != name})
            await self._end(name)
            for secret in config.secrets:
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
        """End all servers."""
        await asyncio.gather(*(self._end(name) for name in list(self._sessions)))

    # -- inside ----------------------------------------------------------------------------

    def _state(self, config: ToolServerConfig) -> ServerState:
        session = self._sessions.get(config.name)
        if session is None:
            problem = self._problems.get(config.name, "")
            idle = ServerStage.STOPPED if config.is_on else ServerStage.OFF
            return ServerState(config, ServerStage.FAILED if problem else idle, problem)
        return ServerState(
            config,
            session.stage,
            session.problem,
            session.tools,
            session.resources,
            session.prompts,
            session.remarks,
            session.log.lines,
            session.version,
        )

    async def _add(self, configs: Iterable[ToolServerConfig]) -> list[str]:
        names: list[str] = []
        async with self._changing:
            together = dict(self._configs)
            for config in configs:
                name = _free_name(config.name, together)
                off = replace(config, name=name, is_on=False)
                together[name] = await asyncio.to_thread(self._without_secrets, off, "")
                names.append(name)
            await self._take(together)
        return names

    async def _take(self, configs: dict[str, ToolServerConfig]) -> None:
        await asyncio.to_thread(self._file.save, configs.values())
        self._configs = configs
        self._tell()

    def _without_secrets(self, config: ToolServerConfig, replaced: str) -> ToolServerConfig:
        """Keep the values of secrets, and return the server without them."""

        def kept(kind: str, values: Iterable[NamedValue]) -> tuple[NamedValue, ...]:
            out = []
            for one in values:
                if one.is_secret:
                    name = f"{kind}/{one.name}"
                    value: str | None = one.value
                    if not value and replaced and replaced != config.name:
                        value = self._secrets.value(replaced, name)
                    if value:
                        self._secrets.keep(config.name, name, value)
                    one = replace(one, value="")
                out.append(one)
            return tuple(out)

        return replace(config, env=kept("env", config.env), headers=kept("header", config.headers))

    def _values(self, config: ToolServerConfig) -> dict[str, str]:
        """Return the values of all variables and headers."""
        values: dict[str, str] = {}
        for kind, named in (("env", config.env), ("header", config.headers)):
            for one in named:
                value: str | None = one.value
                if one.is_secret:
                    value = self._secrets.value(config.name, f"{kind}/{one.name}")
                    if value is None:
                        raise ToolsRefused(
                            f"The tool server “{config.name}” needs a value for {one.name}. Fill "
                            "it in: choose Edit."
                        )
                values[f"{kind}/{one.name}"] = value or ""
        return values

    async def _ready(self, name: str) -> None:
        session, config = self._sessions.get(name), self._configs.get(name)
        if config is None or not config.is_on or name in self._problems:
            return
        if session is not None and session.stage is ServerStage.FAILED:
            return  # a person starts it again
        await self._started(name)

    async def _started(self, name: str) -> None:
        """Start a server if it does not run, and wait until it is ready or has failed."""
        async with self._starting.setdefault(name, asyncio.Lock()):
            config, session = self._configs.get(name), self._sessions.get(name)
            if config is None or not config.is_on:
                return
            if session is None or session.stage in (ServerStage.STOPPED, ServerStage.FAILED):
                self._problems.pop(name, None)
                try:
                    values = await asyncio.to_thread(self._values, config)
                    kind = await asyncio.to_thread(_session_kind)
                except (ToolsRefused, OSError) as error:
                    words = str(error) if isinstance(error, ToolsRefused) else os_cause(error)
                    self._problems[name] = words
                    self._sessions.pop(name, None)
                    self._tell()
                    return
                session = self._sessions[name] = kind(
                    config,
                    values,
                    start_time_out_s=self._start_time_out_s,
                    call_time_out_s=self._call_time_out_s,
                    changed=self._tell,
                    log=ServerLog() if session is None else session.log,
                )
                self._tell()
            await session.settled()

    async def _end(self, name: str) -> None:
        self._problems.pop(name, None)
        session = self._sessions.pop(name, None)
        if session is not None:
            await session.end()
        self._tell()


def _session_kind() -> "type[ServerSession]":
    """Import what a session needs, which takes a second."""
    from app.desktop.tools.server_session import ServerSession

    return ServerSession


def _free_name(name: str, taken: dict[str, Any]) -> str:
    number = 2
    free = name
    while free in taken:
        free = f"{name} {number}"
        number += 1
    return free
