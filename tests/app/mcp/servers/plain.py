"""A real MCP server, on the package's own server: stdio, or streamable HTTP with a port."""

import asyncio
import base64
import os
import subprocess
import sys
from pathlib import Path

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp_types import BlobResourceContents, EmbeddedResource, ResourceLink
from pydantic import BaseModel, Field

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


class Trip(BaseModel):
    """What is asked before a trip is booked."""

    city: str = Field(title="City", description="Where to")
    days: int = Field(3, title="Days", ge=1, le=30)
    by_train: bool = Field(False, title="By train")


@server.tool()
async def book(ctx: Context) -> str:
    """Ask where to go, and book it."""
    asked = await ctx.elicit("Where do you want to go?", Trip)
    if asked.action != "accept":
        return f"not booked: {asked.action}"
    return f"{asked.data.city}, {asked.data.days} days, by train: {asked.data.by_train}"


@server.tool()
async def ask_twice(wait_s: float, ctx: Context) -> str:
    """Ask two questions at once, then wait."""
    asked = await asyncio.gather(*(ctx.elicit(f"Trip {n}?", Trip) for n in (1, 2)))
    await asyncio.sleep(wait_s)
    return ", ".join(each.data.city for each in asked)


@server.tool()
async def sign_in(ctx: Context) -> str:
    """Have an address visited."""
    asked = await ctx.elicit_url("Sign in there, please.", "https://example.org/in?a=1", "e1")
    return asked.action


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@server.tool()
def draw() -> list[str | Image]:
    """Return a picture, and a sound that calls itself one."""
    return ["drawn", Image(data=PIXEL, format="png"), Image(data=b"RIFF0000WAVE", format="png")]


@server.tool()
def link() -> list[EmbeddedResource | ResourceLink]:
    """Return a picture as a resource, and links to one and to none."""
    blob = base64.b64encode(PIXEL).decode()
    inside = BlobResourceContents(uri="photos://in", mime_type="image/png", blob=blob)
    links = [
        ResourceLink(type="resource_link", name=name, uri=f"photos://{name}", mime_type="image/png")
        for name in ("dot", "none")
    ]
    return [EmbeddedResource(type="resource", resource=inside), *links]


@server.tool()
async def count(ctx: Context) -> str:
    """Count to three, and say so meanwhile."""
    for number in (1, 2, 3):
        await ctx.report_progress(number, 3, f"at {number}")
        await asyncio.sleep(0.2)
    return "counted"


@server.resource("notes://today")
def today() -> str:
    """The tasks of today."""
    return "Buy cheese."


@server.resource("photos://dot", mime_type="image/png")
def dot() -> bytes:
    """A dot."""
    return PIXEL


@server.resource("photos://cat", mime_type="image/png")
def cat() -> bytes:
    """A cat."""
    return b"\x89PNG"


@server.prompt()
def review(code: str) -> str:
    """Ask for a review."""
    return f"Review this code:\n{code}"


@server.prompt()
def look() -> list[UserMessage]:
    """Ask about a picture."""
    return [UserMessage(Image(data=PIXEL, format="png").to_image_content()), UserMessage("What?")]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        way = "sse" if sys.argv[2:] == ["sse"] else "streamable-http"
        server.run(way, host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
