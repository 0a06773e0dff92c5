"""Where log records go: standard error for a server, a file for the window.

Configures the standard library's logging; knows no component. Main thread, at start-up.
"""

import logging
import logging.handlers
import sys
from io import TextIOWrapper
from pathlib import Path

from app.folders.privacy import open_private

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_OURS = ("app", "engine", "api", "ui")
_FILE_SIZE_BYTES = 1_000_000
_OLD_FILES = 3


def to_standard_error(is_verbose: bool) -> None:
    """Send warnings, or everything from ``INFO`` up of our own packages, to standard error."""
    _configure(logging.StreamHandler(sys.stderr), logging.INFO if is_verbose else logging.WARNING)


def to_file(path: Path) -> None:
    """Send what our packages have to say to a file that is rotated by size.

    Raises:
        OSError: The file cannot be written.
    """
    handler = _PrivateFile(
        path, maxBytes=_FILE_SIZE_BYTES, backupCount=_OLD_FILES, encoding="utf-8", delay=True
    )
    _configure(handler, logging.INFO)


class _PrivateFile(logging.handlers.RotatingFileHandler):
    """A rotated file that only its owner can read."""

    def _open(self) -> TextIOWrapper:
        file = open(  # noqa: SIM115 - the handler closes it
            self.baseFilename, self.mode, encoding=self.encoding, opener=open_private
        )
        assert isinstance(file, TextIOWrapper)
        return file


def _configure(handler: logging.Handler, level: int) -> None:
    handler.setFormatter(logging.Formatter(_FORMAT))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    for name in _OURS:
        logging.getLogger(name).setLevel(level)
