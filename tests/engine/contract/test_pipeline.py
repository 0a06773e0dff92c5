"""Random cases through the real answer pipeline: all its results follow the contract."""

import random

import pytest

from engine.recording.replay import replay
from engine.recording.run_trace import trace_for
from engine.recording.saved_run import from_json, to_json
from engine.values.request import TraceLevel
from tests.engine.contract.comparing import differences, outcome_of
from tests.engine.contract.product import Run, answer_of, play, run
from tests.engine.contract.run import problems, shrunk
from tests.engine.contract.writing.case import Case
from tests.engine.contract.writing.cases import random_case
from tests.support.random_cases import cases

CHUNKS = 20
CASES_IN_A_CHUNK = cases(60)
REPLAYED = cases(400)


def random_cases(seed: str, count: int) -> list[Case]:
    return [random_case(random.Random(f"{seed}/{number}")) for number in range(count)]


def report(case: Case) -> str:
    """Return a failing case as small as can be, in words."""
    small = shrunk(case, lambda candidate: bool(problems(candidate)))
    return "\n".join([*problems(small), repr(small)])


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_answer_is_what_the_contract_says(chunk: int) -> None:
    for case in random_cases(f"pipeline {chunk}", CASES_IN_A_CHUNK):
        if problems(case):
            pytest.fail(report(case))


def test_a_trace_changes_nothing_and_its_replay_is_the_run() -> None:
    for case in random_cases("traced", REPLAYED):
        row = answer_of(case, TraceLevel.STOPS)
        trace = trace_for(row.generation)
        traced = play(case, row)
        for event in traced.events:
            trace.take(event)
        assert outcome_of(traced) == outcome_of(run(case)), case
        saved = to_json(trace)
        assert to_json(from_json(saved)) == saved, case
        for is_traced in (False, True):
            again = replay(trace, is_traced=is_traced)
            assert again.stop == traced.finished.stop, case
            assert (again.text, again.thinking) == (traced.text, traced.thinking), case
            assert again.output_tokens == traced.finished.usage.output_tokens, case
            calls = [(call.name, call.arguments) for call in again.calls]
            assert calls == traced.raw_calls, case


def test_the_comparison_sees_a_wrong_answer() -> None:
    for case in random_cases("wrong", 200):
        made = run(case)
        if len(made.text) > 1 and not differences(case, made):
            events = [event for event in made.events if getattr(event, "text", None) is None]
            assert differences(case, Run(events)), case
            return
    raise AssertionError("no case gave a text")
