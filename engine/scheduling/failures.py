"""Failures of requests as the errors and log lines that report them.

A panic of a native library is a ``BaseException`` too; it ends only the requests that caused it.
"""

import logging
from pathlib import Path

from engine.errors import EngineError
from engine.files.causes import without_folders

_log = logging.getLogger(__name__)
# These end the thread.
_EXITS = (SystemExit, KeyboardInterrupt, GeneratorExit)


def raise_exits(error: BaseException) -> None:
    """Raise an exception again if it ends the thread."""
    if isinstance(error, _EXITS):
        raise error


def request_error(error: BaseException) -> EngineError:
    """Return the error for the caller of a request that failed; exits are raised again."""
    raise_exits(error)
    if isinstance(error, EngineError):
        return error
    _log.exception("a request could not be prepared", exc_info=error)
    return EngineError(f"the request could not be prepared: {cause_of(error)}")


def log_failure(what: str, error: BaseException) -> None:
    """Log a failure, with its traceback unless it is one of the engine's own errors."""
    cause = None if isinstance(error, EngineError) else error
    _log.error("%s: %s", what, error, exc_info=cause)


def cause_of(error: BaseException, *folders: Path) -> str:
    """Return an exception as text: its type first, and no folder of this computer."""
    text = without_folders(str(error), *folders)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
