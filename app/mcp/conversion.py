"""Converts MCP's types to the window's, within limits: offers, results, resources, questions."""

import base64
import binascii
import contextlib
import hashlib
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

from mcp_types import (
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    ElicitRequestParams,
    GetPromptResult,
    PaginatedResult,
    Prompt,
    ReadResourceResult,
    Resource,
    TextResourceContents,
    Tool,
)

from app.mcp.server_log import printable
from engine.wording import counted, format_size
from ui.records.attachments import picture_kind
from ui.records.tool_servers import (
    PromptInfo,
    QuestionField,
    ResourceInfo,
    ServerQuestion,
    ToolInfo,
    ToolServerConfig,
)

MAX_TOOLS = 128
MAX_PICTURES = 20  # of one result; each is decoded and read by the model
_MAX_NAME_CHARS = 200
_MAX_PICTURE_BYTES = 10 << 20
_FORMATS = ("email", "uri", "date", "date-time")
_UNREADABLE = ", which the model cannot read"
_Page = TypeVar("_Page", bound=PaginatedResult)


async def list_pages(request: Callable[..., Awaitable[_Page]]) -> AsyncIterator[_Page]:
    """Yield the pages of a paginated list, up to a limit."""
    cursor: str | None = None
    for _ in range(50):
        page = await request(cursor=cursor)
        yield page
        cursor = page.next_cursor
        if cursor is None:
            return


def convert_tools(
    listed: list[Tool], config: ToolServerConfig
) -> tuple[tuple[ToolInfo, ...], tuple[str, ...]]:
    """Return the usable tools of a server, and remarks about the others."""
    tools: dict[str, ToolInfo] = {}
    unusable = tasks = 0
    for mcp_tool in listed:
        # https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks
        if mcp_tool.execution is not None and mcp_tool.execution.task_support == "required":
            tasks += 1
        elif (tool := _convert_tool(mcp_tool, config)) is None or tool.name in tools:
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
    if len(tools) > MAX_TOOLS:
        remarks.append(f"It lists more tools than can be used; the first {MAX_TOOLS} are.")
    return tuple(tools.values())[:MAX_TOOLS], tuple(remarks)


def convert_resources(listed: list[Resource], server: str) -> tuple[ResourceInfo, ...]:
    """Return the resources of a server, up to a limit."""
    return tuple(
        ResourceInfo(
            server,
            str(resource.uri),
            printable(resource.title or resource.name or str(resource.uri), 120),
        )
        for resource in listed[:500]
    )


def convert_prompts(listed: list[Prompt], server: str) -> tuple[PromptInfo, ...]:
    """Return the usable prompts of a server, up to a limit."""
    return tuple(
        PromptInfo(
            server,
            prompt.name,
            printable(prompt.title or prompt.name, 120),
            tuple(
                QuestionField(
                    each.name,
                    each.name,
                    printable(each.description or "", 300),
                    is_required=bool(each.required),
                )
                for each in prompt.arguments or []
            ),
        )
        for prompt in listed[:100]
        if prompt.name and len(prompt.name) <= _MAX_NAME_CHARS
    )


def _convert_tool(tool: Tool, config: ToolServerConfig) -> ToolInfo | None:
    if not tool.name or len(tool.name) > _MAX_NAME_CHARS:
        return None
    try:
        schema = json.dumps(tool.input_schema, sort_keys=True)
    except (ValueError, RecursionError):
        return None
    if len(schema) > 65_536:
        return None
    description = (tool.description or "")[:4_000]
    return ToolInfo(
        config.name,
        tool.name,
        printable(tool.name, 80),
        "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in description),
        tool.input_schema,
        _fingerprint(config, tool.name, tool.description or "", schema),
    )


def _fingerprint(config: ToolServerConfig, *tool: str) -> str:
    """Return the fingerprint of a tool for approvals: this server and this exact tool."""
    server = [config.command, *config.args, config.cwd, config.url]
    text = json.dumps([server, tool])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def result_text(result: CallToolResult, max_bytes: int) -> str:
    """Return the text of a call's result; pictures and files are named with type and size."""
    parts = [_block_text(block) for block in result.content]
    if not any(part.strip() for part in parts) and result.structured_content is not None:
        parts = [json.dumps(result.structured_content, ensure_ascii=False)]
    return _shorten("\n".join(parts), max_bytes) or "(no output)"


def result_pictures(result: CallToolResult) -> tuple[bytes, ...]:
    """Return the contents of a result's pictures, within limits."""
    return _pictures(map(_holder, result.content))


def resource_pictures(result: ReadResourceResult) -> tuple[bytes, ...]:
    """Return the contents of a resource's pictures, within limits."""
    return _pictures(result.contents)


def _holder(block: ContentBlock) -> object:
    """Return the object with the data of a block."""
    return block.resource if block.type == "resource" else block


def _pictures(contents: Iterable[object]) -> tuple[bytes, ...]:
    pictures: list[bytes] = []
    for content in contents:
        data = getattr(content, "data", None) or getattr(content, "blob", None)
        if data is None or len(data) > _MAX_PICTURE_BYTES * 4 // 3 + 4:
            continue
        with contextlib.suppress(binascii.Error, ValueError):
            if picture_kind(picture := base64.b64decode(data)):
                pictures.append(picture)
    return tuple(pictures[:MAX_PICTURES])


def resource_text(result: ReadResourceResult, max_bytes: int) -> str:
    """Return the text of a resource; binary contents are named with type and size."""
    return _shorten("\n".join(_contents_text(each) for each in result.contents), max_bytes)


def binary_type(result: ReadResourceResult) -> str:
    """Return the type and size of a resource without any text; empty if it has text."""
    blobs = [each for each in result.contents if isinstance(each, BlobResourceContents)]
    if not blobs or len(blobs) < len(result.contents):
        return ""
    return f"{blobs[0].mime_type or 'binary data'}, {_size(blobs[0].blob)}"


def prompt_pictures(result: GetPromptResult) -> tuple[bytes, ...]:
    """Return the contents of a prompt's pictures, within limits."""
    return _pictures(_holder(message.content) for message in result.messages)


def prompt_text(result: GetPromptResult, max_bytes: int) -> str:
    """Return the messages of a prompt as one text, without pictures."""
    messages = [each for each in result.messages if not _pictures([_holder(each.content)])]
    texts = [_block_text(message.content) for message in messages]
    if len({message.role for message in messages}) > 1:
        texts = [
            f"{'Me' if message.role == 'user' else 'You'}: {text}"
            for message, text in zip(messages, texts, strict=True)
        ]
    return _shorten("\n\n".join(texts), max_bytes)


def _shorten(text: str, max_bytes: int) -> str:
    data = text.encode("utf-8", "replace")
    if len(data) <= max_bytes:
        return data.decode()
    return (
        f"{data[:max_bytes].decode('utf-8', 'ignore')}\n"
        f"[Cut: this is the first {format_size(max_bytes)} of {format_size(len(data))}.]"
    )


def _block_text(block: ContentBlock) -> str:
    match block.type:
        case "text":
            return str(block.text)
        case "image":
            return f"[image {block.mime_type}, {_size(block.data)}]"
        case "audio":
            return f"[audio {block.mime_type}, {_size(block.data)}{_UNREADABLE}]"
        case "resource":
            return _contents_text(block.resource)
        case "resource_link":
            return f"[resource {block.uri}: {block.title or block.name}]"


def _contents_text(contents: TextResourceContents | BlobResourceContents) -> str:
    if isinstance(contents, TextResourceContents):
        return contents.text
    kind = contents.mime_type or "binary data"
    unreadable = "" if kind.startswith("image/") else _UNREADABLE
    return f"[{kind}, {_size(contents.blob)}{unreadable}]"


def _size(data: str) -> str:
    return format_size(len(data.rstrip("=")) * 3 // 4)  # of base64


def convert_elicitation(server: str, params: ElicitRequestParams) -> ServerQuestion:
    """Return the question of an ``elicitation/create`` request: a form, or an address to visit.

    https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation

    Raises:
        ValueError: The form has fields that cannot be shown, or the address is invalid; the message
            is for the server.
    """
    message = "\n".join(printable(line, 500) for line in params.message.splitlines()[:50])
    if params.mode == "url":
        parts = urlsplit(params.url)
        if parts.scheme not in ("http", "https") or not params.url.isprintable():
            raise ValueError("url must be an address that begins with https:// or http://")
        return ServerQuestion(server, message, url=params.url)
    schema = params.requested_schema
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise ValueError("requestedSchema must have an object of properties")
    if len(properties) > 30:
        raise ValueError("requestedSchema has more than 30 properties")
    fields = [_convert_field(name, values, name in required) for name, values in properties.items()]
    return ServerQuestion(server, message, tuple(fields))


def _convert_field(name: str, values: Any, is_required: bool) -> QuestionField:
    if not isinstance(values, dict):
        raise ValueError(f"the property {name[:80]} must be an object")
    kind, bounds, choices = "text", ("minLength", "maxLength"), _choices(values)
    match values.get("type", "string"):
        case "string" if choices:
            kind, bounds = "choice", ("", "")
        case "string":
            pass
        case "number" | "integer" as number:
            kind, bounds = number, ("minimum", "maximum")
        case "boolean":
            kind, bounds = "boolean", ("", "")
        case "array" if choices := _choices(values.get("items")):
            kind, bounds = "choices", ("minItems", "maxItems")
        case _:
            raise ValueError(f"the property {name[:80]} has a type that no form field has")
    return QuestionField(
        name,
        printable(str(values.get("title") or name), 120),
        printable(str(values.get("description") or ""), 500),
        kind,  # type: ignore[arg-type]
        is_required,
        choices if kind in ("choice", "choices") else (),
        values.get("default"),
        _bound(values.get(bounds[0])),
        _bound(values.get(bounds[1])),
        values["format"] if kind == "text" and values.get("format") in _FORMATS else "",
    )


def _choices(values: Any) -> tuple[tuple[str, str], ...]:
    """Return the values that can be chosen, each with its label; empty for none."""
    if not isinstance(values, Mapping):
        return ()
    titled, plain = values.get("oneOf") or values.get("anyOf"), values.get("enum")
    if isinstance(titled, list):
        pairs = [
            (choice.get("const"), choice.get("title") or choice.get("const"))
            for choice in titled
            if isinstance(choice, dict)
        ]
    elif isinstance(plain, list):
        names = values.get("enumNames")
        labels = names if isinstance(names, list) and len(names) == len(plain) else plain
        pairs = list(zip(plain, labels, strict=True))
    else:
        return ()
    return tuple(
        (value, printable(str(label), 200)) for value, label in pairs if isinstance(value, str)
    )


def _bound(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value
