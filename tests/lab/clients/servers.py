"""Servers for clients, on loopback: the program itself, and a scripted model."""

import asyncio
import re
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from api.server.server import ServerThread
from api.service.config import ServerConfig
from engine.engine import Engine
from tests.support.scripted import Stage

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


class _SameAnswer(Stage):
    """A scripted model that always answers with the same sentence."""

    def _script_of(self, prompt: list[int]) -> list[int]:
        return self.ids(SAID)


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
