"""Turns exceptions on the engine thread into errors for readers and lines of the log.

Exceptions that ask the thread to end are raised again; a panic of a native library ends only the
requests that caused it.
"""

import logging
from pathlib import Path

from engine.errors import EngineError
from engine.files.causes import without_folders

_log = logging.getLogger(__name__)
# These ask the thread to end. Other exceptions that are not an ``Exception`` are native panics.
_ENDINGS = (SystemExit, KeyboardInterrupt, GeneratorExit)


def raise_endings(error: BaseException) -> None:
    """Raise an exception again if it asks the thread to end."""
    if isinstance(error, _ENDINGS):
        raise error


def refusal(error: BaseException) -> EngineError:
    """Return the error to raise for the caller of a request that failed.

    Raises exceptions again that ask the thread to end; a panic of a native library is not one.
    """
    raise_endings(error)
    if isinstance(error, EngineError):
        return error
    _log.exception("a request could not be prepared", exc_info=error)
    return EngineError(f"the request could not be prepared: {cause_of(error)}")


def log_failure(what: str, error: BaseException) -> None:
    """Write a failure into the log."""
    cause = None if isinstance(error, EngineError) else error
    _log.error("%s: %s", what, error, exc_info=cause)


def cause_of(error: BaseException, *folders: Path) -> str:
    """Return an exception as text that begins with its type and names no folder of this
    computer.
    """
    said = without_folders(str(error), *folders)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
