"""Sends the probe's requests within its limits; a server's fault never raises.

Redirects are never followed, so that they do not receive the key.
"""

import asyncio
import json
import re
import shlex
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from api.conformance.captures.recognition import parse
from api.conformance.captures.values import WireDialect
from api.conformance.probe.dialects import Ask, Driver, request_headers, request_path
from api.conformance.probe.values import Access, Exchange, ProbeFailed

KEY_VARIABLE = "API_KEY"
TIME_IS_UP = "the time limit of the probe was reached"
# A whole answer to a check has a few hundred kilobytes; all answers stay in memory.
MAX_BODY_BYTES = 2 * 1024 * 1024
_MAX_TOTAL_BYTES = 64 * 1024 * 1024
# Too many requests, not available now, and the vendor's own "overloaded".
_BUSY = (429, 503, 529)
_MAX_WAITS = 6
# The last event of a stream, by which it ends even if the connection stays open.
_LAST_LINES: Mapping[WireDialect, re.Pattern[bytes]] = {
    WireDialect.MESSAGES: re.compile(rb'data:.*"type": ?"message_stop"'),
    WireDialect.RESPONSES: re.compile(
        rb'data:.*"type": ?"response\.(?:completed|incomplete|failed)"'
    ),
}
_DONE_LINE = re.compile(rb"data: ?\[DONE\]\s*\Z")
# Exceptions of a connection to a faulty server; ValueError for an invalid header.
_CONNECTION_ERRORS = (aiohttp.ClientError, OSError, ValueError)


class LimitReached(Exception):
    """The probe ends early: a limit of requests, time or bytes, or a server that died."""


@dataclass(slots=True)
class Budget:
    """The remaining budget of a probe."""

    max_requests: int
    ends_at_s: float
    requests: int = 0
    received_bytes: int = 0
    waits: int = 0
    waited_s: float = 0.0

    def spend_wait(self, wait_s: float) -> None:
        if time.monotonic() + wait_s >= self.ends_at_s:
            raise LimitReached("the server is busy, and the time limit of the probe comes first")
        self.waits += 1
        self.waited_s += wait_s

    def spend_request(self) -> None:
        if self.requests >= self.max_requests:
            raise LimitReached(f"the limit of {self.max_requests} requests was reached")
        if self.received_bytes >= _MAX_TOTAL_BYTES:
            raise LimitReached(f"the answers exceeded {_MAX_TOTAL_BYTES >> 20} MiB in all")
        if time.monotonic() >= self.ends_at_s:
            raise LimitReached(TIME_IS_UP)
        self.requests += 1


def curl_command(
    url: str, dialect: WireDialect, body: Any, access: Access, *, max_time_s: int | None = None
) -> str:
    """Return a curl command that sends a request.

    The key, and values of headers that the user gave, appear as shell variables only.
    """
    parts = ["curl", "-sS", "-i"]
    if isinstance(body, dict) and body.get("stream"):
        parts.append("-N")
    if max_time_s is not None:
        parts += ["--max-time", str(max_time_s)]
    if access.ca_file is not None:
        parts += ["--cacert", shlex.quote(str(access.ca_file))]
    elif access.is_insecure:
        parts.append("--insecure")
    parts.append(shlex.quote(url))
    key = f"${KEY_VARIABLE}" if access.api_key is not None else None
    hidden = [
        (name, f"${re.sub(r'[^A-Za-z0-9_]', '_', name).upper()}") for name, _ in access.headers
    ]
    variables = {key, *(value for _, value in hidden)}
    for name, value in request_headers(dialect, key, hidden).items():
        # Double quotes, so that the shell replaces variables.
        is_variable = value.removeprefix("Bearer ") in variables
        quoted = f'"{name}: {value}"' if is_variable else shlex.quote(f"{name}: {value}")
        parts.append(f"-H {quoted}")
    raw = body.decode("utf-8", "replace") if isinstance(body, bytes) else json.dumps(body)
    parts.append(f"--data-raw {shlex.quote(raw)}")
    return " ".join(parts)


def in_sequence(*commands: str) -> str:
    """Return commands that are sent one after the other."""
    return "\n".join(commands)


def in_parallel(*commands: str) -> str:
    """Return commands that are sent at the same time."""
    return "\n".join([*(f"{command} &" for command in commands), "wait"])


def repeat_command(command: str, times: int = 8) -> str:
    """Return a command that is sent several times."""
    numbers = " ".join(map(str, range(1, times + 1)))
    return f"for n in {numbers}; do {command}; echo; done"


def open_session(access: Access) -> aiohttp.ClientSession:
    """Return a session without cookies, decompression and kept connections.

    Raises:
        ProbeFailed: The file of certificates cannot be read.
    """
    try:
        tls = access.tls()
    except OSError as error:
        raise ProbeFailed(
            f"{access.ca_file} is not a file of certificates (PEM) that can be read"
        ) from error
    # After a hang-up, a server may close a kept connection during the next request.
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(force_close=True, ssl=tls),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        # A few compressed kilobytes can expand to gigabytes.
        auto_decompress=False,
        headers={"accept-encoding": "identity", "user-agent": "fullstop-probe"},
    )


@dataclass(slots=True)
class Received:
    """The body of an answer as it arrives."""

    dialect: WireDialect | None = None
    content: bytearray = field(default_factory=bytearray)
    first_at_s: float | None = None
    is_open: bool = False
    has_ended: bool = False
    _line_start: int = 0

    async def read(self, response: aiohttp.ClientResponse, grace_s: float = 0.0) -> str:
        if 300 <= response.status < 400:
            address = response.headers.get("location", "")[:200] or "nowhere"
            return f"it redirects to {address}; give that address if you trust it"
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            return f"the answer is compressed ({encoding[:40]}), which was not requested"
        content = self.content
        while True:
            try:
                async with asyncio.timeout(grace_s if self._is_ended() else None) as grace:
                    part = await response.content.readany()
            except TimeoutError:
                if not grace.expired():
                    raise
                self.is_open = True
                return ""
            if not part:
                return ""
            if self.first_at_s is None:
                self.first_at_s = time.monotonic()
            content += part[: MAX_BODY_BYTES + 1 - len(content)]
            if len(content) > MAX_BODY_BYTES:
                del content[MAX_BODY_BYTES:]
                return f"the answer is longer than {MAX_BODY_BYTES >> 20} MiB"

    def _is_ended(self) -> bool:
        """Whether the last event has arrived; each line is checked once."""
        end = self.content.rfind(b"\n") + 1
        if self.dialect is not None and not self.has_ended and end > self._line_start:
            lines = bytes(self.content[self._line_start : end]).splitlines()
            self.has_ended = any(_is_last_line(self.dialect, line) for line in lines)
            self._line_start = end
        return self.has_ended


def _is_last_line(dialect: WireDialect, line: bytes) -> bool:
    if dialect is not WireDialect.OLLAMA:
        return _LAST_LINES.get(dialect, _DONE_LINE).match(line) is not None
    # A tool's arguments may contain "done" too, so only the object's own key counts.
    try:
        value = json.loads(line) if b'"done"' in line else None
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.get("done") is True


def is_broken(exchange: Exchange) -> bool:
    """Whether the request itself may be right: no answer, 5xx or no access."""
    return bool(exchange.problem) or exchange.status >= 500 or exchange.status in (401, 403)


class Client:
    """Sends requests to one server in one dialect, one at a time."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        driver: Driver,
        base_url: str,
        *,
        model: str,
        access: Access,
        budget: Budget,
    ) -> None:
        self.driver = driver
        self.path = request_path(driver, access.base_path)
        self.url = base_url + self.path
        self.model = model
        self.exchanges: list[Exchange] = []
        # Requests without an answer: ``lost`` were answered when repeated, ``broken`` never.
        self.lost: list[Exchange] = []
        self.broken: list[Exchange] = []
        self.repeats = False
        self.session = session
        self.access = access
        self._headers = request_headers(driver.dialect, access.api_key, access.headers)
        self._budget = budget
        self._grace_s = access.grace_s

    def curl(self, body: Any, *, max_time_s: int | None = None) -> str:
        dialect = self.driver.dialect
        return curl_command(self.url, dialect, body, self.access, max_time_s=max_time_s)

    def index_of(self, exchange: Exchange) -> int | None:
        return next((at for at, other in enumerate(self.exchanges) if other is exchange), None)

    def answer_to(self, body: Any) -> Exchange | None:
        """Return the last answer to a request that was sent already."""
        answers = (
            exchange
            for exchange in reversed(self.exchanges)
            if exchange.is_answer and exchange.body == body
        )
        return next(answers, None)

    async def ask(self, ask: Ask) -> Exchange:
        """Send a request and return the exchange, which also contains faults of the server."""
        return await self.send(self.driver.body(ask, self.model))

    async def send_short(self, timeout_s: float | None = None) -> Exchange:
        """Request one token, to measure how soon the server answers, and whether it does."""
        return await self.send(self.driver.body(Ask("Hi", max_tokens=1), self.model), timeout_s)

    async def send(self, body: Any, timeout_s: float | None = None) -> Exchange:
        """Send a body (bytes unchanged, anything else as JSON); see ``ask``.

        If the server is busy, wait and send it again. A single lost answer is no fault, so the
        request is then repeated, too.
        """
        exchange = await self._send_when_free(body, timeout_s or self.access.timeout_s)
        if is_broken(exchange) and self.repeats and exchange.status not in _BUSY:
            first = exchange
            exchange = await self._send_when_free(body, timeout_s or self.access.timeout_s)
            if not is_broken(exchange):
                self.lost.append(first)
        if is_broken(exchange):
            self.broken.append(exchange)
        return exchange

    async def _send_when_free(self, body: Any, timeout_s: float) -> Exchange:
        """Send a request; back off and retry while the server is busy."""
        for number in range(_MAX_WAITS + 1):
            self._budget.spend_request()
            exchange = await self._exchange(body, timeout_s)
            if exchange.status not in _BUSY or number == _MAX_WAITS:
                break
            try:
                pause_s = float(exchange.headers["retry-after"])
            except (KeyError, ValueError):
                pause_s = 0.5 * 2**number
            pause_s = max(0.0, min(pause_s, self.access.max_wait_s))
            self._budget.spend_wait(pause_s)
            await asyncio.sleep(pause_s)
        # A faulty server sends it too.
        if exchange.status in _BUSY and exchange.status != 503:
            raise LimitReached(
                f"the server stays busy: status {exchange.status} after {_MAX_WAITS} waits"
            )
        self.exchanges.append(exchange)
        return exchange

    async def hang_up_on(self, ask: Ask) -> bool:
        """Send a request for a stream and hang up after its first text."""
        self._budget.spend_request()
        body = self.driver.body(ask, self.model)
        content = b""
        try:
            async with asyncio.timeout(self.access.timeout_s):
                async with self._post(body) as response:
                    async for part in response.content.iter_any():
                        content += part
                        capture = parse(content.decode("utf-8", "replace"), self.driver.dialect)
                        if capture.text or capture.thinking or len(content) > MAX_BODY_BYTES:
                            response.close()
                            return True
        except TimeoutError:
            return True
        except _CONNECTION_ERRORS:
            return False
        return False

    async def _exchange(self, body: Any, timeout_s: float) -> Exchange:
        is_streamed = self.driver.requests_stream(body)
        began_s = time.monotonic()
        status, problem, is_timeout, headers = 0, "", False, {}
        received = Received(self.driver.dialect if is_streamed else None)
        try:
            async with asyncio.timeout(timeout_s):
                async with self._post(body) as response:
                    status = response.status
                    headers = {name.lower(): value for name, value in response.headers.items()}
                    problem = await received.read(response, self._grace_s)
        except TimeoutError:
            problem, is_timeout = f"no whole answer within {timeout_s:g} s", True
        except _CONNECTION_ERRORS as error:
            problem = _connection_problem(error)
        total_s = time.monotonic() - began_s
        if received.is_open:
            total_s -= self._grace_s
            # The wait for the end of a connection once the server is known to leave it open.
            self._grace_s = 0.05
        self._budget.received_bytes += len(received.content)
        text, dialect = received.content.decode("utf-8", "replace"), self.driver.dialect
        # Parsing a long answer must not block a window.
        capture = await asyncio.to_thread(parse, text, dialect)
        return Exchange(
            body=body,
            status=status,
            text=text,
            capture=capture,
            problem=problem,
            is_timeout=is_timeout,
            total_s=total_s,
            first_s=None if received.first_at_s is None else received.first_at_s - began_s,
            is_streamed=is_streamed,
            is_open=received.is_open,
            headers=headers,
        )

    def _post(self, body: Any) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.session.post(self.url, data=raw, headers=self._headers, allow_redirects=False)


def _connection_problem(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "no computer has that name"
        case aiohttp.ClientConnectorCertificateError():
            return "its certificate is not trusted; give --ca FILE, or --insecure to accept it"
        case aiohttp.ClientSSLError():
            return "no secure connection could be made; is it http rather than https?"
        case aiohttp.ClientConnectorError(os_error=ConnectionRefusedError()):
            return "nothing listens there"
        case aiohttp.ClientConnectorError():
            return "it cannot be reached"
        case aiohttp.ServerDisconnectedError() | ConnectionError():
            return "the server closed the connection before its answer was whole"
        case aiohttp.ClientPayloadError():
            return "the answer broke off"
        case _:
            return "the answer is not valid HTTP"
