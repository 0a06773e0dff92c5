"""Sends the probe's requests, with their key and within their limits, and keeps what came back."""

import asyncio
import json
import re
import shlex
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp

from api.conformance.captures.recognition import parse
from api.conformance.captures.values import Capture, WireDialect
from api.conformance.probe.dialects import Ask, Driver, headers, path_of
from api.conformance.probe.values import Access, Exchange

# Limits how much a probe may do. One for each probe; its loop's thread.

TIME_IS_UP = "the time limit of the probe was reached"
# All answers of a probe stay in memory until its report is made.
_MOST_BYTES_IN_ALL = 64 * 1024 * 1024


class LimitReached(Exception):
    """The probe has reached its limit of requests, time or bytes."""


@dataclass(slots=True)
class Budget:
    """The remaining budget of a probe."""

    max_requests: int
    ends_at_s: float
    requests: int = 0
    received_bytes: int = 0
    waits: int = 0
    waited_s: float = 0.0

    def note(self, byte_count: int) -> None:
        """Count received bytes."""
        self.received_bytes += byte_count

    def note_wait(self, wait_s: float) -> None:
        """Count a wait for the server."""
        if time.monotonic() + wait_s >= self.ends_at_s:
            raise LimitReached("the server is busy, and the time limit of the probe comes first")
        self.waits += 1
        self.waited_s += wait_s

    def spend(self) -> None:
        """Take one request from the budget."""
        if self.requests >= self.max_requests:
            raise LimitReached(f"the limit of {self.max_requests} requests was reached")
        if self.received_bytes >= _MOST_BYTES_IN_ALL:
            raise LimitReached(f"the answers exceeded {_MOST_BYTES_IN_ALL >> 20} MiB in all")
        if time.monotonic() >= self.ends_at_s:
            raise LimitReached(TIME_IS_UP)
        self.requests += 1


# Recognises the end of a stream by its last event, even if the connection stays open.

_DONE = re.compile(rb"data: ?\[DONE\]\s*\Z").match
_MESSAGE_STOP = re.compile(rb'data:.*"type": ?"message_stop"').match
_LAST_RESPONSE = re.compile(rb'data:.*"type": ?"response\.(?:completed|incomplete|failed)"').match


def _is_done_object(line: bytes) -> bool:
    # A tool's arguments may contain "done" too, so only the object's own key counts.
    if b'"done"' not in line:
        return False
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.get("done") is True


_IS_LAST: dict[WireDialect, Callable[[bytes], object]] = {
    WireDialect.MESSAGES: _MESSAGE_STOP,
    WireDialect.CHAT: _DONE,
    WireDialect.COMPLETIONS: _DONE,
    WireDialect.GENERATE: _DONE,
    WireDialect.RESPONSES: _LAST_RESPONSE,
    WireDialect.OLLAMA: _is_done_object,
}


class EndMark:
    """Looks for the end of one stream as its bytes arrive; checks each line once."""

    def __init__(self, dialect: WireDialect) -> None:
        self._is_last = _IS_LAST.get(dialect)
        self._begin = 0
        self._is_seen = False

    def look(self, received: bytearray) -> bool:
        """Return whether the bytes so far contain the end."""
        if self._is_last is None or self._is_seen:
            return self._is_seen
        end = received.rfind(b"\n") + 1
        if end > self._begin:
            lines = bytes(received[self._begin : end]).splitlines()
            self._is_seen = any(self._is_last(line) for line in lines)
            self._begin = end
        return self._is_seen


# Describes failed connections in plain words.

# Exceptions of a connection to a faulty server; ValueError for an invalid header.
BROKEN = (aiohttp.ClientError, OSError, ValueError)


def problem_of(error: Exception) -> str:
    """Describe why a connection failed."""
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


# How long to wait for a busy server.

# Too many requests, not available now, and the vendor's own "overloaded".
BUSY = (429, 503, 529)
# A faulty server sends these too, so the probe must stop waiting at some point.
MAY_BE_BROKEN = 503
MOST_WAITS = 6
_FIRST_S = 0.5


def wait_s(headers: Mapping[str, str], number: int, longest_s: float) -> float:
    """Return how long to wait."""
    asked = _retry_after_s(headers.get("retry-after", ""))
    wanted = asked if asked is not None else _FIRST_S * 2**number
    return max(0.0, min(wanted, longest_s))


def _retry_after_s(text: str) -> float | None:
    """Return the header's wait in seconds, given as seconds or as a date; None if it is neither."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp() - time.time()


# Requests as curl commands that can be pasted into a shell.

KEY_VARIABLE = "API_KEY"


def curl_line(
    url: str, dialect: WireDialect, body: Any, access: Access, *, is_cut: bool = False
) -> str:
    """Return a command that sends a request.

    The key, and values of headers that the user gave, appear as shell variables only.

    Args:
        url: The address.
        dialect: Decides the headers.
        body: The body, as a JSON value or as raw bytes.
        access: How the server is reached.
        is_cut: Whether to hang up after a second instead of reading to the end.
    """
    words = ["curl", "-sS", "-i"]
    if isinstance(body, dict) and body.get("stream"):
        words.append("-N")
    if is_cut:
        words += ["--max-time", "1"]
    if access.ca_file is not None:
        words += ["--cacert", shlex.quote(str(access.ca_file))]
    elif access.is_insecure:
        words.append("--insecure")
    words.append(shlex.quote(url))
    key = f"${KEY_VARIABLE}" if access.api_key is not None else None
    hidden = [(name, f"${_variable(name)}") for name, _ in access.headers]
    placeholders = {key, *(value for _, value in hidden)}
    for name, value in headers(dialect, key, hidden).items():
        # Double quotes, so that the shell replaces variables.
        is_hidden = value.removeprefix("Bearer ") in placeholders
        quoted = f'"{name}: {value}"' if is_hidden else shlex.quote(f"{name}: {value}")
        words.append(f"-H {quoted}")
    raw = body.decode("utf-8", "replace") if isinstance(body, bytes) else json.dumps(body)
    words.append(f"--data-raw {shlex.quote(raw)}")
    return " ".join(words)


def one_after_the_other(*commands: str) -> str:
    """Return commands that are sent one after the other."""
    return "\n".join(commands)


def at_the_same_time(*commands: str) -> str:
    """Return commands that are sent at the same time."""
    return "\n".join([*(f"{command} &" for command in commands), "wait"])


def again_and_again(command: str, times: int = 8) -> str:
    """Return a command that is sent several times."""
    numbers = " ".join(map(str, range(1, times + 1)))
    return f"for n in {numbers}; do {command}; echo; done"


def _variable(header: str) -> str:
    return re.sub(r"\W", "_", header, flags=re.ASCII).upper()


# Connections of a probe to a server that may be faulty or hostile; limits what it sends.
#
# Redirects are never followed, so that they do not receive the key.

# A whole answer to a check has a few hundred kilobytes at most.
MOST_BODY_BYTES = 2 * 1024 * 1024
_REDIRECTS = range(300, 400)


def open_session(access: Access, *, is_kept: bool = False) -> aiohttp.ClientSession:
    """Return a session that keeps no cookies, and no connections but a single one if asked to.

    It does not decompress.
    """
    # After a hang-up, a server may close a kept connection during the next request.
    connector = (
        aiohttp.TCPConnector(limit=1, ssl=access.tls())
        if is_kept
        else aiohttp.TCPConnector(force_close=True, ssl=access.tls())
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        # A few compressed kilobytes can expand to gigabytes.
        auto_decompress=False,
        headers={"accept-encoding": "identity"},
    )


@asynccontextmanager
async def kept_connection(client: "Client") -> AsyncIterator[None]:
    """Send the requests of the block on one connection, if the server keeps it."""
    async with open_session(client.access, is_kept=True) as session:
        usual = client.session
        client.session = session
        try:
            yield
        finally:
            client.session = usual


@dataclass(slots=True)
class Received:
    """The body of an answer as it arrives."""

    content: bytearray = field(default_factory=bytearray)
    first_at_s: float | None = None
    is_left_open: bool = False


async def read_body(
    response: aiohttp.ClientResponse,
    received: Received,
    mark: EndMark | None = None,
    grace_s: float = 0.0,
) -> str:
    """Read the body of an answer."""
    if response.status in _REDIRECTS:
        where = response.headers.get("location", "")
        return f"it redirects to {where[:200] or 'nowhere'}; give that address if you trust it"
    packed = response.headers.get("content-encoding", "identity").strip().lower()
    if packed not in ("", "identity"):
        return f"the answer is compressed ({packed[:40]}), which was not requested"
    content = received.content
    while True:
        is_over = mark is not None and mark.look(content)
        try:
            async with asyncio.timeout(grace_s if is_over else None) as grace:
                part = await response.content.readany()
        except TimeoutError:
            if not grace.expired():
                raise
            received.is_left_open = True
            return ""
        if not part:
            return ""
        if received.first_at_s is None:
            received.first_at_s = time.monotonic()
        content += part[: MOST_BODY_BYTES + 1 - len(content)]
        if len(content) > MOST_BODY_BYTES:
            del content[MOST_BODY_BYTES:]
            return f"the answer is longer than {MOST_BODY_BYTES >> 20} MiB"


# Sends the probe's requests one at a time, within limits; a server's fault never raises.

# When hanging up, a stream that is silent for this long is left like one with text.
_MOST_BEFORE_TEXT = 64 * 1024
_LONGEST_SHORT = 1
_SHORT_CHARS = 64 * 1024
# How long to wait for the end of a connection if the server is known to leave it open.
_SHORT_GRACE_S = 0.05


def is_broken(exchange: Exchange) -> bool:
    """Return whether something other than the request may be at fault: nothing, 5xx, no access."""
    return bool(exchange.problem) or exchange.status >= 500 or exchange.status in (401, 403)


class Client:
    """Sends requests to one server in one dialect.

    Attributes:
        driver: The dialect's requests.
        path: The path of requests.
        url: The address of requests.
        model: The model that is asked for.
        session: Its connections; another one serves the next requests.
        access: How the server is reached.
        exchanges: All requests and answers, in order.
        slips: The requests without an answer that were answered when they were repeated.
        broken: The requests that got no answer, also when they were repeated.
        repeats: Whether a request without an answer is repeated.
    """

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
        self.path = path_of(driver, access.base_path)
        self.url = base_url + self.path
        self.model = model
        self.exchanges: list[Exchange] = []
        self.slips: list[Exchange] = []
        self.broken: list[Exchange] = []
        self.repeats = False
        self.session = session
        self.access = access
        self._headers = headers(driver.dialect, access.api_key, access.headers)
        self._budget = budget
        self._grace_s = access.grace_s

    def curl(self, body: Any, *, is_cut: bool = False) -> str:
        """Return a command that sends this body."""
        return curl_line(
            self.url,
            self.driver.dialect,
            body,
            self.access,
            is_cut=is_cut,
        )

    async def ask(self, ask: Ask) -> Exchange:
        """Send a request and return the exchange, which also contains faults of the server."""
        return await self.send(self.driver.body(ask, self.model))

    async def send(self, body: Any, timeout_s: float | None = None) -> Exchange:
        """Send a body (bytes unchanged, anything else as JSON); see ``ask``.

        If the server is busy, wait and send it again. A single lost answer is no fault, so the
        request is then repeated, too.
        """
        exchange = await self._answered(body, timeout_s or self.access.timeout_s)
        self.exchanges.append(exchange)
        if is_broken(exchange) and self.repeats and exchange.status not in BUSY:
            first = exchange
            exchange = await self._answered(body, timeout_s or self.access.timeout_s)
            self.exchanges.append(exchange)
            if not is_broken(exchange):
                self.slips.append(first)
        if is_broken(exchange):
            self.broken.append(exchange)
        return exchange

    async def _answered(self, body: Any, timeout_s: float) -> Exchange:
        waits = 0
        while True:
            self._budget.spend()
            exchange = await self._exchange(body, timeout_s)
            if exchange.status not in BUSY or waits == MOST_WAITS:
                break
            pause_s = wait_s(exchange.headers, waits, self.access.longest_wait_s)
            self._budget.note_wait(pause_s)
            waits += 1
            await asyncio.sleep(pause_s)
        if exchange.status in BUSY and exchange.status != MAY_BE_BROKEN:
            raise LimitReached(
                f"the server stays busy: status {exchange.status} after {waits} waits"
            )
        return exchange

    async def hang_up_on(self, ask: Ask, wait_s: float) -> bool:
        """Send a request and hang up: after the first text of a stream, else after ``wait_s``."""
        self._budget.spend()
        body = self.driver.body(ask, self.model)
        seen = b""
        try:
            async with asyncio.timeout(self.access.timeout_s if ask.is_streamed else wait_s):
                async with self._post(body) as response:
                    async for part in response.content.iter_any():
                        seen += part[:_MOST_BEFORE_TEXT]
                        is_late = len(seen) > _MOST_BEFORE_TEXT
                        if is_late or (ask.is_streamed and self._says_something(seen)):
                            response.close()
                            return True
        except TimeoutError:
            return True
        except BROKEN:
            return False
        return False

    async def ask_shortly(self, timeout_s: float | None = None) -> Exchange:
        """Ask for one token, to measure how soon the server answers, and whether it does."""
        ask = Ask("Hi", max_tokens=_LONGEST_SHORT)
        return await self.send(self.driver.body(ask, self.model), timeout_s)

    async def _exchange(self, body: Any, timeout_s: float) -> Exchange:
        is_streamed = self.driver.asks_for_stream(body)
        mark = EndMark(self.driver.dialect) if is_streamed else None
        began_s = time.monotonic()
        status, problem, found = 0, "", {}
        received = Received()
        try:
            async with asyncio.timeout(timeout_s):
                async with self._post(body) as response:
                    status = response.status
                    found = {name.lower(): value for name, value in response.headers.items()}
                    problem = await read_body(response, received, mark, self._grace_s)
        except TimeoutError:
            problem = f"no whole answer within {timeout_s:g} s"
        except BROKEN as error:
            problem = problem_of(error)
        total_s = time.monotonic() - began_s
        if received.is_left_open:
            total_s -= self._grace_s
            self._grace_s = _SHORT_GRACE_S
        self._budget.note(len(received.content))
        text = _text_of(bytes(received.content))
        return Exchange(
            body=body,
            status=status,
            text=text,
            capture=await self._parsed(text),
            problem=problem,
            total_s=total_s,
            first_s=None if received.first_at_s is None else received.first_at_s - began_s,
            is_streamed=is_streamed,
            is_left_open=received.is_left_open,
            is_batch=self.driver.has_several_prompts(body),
            headers=found,
        )

    async def _parsed(self, text: str) -> Capture:
        # Parsing a short answer is faster than starting a thread; a long one must not stall a
        # window.
        if len(text) <= _SHORT_CHARS:
            return parse(text, self.driver.dialect)
        return await asyncio.to_thread(parse, text, self.driver.dialect)

    def _says_something(self, seen: bytes) -> bool:
        capture = parse(_text_of(seen), self.driver.dialect)
        return bool(capture.text or capture.thinking)

    def _post(self, body: Any) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        # Redirects are not followed, because the key and the prompts are for this server only.
        return self.session.post(self.url, data=raw, headers=self._headers, allow_redirects=False)


def _text_of(content: bytes) -> str:
    return content.decode("utf-8", "replace")
