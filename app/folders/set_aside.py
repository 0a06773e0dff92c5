"""Renames a damaged file, so that the program can start and the file is not lost."""

import logging
import os
import time
from pathlib import Path

from engine.files.causes import os_cause

_log = logging.getLogger(__name__)


def set_aside(path: Path) -> str:
    """Rename a damaged file to ``NAME.broken-DATE-TIME`` beside it.

    Returns:
        A sentence with its new name, or with why it could not be renamed.
    """
    aside = _free(path, f"broken-{time.strftime('%Y%m%d-%H%M%S')}")
    try:
        os.replace(path, aside)
    except OSError as error:
        _log.warning("cannot set %s aside: %s", path, error)
        return f"It could not be set aside: {os_cause(error)}."
    return f"It is kept as {aside.name}."


def _free(path: Path, mark: str) -> Path:
    """Return an unused name: two files may be damaged within the same second."""
    aside, number = path.with_name(f"{path.name}.{mark}"), 1
    while os.path.lexists(aside):
        number += 1
        aside = path.with_name(f"{path.name}.{mark}-{number}")
    return aside
