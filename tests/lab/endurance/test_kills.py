"""A few kills of a streaming window; they show that the long run works."""

import random
from pathlib import Path

import pytest

from tests.lab.endurance.kills import kill_on_a_full_disk, plain_kill

pytestmark = pytest.mark.long


def test_a_killed_window_leaves_its_question_and_an_answer_without_gaps(tmp_path: Path) -> None:
    assert plain_kill(tmp_path, random.Random(3)).faults == ()


@pytest.mark.parametrize("is_freed", [False, True], ids=["while full", "with room again"])
def test_a_window_killed_on_a_full_disk_keeps_what_was_written_before(
    tmp_path: Path, is_freed: bool
) -> None:
    try:
        left = kill_on_a_full_disk(tmp_path, random.Random(4), is_freed)
    except PermissionError as refusal:
        pytest.skip(str(refusal))
    assert left.faults == ()
