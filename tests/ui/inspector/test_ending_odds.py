"""How likely each token was to be the last."""

from dataclasses import replace

import pytest

from engine.stopping.rules import StopRules
from engine.values.request import TraceLevel
from tests.ui.inspector.conftest import Record
from tests.ui.inspector.reading import trace_of
from ui.inspector.ending_tab import ending_odds


def test_the_odds_of_ending_are_known_for_fully_recorded_runs_only(record: Record) -> None:
    full = record(["a", "b"], level=TraceLevel.FULL)
    odds = ending_odds(trace_of(full))
    assert odds is not None
    assert len(odds.values) == 3
    assert odds.values[-1] > 0.99
    assert odds.likely == ()
    assert ending_odds(trace_of(record(["a"]))) is None


def test_the_end_itself_does_not_count_as_a_near_miss(record: Record) -> None:
    odds = ending_odds(trace_of(record(["a", "b"], level=TraceLevel.FULL)))
    assert odds is not None
    assert odds.has_end
    assert odds.sentence == "Ending was never likely before the end: at most < 0.01 %."


@pytest.mark.parametrize(
    "rules", [StopRules.of("<|end|>"), StopRules(token_ids=(257,))], ids=["text", "id"]
)
def test_an_end_token_that_is_also_a_stop_is_not_a_near_miss(
    record: Record, rules: StopRules
) -> None:
    shown = record(["a", "b"], level=TraceLevel.FULL, rules=rules)
    trace = trace_of(shown)
    odds = ending_odds(trace)
    assert odds is not None
    assert trace.tokens[-1].special == "<|end|>"
    assert (odds.has_end, odds.likely) == (True, ())
    assert "at most < 0.01 %" in odds.sentence


def test_an_answer_of_only_an_end_token_says_so(record: Record) -> None:
    odds = ending_odds(trace_of(record([], level=TraceLevel.FULL)))
    assert odds is not None
    assert odds.sentence == "The model ended with its first token."


def test_a_place_where_ending_was_likely_is_named(record: Record) -> None:
    shown = record(["a"], level=TraceLevel.FULL, rules=StopRules(ignore_eos=True), max_tokens=3)
    odds = ending_odds(trace_of(shown))
    assert odds is not None
    assert odds.sentence.startswith("The model chose an end token at tokens 2, 3; it was ignored")
    assert not odds.has_end


def test_a_place_where_another_token_was_drawn_instead_of_the_end_is_named(record: Record) -> None:
    trace = trace_of(record(["a", "b"], level=TraceLevel.FULL))
    token = trace.tokens[1]
    assert token.stats is not None
    trace.tokens[1] = replace(token, stats=replace(token.stats, eos_probability=0.4))
    odds = ending_odds(trace)
    assert odds is not None
    assert odds.sentence == "The model might have ended instead of writing token 2."
    assert odds.likely == (1,)
