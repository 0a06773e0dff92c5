"""How a tool server is reached, within limits: as a program, or at an address, signed in."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import psutil
from mcp.client.sse import sse_client
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from app.mcp.configuration import SIGNED_IN
from app.mcp.processes import (
    MARK,
    ServerLog,
    descendants,
    end_group,
    new_mark,
    note_group,
    printable,
)
from app.settings.keychain import ToolSecrets
from engine.files.json_fields import parse_json
from ui.records.tools import ToolsRefused

if TYPE_CHECKING:
    from mcp.client.auth import OAuthClientProvider

# Limits how much a tool server may send: an initial amount, then an amount per second.


class Flooding(Exception):
    """A server sends too much; the message says what, as the end of a sentence."""


class Allowance:
    """A budget that refills with time, up to a maximum."""

    def __init__(self, at_once: int, per_s: int, words: str) -> None:
        self._most = self._left = float(at_once)
        self._per_s = per_s
        self._words = words
        self._seen_s = time.monotonic()

    def take(self, amount: int) -> None:
        """Count what arrived; raise ``Flooding`` if it is too much."""
        now_s = time.monotonic()
        self._left = min(self._most, self._left + (now_s - self._seen_s) * self._per_s)
        self._seen_s = now_s
        self._left -= amount
        if self._left < 0:
            raise Flooding(self._words)


# A tool server at an address: streamable HTTP, or the older HTTP with SSE, with size limits.
# https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http and
# https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse

MOST_ANSWER_BYTES = 16 << 20
_CONNECTS_WITHIN_S = 15.0
_THINKS_S = 3_600.0


@asynccontextmanager
async def address_transport(
    url: str,
    headers: Mapping[str, str],
    call_time_out_s: float,
    auth: httpx2.Auth | None = None,
    note_refusal: Callable[[], None] = lambda: None,
) -> AsyncIterator[Any]:
    """Yield the streams of messages from and to a server.

    Args:
        url: Its address.
        headers: Sent with each request.
        call_time_out_s: How long a call may take.
        auth: Adds the tokens of a sign-in; None for none.
        note_refusal: Called when the server wants to know who asks.
    """
    client = _client(headers, call_time_out_s, auth, note_refusal)
    async with (
        client,
        streamable_http_client(
            url, http_client=client, max_sse_event_size=MOST_ANSWER_BYTES
        ) as streams,
    ):
        yield streams


@asynccontextmanager
async def sse_transport(
    url: str,
    headers: Mapping[str, str],
    call_time_out_s: float,
    auth: httpx2.Auth | None = None,
    note_refusal: Callable[[], None] = lambda: None,
) -> AsyncIterator[Any]:
    """Yield the streams of messages from and to a server; arguments as ``address_transport``."""

    def made(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        return _client(headers or {}, call_time_out_s, auth, note_refusal)

    async with sse_client(url, dict(headers), httpx_client_factory=made, auth=auth) as streams:
        yield streams


def _client(
    headers: Mapping[str, str],
    call_time_out_s: float,
    auth: httpx2.Auth | None,
    note_refusal: Callable[[], None],
) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        # A compressed answer of a few KB may become gigabytes, so compression is refused.
        headers={**headers, "accept-encoding": "identity"},
        # A person may think about a question of the server; calls have a limit of their own.
        timeout=httpx2.Timeout(_CONNECTS_WITHIN_S, read=call_time_out_s + _THINKS_S),
        transport=_Bounded(httpx2.AsyncHTTPTransport(), note_refusal),
        auth=auth,
    )


class AnswerRefused(httpx2.ReadError):
    """An answer breaks the limits; the message says how, as the end of a sentence."""


class _Bounded(httpx2.AsyncBaseTransport):
    """Ends answers and streams that send too much."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, note_refusal: Callable[[], None]) -> None:
        self._inner = inner
        self._note_refusal = note_refusal
        self._bytes = Allowance(64 << 20, 8 << 20, "it floods its answers")

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; the answer's body is limited."""
        answer = await self._inner.handle_async_request(request)
        if answer.status_code == httpx2.codes.UNAUTHORIZED:
            self._note_refusal()
        packing = answer.headers.get("content-encoding", "identity").strip().lower()
        if packing not in ("", "identity"):
            await answer.aclose()
            raise AnswerRefused("it compresses its answers, which was not requested")
        is_stream = "text/event-stream" in answer.headers.get("content-type", "")
        assert isinstance(answer.stream, httpx2.AsyncByteStream)
        answer.stream = _BoundedStream(answer.stream, self._bytes, is_stream=is_stream)
        return answer

    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(
        self, inner: httpx2.AsyncByteStream, allowance: Allowance, *, is_stream: bool
    ) -> None:
        self._inner = inner
        self._allowance = allowance
        self._is_stream = is_stream
        self._size = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._inner:
            try:
                self._allowance.take(len(piece))
            except Flooding as flooding:
                raise AnswerRefused(str(flooding)) from flooding
            # A stream has no end, but each of its events has.
            end = max(piece.rfind(b"\n\n"), piece.rfind(b"\r\n\r\n")) if self._is_stream else -1
            self._size = len(piece) - end if end >= 0 else self._size + len(piece)
            if self._size > MOST_ANSWER_BYTES:
                size = MOST_ANSWER_BYTES >> 20
                raise AnswerRefused(f"it sent an answer of more than {size} MB")
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


# A tool server that is a program: its process group, its three streams, and limits.
#
# The ``mcp`` package's own transport accepts lines of any length and leaves the server's child
# processes running. Here lines and rates are limited, and the whole process group is ended. Tool
# thread. https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio

MOST_LINE_BYTES = 16 << 20
MOST_JUNK_LINES = 200
_PIECE = 1 << 16
_LEAVES_WITHIN_S = 2.0
# Programs started from the desktop have fewer folders in PATH than those from a terminal.
_MORE_FOLDERS = (
    "/opt/homebrew/bin",
    "/usr/local/bin",
    "~/.local/bin",
    "~/.bun/bin",
    "~/.cargo/bin",
)


class ProgramTransport:
    """Runs a server's program inside a ``with`` block, with the streams that a session needs."""

    def __init__(
        self,
        command: str,
        args: tuple[str, ...],
        env: Mapping[str, str],
        cwd: str,
        log: ServerLog,
        ended: Callable[[str, bool], None],
    ) -> None:
        self._command = command
        self._args = args
        self._mark = new_mark()
        self._below: list[psutil.Process] = []
        self._env = {**environment(env), MARK: self._mark}
        self._cwd = os.path.expanduser(cwd or "~")
        if not cwd and not os.path.isdir(self._cwd):
            self._cwd = os.sep  # as a login does where a user has no home folder
        self._log = log
        self._tell_ended = ended
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._junk_lines = 0
        self._has_ended = False
        self._left = asyncio.Event()
        self._bytes = Allowance(48 << 20, 1 << 20, "it floods its output")
        self._messages = Allowance(5_000, 50, "it floods its output with messages")

    async def __aenter__(self) -> Any:
        """Start the program; return the streams of messages from and to it."""
        program = self._found()
        try:
            process = await self._started(program)
        except FileNotFoundError as error:
            raise OSError(f"Its folder {self._cwd} does not exist. Correct it.") from error
        except ValueError as error:
            raise OSError("Its command has a character that no program can take.") from error
        note_group(process.pid)
        self._process = process
        self._arriving, arrived = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        sending, self._leaving = anyio.create_memory_object_stream[SessionMessage](0)
        self._streams = (self._arriving, arrived, sending, self._leaving)
        self._tasks = [
            asyncio.create_task(self._read_messages(process)),
            asyncio.create_task(self._read_errors(process)),
            asyncio.create_task(self._write(process)),
            asyncio.create_task(self._watch(process)),
        ]
        return arrived, sending

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the program and all processes that it started."""
        process = self._process
        if process is None:
            return
        try:
            self._below += await asyncio.to_thread(descendants, process.pid)
            if process.stdin is not None:
                process.stdin.close()
            # Well-behaved servers end when their input closes.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LEAVES_WITHIN_S):
                    await self._left.wait()
                self._end(_exit_words(process))
        finally:
            try:
                await end_group(
                    process.pid, lambda: process.returncode is not None, self._mark, self._below
                )
            finally:
                for task in self._tasks:
                    task.cancel()
                for stream in self._streams:
                    stream.close()
                _close_pipes(process)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _found(self) -> str:
        program = shutil.which(os.path.expanduser(self._command), path=self._env.get("PATH"))
        if program is None:
            raise OSError(
                f"{printable(self._command, 80)} was not found. Install it, or give its whole path."
            )
        return program

    async def _read_messages(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        begun = bytearray()
        try:
            while piece := await process.stdout.read(_PIECE):
                self._bytes.take(len(piece))
                begun += piece
                if b"\n" in piece:
                    *lines, rest = begun.split(b"\n")
                    begun = bytearray(rest)
                    for line in lines:
                        await self._take_line(bytes(line))
                if len(begun) > MOST_LINE_BYTES:
                    size = MOST_LINE_BYTES >> 20
                    raise Flooding(f"it sent a message of more than {size} MB")
        except Flooding as flooding:
            self._kill(str(flooding))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
            pass  # the session has ended
        finally:
            self._arriving.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVES_WITHIN_S):
                await self._left.wait()
        self._end(_exit_words(process))

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        """Notice that the program has left, whoever still holds its pipes open."""
        await self._left.wait()
        # What it wrote last is still to be read.
        await asyncio.wait({self._tasks[0]}, timeout=_LEAVES_WITHIN_S)
        self._end(_exit_words(process))
        self._arriving.close()

    async def _started(self, program: str) -> asyncio.subprocess.Process:
        loop = asyncio.get_running_loop()
        # ``Process.wait`` also waits for the pipes, which what the program started may hold open.
        transport, streams = await loop.subprocess_exec(
            lambda: _Streams(self._left, loop),
            program,
            *self._args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._env,
            cwd=self._cwd,
            start_new_session=True,
        )
        return asyncio.subprocess.Process(transport, streams, loop)

    def _kill(self, why: str) -> None:
        """Kill a program that breaks the limits."""
        self._end(why, breaks_limits=True)
        if self._process is not None:
            self._below += descendants(self._process.pid)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _end(self, why: str, *, breaks_limits: bool = False) -> None:
        """Report once why the program ended, and whether it did not end by itself."""
        if not self._has_ended:
            self._has_ended = True
            self._log.end_line()
            self._log.add(f"— {why} —")
            self._tell_ended(why, breaks_limits)

    async def _take_line(self, line: bytes) -> None:
        if not line.strip():
            return
        self._messages.take(1)
        try:
            message = _message(line)
        except ValueError:
            # Many servers print a greeting on the wrong stream; more than that is an error.
            self._log.add("(not a message) " + line[:2_000].decode("utf-8", "replace"))
            self._junk_lines += 1
            if self._junk_lines > MOST_JUNK_LINES:
                raise Flooding("its output is not MCP messages") from None
            return
        await self._arriving.send(SessionMessage(message))

    async def _read_errors(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        try:
            while piece := await process.stderr.read(_PIECE):
                self._log.add_bytes(piece)
                self._bytes.take(len(piece))
        except Flooding:
            self._kill("it floods its log")

    async def _write(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        with contextlib.suppress(OSError, anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for message in self._leaving:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()


class _Streams(asyncio.subprocess.SubprocessStreamProtocol):
    """The pipes of a program; sets an event as soon as the program has left."""

    def __init__(self, left: asyncio.Event, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=_PIECE, loop=loop)
        self._left = left

    def process_exited(self) -> None:
        super().process_exited()
        self._left.set()


def _message(line: bytes) -> Any:
    """Return the message in a line; raise ``ValueError`` if it is not a message.

    Programs in JavaScript send lone surrogates from texts that were cut.
    """
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        if b"\\ud" not in line.lower():
            raise
        try:
            text = json.dumps(parse_json(line.decode("utf-8", "replace")), ensure_ascii=False)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return jsonrpc_message_adapter.validate_json(whole, by_name=False)


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a server: the few that are safe to inherit, and its own."""
    usual = get_default_environment()
    known = usual.get("PATH", os.defpath).split(os.pathsep)
    more = [os.path.expanduser(folder) for folder in _MORE_FOLDERS]
    usual["PATH"] = os.pathsep.join([*known, *(folder for folder in more if folder not in known)])
    return {**usual, **env}


def _exit_words(process: asyncio.subprocess.Process) -> str:
    """Return how a program ended after it closed its output."""
    code = process.returncode
    if code is None:
        return "it closed its output"
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"it was ended by {signal.Signals(-code).name}"
    return f"it ended with code {code}"


def _close_pipes(process: asyncio.subprocess.Process) -> None:
    """Close the pipes, which a process that has left the group may still hold open."""
    transport = getattr(process, "_transport", None)
    if transport is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            transport.close()


# -- signing in --------------------------------------------------------------------------------
# At a server with an address, with OAuth 2.1: in the browser, and later with tokens.
# https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization; the ``mcp`` package
# does the protocol. Here are the tokens, in the keychain, and the address on loopback to which the
# browser comes back. Tool thread.


OpenPage = Callable[[str], Awaitable[None]]
SIGN_IN_TIME_OUT_S = 300.0
_TOKENS, _CLIENT = SIGNED_IN
_MOST_LINE_BYTES = 16_384
_PAGE = (
    "<!doctype html><meta charset=utf-8><title>Fullstop</title>"
    "<p>{}</p><p>You can close this page and go back to Fullstop.</p>"
)


class KeptTokens:
    """The tokens of one server, and how Fullstop is registered there. Fits ``TokenStorage``."""

    def __init__(self, secrets: ToolSecrets, server: str) -> None:
        self._secrets = secrets
        self._server = server

    async def get_tokens(self) -> OAuthToken | None:
        kept = await asyncio.to_thread(self._secrets.value, self._server, _TOKENS)
        with contextlib.suppress(ValueError):
            return OAuthToken.model_validate_json(kept) if kept else None
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        await asyncio.to_thread(self._secrets.keep, self._server, _TOKENS, tokens.model_dump_json())

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        kept = await asyncio.to_thread(self._secrets.value, self._server, _CLIENT)
        with contextlib.suppress(ValueError):
            return OAuthClientInformationFull.model_validate_json(kept) if kept else None
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        kept = client_info.model_dump_json()
        await asyncio.to_thread(self._secrets.keep, self._server, _CLIENT, kept)

    def forget(self) -> None:
        """Forget both; blocks."""
        for name in (_TOKENS, _CLIENT):
            self._secrets.forget(self._server, name)


async def kept_sign_in(secrets: ToolSecrets, server: str, url: str) -> httpx2.Auth | None:
    """Return what adds the tokens of an earlier sign-in to requests; None if there was none.

    Tokens are renewed without a person. Where that is refused, a person has to sign in again.
    """
    tokens = KeptTokens(secrets, server)
    if await tokens.get_tokens() is None:
        return None

    async def refuse(*_: object) -> AuthorizationCodeResult:
        raise ToolsRefused("You have to sign in again.")

    async def refuse_page(_: str) -> None:
        await refuse()

    # The address is not used: nobody is sent to it.
    return _provider(url, "http://127.0.0.1/callback", tokens, refuse_page, refuse)


@asynccontextmanager
async def new_sign_in(
    secrets: ToolSecrets, server: str, url: str, open_page: OpenPage
) -> AsyncIterator[httpx2.Auth]:
    """Yield what has a person sign in, in the browser, as soon as the server wants that.

    Args:
        secrets: Keeps the tokens.
        server: The server's name.
        url: Its address.
        open_page: Opens an address in the browser.
    """
    tokens = KeptTokens(secrets, server)
    await asyncio.to_thread(tokens.forget)
    came_back: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()
    is_wanted = True

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError):
            line = await reader.readline()
            said = _take_answer(line.decode("latin-1"), came_back)
            page = _PAGE.format(said).encode()
            head = f"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {len(page)}\r\n"
            writer.write(head.encode() + b"connection: close\r\n\r\n" + page)
            await writer.drain()
        writer.close()

    async def sent_to(address: str) -> None:
        if not is_wanted:
            raise ToolsRefused("You have to sign in again.")  # no browser opens by itself
        if urlsplit(address).scheme not in ("https", "http"):
            raise ToolsRefused("The server names a page to sign in that is no web page.")
        await open_page(address)

    async def answered() -> AuthorizationCodeResult:
        async with asyncio.timeout(SIGN_IN_TIME_OUT_S):
            return await came_back

    listening = await asyncio.start_server(take, "127.0.0.1", 0, limit=_MOST_LINE_BYTES)
    try:
        port = listening.sockets[0].getsockname()[1]
        back = f"http://127.0.0.1:{port}/callback"
        yield _provider(url, back, tokens, sent_to, answered)
    finally:
        is_wanted = False
        listening.close()


def _take_answer(line: str, came_back: "asyncio.Future[AuthorizationCodeResult]") -> str:
    """Take the code out of the request's first line; return the words for the browser."""
    method, _, rest = line.partition(" ")
    address = urlsplit(rest.partition(" ")[0])
    said = {name: values[0] for name, values in parse_qs(address.query).items()}
    if method != "GET" or address.path != "/callback" or came_back.done():
        return "There is nothing to do here."
    if code := said.get("code"):
        came_back.set_result(
            AuthorizationCodeResult(code=code, state=said.get("state"), iss=said.get("iss"))
        )
        return "You are signed in."
    came_back.set_exception(ToolsRefused("The sign-in was refused in the browser."))
    return "You are not signed in."


def _provider(
    url: str,
    back: str,
    tokens: KeptTokens,
    open_page: OpenPage,
    answered: Callable[[], Awaitable[AuthorizationCodeResult]],
) -> "OAuthClientProvider":
    from mcp.client.auth import OAuthClientProvider  # needed where a person signs in

    return OAuthClientProvider(
        url,
        OAuthClientMetadata.model_validate({"client_name": "Fullstop", "redirect_uris": [back]}),
        tokens,
        open_page,
        answered,
    )
