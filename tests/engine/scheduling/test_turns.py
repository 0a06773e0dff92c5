"""Turns are shared out by the time that they take."""

from collections import Counter

from engine.scheduling.models import Turns


def played(turns: Turns[str], costs: dict[str, float], rounds: int) -> list[str]:
    order = []
    for _ in range(rounds):
        one = turns.next(sorted(costs))
        turns.took(one, costs[one])
        order.append(one)
    return order


def test_equal_ones_alternate() -> None:
    assert played(Turns(), {"a": 1.0, "b": 1.0}, 6) == ["a", "b", "a", "b", "a", "b"]


def test_each_gets_the_same_time_however_long_its_turns_are() -> None:
    counts = Counter(played(Turns(), {"large": 10.0, "small": 1.0}, 1100))
    assert abs(counts["small"] - 10 * counts["large"]) <= 10


def test_one_that_was_idle_gets_no_extra_time() -> None:
    turns = Turns[str]()
    played(turns, {"a": 1.0, "b": 1.0}, 2)
    played(turns, {"a": 1.0}, 1000)
    assert Counter(played(turns, {"a": 1.0, "b": 1.0}, 10)) == {"a": 5, "b": 5}


def test_after_a_pause_all_get_equal_turns() -> None:
    turns = Turns[str]()
    played(turns, {"a": 100.0, "b": 1.0}, 3)
    turns.rest()
    assert len(set(played(turns, {"a": 1.0, "b": 1.0}, 400))) == 2
    turns.forget("a")
    assert played(turns, {"a": 1.0}, 1) == ["a"]
