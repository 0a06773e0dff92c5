"""Asks a server for streamed answers and notes when their text arrives.

Requests are made as the probe makes them, so that each dialect is spelled in one place. Runs on
the comparison's loop.
"""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from api.conformance.captures.values import WireDialect
from api.conformance.probe.dialects import DRIVERS, Ask, headers
from tests.lab.benchmarks.reading import Reading

Turn = tuple[str, str]


class NoAnswer(Exception):
    """A request got an error, or an answer without text."""


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks one server."""

    session: aiohttp.ClientSession
    url: str
    dialect: WireDialect
    model_name: str
    count: Callable[[str], int]
    timeout_s: float

    async def together(self, prompts: Sequence[str], tokens: int) -> list[Reading]:
        """Ask all prompts at once, each on a connection of its own."""
        tasks = [asyncio.create_task(self.turn((), prompt, tokens)) for prompt in prompts]
        try:
            return [reading for reading, _ in await asyncio.gather(*tasks)]
        finally:
            for task in tasks:
                task.cancel()

    async def turn(self, earlier: Sequence[Turn], prompt: str, tokens: int) -> tuple[Reading, str]:
        """Ask one prompt after earlier turns (question, answer); return the answer's text too."""
        driver = DRIVERS[self.dialect]
        ask = Ask(prompt, max_tokens=tokens, is_streamed=True, is_thinking=False)
        body = driver.body(ask, self.model_name)
        past = [
            {"role": role, "content": text}
            for turn in earlier
            for role, text in zip(("user", "assistant"), turn, strict=True)
        ]
        body["messages"] = past + body["messages"]
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self._read(self.url + driver.path, json.dumps(body).encode())
        except TimeoutError:
            raise NoAnswer(f"no whole answer within {self.timeout_s:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise NoAnswer(f"the connection broke: {error or type(error).__name__}") from error

    async def _read(self, url: str, body: bytes) -> tuple[Reading, str]:
        begin = time.perf_counter()
        first = last = 0.0
        pieces: list[str] = []
        rest = b""
        async with self.session.post(
            url, data=body, headers=headers(self.dialect, None)
        ) as response:
            if not response.ok:
                said = (await response.text())[:200]
                raise NoAnswer(f"status {response.status}: {said}")
            async for part in response.content.iter_any():
                now = time.perf_counter() - begin
                *lines, rest = (rest + part).split(b"\n")
                found = [piece for line in lines if (piece := piece_of(line, self.dialect))]
                if found:
                    first, last = first or now, now
                    pieces += found
        text = "".join(pieces)
        if not text:
            raise NoAnswer("the stream ended without text")
        return Reading(first, last, self.count(text)), text


def piece_of(line: bytes, dialect: WireDialect) -> str:
    """Return the text, or the thinking, that a line of a stream carries."""
    if not line.startswith(b"data:"):
        return ""
    try:
        event = json.loads(line[5:])
    except ValueError:  # [DONE]
        return ""
    if not isinstance(event, dict):
        return ""
    if event.get("error"):
        raise NoAnswer(f"an error in the stream: {str(event['error'])[:200]}")
    delta = _delta(event, dialect)
    return "".join(
        value
        for name in ("reasoning", "reasoning_content", "thinking", "content", "text")
        if isinstance(value := delta.get(name), str)
    )


def _delta(event: dict[str, Any], dialect: WireDialect) -> dict[str, Any]:
    if dialect is WireDialect.CHAT:
        choices = event.get("choices") or [{}]
        event = choices[0] if isinstance(choices[0], dict) else {}
    delta = event.get("delta")
    return delta if isinstance(delta, dict) else {}
