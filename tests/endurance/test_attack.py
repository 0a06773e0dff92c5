"""A taste of the attack, so that the long one can be started at any time."""

from tests.endurance.attack import attacked


def test_broken_bodies_and_random_schemas_harm_neither_the_server_nor_another_stream() -> None:
    assert attacked(bodies=40, schemas=6, is_heavy=False, seed=7) == []
