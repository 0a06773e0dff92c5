"""The limits that a helper process sets for itself: time, memory, no core files.

Called in the helper process, on its main thread. Limits that a system does not have are left out.
"""

import contextlib
import os
import resource
import signal

_NICE = 10
# https://man7.org/linux/man-pages/man7/sched.7.html, "The autogroup feature"
_SESSION = "/proc/self/autogroup"


def give_way() -> None:
    """Make this process unobtrusive: no core files, no reaction to Ctrl-C, a low priority."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the program
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    if os.getsid(0) == os.getpid():
        # Linux shares processors among sessions first, and this process has a session of its own:
        # its niceness alone would only count within that session.
        with contextlib.suppress(OSError), open(_SESSION, "w", encoding="ascii") as session:
            session.write(str(_NICE))


def allow_memory(more: int | None) -> None:
    """Limit this process to ``more`` bytes beyond what it has; None removes the limit.

    Does nothing where the system has no such limit, or cannot tell what a process has.
    """
    with contextlib.suppress(OSError, ValueError):
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        limit = hard
        if more is not None:
            with open("/proc/self/statm", encoding="ascii") as file:
                limit = int(file.read().split()[0]) * resource.getpagesize() + more
            if hard != resource.RLIM_INFINITY:
                limit = min(limit, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


class CpuTimer:
    """Ends this process when it has computed for too long, even within native code.

    Args:
        cpu_s: Processor time that the block may take.
    """

    def __init__(self, cpu_s: float) -> None:
        self._cpu_s = cpu_s

    def __enter__(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, self._cpu_s)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
