"""Where log records go: standard error for a server, a file for the window. Main thread."""

import json
import logging
import logging.handlers
import sys
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from app.private_files import open_private
from app.process.streams import CLEAR_LINE, takes_controls

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_OURS = ("app", "engine", "api", "ui")
_FILE_SIZE_BYTES = 1_000_000


def log_to_standard_error(is_verbose: bool) -> None:
    """Send warnings, or everything from ``INFO`` up of our own packages, to standard error."""
    _configure_log(_TerminalLog(sys.stderr), logging.INFO if is_verbose else logging.WARNING)


def log_as_json_lines() -> None:
    """Send everything from ``INFO`` up of our own packages to standard error, as JSON lines.

    Each has ``time`` (ISO 8601, UTC), ``level``, ``logger`` and ``message``; that of a request has
    ``method``, ``path``, ``status``, ``took_ms``, ``request_id`` and ``remote``; an error has
    ``traceback``.
    """
    _configure_log(logging.StreamHandler(sys.stderr), logging.INFO, _JsonLines())


def log_to_file(path: Path) -> None:
    """Send the log records of our packages to a file that is rotated by size."""
    handler = _PrivateLog(
        path, maxBytes=_FILE_SIZE_BYTES, backupCount=3, encoding="utf-8", delay=True
    )
    _configure_log(handler, logging.INFO)


class _PrivateLog(logging.handlers.RotatingFileHandler):
    _has_failed = False

    def _open(self) -> TextIOWrapper:
        file = open(  # noqa: SIM115 - the handler closes it
            self.baseFilename, self.mode, encoding=self.encoding, opener=open_private
        )
        assert isinstance(file, TextIOWrapper)
        return file

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - of ``logging``
        """Name a full or read-only disk once, in a line: each further record meets it again."""
        error = sys.exception()
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._has_failed and sys.stderr is not None:
            self._has_failed = True
            print(f"The log cannot be written: {error}", file=sys.stderr)


class _TerminalLog(logging.StreamHandler[TextIO]):
    """Standard error, on which a record replaces the current status line."""

    def format(self, record: logging.LogRecord) -> str:
        # Here rather than in ``emit``, because an error must not reach the code that logs.
        return f"{CLEAR_LINE if takes_controls(self.stream) else ''}{super().format(record)}"


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= getattr(record, "fields", {})
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False, default=str)


def _configure_log(
    handler: logging.Handler, level: int, formatter: logging.Formatter | None = None
) -> None:
    handler.setFormatter(formatter or logging.Formatter(_FORMAT))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    for name in _OURS:
        logging.getLogger(name).setLevel(level)
