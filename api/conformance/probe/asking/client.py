"""Sends the probe's requests: one at a time, within its limits, measured, never raising for a
server's fault.

Runs on the loop of whoever probes.
"""

import asyncio
import json
import time
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import aiohttp

from api.conformance.captures.parsing import parse
from api.conformance.probe.asking.curl import curl_line
from api.conformance.probe.asking.exchange import Exchange
from api.conformance.probe.asking.session import read_body
from api.conformance.probe.dialects.asks import Ask
from api.conformance.probe.dialects.driver import Driver, headers

# All answers of a probe are kept until its report is made.
_MOST_BYTES_IN_ALL = 64 * 1024 * 1024
# A stream that says nothing for so long is left as one that says something.
_MOST_BEFORE_TEXT = 64 * 1024
# What a connection to a broken server raises; ValueError where a header is not what it must be.
_BROKEN = (aiohttp.ClientError, OSError, ValueError)
_LONGEST_SHORT = 1
_SHORT_CHARS = 64 * 1024


class LimitReached(Exception):
    """The probe has sent as many requests, or taken as much time, as it may."""


@dataclass(slots=True)
class Budget:
    """How much a probe may still do.

    Attributes:
        max_requests: Requests that may be sent in all.
        ends_at_s: When it has to end, on the monotonic clock.
        requests: Requests sent.
        received_bytes: How much the answers were.
    """

    max_requests: int
    ends_at_s: float
    requests: int = 0
    received_bytes: int = 0

    def note(self, byte_count: int) -> None:
        """Note how much came."""
        self.received_bytes += byte_count

    def spend(self) -> None:
        """Take one request from the budget.

        Raises:
            LimitReached: There is none left, or no time.
        """
        if self.requests >= self.max_requests:
            raise LimitReached(f"the limit of {self.max_requests} requests was reached")
        if self.received_bytes >= _MOST_BYTES_IN_ALL:
            raise LimitReached(f"the answers exceeded {_MOST_BYTES_IN_ALL >> 20} MiB in all")
        if time.monotonic() >= self.ends_at_s:
            raise LimitReached("the time limit of the probe was reached")
        self.requests += 1


class Client:
    """Asks one server in one dialect.

    Attributes:
        driver: The dialect.
        url: Where requests go.
        model: The model's name.
        exchanges: Every answer so far, in order.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        driver: Driver,
        base_url: str,
        *,
        model: str,
        api_key: str | None,
        timeout_s: float,
        budget: Budget,
    ) -> None:
        self.driver = driver
        self.url = base_url + driver.path
        self.model = model
        self.exchanges: list[Exchange] = []
        self._session = session
        self._has_key = api_key is not None
        self._headers = headers(driver.dialect, api_key)
        self._timeout_s = timeout_s
        self._budget = budget

    def curl(self, body: Any, *, is_cut: bool = False) -> str:
        """Return a command that sends this body."""
        return curl_line(self.url, self.driver.dialect, body, has_key=self._has_key, is_cut=is_cut)

    async def ask(self, ask: Ask) -> Exchange:
        """Ask and return what came; a fault of the server is in the exchange.

        Raises:
            LimitReached: The probe may ask no more.
        """
        return await self.send(self.driver.body(ask, self.model))

    async def send(self, body: Any, timeout_s: float | None = None) -> Exchange:
        """Send a body as it is (bytes unchanged, anything else as JSON); as ``ask``."""
        self._budget.spend()
        is_streamed = isinstance(body, dict) and bool(body.get("stream"))
        began_s = time.monotonic()
        status, problem, found = 0, "", {}
        received = bytearray()
        try:
            async with asyncio.timeout(timeout_s or self._timeout_s):
                async with self._post(body) as response:
                    status = response.status
                    found = {name.lower(): value for name, value in response.headers.items()}
                    problem = await read_body(response, received)
        except TimeoutError:
            problem = f"no whole answer within {timeout_s or self._timeout_s:g} s"
        except _BROKEN as error:
            problem = _problem_of(error)
        self._budget.note(len(received))
        text = received.decode("utf-8", "replace")
        # Reading a short answer takes less than a thread does; a long one must not stall a window.
        capture = (
            parse(text, self.driver.dialect)
            if len(text) <= _SHORT_CHARS
            else await asyncio.to_thread(parse, text, self.driver.dialect)
        )
        exchange = Exchange(
            body=body,
            status=status,
            text=text,
            capture=capture,
            problem=problem,
            total_s=time.monotonic() - began_s,
            is_streamed=is_streamed,
            headers=found,
        )
        self.exchanges.append(exchange)
        return exchange

    async def hang_up_on(self, ask: Ask, wait_s: float) -> bool:
        """Ask and leave: after the first text of a stream, else after ``wait_s``.

        Returns:
            Whether the answer was still under way.

        Raises:
            LimitReached: The probe may ask no more.
        """
        self._budget.spend()
        body = self.driver.body(ask, self.model)
        seen = b""
        try:
            async with asyncio.timeout(self._timeout_s if ask.is_streamed else wait_s):
                async with self._post(body) as response:
                    async for part in response.content.iter_any():
                        seen += part[:_MOST_BEFORE_TEXT]
                        is_late = len(seen) > _MOST_BEFORE_TEXT
                        if is_late or (ask.is_streamed and self._says_something(seen)):
                            response.close()
                            return True
        except TimeoutError:
            return True
        except _BROKEN:
            return False
        return False

    async def ask_shortly(self, timeout_s: float | None = None) -> Exchange:
        """Ask for one token, to see how soon an answer can come, and whether one comes at all."""
        ask = Ask("Hi", max_tokens=_LONGEST_SHORT)
        return await self.send(self.driver.body(ask, self.model), timeout_s)

    def _says_something(self, seen: bytes) -> bool:
        capture = parse(seen.decode("utf-8", "replace"), self.driver.dialect)
        return bool(capture.text or capture.thinking)

    def _post(self, body: Any) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        # A redirect is not followed: the key, and the prompts, are for this server alone.
        return self._session.post(self.url, data=raw, headers=self._headers, allow_redirects=False)


def _problem_of(error: Exception) -> str:
    """Return in words what became of a connection; a library's own text helps nobody."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "no computer has that name"
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientSSLError():
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
