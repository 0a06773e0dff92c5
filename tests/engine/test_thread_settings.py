"""The settings of the interpreter for turns of threads."""

import sys
from pathlib import Path

import pytest

from tests.support.asking import scripted_answer
from tests.support.scripted import Stage


@pytest.mark.parametrize(("before_s", "after_s"), [(0.005, 0.001), (0.0002, 0.0002)])
def test_engine_lowers_switch_interval(tmp_path: Path, before_s: float, after_s: float) -> None:
    was_s = sys.getswitchinterval()
    sys.setswitchinterval(before_s)
    try:
        stage = Stage(tmp_path, {"go": ["a"]})
        assert scripted_answer(stage, "go").text == "a"
        assert sys.getswitchinterval() == pytest.approx(after_s, rel=0.02)
    finally:
        sys.setswitchinterval(was_s)
