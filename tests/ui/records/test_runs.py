"""Runs: the rate of a running answer, and the token counts that come back from a file."""

import json

import pytest

from engine.files.json_fields import Fields
from engine.stopping.record import StopInfo, StopKind
from engine.stopping.repetition import Repetition
from engine.values.events import (
    BudgetEnd,
    CacheMiss,
    EndDetails,
    Finished,
    PromptDifference,
    PromptPart,
    Timing,
    Usage,
)
from engine.values.request import LimitSource, ToolCall
from ui.records.codec import run_from, run_values
from ui.records.runs import Pace, Run
from ui.records.tool_calls import CallProgress, CallResult


def stored(usage: Usage) -> dict[str, object]:
    run = Run(state="finished")
    run.finished = Finished(StopInfo(StopKind.EOS), usage, Timing())
    values: dict[str, object] = json.loads(json.dumps(run_values(run)))
    return values


def read(values: dict[str, object]) -> Usage:
    run = run_from(Fields(values), "")
    assert run.finished is not None
    return run.finished.usage


@pytest.mark.parametrize("miss", [None, *CacheMiss])
def test_the_usage_of_a_run_comes_back(miss: CacheMiss | None) -> None:
    usage = Usage(900, 100, 20, 5, 60, miss)
    assert read(stored(usage)) == usage


def test_a_difference_of_prompts_comes_back_and_an_unknown_part_is_left_out() -> None:
    difference = PromptDifference(12, PromptPart.TOOLS, "find", "read", 64)
    usage = Usage(900, 100, 20, prompt_difference=difference)
    assert read(stored(usage)) == usage
    values = stored(usage)
    values["finished"]["usage"]["prompt_difference"]["part"] = "moon"  # type: ignore[index]
    assert read(values) == Usage(900, 100, 20)


def test_a_reason_that_only_a_later_version_knows_is_left_out() -> None:
    values = stored(Usage(900, 100, 20))
    values["finished"]["usage"]["cache_miss"] = "moon phase"  # type: ignore[index]
    assert read(values) == Usage(900, 100, 20)


def test_a_run_of_an_earlier_version_has_no_reason() -> None:
    values = stored(Usage(900, 100, 20))
    del values["finished"]["usage"]["cache_miss"]  # type: ignore[attr-defined]
    assert read(values) == Usage(900, 100, 20)


def test_run_keeps_the_details_of_its_end() -> None:
    run = Run(state="finished")
    run.finished = Finished(
        StopInfo(StopKind.MAX_TOKENS),
        Usage(),
        Timing(),
        details=EndDetails(
            LimitSource.PRESET,
            BudgetEnd(3, 1, 3),
            LimitSource.SERVER,
            "Short",
            Repetition(70, 4, 20),
            "get_weather",
        ),
    )
    values = json.loads(json.dumps(run_values(run)))
    assert run_from(Fields(values), "").finished == run.finished
    values["finished"]["details"]["limit_from"] = "moon phase"
    read = run_from(Fields(values), "").finished
    assert read is not None
    assert read.details == EndDetails()


def test_the_rate_of_a_running_answer_is_shown_a_few_times_a_second() -> None:
    pace = Pace()
    assert not pace.note(0, 0.0)
    assert pace.label == ""
    assert pace.note(1, 1.0)
    assert pace.label == "1 token"
    assert not pace.note(2, 1.1)
    assert pace.note(21, 2.0)
    assert pace.label == "20 tok/s · 21 tokens"


def test_the_rate_falls_while_no_tokens_arrive() -> None:
    pace = Pace()
    pace.note(1, 0.0)
    pace.note(31, 1.0)
    assert pace.label == "30 tok/s · 31 tokens"
    assert pace.note(31, 2.0)
    assert pace.label == "15 tok/s · 31 tokens"


def test_copied_run_grows_by_itself() -> None:
    run = Run(tool_calls=[ToolCall("c1", "add", "{}")])
    copy = run.copy()
    run.results.append(CallResult("c1", "done", "2"))
    run.live.progress["c1"] = CallProgress("sums", "add")
    run.live.pace.note(5, 1.0)
    assert (copy.results, copy.live.progress, copy.live.pace.tokens) == ([], {}, 0)
