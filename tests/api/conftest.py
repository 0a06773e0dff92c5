import asyncio
import http.client
import itertools
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anthropic
import ollama
import openai
import pytest

from api.server.server import ServerThread
from api.service.config import Address, ServerConfig
from engine.engine import Engine
from engine.values.limits import Limits
from tests.api.scenarios import SCENARIOS, Scenario
from tests.support.answers.watched import watched
from tests.support.scripted import Stage

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(params=SCENARIOS)
def scenario(request: pytest.FixtureRequest) -> Scenario:
    return Scenario(request.param, SCENARIOS[request.param])


@pytest.fixture
def scenario_named() -> Callable[[str], Scenario]:
    return lambda name: Scenario(name, SCENARIOS[name])


def _readable(events: Sequence[Any]) -> list[list[Any]]:
    return [
        [event.name, event.data if event.data == "[DONE]" else json.loads(event.data)]
        for event in events
    ]


@pytest.fixture
def check_golden() -> Callable[[str, str, Sequence[Any]], None]:
    """Compares a conversation with its golden file; FULLSTOP_WRITE_GOLDEN=1 rewrites the file."""

    def check(dialect: str, name: str, events: Sequence[Any]) -> None:
        path = GOLDEN / dialect / f"{name}.json"
        found = _readable(events)
        if os.environ.get("FULLSTOP_WRITE_GOLDEN"):
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = ",\n ".join(json.dumps(event, ensure_ascii=True) for event in found)
            path.write_text(f"[{lines}]\n", encoding="utf-8")
        assert found == json.loads(path.read_text(encoding="utf-8"))

    return check


# -- a running server -------------------------------------------------------------------------


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[tuple[str | None, str]]:
        found = []
        for block in self.body.decode().split("\n\n"):
            fields = dict(
                line.split(": ", 1) for line in block.split("\n") if line and line[0] != ":"
            )
            if fields:
                found.append((fields.get("event"), fields["data"]))
        return found


@dataclass(frozen=True)
class Exchange:
    connection: http.client.HTTPConnection
    response: http.client.HTTPResponse | None

    def __enter__(self) -> http.client.HTTPResponse:
        assert self.response is not None
        return self.response

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self.response is not None:
            self.response.close()
        self.connection.close()


@dataclass(frozen=True)
class Site:
    """A server under test, and a client that sends exactly the given bytes."""

    address: Address
    engine: Engine
    thread: ServerThread
    host: str = field(default="127.0.0.1")

    @property
    def url(self) -> str:
        return self.address.url

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        with closing(self._sent(method, path, body, headers or {})) as connection:
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, found, response.read())

    def open(self, method: str, path: str, body: Any, *, waits: bool = True) -> Exchange:
        connection = self._sent(method, path, body, {})
        return Exchange(connection, connection.getresponse() if waits else None)

    def _sent(
        self, method: str, path: str, body: Any, headers: dict[str, str]
    ) -> http.client.HTTPConnection:
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection = http.client.HTTPConnection(self.host, self.address.port, timeout=120)
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name, value)
        if raw is not None:
            connection.putheader("Content-Length", str(len(raw)))
            connection.putheader("Content-Type", "application/json")
        connection.endheaders(raw)
        return connection


Serve = Callable[..., Site]


@contextmanager
def serving(engine: Engine, **settings: Any) -> Iterator[Site]:
    thread = ServerThread(engine, ServerConfig(**settings))
    address = thread.start()
    try:
        yield Site(address, engine, thread)
    finally:
        thread.stop()


@pytest.fixture
def serve(engine: Engine) -> Iterator[Serve]:
    with ExitStack() as stack:
        yield lambda other=None, **settings: stack.enter_context(
            serving(other or engine, **settings)
        )


@pytest.fixture(scope="session")
def site(engine: Engine) -> Iterator[Site]:
    with serving(engine) as site:
        yield site


@pytest.fixture
def asked(site: Site, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The requests to the engine that ``site`` makes from HTTP requests, as they are made."""
    return watched(site, monkeypatch)


@pytest.fixture(scope="module")
def openai_client(site: Site) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{site.url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def anthropic_client(site: Site) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=site.url, api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def ollama_client(site: Site) -> Iterator[ollama.Client]:
    client = ollama.Client(host=site.url)
    yield client
    client._client.close()


# -- scripted engines --------------------------------------------------------------------------

LONG = "Go on"
"""A question to which a scripted model has 2,000 words to say."""
SCRIPTS = {LONG: ["word "] * 2000, "Hi": ["Hel", "lo"]}


@dataclass(frozen=True)
class Staged:
    engine: Engine
    stage: Stage
    site: Site

    def wait_until(self, claim: Callable[[Engine], bool], timeout_s: float = 60.0) -> bool:
        """Wait until a condition of the engine holds; return False if it never does."""
        ends_at = time.monotonic() + timeout_s
        while not claim(self.engine):
            if time.monotonic() > ends_at:
                return False
            time.sleep(0.005)
        return True

    def wait_until_idle(self, timeout_s: float = 60.0) -> bool:
        return self.wait_until(lambda e: (e.status.running, e.status.waiting) == (0, 0), timeout_s)


@contextmanager
def acting(
    stage: Stage, limits: Limits | None = None, **settings: Any
) -> Iterator[tuple[Site, Engine]]:
    with closing(Engine(limits, loader=stage.load)) as engine:
        asyncio.run(engine.load(stage.folder))
        with serving(engine, **settings) as site:
            yield site, engine


@pytest.fixture
def staged(tmp_path: Path) -> Iterator[Callable[..., Staged]]:
    with ExitStack() as stack:
        numbers = itertools.count()

        def make(limits: Limits | None = None, settings: Any = None, **options: Any) -> Staged:
            options = {"step_s": 0.01, "context": 100_000, **options}
            stage = Stage(tmp_path / f"stage{next(numbers)}", SCRIPTS, **options)
            site, engine = stack.enter_context(acting(stage, limits, **settings or {}))
            return Staged(engine, stage, site)

        yield make


@pytest.fixture(scope="session")
def scripted_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    stage = Stage(tmp_path_factory.mktemp("scripted"), SCRIPTS, context=100_000)
    with acting(stage) as (site, _):
        yield site
