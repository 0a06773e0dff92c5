"""A backup of the conversations each day; the last seven are kept."""

import contextlib
import logging
import os
import re
import sqlite3
import time
from pathlib import Path

from app.private_files import made_private, touch_private
from app.store import statements

MAX_BACKUPS = 7
# With the files that SQLite makes beside a database which it opens.
_NAME = re.compile(r"(conversations \d{4}-\d\d-\d\d\.db)(?:-shm|-wal)?")
_log = logging.getLogger(__name__)


def backups_folder(path: Path) -> Path:
    """Return the folder of the backups of a database."""
    return path.with_name("backups")


def pictures_in_backup(path: Path) -> set[str]:
    """Return the names of the pictures of a backup's messages. Blocks."""
    # Opening a file in WAL mode, even for reading, makes files beside it unless it is immutable.
    address = f"{path.as_uri()}?mode=ro&immutable=1"
    with contextlib.closing(sqlite3.connect(address, uri=True)) as connection:
        connection.text_factory = lambda content: str(content, "utf-8", "replace")
        return statements.picture_files(connection)


def make_backup(path: Path) -> None:
    """Copy a database, unless today's backup exists, and delete old backups. Blocks."""
    folder = backups_folder(path)
    target = folder / f"conversations {time.strftime('%Y-%m-%d')}.db"
    if target.exists():
        return
    partial = target.with_suffix(".partial")
    try:
        made_private(folder)
        partial.unlink(missing_ok=True)
        touch_private(partial)
        with (
            contextlib.closing(sqlite3.connect(path)) as source,
            contextlib.closing(sqlite3.connect(partial)) as copy,
        ):
            source.backup(copy)
        os.replace(partial, target)
        named = [
            (match[1], file) for file in folder.iterdir() if (match := _NAME.fullmatch(file.name))
        ]
        backups = sorted(name for name, file in named if name == file.name)
        for name, file in named:
            if name not in backups[-MAX_BACKUPS:]:
                file.unlink()
    except (OSError, sqlite3.Error) as error:
        _log.warning("no backup was made", exc_info=error)
