"""Stops are chosen from answers so that the effect of each is certain."""

from hypothesis import given, settings
from hypothesis import strategies as st

from api.conformance.captures.values import CapturedEnding, first_occurrence
from api.conformance.probe.dialects import Ask
from api.conformance.probe.plan import Baseline, plan
from engine.stopping.matcher import StopMatcher

LINES = "\n".join(str(number) for number in range(1, 21))
WORDS = "The quick brown fox jumps over the lazy dog"


def baseline(text: str, bounds: tuple[int, ...] = (), **more: object) -> Baseline:
    values = {"stable": text, "bounds": bounds, "ending": CapturedEnding.NATURAL} | more
    return Baseline(Ask("?"), text, **values)  # type: ignore[arg-type]


@settings(deadline=None)
@given(
    st.text(st.sampled_from("ab1 \n,é数👋"), min_size=12, max_size=60),
    st.lists(st.integers(1, 59), unique=True, max_size=20).map(sorted),
)
def test_every_case_expects_what_the_rule_says_and_what_the_engine_does(
    text: str, bounds: list[int]
) -> None:
    if len(text.strip()) < 12:
        return
    ends = tuple(end for end in bounds if end < len(text))
    for one in plan([baseline(text, (*ends, len(text)))]):
        assert all(one.stops)
        matcher = StopMatcher(one.stops)
        kept = matcher.feed(text)
        kept += "" if matcher.match else matcher.flush()
        assert kept == one.text
        assert (matcher.match.value if matcher.match else None) == one.matched
        assert one.end <= len(text)


def test_stops_are_chosen_only_from_the_text_that_repeats() -> None:
    stable = WORDS[:20]
    cases = plan([baseline(WORDS, stable=stable, is_repeatable=False)])
    assert cases
    for one in cases:
        found = first_occurrence(stable, one.stops)
        assert found is not None
        assert one.matched == found[1]


def test_a_stop_that_occurs_in_the_thinking_is_not_chosen() -> None:
    thinking = "I count 5, 6 and 7"
    cases = plan([baseline(LINES, thinking=thinking)])
    assert cases
    assert not [stop for one in cases for stop in one.stops if stop in thinking]
