"""Tireless clients: every dialect, valid and invalid requests, some leave half-way.

Run on a thread with a loop of their own, like the other programs that they stand for.
"""

import asyncio
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable

import aiohttp

from api.conformance.captures.values import WireDialect
from api.conformance.probe.client import Budget, Client
from api.conformance.probe.dialects import DRIVERS, OTHER_DRIVERS, Ask
from api.conformance.probe.values import Access
from tests.lab.endurance.soaking.cases import CASES, RAW, ask_of, fault

# What this server speaks; the probe speaks more.
OURS = [one for one, driver in DRIVERS.items() if driver not in OTHER_DRIVERS]
BAD_BODIES: tuple[object, ...] = (
    b"{",
    b"\xff\xfe",
    [],
    "text",
    {"model": 7, "messages": "no", "prompt": {}, "input": 3, "text": 4, "max_tokens": -1},
)
_SHARES = {"whole": 4, "streamed": 5, "leaves": 2, "bad": 1}


class Clients:
    """A number of clients of one server, each with one request after another."""

    def __init__(
        self, count: int, seed: int, raw_prompts: dict[str, str], patience_s: float = 60.0
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self._count = count
        self._seed = seed
        self._raw_prompts = raw_prompts
        self._patience_s = patience_s
        self._round = 0

    def run(self, url: str, model: str, seconds: float) -> None:
        """Send requests for some time; blocks. Everything is closed when it returns."""
        self._round += 1
        thread = threading.Thread(
            target=lambda: asyncio.run(self._all(url, model, time.monotonic() + seconds)),
            name="clients",
        )
        thread.start()
        thread.join()

    async def _all(self, url: str, model: str, ends_at_s: float) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(self._count):
                rng = random.Random(f"{self._seed} {self._round} {number}")
                group.create_task(self._one(url, model, ends_at_s, rng))

    async def _one(self, url: str, model: str, ends_at_s: float, rng: random.Random) -> None:
        async with aiohttp.ClientSession() as session:
            while time.monotonic() < ends_at_s:
                dialect = rng.choice(OURS)
                budget = Budget(1, time.monotonic() + self._patience_s)
                client = Client(
                    session,
                    DRIVERS[dialect],
                    url,
                    model=model,
                    access=Access(timeout_s=self._patience_s),
                    budget=budget,
                )
                what = rng.choices(list(_SHARES), list(_SHARES.values()))[0]
                found = await self._do(what, client, dialect, rng)
                self.counts[f"{dialect} {what}"] += 1
                if found is not None:
                    self.faults.append(f"{dialect}, {what}: {found}")

    async def _do(
        self, what: str, client: Client, dialect: WireDialect, rng: random.Random
    ) -> str | None:
        case = rng.choice(CASES)
        if what == "bad":
            return await self._bad(client, rng)
        if what == "leaves":
            ask = Ask(self._prompt("Count from 1 to 100", dialect), max_tokens=400)
            if rng.random() < 0.7:
                ask = Ask(ask.prompt, max_tokens=400, is_streamed=True)
            await client.hang_up_on(ask, wait_s=rng.random() * 0.2)
            return None
        ask = ask_of(
            case, dialect, self._prompt(case.prompt, dialect), is_streamed=what == "streamed"
        )
        return fault(case, await client.ask(ask))

    def _prompt(self, prompt: str, dialect: WireDialect) -> str:
        return self._raw_prompts[prompt] if dialect in RAW else prompt

    async def _bad(self, client: Client, rng: random.Random) -> str | None:
        exchange = await client.send(rng.choice(BAD_BODIES))
        if not exchange.is_refusal:
            return f"a bad body was answered with {exchange.status}: {exchange.text[:200]!r}"
        if not client.driver.is_envelope(json.loads(exchange.text)):
            return f"the error is in no envelope: {exchange.text[:200]!r}"
        return None


def raw_prompts(render: Callable[[str], str]) -> dict[str, str]:
    """Return the prompts of all cases as the model's template renders them."""
    wanted = {case.prompt for case in CASES} | {"Count from 1 to 100"}
    return {prompt: render(prompt) for prompt in sorted(wanted)}


class RenderPrompt:
    """Renders a user's words with the chat template of a model folder."""

    def __init__(self, folder: str) -> None:
        from transformers import AutoTokenizer

        self._tokenizer = AutoTokenizer.from_pretrained(folder)

    def __call__(self, prompt: str) -> str:
        """Return the prompt that the model reads, thinking off."""
        return str(
            self._tokenizer.apply_chat_template(
                [{"role": "user", "content": prompt}],
                tokenize=False,
                add_generation_prompt=True,
                enable_thinking=False,
            )
        )
