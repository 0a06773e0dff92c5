"""Renames a damaged file, so that the program can start and the file is not lost."""

import contextlib
import errno
import itertools
import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path

from engine.files.causes import os_cause

_log = logging.getLogger(__name__)


def set_aside(path: Path, companions: Sequence[str] = ("",)) -> Path:
    """Rename a file to ``STEM.set-aside-DATE-TIME.SUFFIX`` beside it, and return its new path.

    The suffixes of ``companions`` name the files that are renamed with it, such as ``-wal``.
    """
    stamp = f"{path.stem}.set-aside-{time.strftime('%Y%m%d-%H%M%S')}"
    names = (f"{stamp}{'' if number == 1 else f'-{number}'}" for number in itertools.count(1))
    targets = (path.with_name(f"{name}{path.suffix}") for name in names)
    target = next(
        target
        for target in targets
        if not any(os.path.lexists(f"{target}{companion}") for companion in companions)
    )
    for companion in companions:
        with contextlib.suppress(FileNotFoundError):
            os.replace(f"{path}{companion}", f"{target}{companion}")
    return target


def has_set_aside(path: Path) -> bool:
    """Return whether a version of a file was set aside earlier, whose content may come back."""
    return any(path.parent.glob(f"{path.stem}.set-aside-*"))


def is_damage(error: OSError) -> bool:
    """Return whether a file is none or too large; other errors of reading may pass."""
    return error.errno in (errno.EFBIG, errno.EISDIR, errno.EINVAL)


class OverwriteGuard:
    """Sets a damaged file aside, and lets nothing be written over it until it is."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_in_the_way = False

    def set_aside(self) -> str:
        """Rename the file; return a sentence with its new name, or with why it keeps its own."""
        try:
            aside = set_aside(self._path)
        except OSError as error:
            _log.warning("cannot set %s aside: %s", self._path, error)
            self._is_in_the_way = True
            return f"It could not be set aside, and nothing is saved over it: {os_cause(error)}."
        return f"It is kept as {aside.name}."

    def check_writable(self) -> None:
        """Rename a file that could not be set aside before; ``OSError`` if that fails again."""
        if self._is_in_the_way and os.path.lexists(self._path):
            set_aside(self._path)
        self._is_in_the_way = False
