"""The settings of the interpreter for threads, and what only one of them does at a time."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.threads import run_with_stack


def test_every_thread_with_a_stack_of_its_own_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    start, usual, sizes = threading.Thread.start, threading.stack_size(), []

    def slow_start(thread: threading.Thread) -> None:
        if thread.name == "fullstop-deep":
            time.sleep(0.02)
            sizes.append(threading.stack_size())
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", slow_start)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda n: run_with_stack(lambda: n, 64 << 20), range(3)))
    assert (sizes, threading.stack_size()) == ([64 << 20] * 3, usual)
