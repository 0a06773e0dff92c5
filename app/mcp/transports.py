"""The transports of MCP servers: stdio, streamable HTTP and HTTP with SSE, within one size limit.

The HTTP transports are those of the ``mcp`` package. Its ``stdio_client`` is not used: it has no
limit for the size of a message, does not report the exit code, and loses a message with half of a
surrogate pair, which servers in JavaScript send in shortened texts.
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

import contextlib
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import httpx2
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.client.sse import sse_client
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from app.mcp.server_log import ServerLog, printable
from app.process.process_groups import add_group, remove_group
from ui.records.tool_servers import ToolServerConfig

MAX_MESSAGE_BYTES = 16 << 20
_TOO_LARGE = f"it sent a message of more than {MAX_MESSAGE_BYTES >> 20} MB"
_EXIT_GRACE_S = 2.0
# Programs started from the desktop have a shorter PATH than those from a terminal.
_MORE_FOLDERS = (
    "/opt/homebrew/bin",
    "/usr/local/bin",
    "~/.local/bin",
    "~/.bun/bin",
    "~/.cargo/bin",
)


@asynccontextmanager
async def stdio_transport(
    config: ToolServerConfig,
    env: Mapping[str, str],
    log: ServerLog,
    on_exit: Callable[[str], None],
) -> AsyncIterator[Any]:
    """Run a server's program; yield the streams of messages from and to it."""
    process = await _open_process(config, {**_default_environment(), **env})
    add_group(process.pid)
    received_writer, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, outgoing_reader = anyio.create_memory_object_stream[SessionMessage](0)

    async def read_messages() -> None:
        assert process.stdout is not None
        stdout = BufferedByteReceiveStream(process.stdout)
        reason = ""
        async with received_writer:
            try:
                while True:
                    line = await stdout.receive_until(b"\n", MAX_MESSAGE_BYTES)
                    if (message := _parse_message(line, log)) is not None:
                        await received_writer.send(message)
            except anyio.DelimiterNotFound:
                reason = _TOO_LARGE
            except (anyio.EndOfStream, anyio.IncompleteRead, ConnectionError):
                await _wait_for_exit(process)
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                return  # the session has ended
            log.flush()
            reason = reason or _describe_exit(process.returncode)
            log.add(f"— {reason} —")
            on_exit(reason)

    async def read_log() -> None:
        assert process.stderr is not None
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for data in process.stderr:
                log.feed(data)
                # A pause between reads of stderr: a flood slows the server down, not the window
                await anyio.sleep(0.02)

    async def write_messages() -> None:
        assert process.stdin is not None
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            async for item in outgoing_reader:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(text.encode() + b"\n")

    async with anyio.create_task_group() as tasks:
        for task in (read_messages, read_log, write_messages):
            tasks.start_soon(task)
        try:
            yield received, outgoing
        finally:
            with anyio.CancelScope(shield=True):
                await _terminate(process)
            remove_group(process.pid)
            for stream in (received, received_writer, outgoing, outgoing_reader):
                stream.close()
            tasks.cancel_scope.cancel()


async def _open_process(config: ToolServerConfig, env: dict[str, str]) -> Process:
    program = _find_program(config.command, env["PATH"])
    cwd = _working_directory(config.cwd)
    try:
        return await anyio.open_process(
            [program, *config.args], env=env, cwd=cwd, start_new_session=True
        )
    except FileNotFoundError as error:
        raise OSError(f"Its folder {cwd} does not exist. Correct it.") from error


def _find_program(command: str, path: str) -> str:
    program = shutil.which(os.path.expanduser(command), path=path)
    if program is None:
        raise OSError(
            f"{printable(command, 80)} was not found. Install it, or give its whole path."
        )
    return program


def _working_directory(cwd: str) -> str:
    folder = os.path.expanduser(cwd or "~")
    # A login starts in the root folder if a user has no home folder.
    return folder if cwd or os.path.isdir(folder) else os.sep


def _default_environment() -> dict[str, str]:
    env = get_default_environment()
    folders = env.get("PATH", os.defpath).split(os.pathsep)
    more = [os.path.expanduser(folder) for folder in _MORE_FOLDERS]
    env["PATH"] = os.pathsep.join([*folders, *(folder for folder in more if folder not in folders)])
    return env


async def _wait_for_exit(process: Process) -> None:
    """Wait for the exit code; ``Process.wait`` also waits for children that hold the pipes."""
    with anyio.move_on_after(_EXIT_GRACE_S):
        while process.returncode is None:  # noqa: ASYNC110 - no event reports it
            await anyio.sleep(0.02)


async def _terminate(process: Process) -> None:
    """Close stdin, which ends a server by the specification, then end its process group."""
    assert process.stdin is not None
    with contextlib.suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdin.aclose()
    await _wait_for_exit(process)
    await terminate_posix_process_tree(process, _EXIT_GRACE_S)
    await _wait_for_exit(process)
    # A child outside of the group may hold the pipes open; only the transport closes them.
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        with contextlib.suppress(PermissionError):
            transport.close()


def _parse_message(line: bytes, log: ServerLog) -> SessionMessage | None:
    """Return the message of a line; a line that is no message is logged."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        pass
    if b"\\ud" in line.lower():  # half of a surrogate pair
        with contextlib.suppress(ValueError, RecursionError):
            text = json.dumps(json.loads(line), ensure_ascii=False)
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
    if line.strip():
        log.add("(not a message) " + line[:2_000].decode("utf-8", "replace"))
    return None


def _describe_exit(code: int | None) -> str:
    if code is None:
        return "it closed its output"
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"it was ended by {signal.Signals(-code).name}"
    return f"it ended with code {code}"


def http_transport(
    config: ToolServerConfig,
    headers: Mapping[str, str],
    auth: httpx2.Auth | None,
    on_refusal: Callable[[int], None],
) -> AbstractAsyncContextManager[Any]:
    """Return the transport of a server at an address: streamable HTTP, or the older SSE."""

    async def check_response(response: httpx2.Response) -> None:
        status, headers = response.status_code, response.request.headers
        has_no_session = status == httpx2.codes.NOT_FOUND and "mcp-session-id" in headers
        if status == httpx2.codes.UNAUTHORIZED or has_no_session:
            on_refusal(status)
        # A compressed response of a few KB may become gigabytes.
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise ResponseRefused("it compresses its answers, which was not requested")
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        is_sse = "text/event-stream" in response.headers.get("content-type", "")
        response.stream = _LimitedStream(response.stream, is_sse=is_sse)

    def create_client(*_: Any, **__: Any) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            headers={**headers, "accept-encoding": "identity"},
            # A question to the user may be open; calls have a timeout of their own
            timeout=httpx2.Timeout(15.0, read=3_600.0),
            event_hooks={"response": [check_response]},
            auth=auth,
        )

    if config.is_sse:
        return sse_client(config.url, httpx_client_factory=create_client)
    return _streamable_http(config.url, create_client())


@asynccontextmanager
async def _streamable_http(url: str, client: httpx2.AsyncClient) -> AsyncIterator[Any]:
    async with (
        client,
        streamable_http_client(
            url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
        ) as streams,
    ):
        yield streams


class ResponseRefused(httpx2.ReadError):
    """A response breaks the limits; the message is the end of a sentence."""


class _LimitedStream(httpx2.AsyncByteStream):
    """Limits the size of a body, and of each event of an event stream."""

    def __init__(self, inner: httpx2.AsyncByteStream, *, is_sse: bool) -> None:
        self._inner = inner
        self._is_sse = is_sse

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for data in self._inner:
            end = max(data.rfind(b"\n\n"), data.rfind(b"\r\n\r\n")) if self._is_sse else -1
            size = len(data) - end if end >= 0 else size + len(data)
            if size > MAX_MESSAGE_BYTES:
                raise ResponseRefused(_TOO_LARGE)
            yield data

    async def aclose(self) -> None:
        await self._inner.aclose()
