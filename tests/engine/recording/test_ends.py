"""The ends of several answers are counted by reason, stop, length and odds of an end token."""

from dataclasses import replace

from engine.recording.ends import (
    SeededAnswer,
    Spread,
    compare_sides,
    count_ends,
    make_sides,
    spread,
)
from engine.stopping.record import StopInfo, StopKind
from engine.stopping.rules import StopRules
from engine.values.events import Finished, Timing, Usage
from engine.values.request import GenerationRequest

STOPPED = StopInfo(StopKind.STOP_STRING, "END", dropped="END of it")
ENDED = StopInfo(StopKind.EOS)
LIMITED = StopInfo(StopKind.MAX_TOKENS)
ASKED = GenerationRequest(stops=StopRules.of("END"))


def ended(seed: int, stop: StopInfo, tokens: int, odds: float | None = None) -> SeededAnswer:
    end = Finished(stop, Usage(output_tokens=tokens), Timing())
    return SeededAnswer(seed, eos_probability=odds, finished=end)


def test_ends_are_grouped_with_commonest_first() -> None:
    counts = count_ends(
        [
            ended(1, ENDED, 10, 0.5),
            ended(2, STOPPED, 30, 0.25),
            ended(3, STOPPED, 20),
            ended(4, LIMITED, 60, 0.0),
            ended(5, STOPPED, 25, 0.25),
        ],
        StopRules.of("END", "never"),
    )
    assert [(group.kind, group.seeds) for group in counts.ends] == [
        (StopKind.STOP_STRING, (2, 3, 5)),
        (StopKind.EOS, (1,)),
        (StopKind.MAX_TOKENS, (4,)),
    ]
    assert counts.ends[0].tokens == Spread(20, 22.5, 25, 27.5, 30)
    assert counts.lengths == Spread(10, 20, 25, 30, 60)
    assert counts.eos_odds == Spread(0.0, 0.1875, 0.25, 0.3125, 0.5)
    fired, never = counts.stops
    assert (fired.fired, fired.cuts) == (3, ((" of it", 3),))
    assert (never.text, never.fired, never.cuts) == ("never", 0, ())


def test_different_stops_are_different_ends() -> None:
    other = StopInfo(StopKind.STOP_STRING, "###", dropped="###")
    counts = count_ends([ended(1, STOPPED, 1), ended(2, other, 2)], StopRules())
    assert [group.label for group in counts.ends] == ["stop “END”", "stop “###”"]


def test_no_answer_has_no_spread_and_one_answer_is_its_own() -> None:
    counts = count_ends([], StopRules())
    assert (counts.answers, counts.lengths, counts.eos_odds) == (0, None, None)
    assert spread([7]) == Spread(7, 7, 7, 7, 7)


def test_sentence_names_greatest_difference_of_two_sides() -> None:
    other = replace(ASKED, stops=StopRules.of("###"))
    one, two = make_sides(ASKED, other, [1, 2, 3])
    one.answers = [ended(1, STOPPED, 10), ended(2, STOPPED, 20), ended(3, ENDED, 30)]
    assert compare_sides(one, two) == ""
    two.answers = [ended(1, LIMITED, 60), ended(2, STOPPED, 20), ended(3, ENDED, 30)]
    assert compare_sides(one, two) == (
        "2 of 3 stopped by “END”, 1 with the other list; 1 seed ends differently, "
        "median length 20 and 30 tokens."
    )
    two.answers = one.answers
    assert "no seed ends differently" in compare_sides(one, two)


def test_sides_are_named_by_stops_and_settings_that_differ() -> None:
    sampling = replace(ASKED.sampling, temperature=0.5, top_p=0.9)
    other = replace(ASKED, sampling=sampling, max_tokens=9)
    names = [side.name for side in make_sides(ASKED, other, [1])]
    assert names == [
        "“END”",
        "“END”, temperature 0.5, top p 0.9, at most 9 tokens",
    ]
    assert [side.name for side in make_sides(ASKED, ASKED, [1])] == ["“END”"]
