"""Threads that compute give way to other threads, and do not interrupt each other."""

import os
import sys
import threading
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.values.request import GenerationRequest
from tests.support.asking import run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux has such turns")


def test_the_threads_that_compute_take_long_turns_and_no_other_does(demo_model_path: Path) -> None:
    def threads() -> set[int]:
        return {int(name) for name in os.listdir("/proc/self/task")}

    async def answered(engine: Engine) -> set[int]:
        await engine.load(demo_model_path)
        generation = await engine.generate(GenerationRequest(prompt="Hi", max_tokens=3))
        async for _ in generation.batches():
            pass
        return threads()

    before = threads()
    engine = Engine()
    made = run(answered(engine)) - before
    own = [one.native_id for one in threading.enumerate() if one.name == "fullstop-engine"][-1]
    assert own is not None
    policies = {thread: os.sched_getscheduler(thread) for thread in made}
    engine.close()

    assert policies[own] == os.SCHED_BATCH
    # One of MLX's at the least has come with it.
    assert list(policies.values()).count(os.SCHED_BATCH) >= 2
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
