"""A taste of the attack, so that the long one can be started at any time."""

import pytest

from tests.endurance.attack import attacked


@pytest.mark.slow
def test_broken_bodies_and_random_schemas_harm_neither_the_server_nor_another_stream() -> None:
    assert attacked(bodies=300, schemas=40, is_heavy=False, seed=7) == []
