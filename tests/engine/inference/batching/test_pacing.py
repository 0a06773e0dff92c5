"""How much is read in one step keeps streams at their pace; simulated, without a clock."""

import itertools
from collections.abc import Callable

import pytest

from engine.inference.prefill import PrefillBudget

SPEEDS = [(0.002, 0.0002), (0.02, 0.0001), (0.1, 0.01), (0.001, 0.00001), (0.03, 0.001)]


def read_beside_a_stream(
    pace: PrefillBudget,
    tokens: int,
    *,
    decode_s: float,
    token_s: Callable[[int], float],
    slower: float = 1.0,
) -> tuple[float, list[float]]:
    """Read a prompt beside one stream."""
    steps: list[float] = []
    done = 0
    while done < tokens:
        chunk = min(tokens - done, pace.chunk(1, 1))
        took_s = decode_s * slower + chunk * token_s(done)
        if chunk:
            pace.read(took_s, chunk, is_whole=tokens - done > chunk, decoding=1)
        else:
            pace.decoded(took_s, is_beside=True)
        done += chunk
        steps.append(took_s)
    return len(steps) * decode_s / sum(steps), steps


def paced(decode_s: float) -> PrefillBudget:
    """Return a pace that has seen a stream alone."""
    pace = PrefillBudget(512)
    for _ in range(50):
        pace.decoded(decode_s)
    return pace


@pytest.mark.parametrize("slower", [1.0, 1.1, 1.15])
@pytest.mark.parametrize(("decode_s", "token_s"), SPEEDS)
def test_a_stream_keeps_three_fifths_of_its_pace_beside_20_000_tokens(
    decode_s: float, token_s: float, slower: float
) -> None:
    kept, steps = read_beside_a_stream(
        paced(decode_s), 20_000, decode_s=decode_s, token_s=lambda _: token_s, slower=slower
    )
    assert kept >= 0.6
    # Nor is it idle: reading has its share.
    assert kept <= 0.8
    assert max(steps) <= slower * decode_s + max(0.04, 1.1 * slower * decode_s, 16 * token_s)


@pytest.mark.parametrize("decode_s", [0.005, 0.03, 0.045, 0.06])
def test_beside_streams_that_are_quick_enough_no_step_lasts_a_tenth_of_a_second(
    decode_s: float,
) -> None:
    kept, steps = read_beside_a_stream(
        paced(decode_s), 20_000, decode_s=decode_s, token_s=lambda _: 0.0002
    )
    assert max(steps) < 0.08
    assert kept >= 0.6


def test_a_stream_keeps_its_pace_where_each_token_of_the_prompt_takes_longer() -> None:
    kept, _ = read_beside_a_stream(
        paced(0.01), 20_000, decode_s=0.01, token_s=lambda done: 0.0001 + done * 5e-8
    )
    assert kept >= 0.6


def test_the_gaps_are_steady() -> None:
    _, steps = read_beside_a_stream(paced(0.002), 20_000, decode_s=0.002, token_s=lambda _: 0.0002)
    reads = [index for index, took_s in enumerate(steps) if took_s > 0.004]
    distances = [after - before for before, after in itertools.pairwise(reads)]
    # Once the speed is known, as many steps of decoding come between any two of reading.
    assert max(distances[3:-1]) - min(distances[3:-1]) <= 2


def test_a_stream_that_has_become_slow_for_good_does_not_starve_the_prompt() -> None:
    # Something else slows the machine: the streams cannot be kept at the pace that they had.
    kept, steps = read_beside_a_stream(
        paced(0.01), 20_000, decode_s=0.01, token_s=lambda _: 0.001, slower=3.0
    )
    reading_s = sum(took_s - 0.03 for took_s in steps)
    assert reading_s / sum(steps) > 0.08
    assert kept > 0.2


def test_a_stream_that_slows_down_by_itself_leaves_the_prompt_its_share() -> None:
    # The stream's own context grows: its pace alone would fall as well.
    pace, decode_s, done, steps = paced(0.002), 0.002, 0, []
    while done < 20_000:
        chunk = min(20_000 - done, pace.chunk(1, 1))
        took_s = decode_s + chunk * 0.0002
        if chunk:
            pace.read(took_s, chunk, is_whole=True, decoding=1)
        else:
            pace.decoded(took_s, is_beside=True)
        done += chunk
        steps.append(took_s)
        decode_s *= 1.001
    assert decode_s > 0.004
    assert 20_000 * 0.0002 / sum(steps) > 0.2


def test_a_stream_that_joins_is_paced_by_what_decoding_takes_from_then_on() -> None:
    pace = paced(0.002)
    for _ in range(200):
        pace.decoded(0.006, decoding=4)
    kept, _ = read_beside_a_stream(pace, 20_000, decode_s=0.006, token_s=lambda _: 0.0002)
    assert 0.55 <= kept <= 0.8


@pytest.mark.parametrize("decode_s", [0.002, 0.01])
def test_a_stream_whose_guesses_are_right_keeps_its_pace(decode_s: float) -> None:
    pace = PrefillBudget(512)
    pass_s, given = 3 * decode_s, 8.0  # eight tokens in the time of three
    for _ in range(10):
        pace.decoded(decode_s)
    for _ in range(100):
        pace.decoded(pass_s, tokens=given)
    done, tokens, took_s = 0, 0.0, 0.0
    while done < 5_000:
        if chunk := pace.chunk(1, 1):
            step_s = decode_s + chunk * 0.0005
            pace.read(step_s, chunk, is_whole=True, decoding=1)
            done, tokens = done + chunk, tokens + 1
        else:
            step_s = pass_s
            pace.decoded(step_s, tokens=given, is_beside=True)
            tokens += given
        took_s += step_s
    assert 0.55 < tokens / took_s / (given / pass_s) < 0.85


def test_each_lane_has_a_speed_of_its_own() -> None:
    pace = paced(0.002)
    pace.read(0.032, 30, is_whole=True, decoding=1, lane=2)
    pace.read(0.032, 300, is_whole=True, decoding=1, lane=0)
    while not pace.chunk(1, 1, 2):
        pace.decoded(0.002, is_beside=True)
    assert pace.chunk(1, 1, 2) == 20
    assert pace.chunk(1, 1, 0) == 200


@pytest.mark.parametrize(("decode_s", "token_s"), SPEEDS)
def test_passes_that_check_guesses_are_not_taken_for_slow_decoding(
    decode_s: float, token_s: float
) -> None:
    pace, checking = paced(decode_s), paced(decode_s)
    for _ in range(50):  # eight tokens in the time of three
        checking.decoded(3 * decode_s, tokens=8)
    assert checking.chunk(1, 1) == pace.chunk(1, 1)
    kept, _ = read_beside_a_stream(checking, 2_000, decode_s=decode_s, token_s=lambda _: token_s)
    assert kept >= 0.6


def shallow_s(tokens: int) -> float:
    """Return what reading takes at the beginning of a prompt."""
    return tokens * 0.0006


def deep_s(tokens: int) -> float:
    """Return what reading takes after 18,000 tokens."""
    return tokens * 0.008


def beside(
    pace: PrefillBudget,
    reads_s: Callable[[int], float],
    *,
    reading: int = 1,
    lane: int = 0,
    depth: int = 0,
    steps: int = 40,
) -> list[tuple[int, float]]:
    """Read prompts beside a stream that decodes in 2 ms a step."""
    found: list[tuple[int, float]] = []
    while len(found) < steps:
        chunk = pace.chunk(1, reading, lane, depth)
        if not chunk:
            pace.decoded(0.002, is_beside=True)
            continue
        took_s = reads_s(reading * chunk)
        pace.read(
            0.002 + took_s,
            reading * chunk,
            is_whole=True,
            decoding=1,
            reading=reading,
            lane=lane,
            depth=depth,
        )
        found.append((chunk, took_s))
    return found


def test_prompts_whose_long_beginnings_are_cached_are_read_in_short_steps() -> None:
    first, after_short, together = paced(0.002), paced(0.002), paced(0.002)
    assert beside(after_short, shallow_s)[-1][0] > 25
    for read in (
        beside(first, deep_s, depth=18_000),
        beside(after_short, deep_s, depth=18_000),
        beside(together, deep_s, reading=4, depth=18_000)[10:],
    ):
        assert max(took_s for _, took_s in read) < 0.06


def test_a_long_prompt_is_read_in_short_steps_up_to_its_end() -> None:
    pace, depth, worst_s = paced(0.002), 0, 0.0
    while depth < 20_000:
        token_s = 0.0006 + depth * 4e-7
        [(chunk, took_s)] = beside(
            pace, lambda tokens, one_s=token_s: tokens * one_s, lane=2, depth=depth, steps=1
        )
        worst_s = max(worst_s, took_s)
        depth += chunk

    assert worst_s < 0.08


def test_fewer_tokens_are_not_read_where_that_takes_as_long() -> None:
    # A device for which a pass over few tokens takes about as long as one over many.
    read = beside(paced(0.002), lambda tokens: 0.08 + tokens * 0.0001, steps=200)
    chunks = [chunk for chunk, _ in read]

    assert sum(chunk < 16 for chunk in chunks) <= 2
    assert chunks[-1] == 16


def test_short_prompts_are_read_as_fast_as_before_once_a_deep_one_is_through() -> None:
    pace = paced(0.002)
    before = beside(pace, shallow_s)[-1][0]
    beside(pace, deep_s, depth=18_000)

    assert beside(pace, shallow_s, steps=1)[0][0] == before


def test_streams_make_up_for_the_time_that_they_waited_for_another_model() -> None:
    pace = paced(0.002)
    assert pace.free_s(1) > 0
    pace.waited(0.03, 1)
    steps = 0
    while not pace.free_s(1):
        pace.decoded(0.002, is_beside=True)
        steps += 1

    assert steps > 30
    pace.waited(0.03, 0)
    assert pace.free_s(1) > 0, "nobody waited"


@pytest.mark.parametrize("pass_s", [0.28, 0.5, 1.0])
def test_a_prompt_is_read_in_parts_where_a_single_token_takes_longer_than_a_step_may(
    pass_s: float,
) -> None:
    pace = PrefillBudget(512)
    chunks = []
    for _ in range(40):
        chunks.append(pace.chunk(0, 1))
        pace.read(pass_s + chunks[-1] * 0.002, chunks[-1], is_whole=True, decoding=0)
    assert min(chunks[:20]) >= 8
    assert min(chunks[20:]) >= 16
    # Once it is known how long a token takes by itself, a step takes twice that.
    pace.decoded(pass_s)
    for _ in range(20):
        chunks.append(pace.chunk(0, 1))
        pace.read(pass_s + chunks[-1] * 0.002, chunks[-1], is_whole=True, decoding=0)
    assert chunks[-1] > pass_s / 0.002 / 2


@pytest.mark.parametrize("token_s", [0.05, 0.3, 1.0, 20.0])
def test_a_slow_model_shows_every_second_how_far_it_is_or_after_each_token(token_s: float) -> None:
    pace = PrefillBudget(512)
    steps: list[float] = []
    done = 0
    while done < 400:
        chunk = min(400 - done, pace.chunk(0, 1))
        pace.read(chunk * token_s, chunk, is_whole=True, decoding=0)
        steps.append(chunk * token_s)
        done += chunk
    # The first steps learn that smaller ones read as fast.
    assert max(steps[12:]) <= max(1.0, token_s), steps
