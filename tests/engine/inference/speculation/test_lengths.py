"""How many guesses are checked follows from what passes cost on the running machine."""

import pytest

from engine.inference.speculation.cost import WIDTHS, CostCurve, Guess, PassCosts
from engine.inference.speculation.sources import HitRate


def curve(one_s: float = 1.0, **costs: float) -> CostCurve:
    """Return a curve with measured costs: ``w8=2.7`` for a pass over eight tokens."""
    made = CostCurve()
    for _ in range(3):
        made.note_one(one_s)
    for name, cost in costs.items():
        made.note(int(name[1:]), cost * one_s, tokens=cost)
    return made


def test_nothing_is_checked_before_the_time_of_plain_decoding_is_known() -> None:
    made = CostCurve()
    for _ in range(3):
        assert made.choose(1, [Guess(0.99, 31)]) == 1
        made.note_one(1.0)
    assert made.choose(1, [Guess(0.99, 31)]) > 1


def test_unlikely_guesses_are_not_checked() -> None:
    assert curve().choose(1, [Guess(0.1, 31)]) == 1
    assert curve().choose(1, []) == 1


def test_certain_guesses_are_checked_in_long_passes() -> None:
    made = curve()
    for width in (2, 4, 8, 16, 32):
        assert made.choose(1, [Guess(0.99, 31)]) == width  # no wider than twice what was tried
        made.note(width, 1.5, tokens=width)


def test_the_width_that_gives_most_for_its_time_is_chosen() -> None:
    costs = {"w2": 1.2, "w4": 2.9, "w8": 2.9, "w16": 5.9, "w32": 10.7}
    assert curve(**costs).choose(1, [Guess(0.97, 31)]) == 8
    cheap = {f"w{width}": 1.05 for width in WIDTHS}
    assert curve(**cheap).choose(1, [Guess(0.97, 31)]) == WIDTHS[-1]
    assert (
        curve(**{f"w{width}": float(width) for width in WIDTHS}).choose(1, [Guess(0.99, 31)]) == 1
    )


def test_several_rows_are_never_kept_waiting_long_by_a_pass() -> None:
    cheap = {f"w{width}": 1.05 + width / 100 for width in WIDTHS}
    guesses = [Guess(0.99, 31), Guess(0.99, 31)]
    assert curve(0.002, **cheap).choose(2, guesses) == WIDTHS[-1]
    steep = {f"w{width}": 1 + 0.15 * (width - 1) for width in WIDTHS}
    for one_s, rows, width in (
        (0.002, 2, WIDTHS[-1]),
        (0.02, 2, 8),  # 41 ms; twelve would take 53
        (0.02, 1, WIDTHS[-1]),
    ):
        made = curve(one_s, **steep)
        made.balance.passes = 8.0
        assert made.choose(rows, guesses[:rows]) == width


@pytest.mark.parametrize("one_s", [0.03, 0.06, 0.2, 3.0])
def test_a_pass_over_drafts_of_several_rows_may_take_as_long_as_two_passes_of_a_slow_model(
    one_s: float,
) -> None:
    guesses = [Guess(0.99, 31)] * 4
    assert curve(one_s).choose(4, guesses) == 2
    cheap = {f"w{width}": 1.05 + width / 100 for width in WIDTHS}
    assert curve(one_s, **cheap).choose(4, guesses) == WIDTHS[-1]
    steep = {f"w{width}": 1 + 0.18 * (width - 1) for width in WIDTHS}
    assert curve(one_s, **steep).choose(4, guesses) == 6


def test_several_rows_are_not_kept_waiting_by_the_first_try_of_a_wide_pass() -> None:
    guesses = [Guess(0.99, 31)] * 7
    made = curve(0.015)
    assert made.choose(7, guesses) == 2
    made.note(2, 0.029)
    assert made.choose(7, guesses) <= 3  # four tokens would take 57 ms at that rate
    made = curve(0.015, w2=1.1)
    assert made.choose(7, guesses) > 3


def test_costs_between_measured_widths_lie_between_them() -> None:
    costs = curve(w2=1.2, w8=3.0).costs()
    assert costs[2] < costs[3] < costs[4] < costs[6] < costs[8] < costs[12]
    assert costs[4] == 1.2 + (3.0 - 1.2) * 2 / 6


def test_a_pass_over_fewer_tokens_never_counts_as_slower_than_one_over_more() -> None:
    costs = curve(w2=1.1, w4=5.0, w8=2.0).costs()
    assert costs[2] == 1.1
    assert costs[3] < costs[4] == costs[6] == costs[8] == 2.0 < costs[12]


def test_a_pass_that_was_slow_once_does_not_count_for_long() -> None:
    made = curve(w8=2.5)
    made.note(8, 40.0)
    assert made.costs()[8] == 2.5


def test_a_width_that_was_always_too_slow_is_tried_again_after_a_while() -> None:
    made = curve(**{f"w{width}": 50.0 for width in WIDTHS})
    tries = []
    for _ in range(1100):
        tries.append(made.choose(1, [Guess(0.95, 31)]))
        made.note_one(1.0)
    assert tries[0] == 1
    assert any(width > 1 for width in tries)


@pytest.mark.parametrize("is_pass_slow", [True, False])
def test_what_was_held_up_the_first_time_is_measured_again_soon(is_pass_slow: bool) -> None:
    """As where a program for the GPU is made in the first pass over several tokens."""
    made = curve()
    made.note(2, 9.0 if is_pass_slow else 1.1, tokens=2)
    made.note_drafts(0.1 if is_pass_slow else 3.0, 1, 0)

    def tokens_until_drafts() -> int:
        for count in range(2000):
            if made.choose(1, [Guess(0.99, 31)], made.draft_cost) > 1:
                return count
            made.note_one(1.0)
        raise AssertionError("it never drafts again")

    assert tokens_until_drafts() < 300  # what was lost is first made up for
    # What is as dear each time is tried less and less often.
    pauses = []
    for _ in range(5):
        made.note(2, 9.0, tokens=1)
        pauses.append(tokens_until_drafts())
    assert pauses == sorted(pauses)
    assert pauses[-1] > 400


def test_the_time_of_making_guesses_counts_against_them() -> None:
    made = curve(w8=1.5)
    assert made.choose(1, [Guess(0.8, 7)]) > 1
    assert made.choose(1, [Guess(0.8, 7)], extra=1.0) == 1


def test_rows_that_guess_must_pay_for_those_that_do_not() -> None:
    made = curve(0.002, **{f"w{width}": 1 + 0.15 * (width - 1) for width in WIDTHS})
    assert made.choose(2, [Guess(0.9, 31), Guess(0.9, 31)]) > 1
    assert made.choose(16, [Guess(0.9, 31)]) == 1


def test_short_guesses_are_not_checked_in_long_passes() -> None:
    made = curve(**{f"w{width}": 1 + 0.1 * (width - 1) for width in WIDTHS})
    assert made.choose(1, [Guess(0.99, 2)]) == 3


def test_a_width_is_tried_once_what_it_may_lose_was_saved_up() -> None:
    made = curve(w2=2.0, w3=3.0, w4=4.0, w6=6.0)
    assert made.choose(1, [Guess(0.99, 31)]) == 1  # eight tokens may lose seven passes
    for _ in range(1000):
        made.note_one(1.0)
    assert made.choose(1, [Guess(0.99, 31)]) > 6


def test_drafting_that_has_lost_more_than_it_may_rests_until_tokens_have_made_up_for_it() -> None:
    guesses = [Guess(0.99, 3)]
    made = curve(w4=1.5)
    for _ in range(5):
        made.note(4, 1.5)
    assert made.choose(1, guesses) == 1
    for _ in range(150):
        made.note_one(1.0)
    assert made.choose(1, guesses) == 4


def test_no_pass_is_made_that_may_lose_more_than_was_saved() -> None:
    made = curve(w2=1.2, w4=1.4, w8=1.9, w16=3.0)
    certain = [Guess(0.99, 15)]
    for saved, width in ((0.05, 1), (0.3, 2), (0.5, 4), (1.0, 8), (3.0, 16)):
        for known in (2, 4, 8, 16):
            for _ in range(2):  # each was compared before
                made.note(known, made.costs()[known], made.costs()[known])
        made.balance.passes = saved
        assert made.choose(1, certain) == width


def test_a_draft_of_the_own_head_costs_what_it_takes_after_drafts_not_after_a_rest() -> None:
    made = curve(w2=1.2)
    made.note_drafts(1.2, drafts=1, read=24)
    assert made.draft_cost < 0.25
    for _ in range(5):
        made.note_drafts(0.3, drafts=1, read=1)
    made.note_drafts(1.2, drafts=1, read=24)
    assert made.draft_cost == pytest.approx(0.24)
    assert curve().draft_cost < 0.1, "it is tried where nothing is known of it"


def test_what_waits_for_the_own_head_is_paid_from_what_was_saved() -> None:
    made = curve(w2=1.2)
    made.note(2, 1.2, 1.2)
    made.note_drafts(0.3, drafts=1, read=0)
    made.balance.passes = 1.0
    assert made.choose(1, [Guess(0.95, 1, unread=1)], 0.3) == 2
    assert made.choose(1, [Guess(0.95, 1, unread=24)], 0.3) == 1


def test_what_drafting_may_lose_is_the_same_for_all_numbers_of_sequences() -> None:
    costs = PassCosts()
    for rows in (1, 2):
        for _ in range(3):
            costs.curve(rows).note_one(0.002)
        assert costs.curve(rows).choose(rows, [Guess(0.99, 3)]) > 1
    for _ in range(3):
        costs.curve(1).note(2, 0.004)
    assert costs.curve(2).choose(2, [Guess(0.99, 3)]) == 1


def test_hits_raise_the_rate_and_misses_lower_it() -> None:
    rate = HitRate(0.5)
    rate.note(True)
    assert rate.value > 0.5
    before = rate.value
    rate.note(False)
    assert rate.value < before


def test_the_first_guesses_count_more_where_the_expectation_has_little_weight() -> None:
    sure, open_minded = HitRate(0.4, 0.05), HitRate(0.4, 0.05, 3.0)
    for rate in (sure, open_minded):
        for _ in range(3):
            rate.note(True)
    assert open_minded.value == pytest.approx(0.7)
    assert sure.value < 0.5


def test_a_steady_rate_remembers_misses_longer() -> None:
    quick, steady = HitRate(0.9), HitRate(0.9, 0.02)
    for rate in (quick, steady):
        for _ in range(50):
            rate.note(False)
    assert quick.value < 0.1 < steady.value


def test_after_many_guesses_the_newest_has_the_weight_that_was_set() -> None:
    rate = HitRate(0.0, 0.1, 1.0)
    for _ in range(100):
        rate.note(False)
    rate.note(True)
    assert rate.value == pytest.approx(0.1)
