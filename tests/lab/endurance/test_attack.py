"""A short attack; it shows that the long one works."""

import random
import re
from pathlib import Path

import pytest

from api.server.routes import ROUTES
from tests.lab.endurance.attack import Size, attacked
from tests.lab.endurance.attacking import attacks
from tests.lab.endurance.attacking.inputs import INPUTS, harm_of

pytestmark = pytest.mark.long


def test_broken_bodies_and_random_schemas_harm_neither_the_server_nor_other_streams() -> None:
    taste = Size(bodies=40, schemas=6, warm_up=40, costly=2, is_exact=False)
    assert attacked(taste, seed=7) == []


def test_every_route_is_attacked() -> None:
    rng = random.Random(1)
    sent = {(one.method, one.path.partition("?")[0]) for one in map(attacks.broken, [rng] * 2_000)}

    for route in ROUTES:
        path = re.compile(re.sub(r"\{\w+\}", ".+", route.path))
        assert any(method == route.method and path.fullmatch(one) for method, one in sent), route


@pytest.mark.parametrize(
    "name",
    [
        "an export of brackets",
        "a deep document",
        "an endless download",
        "a nested hub",
        "a tool server that leaves-its-session",
    ],
)
def test_no_input_takes_200_mb_or_leaves_a_process(tmp_path: Path, name: str) -> None:
    assert harm_of(INPUTS[name], tmp_path).faults == ()
