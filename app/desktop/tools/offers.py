"""Lists a server's tools, resources and prompts, within limits. Tool thread."""

import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

from mcp import Client

from app.desktop.tools.server_log import printable
from engine import counted
from ui.records.tools import PromptArgument, PromptInfo, ResourceInfo, ToolInfo, ToolServerConfig

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
    found = [one async for page in _pages(client.list_tools) for one in page.tools]
    tools, remarks = tools_from(found, config)
    return tuple(tools), tuple(remarks)


async def listed_resources(client: Client, server: str) -> tuple[ResourceInfo, ...]:
    """Ask a server for its resources."""
    found = [one async for page in _pages(client.list_resources) for one in page.resources]
    return tuple(resources_from(found, server))


async def listed_prompts(client: Client, server: str) -> tuple[PromptInfo, ...]:
    """Ask a server for its prompts."""
    found = [one async for page in _pages(client.list_prompts) for one in page.prompts]
    return tuple(prompts_from(found, server))


def tools_from(found: Iterable[Any], config: ToolServerConfig) -> tuple[list[ToolInfo], list[str]]:
    """Return a server's tools, with remarks about tools that are left out."""
    tools: dict[str, ToolInfo] = {}
    count, unusable, tasks = 0, 0, 0
    for one in found:
        # https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks: a call is
        # an error there, and later versions of MCP have no such tasks.
        if one.execution is not None and one.execution.task_support == "required":
            tasks += 1
            continue
        count += 1
        if len(tools) >= MOST_TOOLS:
            continue
        tool = _tool(one, config)
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


def resources_from(found: Iterable[Any], server: str) -> list[ResourceInfo]:
    """Return a server's resources."""
    return [
        ResourceInfo(server, str(one.uri), printable(one.title or one.name or str(one.uri), 120))
        for one in list(found)[:MOST_RESOURCES]
        if len(str(one.uri)) <= 4_000
    ]


def prompts_from(found: Iterable[Any], server: str) -> list[PromptInfo]:
    """Return a server's prompts."""
    return [
        PromptInfo(
            server,
            one.name,
            printable(one.title or one.name, 120),
            tuple(
                PromptArgument(
                    each.name, printable(each.description or "", 300), bool(each.required)
                )
                for each in (one.arguments or [])[:20]
            ),
        )
        for one in list(found)[:MOST_PROMPTS]
        if one.name and len(one.name) <= _MOST_NAME_CHARS
    ]


def _tool(one: Any, config: ToolServerConfig) -> ToolInfo | None:
    if not one.name or len(one.name) > _MOST_NAME_CHARS:
        return None
    try:
        schema = json.dumps(one.input_schema, sort_keys=True)
        (one.name + (one.description or "") + schema).encode()
    except (ValueError, RecursionError):
        return None
    if len(schema) > _MOST_SCHEMA_CHARS:
        return None
    description = (one.description or "")[:_MOST_DESCRIPTION_CHARS]
    return ToolInfo(
        config.name,
        one.name,
        printable(one.name, 80),
        "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in description),
        one.input_schema,
        _fingerprint(config, one.name, one.description or "", schema),
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
