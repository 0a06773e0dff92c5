"""A taste of the attack, so that the long one can be started at any time."""

import pytest

from tests.endurance.attack import attacked

pytestmark = pytest.mark.long


def test_broken_bodies_and_random_schemas_harm_neither_the_server_nor_another_stream() -> None:
    assert attacked(bodies=25, schemas=4, is_heavy=False, seed=7, warm_up_bodies=40) == []
