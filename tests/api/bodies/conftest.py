"""Processes that read large bodies, and a server on a scripted model that several tests share."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from api.dialects.shared.body_reader import PROCESS
from api.transport.bodies import LargeBodies
from engine import Engine
from tests.api.conftest import LONG, Site, serving
from tests.support.scripted import Stage


@pytest.fixture
def bodies() -> Iterator[Callable[..., LargeBodies]]:
    """Makes body readers, and ends them."""
    made: list[LargeBodies] = []

    def make(patience_s: float = 60.0) -> LargeBodies:
        made.append(LargeBodies(PROCESS, patience_s))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="module")
def scripted_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server on a scripted model; one process reads all large bodies of a module."""
    folder = tmp_path_factory.mktemp("scripted")
    scripts = {LONG: ["word "] * 2000, "Hi": ["Hel", "lo"]}
    engine = Engine(loader=Stage(folder / "stage", scripts, context=100_000).load)
    asyncio.run(engine.load(folder))
    with serving(engine) as site:
        yield site
    engine.close()
