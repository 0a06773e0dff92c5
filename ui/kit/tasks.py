"""Work that must not block the window: tasks on the loop, files on other threads."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from engine.files.causes import os_cause
from engine.files.safe_files import read_bounded, write_whole
from ui.words import FileRefused

_log = logging.getLogger(__name__)

# Every unfinished task, with the object that started it: asyncio itself keeps only weak references.
_open: dict[asyncio.Task[None], object] = {}


def start_task(owner: object, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """Start work of an object on the running loop and return its task; failures are logged."""
    for task in [task for task in _open if task.get_loop().is_closed()]:
        del _open[task]
    task = asyncio.get_running_loop().create_task(work, name=name)
    _open[task] = owner
    task.add_done_callback(_end)
    return task


def restart_task(owner: object, work: Coroutine[Any, Any, None], name: str) -> None:
    """Start work in place of that of the same name, which is cancelled: it has no result."""
    cancel_tasks(owner, name)
    start_task(owner, work, name)


def cancel_tasks(owner: object, name: str = "") -> None:
    """Cancel the tasks that an object has started; with a name, those of the name alone."""
    for task, starter in _open.items():
        if starter is owner and name in ("", task.get_name()):
            task.cancel()


async def finish_tasks(owner: object) -> None:
    """Wait until all tasks that an object has started have ended."""
    while own := [task for task, starter in _open.items() if starter is owner]:
        await asyncio.gather(*own, return_exceptions=True)


def _end(task: asyncio.Task[None]) -> None:
    _open.pop(task, None)
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("%s failed", task.get_name(), exc_info=error)


async def read_text(
    path: Path, max_bytes: int, *, decode: Callable[[bytes], str] | None = None
) -> str:
    """Return the text of a file with line feeds; raises ``FileRefused``."""

    def read() -> str:
        if path.stat().st_size > max_bytes:
            raise FileRefused(
                f"“{path.name}” is too large: such a file has at most {max_bytes / 1e6:.0f} MB."
            )
        # The stated size may be too small: it is 0 for a device, and a file may grow.
        raw = read_bounded(path, max_bytes)
        if decode is None:
            return raw.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        try:
            return decode(raw)
        except ValueError as error:
            raise FileRefused(f"“{path.name}” could not be read: {error}.") from error

    try:
        return await asyncio.to_thread(read)
    except UnicodeDecodeError as error:
        raise FileRefused(f"“{path.name}” is not UTF-8 text.") from error
    except OSError as error:
        raise FileRefused(f"“{path.name}” could not be read: {os_cause(error)}.") from error


async def write_file(path: Path, render: Callable[[], str | bytes]) -> None:
    """Write a whole file, or leave an earlier one unchanged and raise ``FileRefused``."""
    try:
        await asyncio.to_thread(lambda: write_whole(path, render()))
    except OSError as error:
        raise FileRefused(f"“{path.name}” could not be written: {os_cause(error)}.") from error
