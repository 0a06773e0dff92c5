"""Settings of this process and its threads, and what only one of the threads may do at a time."""

import ast
import contextlib
import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")
# The usual thresholds of Python's cyclic collector.
_THRESHOLDS = gc.get_threshold()
# The size of a stack is a setting of the process, which the next thread to start takes.
_stack_size = threading.Lock()
# Python 3.11 counts the depth of syntax trees for all threads together, and fails where two parse.
_parsing = threading.Lock()


def syntax_of(source: str) -> ast.Module:
    """Return the syntax of Python code; raises as ``ast.parse`` does."""
    with _parsing:
        return ast.parse(source)


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pause Python's cyclic collector inside the block: an import makes hardly any garbage.

    Sets the threshold: a window may turn the collector off for good during the pause, which turning
    it on at the end would undo.
    """
    gc.set_threshold(0, *_THRESHOLDS[1:])
    try:
        yield
    finally:
        gc.set_threshold(*_THRESHOLDS)


def run_with_stack(work: Callable[[], T], stack_bytes: int) -> T:
    """Do work on a thread with a stack of its own size; return its result, or raise its error."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    thread = threading.Thread(target=run, name="fullstop-deep", daemon=True)
    with _stack_size:
        before = threading.stack_size(stack_bytes)
        try:
            thread.start()
        finally:
            threading.stack_size(before)
    return done.result()


def set_switch_interval() -> None:
    """Let threads wait at most one millisecond for the interpreter's lock, instead of five.

    A step takes the lock several times; rendering a template beside it, which is pure Python,
    would cost a stream five milliseconds each time.
    """
    sys.setswitchinterval(min(sys.getswitchinterval(), 0.001))


def set_batch_scheduling() -> None:
    """Ask Linux not to interrupt this thread whenever one of MLX's threads has work.

    For servers on Linux with few cores: MLX's threads, which inherit the setting, wake up some
    hundred times per token, and each wake-up would cost two context switches, a third of a stream.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # not permitted: slower, but it works
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def free_mlx_thread() -> None:
    """Free what MLX keeps for the calling thread, which must not use MLX afterwards.

    A stream that outlives its thread can abort the process at exit. Does nothing where MLX was
    never imported.
    """
    if (mx := sys.modules.get("mlx.core")) is not None:
        mx.synchronize()
        mx.clear_streams()
