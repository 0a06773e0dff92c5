"""Verification passes are made only where the measured costs show that they pay."""

from engine.inference.speculation.cost import PassCosts
from engine.inference.speculation.sources import WIDTHS, DraftSource, HitRate
from engine.values.tokens import TokenOrigin

NARROW, WIDE = WIDTHS
COPY = DraftSource(TokenOrigin.LOOKUP, HitRate(0.95))
RARE = DraftSource(TokenOrigin.LOOKUP, HitRate(0.1))
CHAIN = DraftSource(TokenOrigin.HEAD, HitRate(0.95))


def measured(*, narrow: float | None = None, wide: float | None = None) -> PassCosts:
    """Return costs with these passes measured, in decode steps."""
    costs = PassCosts()
    for _ in range(100):
        costs.record(1, 1, 1.0)
    for width, cost in ((NARROW, narrow), (WIDE, wide)):
        if cost is not None:
            costs.record(1, width, cost)
    return costs


def test_drafting_begins_with_a_narrow_pass_after_a_few_decode_steps() -> None:
    costs = PassCosts()
    assert costs.choose(1, [COPY])[0] == 0
    for _ in range(3):
        costs.record(1, 1, 1.0)
    assert costs.choose(1, [COPY])[0] == NARROW
    assert costs.choose(1, [])[0] == 0


def test_wide_pass_is_chosen_where_it_gives_more_tokens_for_its_time() -> None:
    assert measured(narrow=1.2, wide=1.5).choose(1, [COPY])[0] == WIDE
    assert measured(narrow=1.2, wide=9.0).choose(1, [COPY])[0] == NARROW
    assert measured(narrow=1.2).choose(1, [CHAIN])[0] == NARROW


def test_pass_that_does_not_pay_is_not_made() -> None:
    assert measured(narrow=4.0, wide=16.0).choose(1, [COPY])[0] == 0
    assert measured(narrow=1.2).choose(1, [RARE])[0] == 0
    costs = measured(narrow=1.2)
    costs.record(1, 0, 1.0)
    assert costs.choose(1, [CHAIN])[0] == 0


def test_costs_are_measured_again_after_many_decode_steps() -> None:
    costs = measured(narrow=40.0)
    for _ in range(4_200):
        costs.record(1, 1, 1.0)
    assert costs.choose(1, [COPY])[0] == NARROW
