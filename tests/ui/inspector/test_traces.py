"""Which runs are kept with their tokens, and which tokens of a long run."""

from engine.recording.run_trace import RunTrace
from tests.ui.inspector.conftest import Record
from tests.ui.inspector.reading import trace_of
from ui.chat.session.traces import Traces
from ui.inspector.what_if_tab import WhatIfTab


def test_traces_keep_the_newest_runs_and_forget_all_at_once(record: Record) -> None:
    shown = record(["a"])
    trace = trace_of(shown)
    traces = Traces(most_runs=2)

    class Asked:
        setting, vocabulary = trace.setting, trace.vocabulary
        request = trace.request

    for number in range(3):
        assert traces.begin(str(number), Asked()) is not None  # type: ignore[arg-type]
    assert [traces.get(str(number)) is not None for number in range(3)] == [False, True, True]
    traces.forget_all()
    assert len(traces) == 0


def test_a_long_run_keeps_its_newest_tokens_and_is_not_replayed(record: Record) -> None:
    whole = trace_of(record(["a", "b", "c"]))
    short = RunTrace(whole.setting, whole.rules, None, capacity=2)
    for token in whole.tokens:
        short.take(token)
    short.stop = whole.stop
    assert [token.index for token in short.tokens] == [2, 3]
    assert short.recording() is None
    assert whole.recording() is not None


def test_no_tokens_are_reported_missing_while_they_are_gathered(
    record: Record,
) -> None:
    assert WhatIfTab._why_not(record(["a", "b"])) == "Replaying the run…"
