"""Renames a damaged file, so that the program can start and the file is not lost."""

import logging
import os
import time
from pathlib import Path

from engine.files.causes import os_cause

_log = logging.getLogger(__name__)


def move_aside(path: Path) -> Path:
    """Rename a damaged file to ``NAME.broken-DATE-TIME`` beside it, and return its new path."""
    aside = _free(path, f"broken-{time.strftime('%Y%m%d-%H%M%S')}")
    os.replace(path, aside)
    return aside


class DamagedFileKeeper:
    """Sets a damaged file aside, and lets nothing be written over it until it is."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_in_the_way = False

    def set_aside(self) -> str:
        """Rename the file; return a sentence with its new name, or with why it keeps its own."""
        try:
            aside = move_aside(self._path)
        except OSError as error:
            _log.warning("cannot set %s aside: %s", self._path, error)
            self._is_in_the_way = True
            return f"It could not be set aside, and nothing is saved over it: {os_cause(error)}."
        return f"It is kept as {aside.name}."

    def check_writable(self) -> None:
        """Rename a file that could not be set aside before; ``OSError`` if that fails again."""
        if self._is_in_the_way and os.path.lexists(self._path):
            move_aside(self._path)
        self._is_in_the_way = False


def _free(path: Path, mark: str) -> Path:
    """Return an unused name: two files may be damaged within the same second."""
    aside, number = path.with_name(f"{path.name}.{mark}"), 1
    while os.path.lexists(aside):
        number += 1
        aside = path.with_name(f"{path.name}.{mark}-{number}")
    return aside
