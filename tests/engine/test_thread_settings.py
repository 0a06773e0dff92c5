"""The settings of the interpreter for threads, and what only one of them does at a time."""

import ast
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.threads import run_with_stack, syntax_of
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


def test_only_one_thread_parses(monkeypatch: pytest.MonkeyPatch) -> None:
    parsing = threading.Semaphore()

    def parse(source: str) -> ast.Module:
        assert parsing.acquire(blocking=False)
        time.sleep(0.02)
        parsing.release()
        return ast.Module([], [])

    monkeypatch.setattr(ast, "parse", parse)
    with ThreadPoolExecutor() as pool:
        list(pool.map(syntax_of, ["a", "b"]))
