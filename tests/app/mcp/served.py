"""Calls MCP servers as the window does, from tests that are not coroutines."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from app.mcp.host import ToolServers
from ui.records.tool_servers import (
    QuestionReply,
    ServerQuestion,
    ServerState,
    ToolAnswer,
    ToolInfo,
    ToolServerConfig,
    ToolsRefused,
)

SERVERS = Path(__file__).parent / "servers"


def hostile(how: str) -> ToolServerConfig:
    """Return the server that misbehaves in one way."""
    return ToolServerConfig(how, sys.executable, (str(SERVERS / "hostile.py"), how), is_on=True)


class Served:
    """MCP servers and the loop that calls them."""

    def __init__(self, runner: asyncio.Runner, folder: Path) -> None:
        self.runner = runner
        self.folder = folder
        self.call_timeout_s = 60.0
        self.questions: list[ServerQuestion] = []
        self.replies: list[QuestionReply] = []
        self.host = ToolServers(
            folder,
            call_timeout_s=lambda: self.call_timeout_s,
            max_result_bytes=2_000,
        )

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(asyncio.wait_for(work, 120))

    def state(self, name: str) -> ServerState:
        return next(one for one in self.host.servers if one.name == name)

    def tool(self, server: str, name: str) -> ToolInfo:
        return next(one for one in self.state(server).tools if one.name == name)

    def answer(self, server: str, tool: str, **arguments: Any) -> ToolAnswer:
        found = self.tool(server, tool)
        answer: ToolAnswer = self.do(self.host.call(found, arguments, lambda *_: None, self.reply))
        return answer

    def call(self, server: str, tool: str, **arguments: Any) -> tuple[str, bool]:
        answer = self.answer(server, tool, **arguments)
        return answer.text, answer.is_error

    async def reply(self, question: ServerQuestion) -> QuestionReply:
        self.questions.append(question)
        return self.replies.pop(0)

    def refusal(self, server: str, tool: str, **arguments: Any) -> str:
        try:
            result = self.call(server, tool, **arguments)
        except ToolsRefused as error:
            return str(error)
        raise AssertionError(f"the call succeeded: {result}")

    def until(self, is_so: Callable[[], bool]) -> None:
        async def wait() -> None:
            while not is_so():  # noqa: ASYNC110
                await asyncio.sleep(0.02)

        self.do(wait())


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def listening(served: Served, program: str, port: int, *words: str) -> Iterator[Any]:
    """Run a server that listens at a port of loopback; yield its process."""
    command = [sys.executable, str(SERVERS / program), str(port), *words]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def answers() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            return False
        return True

    try:
        served.until(answers)
        yield process
    finally:
        process.kill()
        process.wait()


def is_dead(pid: int) -> bool:
    """Return whether a process has ended; in a container nobody may collect an orphan."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
