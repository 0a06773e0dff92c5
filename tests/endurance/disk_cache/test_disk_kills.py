"""A few kills of processes that write caches, so that the hundred can be started at any time."""

import asyncio
from pathlib import Path

import pytest

from tests.endurance.disk_cache.killing import killed

pytestmark = pytest.mark.long


def test_what_a_kill_leaves_of_caches_gives_no_wrong_token_and_refuses_no_start(
    tmp_path: Path,
) -> None:
    results = asyncio.run(killed(3, 7, tmp_path))
    assert [one.faults for one in results] == [()] * 3
    assert any(one.from_disk for one in results)
