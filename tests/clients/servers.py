"""Servers for clients to talk to, on loopback: the program itself, and a scripted model."""

import asyncio
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from api.server.thread import ServerThread
from api.transport.config import ServerConfig
from engine.scheduling.service import Engine
from tests.support.scripted import Stage

REPOSITORY = Path(__file__).parents[2]
SAID = "All is well."
_COUNTED = re.compile(r'fullstop_requests_total\{[^}]*route="([^"]+)",status="(\d+)"\} ([0-9.]+)')


@dataclass(frozen=True)
class Server:
    """A server that runs.

    Attributes:
        url: Its address.
        key: What it asks for, if anything.
    """

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
    """Run ``fullstop serve`` on the demo model."""
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
    """A scripted model that says one sentence, whatever it is asked."""

    def _script_of(self, prompt: list[int]) -> list[int]:
        return self.ids(SAID)


@contextmanager
def scripted_server(*, context: int, key: str | None = None) -> Iterator[Server]:
    """Serve a model that says ``SAID``; each letter of a prompt is a token.

    Args:
        context: Tokens that its context holds.
        key: The key that it asks for.
    """
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
