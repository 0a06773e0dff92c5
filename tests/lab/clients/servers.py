"""Servers for clients, on loopback: the program itself, and a scripted model."""

import asyncio
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from api.server.server import ServerThread
from api.transport.config import ServerConfig
from engine.scheduling.generation import Generation
from engine.scheduling.service import Engine
from engine.values.request import GenerationRequest, Limits
from tests.support.scripted import END, START, TEMPLATE, Stage

REPOSITORY = Path(__file__).parents[3]
SAID = "All is well."
_COUNTED = re.compile(r'fullstop_requests_total\{[^}]*route="([^"]+)",status="(\d+)"\} ([0-9.]+)')


@dataclass(frozen=True)
class Server:
    """A server that runs."""

    url: str
    key: str | None = None

    def asked(self) -> Counter[tuple[str, str]]:
        """Return how often each route has answered with each status."""
        request = urllib.request.Request(f"{self.url}/metrics")
        if self.key is not None:
            request.add_header("x-api-key", self.key)
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read().decode()
        return Counter({(r, s): int(float(n)) for r, s, n in _COUNTED.findall(text)})


@contextmanager
def demo_server() -> Iterator[Server]:
    process = subprocess.Popen(
        [sys.executable, "-m", "app", "serve", "--port", "0"],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("listening on http://"), line
        yield Server(line.removeprefix("listening on ").strip())
    finally:
        process.terminate()
        process.wait(timeout=60)
        process.stdout.close()


class _SameAnswer(Stage):
    """A scripted model that always answers with the same sentence."""

    def _script_of(self, prompt: list[int]) -> list[int]:
        return self.ids(SAID)


class ObedientStage(Stage):
    """A scripted model that follows the code word of the last message.

    ``COUNT_UP`` counts from 1 to 10, one number a line; ``TALK_ON`` goes on for long;
    ``CALL_TOOL {…}`` calls a tool; ``WRITE_TEXT …`` writes the rest of the line. Whatever else is
    asked, and whatever a tool answers, it says ``SAID``.
    """

    _TAIL = 20_000
    _WANTED = re.compile(
        r"(?P<count>COUNT_UP)|(?P<talk>TALK_ON)|CALL_TOOL (?P<call>\{.*\})|WRITE_TEXT (?P<text>.*)"
    )

    def __init__(self, folder: Path, *, context: int) -> None:
        tags = ("<tool_call>", "</tool_call>")
        template = TEMPLATE + "{# <tool_call> tool_call.name #}"
        super().__init__(folder, {}, context=context, plain=tags, template=template)
        self._answers: dict[tuple[int, ...], list[int]] = {}

    def _script_of(self, prompt: list[int]) -> list[int]:
        # Asked at each token; the end of the prompt is enough to tell it from others.
        tail = tuple(prompt[-self._TAIL :])
        if tail not in self._answers:
            # Agents add a system message after the question.
            turns = str(self.wrapper.decode(list(tail))).split(START)
            asked = [turn for turn in turns if turn.startswith(("user:", "tool:"))]
            found = list(self._WANTED.finditer(asked[-1].partition(END)[0] if asked else ""))
            self._answers = {tail: self.ids(self._answer_to(found[-1]) if found else SAID)}
        return self._answers[tail]

    def _answer_to(self, wanted: re.Match[str]) -> str:
        if wanted["count"]:
            return "\n".join(str(number) for number in range(1, 11))
        if wanted["talk"]:
            return "word " * 4000
        if wanted["call"]:
            return f"<tool_call>\n{wanted['call']}\n</tool_call>"
        return wanted["text"]


class ReadEngine(Engine):
    """An engine whose model goes on once the readers have taken what it has written.

    Otherwise a loaded machine would merge the pieces of a stream, now and then all of them.
    """

    # Longer than the engine keeps a token back so that it wakes readers less often.
    _PAUSE_S = 0.04
    _LONGEST_S = 2.0  # a client that leaves takes no more

    def __init__(self, stage: Stage) -> None:
        # Checked guesses would bring many tokens at once where an answer repeats the question.
        super().__init__(Limits(plain_decoding=True), loader=stage.load)
        self._running: list[Generation] = []
        self._passes = stage.model.calls
        stage.model.fault = self._wait

    async def generate_together(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Start answers, and note them."""
        started = await super().generate_together(requests)
        self._running = [one for one in self._running if not one._is_closed] + started
        return started

    def _wait(self, _: int) -> None:
        if self._passes[-1][1] > 1:
            return  # it reads a prompt
        # What was written before this step is handed out after it, at the latest.
        time.sleep(self._PAUSE_S)
        until = time.monotonic() + self._LONGEST_S
        while any(one._pending for one in self._running.copy() if not one._is_closed):
            if time.monotonic() > until:
                return
            time.sleep(0.001)


@contextmanager
def obedient_servers(*, context: int, key: str) -> Iterator[tuple[Server, Server]]:
    """Serve one model that does as it is told: without a key, and with one."""
    with tempfile.TemporaryDirectory() as folder:
        engine = ReadEngine(ObedientStage(Path(folder), context=context))
        try:
            asyncio.run(engine.load(Path(folder)))
            open_to_all = ServerThread(engine, ServerConfig())
            locked = ServerThread(engine, ServerConfig(api_key=key))
            try:
                yield Server(open_to_all.start().url), Server(locked.start().url, key)
            finally:
                open_to_all.stop()
                locked.stop()
        finally:
            engine.close()


@contextmanager
def scripted_server(*, context: int, key: str | None = None) -> Iterator[Server]:
    """Serve a model that says ``SAID``; each letter of a prompt is a token."""
    with tempfile.TemporaryDirectory() as folder:
        stage = _SameAnswer(Path(folder), {"": [SAID]}, context=context)
        engine = Engine(loader=stage.load)
        try:
            asyncio.run(engine.load(Path(folder)))
            thread = ServerThread(engine, ServerConfig(api_key=key))
            address = thread.start()
            try:
                yield Server(address.url, key)
            finally:
                thread.stop()
        finally:
            engine.close()
