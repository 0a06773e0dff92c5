"""Processes that read large bodies."""

from collections.abc import Callable, Iterator

import pytest

from api.dialects.shared.body_reader import PROCESS
from api.transport.bodies import LargeBodies


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
