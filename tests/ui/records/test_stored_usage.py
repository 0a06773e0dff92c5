"""The token counts of a run come back from a file, with the reason for what was not reused."""

import json

import pytest

from engine import CacheMiss, Finished, Timing, Usage
from engine.files.json_fields import Fields
from engine.stopping.record import StopInfo, StopKind
from ui.records.codec import run_from, run_values
from ui.records.runs import Run, RunState


def stored(usage: Usage) -> dict[str, object]:
    run = Run(state=RunState.FINISHED)
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


def test_a_reason_that_only_a_later_version_knows_is_left_out() -> None:
    values = stored(Usage(900, 100, 20))
    values["finished"]["usage"]["cache_miss"] = "moon phase"  # type: ignore[index]
    assert read(values) == Usage(900, 100, 20)


def test_a_run_of_an_earlier_version_has_no_reason() -> None:
    values = stored(Usage(900, 100, 20))
    del values["finished"]["usage"]["cache_miss"]  # type: ignore[attr-defined]
    assert read(values) == Usage(900, 100, 20)
