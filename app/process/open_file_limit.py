"""Raises how many files and connections this process may have open, where the system lets it.

Main thread, at start-up.
"""

import contextlib
import resource

# macOS begins with 256 and takes no more than this; connections, models and pipes share them.
_WANTED = 10_240


def raise_limit() -> None:
    """Raise the soft limit of open files towards the hard one; never lower it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _WANTED if hard == resource.RLIM_INFINITY else min(_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
