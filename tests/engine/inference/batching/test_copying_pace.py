"""How many prompts may join at once, with made-up times."""

from engine.inference.prefill import CopyingPace


def after(pace: CopyingPace, token_s: float, steps: int = 40) -> CopyingPace:
    for _ in range(steps):
        pace.joined(5_000, 5_000 * token_s)
    return pace


def test_one_prompt_may_always_join() -> None:
    assert CopyingPace().together(10**9) == 1
    assert after(CopyingPace(), 1.0).together(100_000) == 1


def test_short_prompts_join_together_before_anything_is_known() -> None:
    assert CopyingPace().together(10) > 100


def test_as_many_prompts_join_as_can_be_copied_in_an_unnoticeable_gap() -> None:
    pace, token_s = CopyingPace(), 1e-6
    for _ in range(60):
        tokens = pace.together(1_000) * 1_000
        pace.joined(tokens, tokens * token_s)
    assert 0.03 < pace.together(1_000) * 1_000 * token_s < 0.08


def test_more_tokens_than_ever_before_are_expected_to_be_copied_at_the_first_slow_speed() -> None:
    usual = CopyingPace().together(1_000)
    together = after(CopyingPace(), 1e-7).together(1_000)
    assert usual < together <= usual + 5
    assert together == after(CopyingPace(), 1e-7, 400).together(1_000)


def test_slower_copying_is_learnt_sooner_than_quicker() -> None:
    slower, quicker = (after(CopyingPace(), 8e-6) for _ in range(2))
    usual = slower.together(100)
    after(slower, 16e-6, 1)
    after(quicker, 4e-6, 1)
    assert slower.together(100) < usual < quicker.together(100)
    assert usual / slower.together(100) > quicker.together(100) / usual


def test_one_step_that_something_else_delayed_is_forgotten() -> None:
    pace = after(CopyingPace(), 1e-6)
    usual = pace.together(1_000)
    pace.joined(5_000, 60.0)
    assert pace.together(1_000) >= usual // 4
    assert after(pace, 1e-6, 12).together(1_000) > usual * 0.8


def test_a_step_that_was_quicker_than_decoding_alone_counts_as_free() -> None:
    pace = CopyingPace()
    usual = pace.together(1_000)
    pace.joined(5_000, -0.01)
    assert pace.together(1_000) > usual


def test_short_prompts_do_not_say_how_long_copying_takes() -> None:
    pace = after(CopyingPace(), 2e-6)
    usual = pace.together(100)
    for _ in range(500):
        pace.joined(30, 0.0)
        pace.joined(30, 0.02)  # the other work of a step
    assert pace.together(100) == usual
