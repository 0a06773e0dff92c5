"""Exact cycles at the end of a list of tokens, compared with trying every period."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InvalidRequest
from engine.stopping.repetition import (
    DEFAULT_DETECTION,
    MAX_PATTERN_SIZE,
    RECORDED,
    Repetition,
    RepetitionDetection,
    RepetitionDetector,
    find_repetition,
)
from tests.engine.contract.writing.cycles import cycle_at_end

PERIODS = [*range(1, 41), 50, 63, 64, 65, 70, 85, 86, 99, 128, 200, 255, 256, 257, 500, 777, 1000,
           2047, 3000, 4095, 4096]  # fmt: skip


@st.composite
def detections(draw: st.DrawFn) -> RepetitionDetection:
    last = draw(st.integers(1, 12) | st.integers(17, 60))
    first = draw(st.integers(1, last))
    return RepetitionDetection(last, first, draw(st.integers(2, 5)), draw(st.integers(0, 40)))


@st.composite
def repetitive(draw: st.DrawFn) -> list[int]:
    """Return tokens of a small alphabet: patterns in several copies between other tokens."""
    tokens: list[int] = []
    small = st.lists(st.integers(0, 2), max_size=8)
    for _ in range(draw(st.integers(1, 4))):
        tokens += draw(small) * draw(st.integers(1, 9)) + draw(small)
    return [token + draw(st.sampled_from((0, 256, 65_536))) for token in tokens]


@given(repetitive(), detections())
def test_detector_finds_each_cycle_at_the_token_that_completes_it(
    tokens: list[int], detection: RepetitionDetection
) -> None:
    detector = RepetitionDetector(detection)
    for count, token in enumerate(tokens, 1):
        expected = cycle_at_end(tokens[:count], detection)
        must_wait = detector.tokens_left > 1
        found = detector.add(token)
        assert found == expected
        assert not (found and must_wait)


@given(repetitive(), detections())
def test_found_cycle_has_the_smallest_period_and_all_copies(
    tokens: list[int], detection: RepetitionDetection
) -> None:
    assert find_repetition(tokens, detection) == cycle_at_end(tokens, detection)


@given(repetitive(), repetitive(), detections())
def test_no_cycle_reaches_over_a_restart(
    before: list[int], after: list[int], detection: RepetitionDetection
) -> None:
    restarted, fresh = RepetitionDetector(detection), RepetitionDetector(detection)
    for token in before:
        restarted.add(token)
    restarted.restart(len(before))
    for token in after:
        found, expected = restarted.add(token), fresh.add(token)
        assert (found is None) is (expected is None)
        if found is not None and expected is not None:
            assert found.token_index == len(before) + expected.token_index


@pytest.mark.parametrize("period", PERIODS)
def test_default_figures_end_each_period_at_the_foreseen_token(period: int) -> None:
    before = [1_000_000 + number for number in range(300)]
    copies = max(4, -(-256 // period))
    detector = RepetitionDetector(DEFAULT_DETECTION)
    tokens = before + [number % period for number in range((copies + 1) * period)]
    found = {n: cycle for n, token in enumerate(tokens, 1) if (cycle := detector.add(token))}
    assert min(found) == 300 + copies * period
    assert found[min(found)] == Repetition(period, copies, 300)


def test_record_names_cycles_of_64_tokens_without_a_detection() -> None:
    detector = RepetitionDetector(None)
    assert not any(detector.add(token) for token in [7, 8] * 31)
    assert detector.recorded() is None
    detector.add(7)
    detector.add(8)
    assert detector.recorded() == Repetition(2, 32, 0)
    assert RECORDED.max_pattern_size == MAX_PATTERN_SIZE


@pytest.mark.parametrize(
    ("field", "figures"),
    [
        ("max_pattern_size", {"max_pattern_size": 0}),
        ("max_pattern_size", {"max_pattern_size": MAX_PATTERN_SIZE + 1}),
        ("min_pattern_size", {"max_pattern_size": 3, "min_pattern_size": 4}),
        ("min_pattern_size", {"max_pattern_size": 3, "min_pattern_size": 0}),
        ("min_count", {"max_pattern_size": 3, "min_count": 1}),
        ("min_count", {"max_pattern_size": MAX_PATTERN_SIZE, "min_count": 17}),
        ("min_tokens", {"max_pattern_size": 3, "min_tokens": -1}),
    ],
)
def test_figures_outside_their_limits_are_refused_by_name(
    field: str, figures: dict[str, int]
) -> None:
    with pytest.raises(InvalidRequest, match=field):
        RepetitionDetection(**figures)
