"""A real MCP server, on the package's own server: stdio, or streamable HTTP with a port."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("plain", version="1.2")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def variable(name: str) -> str:
    """Return a variable of the environment."""
    return os.environ.get(name, "(unset)")


@server.tool()
def large(size: int) -> str:
    """Return a long text."""
    return "x" * size


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("this tool always fails")


@server.tool()
async def slow(marker: str, ctx: Context) -> str:
    """Report progress, then wait until it is cancelled."""
    await ctx.report_progress(1, 4, "counting")
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        Path(marker).write_text("cancelled")
        raise
    return "done"


@server.tool()
def start_child(marker: str) -> str:
    """Start a process that goes on by itself and ignores the end of its input."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(marker).write_text(str(child.pid))
    return str(child.pid)


@server.tool()
def process() -> int:
    """Return the server's own process."""
    return os.getpid()


@server.tool()
def die() -> str:
    """End the server in the middle of a call."""
    print("out of cheese", file=sys.stderr, flush=True)
    os._exit(3)


@server.resource("notes://today")
def today() -> str:
    """The tasks of today."""
    return "Buy cheese."


@server.resource("photos://cat", mime_type="image/png")
def cat() -> bytes:
    """A cat."""
    return b"\x89PNG"


@server.prompt()
def review(code: str) -> str:
    """Ask for a review."""
    return f"Review this code:\n{code}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        way = "sse" if sys.argv[2:] == ["sse"] else "streamable-http"
        server.run(way, host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
