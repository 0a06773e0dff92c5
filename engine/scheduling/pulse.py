"""Tells a slow engine thread from a stuck one, by evidence that work goes on.

The engine thread notes where it works (``Pulse``); a watch on another thread looks at it
(``Patience``), and gathers evidence only about work that has lasted for a while:

- MLX computes a whole pass in one call. Meanwhile the memory that it uses changes with each
  operation, and its own threads use processor time: one operation in ``float16`` may take minutes.
- A load imports modules and reads from the disk; a model that does not fit into memory is paged in.
- A thread that could run and is given no processor waits its turn.

Time is counted in looks, not by the clock, which jumps when the computer sleeps.
"""

import logging
import os
import resource
import sys
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

# Evidence is gathered about work that has lasted this share of the patience.
_CALM_SHARE = 0.05
# A look counts at most as this much time, however late it is.
_MAX_LOOK_S = 1.0
# Threads that use less than this share of a processor wait for something.
_BUSY_SHARE = 0.05
# How much more time one operation has that is computed all the while.
_COMPUTING_FACTOR = 30.0
# How often the watch looks: this often at least within the patience.
_LOOK_S = 0.5
_LOOKS = 8
_log = logging.getLogger(__name__)


class GivenUp(BaseException):
    """Ends an engine thread that was given up, once it comes back from where it was stuck."""


class Work(NamedTuple):
    """What the engine thread is working on."""

    number: int
    model: object | None
    is_load: bool


class Pulse:
    """What the engine thread is working on, and whether it was given up.

    The engine thread calls ``begin`` and ``end``; any thread may call the rest.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0
        self._work: Work | None = None
        self.is_given_up = False

    @property
    def work(self) -> Work | None:
        """The present piece of work; None while the thread waits for commands."""
        return self._work

    def begin(self, model: object | None = None, *, is_load: bool = False) -> None:
        """Note that a piece of work begins."""
        with self._lock:
            if self.is_given_up:
                raise GivenUp
            self._number += 1
            self._work = Work(self._number, model, is_load)

    def end(self) -> None:
        """Note that the thread waits for commands."""
        self._work = None

    def give_up(self, *, unless: Callable[[Work | None], bool] = lambda _: False) -> Work | None:
        """Let the thread begin nothing any more; return what it works on, which it may finish."""
        with self._lock:
            work = self._work
            if unless(work):
                return None
            self.is_given_up = True
            return work


class Evidence(NamedTuple):
    """Figures that change while work goes on."""

    progress: tuple[int, ...]
    own_s: float = 0.0
    computing_s: float = 0.0
    is_runnable: bool = False


class Patience:
    """Counts how long a piece of work has shown no progress. Belongs to the watch's thread.

    A thread that waits is given the clock's time, and one that computes its own processor time, so
    that it does not matter how much of a processor it gets.
    """

    def __init__(self, max_s: float, gather: Callable[[bool], Evidence]) -> None:
        self._max_s = max_s
        self._gather = gather
        self._number = 0
        self._evidence: Evidence | None = None
        self._stalled_s = 0.0

    def is_over(self, work: Work | None, since_s: float) -> bool:
        """Return whether the engine thread is stuck in a piece of work."""
        since_s = min(since_s, _MAX_LOOK_S)
        if work is None or work.number != self._number:
            self._number = 0 if work is None else work.number
            self._evidence, self._stalled_s = None, 0.0
            return False
        if self._evidence is None and self._stalled_s < _CALM_SHARE * self._max_s:
            self._stalled_s += since_s
            return False
        before, now = self._evidence, self._gather(work.is_load)
        self._evidence = now
        if before is None or before.progress != now.progress:
            self._stalled_s = 0.0
            return False
        own_s, computing_s = now.own_s - before.own_s, now.computing_s - before.computing_s
        if computing_s > _BUSY_SHARE * since_s:
            self._stalled_s += computing_s / _COMPUTING_FACTOR
        elif own_s > _BUSY_SHARE * since_s or now.is_runnable:
            self._stalled_s += own_s
        else:
            self._stalled_s += since_s
        return self._stalled_s >= self._max_s


def gather(engine_thread: int | None, *, is_load: bool) -> Evidence:
    """Return evidence about the engine thread of this process. Any thread."""
    core = sys.modules.get("mlx.core")
    progress = [0] if core is None else [core.get_active_memory(), core.get_cache_memory()]
    if is_load:
        use = resource.getrusage(resource.RUSAGE_SELF)
        progress += [len(sys.modules), use.ru_inblock, use.ru_majflt]
    own_s = computing_s = 0.0
    faults, is_runnable = 0, False
    pythons = {thread.native_id for thread in threading.enumerate()}
    for number, used_s, own_faults, can_run in _threads():
        if number == engine_thread:
            own_s = used_s
        elif number in pythons:
            continue
        else:
            computing_s += used_s
        faults += own_faults
        is_runnable = is_runnable or can_run
    return Evidence((*progress, faults), own_s, computing_s, is_runnable)


def _threads() -> Iterator[tuple[int, float, int, bool]]:
    """Yield each thread's number in the system, processor seconds, major page faults, and whether
    it can run.

    Linux only. Elsewhere models run on graphics processors, whose operations are all short.
    """
    try:
        numbers = os.listdir("/proc/self/task")
    except OSError:
        return
    ticks = os.sysconf("SC_CLK_TCK")
    for number in numbers:
        try:
            with open(f"/proc/self/task/{number}/stat", "rb") as file:
                # The name in parentheses may contain anything.
                fields = file.read().rpartition(b")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        used_s = (int(fields[11]) + int(fields[12])) / ticks
        yield int(number), used_s, int(fields[9]), fields[0] == b"R"


def begin_watch(look: Callable[[], None], max_s: float) -> threading.Event:
    """Call a function twice a second on a separate thread; return what ends that when it is set."""
    every_s = min(_LOOK_S, max_s / _LOOKS)
    is_over = threading.Event()

    def run() -> None:
        while not is_over.wait(every_s):
            try:
                look()
            except Exception:
                _log.exception("the watch failed")

    threading.Thread(target=run, name="fullstop-watch", daemon=True).start()
    return is_over
