"""Copies the readable rows of a damaged database to a sound one.

Reads from a copy: the damaged file stays as it is. Knows no window. Any thread but the main one.
"""

import contextlib
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from app.store.opening import COMPANIONS, replacing_bad_bytes
from app.store.recovery.salvage import ROWS_AT_ONCE, Salvage
from app.store.rows import FoundRows

Take = Callable[[FoundRows], tuple[int, int]]


def bring_over(
    path: Path, take: Take, advance: Callable[[int, int], None], is_cancelled: Callable[[], bool]
) -> tuple[int, int, int]:
    """Copy all readable rows, some at a time."""
    conversations = messages = 0
    with _copied(path) as connection:
        salvage = Salvage(connection)

        def hand_over(found: FoundRows) -> None:
            nonlocal conversations, messages
            new, new_messages = take(found)
            conversations, messages = conversations + new, messages + new_messages
            advance(salvage.state.done, salvage.state.total)

        for some in _in_steps(salvage.conversations()):
            hand_over(FoundRows(some, salvage.attached_to(some)))
            if is_cancelled():
                break
        for pairs in _in_steps(salvage.messages()):
            if is_cancelled():
                break
            lost = [one for one, _ in pairs if one is not None]
            hand_over(FoundRows(lost, salvage.attached_to(lost), [row for _, row in pairs]))
        if not is_cancelled():
            lost = salvage.known_by_files()
            hand_over(
                FoundRows(
                    lost,
                    salvage.attached_to(lost),
                    presets=list(salvage.presets()),
                    folders=list(salvage.folders()),
                )
            )
        return conversations, messages, salvage.state.unreadable


def _in_steps(rows: Iterator[Any]) -> Iterator[list[Any]]:
    step: list[Any] = []
    for row in rows:
        step.append(row)
        if len(step) == ROWS_AT_ONCE:
            yield step
            step = []
    if step:
        yield step


@contextlib.contextmanager
def _copied(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a private copy of a damaged database for reading."""
    with tempfile.TemporaryDirectory(prefix="salvage-", dir=path.parent) as folder:
        copy = Path(folder) / "copy.db"
        for companion in COMPANIONS:
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(f"{path}{companion}", f"{copy}{companion}")
        connection = sqlite3.connect(copy, isolation_level=None)
        connection.text_factory = replacing_bad_bytes
        try:
            # A schema with a damaged entry is used as far as it is readable.
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute("PRAGMA cell_size_check = ON")
            connection.execute("PRAGMA trusted_schema = OFF")
            yield connection
        finally:
            connection.close()
