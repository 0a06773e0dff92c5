"""A few kills of processes that write caches; they show that the long run works."""

import asyncio
from pathlib import Path

import pytest

from tests.lab.endurance.disk_cache.killing import killed

pytestmark = pytest.mark.long


def test_the_caches_that_a_kill_leaves_give_no_wrong_token_and_prevent_no_start(
    tmp_path: Path,
) -> None:
    results = asyncio.run(killed(3, 7, tmp_path))
    assert [one.faults for one in results] == [()] * 3
    assert any(one.from_disk for one in results)
