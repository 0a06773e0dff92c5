"""Calls tool servers as the window does, from tests that are not coroutines."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import psutil

from app.mcp.host import ToolServers
from app.settings.keychain import Keychain, NoKeychain, ToolSecrets
from ui.records.tools import ServerState, ToolInfo, ToolServerConfig
from ui.tools.tool_host import ToolsRefused

SERVERS = Path(__file__).parent / "servers"


def no_keychain() -> Keychain:
    raise NoKeychain("this system has no keychain")


def hostile(how: str) -> ToolServerConfig:
    """Return the server that misbehaves in one way."""
    return ToolServerConfig(how, sys.executable, (str(SERVERS / "hostile.py"), how), is_on=True)


class Served:
    """Tool servers and the loop that calls them."""

    def __init__(self, runner: asyncio.Runner, folder: Path) -> None:
        self.runner = runner
        self.folder = folder
        self.call_time_out_s = 60.0
        self.host = ToolServers(
            folder,
            call_time_out_s=lambda: self.call_time_out_s,
            most_result_bytes=2_000,
            secrets=ToolSecrets(folder, no_keychain),
            claude_file=folder / "claude.json",
            restart_pauses_s=(),
        )

    def restart_after(self, *pauses_s: float) -> None:
        """Have servers that die started again; to be called before the first one is added."""
        self.host._restart_pauses_s = pauses_s

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(asyncio.wait_for(work, 120))

    def state(self, name: str) -> ServerState:
        return next(one for one in self.host.servers if one.name == name)

    def tool(self, server: str, name: str) -> ToolInfo:
        return next(one for one in self.state(server).tools if one.name == name)

    def call(self, server: str, tool: str, **arguments: Any) -> tuple[str, bool]:
        found = self.tool(server, tool)
        said: tuple[str, bool] = self.do(self.host.call(found, arguments, lambda *_: None))
        return said

    def refusal(self, server: str, tool: str, **arguments: Any) -> str:
        """Return the words with which a call is refused."""
        try:
            said = self.call(server, tool, **arguments)
        except ToolsRefused as refused:
            return str(refused)
        raise AssertionError(f"the call was answered: {said}")

    def until(self, is_so: Callable[[], bool]) -> None:
        async def wait() -> None:
            while not is_so():  # noqa: ASYNC110
                await asyncio.sleep(0.02)

        self.do(wait())


def is_dead(pid: int) -> bool:
    """Return whether a process has ended; in a container nobody may collect an orphan."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
