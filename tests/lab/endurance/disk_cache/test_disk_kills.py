"""A few kills of processes that write caches; they show that the long run works."""

import asyncio
from pathlib import Path

import pytest

from tests.lab.endurance.disk_cache.killing import MODEL, killed
from tests.support.models.hybrid_model import write_hybrid_model

pytestmark = pytest.mark.long


@pytest.mark.parametrize("kind", ["demo", "hybrid"])
def test_the_caches_that_a_kill_leaves_give_no_wrong_token_and_prevent_no_start(
    kind: str, tmp_path: Path
) -> None:
    model = MODEL if kind == "demo" else write_hybrid_model(tmp_path / "model", hidden_size=64)
    results = asyncio.run(killed(3, 7, tmp_path / "caches", model))
    assert [one.faults for one in results] == [()] * 3
    assert any(one.from_disk for one in results)
