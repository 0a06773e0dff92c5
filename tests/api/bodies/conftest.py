"""Helpers that read large bodies, and a server that several tests ask."""

from collections.abc import Callable, Iterator

import pytest

from api.dialects.shared import reading
from api.transport.bodies.large_bodies import LargeBodies
from engine import Engine
from tests.api.conftest import Site, serving


@pytest.fixture
def bodies() -> Iterator[Callable[..., LargeBodies]]:
    """Makes helpers, and ends them."""
    made: list[LargeBodies] = []

    def make(patience_s: float = 60.0) -> LargeBodies:
        made.append(LargeBodies(reading.PROCESS, patience_s))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="module")
def shared_site(engine: Engine) -> Iterator[Site]:
    """A server on the demo model with one process for all large bodies of a module."""
    with serving(engine) as site:
        yield site
