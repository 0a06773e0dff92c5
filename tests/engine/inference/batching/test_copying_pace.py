"""How many prompts may join at once, with made-up times."""

from engine.inference.prefill import PrefillBudget


def after(pace: PrefillBudget, token_s: float, steps: int = 40) -> PrefillBudget:
    for _ in range(steps):
        pace.joined(5_000, 5_000 * token_s)
    return pace


def test_one_prompt_may_always_join() -> None:
    assert PrefillBudget(512).copied_together(10**9) == 1
    assert after(PrefillBudget(512), 1.0).copied_together(100_000) == 1


def test_short_prompts_join_together_before_anything_is_known() -> None:
    assert PrefillBudget(512).copied_together(10) > 100


def test_as_many_prompts_join_as_can_be_copied_in_an_unnoticeable_gap() -> None:
    pace, token_s = PrefillBudget(512), 1e-6
    for _ in range(60):
        tokens = pace.copied_together(1_000) * 1_000
        pace.joined(tokens, tokens * token_s)
    assert 0.03 < pace.copied_together(1_000) * 1_000 * token_s < 0.08


def test_more_tokens_than_ever_before_are_expected_to_be_copied_at_the_first_slow_speed() -> None:
    usual = PrefillBudget(512).copied_together(1_000)
    together = after(PrefillBudget(512), 1e-7).copied_together(1_000)
    assert usual < together <= usual + 5
    assert together == after(PrefillBudget(512), 1e-7, 400).copied_together(1_000)


def test_slower_copying_is_learnt_sooner_than_quicker() -> None:
    slower, quicker = (after(PrefillBudget(512), 8e-6) for _ in range(2))
    usual = slower.copied_together(100)
    after(slower, 16e-6, 1)
    after(quicker, 4e-6, 1)
    assert slower.copied_together(100) < usual < quicker.copied_together(100)
    assert usual / slower.copied_together(100) > quicker.copied_together(100) / usual


def test_one_step_that_something_else_delayed_is_forgotten() -> None:
    pace = after(PrefillBudget(512), 1e-6)
    usual = pace.copied_together(1_000)
    pace.joined(5_000, 60.0)
    assert pace.copied_together(1_000) >= usual // 4
    assert after(pace, 1e-6, 12).copied_together(1_000) > usual * 0.8


def test_a_step_that_was_quicker_than_decoding_alone_counts_as_free() -> None:
    pace = PrefillBudget(512)
    usual = pace.copied_together(1_000)
    pace.joined(5_000, -0.01)
    assert pace.copied_together(1_000) > usual


def test_short_prompts_do_not_say_how_long_copying_takes() -> None:
    pace = after(PrefillBudget(512), 2e-6)
    usual = pace.copied_together(100)
    for _ in range(500):
        pace.joined(30, 0.0)
        pace.joined(30, 0.02)  # the other work of a step
    assert pace.copied_together(100) == usual
