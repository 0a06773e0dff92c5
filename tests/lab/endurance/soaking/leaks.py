"""Reads the resources of a process, and reports growth between two idle moments."""

import asyncio
import gc
import os
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

# Allowed growth: caches fill, and the allocator keeps pages.
_ROOM = {"memory_mb": 1.10, "database_kb": 1.0}
_JOURNAL_KB = 4200
# Bodies of 31 MB leave gaps that the allocator keeps, and pools of threads grow to their bounds.
_ATTACKED = {"memory_mb": 200, "threads": 8}
_SLACK = {"memory_mb": 24, "threads": 0, "tasks": 0, "descriptors": 0, "database_kb": 256}


@dataclass(frozen=True, slots=True)
class Reading:
    """The resources of an idle process."""

    memory_mb: int
    threads: int
    tasks: int
    descriptors: int
    database_kb: int

    def __str__(self) -> str:
        return "  ".join(f"{each.name} {getattr(self, each.name)}" for each in fields(self))


def read(loops: Iterable[asyncio.AbstractEventLoop], database: Path) -> Reading:
    """Collect garbage and read. Call it on any thread, while the loops rest."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    journal = database.with_name(database.name + "-wal")
    # SQLite writes its journal from the beginning again once it has some 4 MB.
    journal_kb = max(0, _kb(journal) - _JOURNAL_KB)
    return Reading(
        memory_mb=pages * os.sysconf("SC_PAGE_SIZE") // 1_000_000,
        threads=len(list(Path("/proc/self/task").iterdir())),
        tasks=sum(len(asyncio.all_tasks(loop)) for loop in loops),
        descriptors=len(list(Path("/proc/self/fd").iterdir())),
        database_kb=_kb(database) + journal_kb,
    )


def _kb(file: Path) -> int:
    return file.stat().st_size // 1024 if file.exists() else 0


def grown(
    early: Reading, late: Reading, *, kept_kb: int = 0, is_attacked: bool = False
) -> list[str]:
    """Return the resources that have grown more than allowed."""
    slack = _SLACK | (_ATTACKED if is_attacked else {})
    found = []
    for each in fields(Reading):
        before, after = getattr(early, each.name), getattr(late, each.name)
        room = slack[each.name] + (kept_kb if each.name == "database_kb" else 0)
        if after > before * _ROOM.get(each.name, 1.0) + room:
            found.append(f"{each.name} grew from {before} to {after}")
    return found
