"""Servers of the reference implementation in Node, if they are installed.

Run by hand::

    npm install @modelcontextprotocol/server-everything @modelcontextprotocol/server-filesystem
    FULLSTOP_NODE_SERVERS=$PWD/node_modules python -m pytest -m slow tests/app/mcp
"""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from tests.app.mcp.served import Served
from ui.records.tool_servers import ToolServerConfig

MODULES = os.environ.get("FULLSTOP_NODE_SERVERS", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed"),
    pytest.mark.skipif(not MODULES, reason="FULLSTOP_NODE_SERVERS names no node_modules folder"),
]


def node(name: str, *args: str) -> ToolServerConfig:
    path = Path(MODULES) / "@modelcontextprotocol" / f"server-{name}" / "dist" / "index.js"
    return ToolServerConfig(name, "node", (str(path), *args), is_on=True)


def test_the_filesystem_server_reads_and_writes_in_its_folder(
    served: Served, tmp_path: Path
) -> None:
    (tmp_path / "note.txt").write_text("Buy cheese.")
    served.do(served.host.put(node("filesystem", str(tmp_path))))
    served.do(served.host.ensure_ready(["filesystem"]))
    assert served.state("filesystem").problem == ""
    text, is_error = served.call("filesystem", "read_text_file", path=str(tmp_path / "note.txt"))
    assert (text, is_error) == ("Buy cheese.", False)
    text, is_error = served.call("filesystem", "read_text_file", path="/etc/passwd")
    assert is_error
    assert "root:" not in text


def test_the_everything_server_reports_progress_and_is_cancelled(served: Served) -> None:
    served.do(served.host.put(node("everything", "stdio")))
    served.do(served.host.ensure_ready(["everything"]))
    state = served.state("everything")
    assert state.problem == ""
    assert state.resources
    assert state.prompts
    assert served.call("everything", "echo", message="hi")[0] == "Echo: hi"
    told: list[object] = []

    async def stop_it() -> None:
        begun = asyncio.Event()

        def note(*progress: object) -> None:
            told.append(progress)
            begun.set()

        names = {tool.name: tool for tool in state.tools}
        tool = names["trigger-long-running-operation"]
        call = asyncio.create_task(
            served.host.call(tool, {"duration": 300, "steps": 300}, note, served.reply)
        )
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    served.do(stop_it())
    assert told
    assert served.call("everything", "echo", message="still here")[0] == "Echo: still here"
