"""Raises the limit of open files, if the system allows it. Main thread, at start-up."""

import contextlib
import resource

# macOS starts with 256 and allows at most this many, which connections, models and pipes share.
_MAX_OPEN_FILES = 10_240


def raise_limit() -> None:
    """Raise the soft limit of open files towards the hard limit; never lower it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(_MAX_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
