"""Sends the probe's requests one at a time, within limits; a server's fault never raises.

Runs on the loop of whoever probes.
"""

import asyncio
import json
import time
from contextlib import AbstractAsyncContextManager
from typing import Any

import aiohttp

from api.conformance.captures.opening.event_stream import as_server_sent_events, is_event_stream
from api.conformance.captures.parsing import parse
from api.conformance.captures.values import Capture
from api.conformance.probe.asking.access import Access
from api.conformance.probe.asking.budget import Budget, LimitReached
from api.conformance.probe.asking.curl import curl_line
from api.conformance.probe.asking.end_marks import EndMark
from api.conformance.probe.asking.exchange import Exchange
from api.conformance.probe.asking.problems import BROKEN, problem_of
from api.conformance.probe.asking.session import Received, read_body
from api.conformance.probe.asking.waiting import BUSY, MAY_BE_BROKEN, MOST_WAITS, wait_s
from api.conformance.probe.dialects.asks import Ask
from api.conformance.probe.dialects.driver import Driver, headers, path_of

# When hanging up, a stream that is silent for this long is left like one with text.
_MOST_BEFORE_TEXT = 64 * 1024
_LONGEST_SHORT = 1
_SHORT_CHARS = 64 * 1024
# How long to wait for the end of a connection if the server is known to leave it open.
_SHORT_GRACE_S = 0.05


class Client:
    """Sends requests to one server in one dialect.

    Args:
        session: Its connections.
        driver: The dialect, adapted to the server.
        base_url: The server's address, without the dialect's path.
        model: The model's name; empty for none.
        access: How the server is reached.
        budget: Limits the requests.

    Attributes:
        driver: The dialect.
        path: The path of the dialect's requests.
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
        access: Access,
        budget: Budget,
    ) -> None:
        self.driver = driver
        self.path = path_of(driver, access.base_path, model)
        self.url = base_url + self.path
        streamed_path = path_of(driver, access.base_path, model, is_streamed=True)
        self._streamed_url = base_url + streamed_path
        self.model = model
        self.exchanges: list[Exchange] = []
        self._session = session
        self._access = access
        self._headers = headers(driver.dialect, access.api_key, access.headers)
        self._budget = budget
        self._grace_s = access.grace_s

    def curl(self, body: Any, *, is_cut: bool = False) -> str:
        """Return a command that sends this body."""
        return curl_line(
            self._url_of(body),
            self.driver.dialect,
            self.driver.on_wire(body),
            self._access,
            is_cut=is_cut,
        )

    async def ask(self, ask: Ask) -> Exchange:
        """Send a request and return the exchange, which also contains faults of the server.

        Raises:
            LimitReached: The probe has reached a limit.
        """
        return await self.send(self.driver.body(ask, self.model))

    async def send(self, body: Any, timeout_s: float | None = None) -> Exchange:
        """Send a body (bytes unchanged, anything else as JSON); see ``ask``.

        If the server is busy, wait and send it again.
        """
        waits = 0
        while True:
            self._budget.spend()
            exchange = await self._exchange(body, timeout_s or self._access.timeout_s)
            if exchange.status not in BUSY or waits == MOST_WAITS:
                break
            pause_s = wait_s(exchange.headers, waits, self._access.longest_wait_s)
            self._budget.note_wait(pause_s)
            waits += 1
            await asyncio.sleep(pause_s)
        if exchange.status in BUSY and exchange.status != MAY_BE_BROKEN:
            raise LimitReached(
                f"the server stays busy: status {exchange.status} after {waits} waits"
            )
        self.exchanges.append(exchange)
        return exchange

    async def hang_up_on(self, ask: Ask, wait_s: float) -> bool:
        """Send a request and hang up: after the first text of a stream, else after ``wait_s``.

        Returns:
            Whether the answer was unfinished.

        Raises:
            LimitReached: The probe has reached a limit.
        """
        self._budget.spend()
        body = self.driver.body(ask, self.model)
        seen = b""
        try:
            async with asyncio.timeout(self._access.timeout_s if ask.is_streamed else wait_s):
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
        is_streamed = isinstance(body, dict) and bool(body.get("stream"))
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
        raw = body if isinstance(body, bytes) else json.dumps(self.driver.on_wire(body)).encode()
        # Redirects are not followed, because the key and the prompts are for this server only.
        return self._session.post(
            self._url_of(body), data=raw, headers=self._headers, allow_redirects=False
        )

    def _url_of(self, body: Any) -> str:
        is_streamed = isinstance(body, dict) and bool(body.get("stream"))
        return self._streamed_url if is_streamed else self.url


def _text_of(content: bytes) -> str:
    """Return the text of a body; a binary stream is converted to server-sent events."""
    if is_event_stream(content):
        return as_server_sent_events(content)
    return content.decode("utf-8", "replace")
