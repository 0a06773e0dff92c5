"""Verification passes are made only where the measured costs show that they pay."""

from engine.inference.speculation.cost import WIDTHS, Chance, PassCosts

NARROW, WIDE = WIDTHS
COPY = Chance(0.95)


def measured(*, narrow: float | None = None, wide: float | None = None) -> PassCosts:
    """Return costs with these passes measured, in decode steps."""
    costs = PassCosts()
    for _ in range(100):
        costs.record_decode(1, 1.0)
    for width, cost in ((NARROW, narrow), (WIDE, wide)):
        if cost is not None:
            costs.record_pass(1, width, cost)
    return costs


def test_drafting_begins_with_a_narrow_pass_after_a_few_decode_steps() -> None:
    costs = PassCosts()
    assert costs.choose(1, [COPY])[0] == 0
    for _ in range(3):
        costs.record_decode(1, 1.0)
    assert costs.choose(1, [COPY])[0] == NARROW
    assert costs.choose(1, [])[0] == 0


def test_wide_pass_is_chosen_where_it_gives_more_tokens_for_its_time() -> None:
    assert measured(narrow=1.2, wide=1.5).choose(1, [COPY])[0] == WIDE
    assert measured(narrow=1.2, wide=9.0).choose(1, [COPY])[0] == NARROW
    assert measured(narrow=1.2).choose(1, [Chance(0.95, 3)])[0] == NARROW


def test_pass_that_does_not_pay_is_not_made() -> None:
    assert measured(narrow=4.0, wide=16.0).choose(1, [COPY])[0] == 0
    assert measured(narrow=1.2).choose(1, [Chance(0.1)])[0] == 0
    costs = measured(narrow=1.2)
    costs.record_drafting(1, 3.0, 3)
    assert costs.choose(1, [Chance(0.9, 3)], uses_model=True)[0] == 0


def test_costs_are_measured_again_after_many_decode_steps() -> None:
    costs = measured(narrow=40.0)
    for _ in range(300):
        costs.record_decode(1, 1.0)
    assert costs.choose(1, [COPY])[0] == NARROW
