"""Raises the limit of open files, if the system allows it. Main thread, at start-up."""

import contextlib
import resource


def raise_open_file_limit() -> None:
    """Raise the soft limit of open files towards the hard limit; never lower it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # macOS starts with 256 and allows at most this many, for connections, models and pipes.
    limit = 10_240 if hard == resource.RLIM_INFINITY else min(10_240, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
