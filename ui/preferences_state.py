"""The present preferences, and how changes are saved.

Main thread. Knows no file: the application composes it with a function that saves the values.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QObject, Signal

from engine.files.causes import os_cause
from ui.kit.tasks import finish_tasks, start_task
from ui.preferences import TEXT_PERCENTS, Preferences


class PreferencesState(QObject):
    """The present preferences; a change takes effect at once and is saved on another thread."""

    changed = Signal(object)  # earlier ones
    keeping_failed = Signal(str)  # reason

    def __init__(self, preferences: Preferences, keep: Callable[[Preferences], object]) -> None:
        """``keep`` saves preferences; it is called on a thread that may wait for a disk."""
        super().__init__()
        self._now = preferences
        self._save = keep
        self._keeping: asyncio.Task[None] | None = None
        self._is_unkept = False

    @property
    def now(self) -> Preferences:
        return self._now

    async def finish(self) -> None:
        """Wait until all changes are saved; try again what could not be."""
        await finish_tasks(self)
        if self._is_unkept:
            self._begin()
            await finish_tasks(self)

    def change(self, **fields: Any) -> None:
        """Change fields of ``Preferences``."""
        before, self._now = self._now, replace(self._now, **fields)
        if self._now != before:
            self._is_unkept = True
            self._begin()
            self.changed.emit(before)

    def resize_text(self, step: int) -> None:
        """Zoom the text of messages in (1), out (-1) or to the actual size (0)."""
        if step == 0:
            self.change(text_percent=100)
            return
        now = self._now.text_percent
        steps = [p for p in TEXT_PERCENTS if (p > now if step > 0 else p < now)]
        if steps:
            self.change(text_percent=steps[0] if step > 0 else steps[-1])

    def value_of(self, path: str) -> Any:
        """Return a preference by its path, such as ``server.port``."""
        value: Any = self._now
        for name in path.split("."):
            value = getattr(value, name)
        return value

    def change_value(self, path: str, value: Any) -> None:
        """Change a preference, by its path, such as ``server.port``."""
        section, _, name = path.rpartition(".")
        if section:
            self.change(**{section: replace(getattr(self._now, section), **{name: value})})
        else:
            self.change(**{name: value})

    def _begin(self) -> None:
        if self._keeping is None:
            self._keeping = start_task(self, self._keep(), "keep the preferences")

    async def _keep(self) -> None:
        """Save the newest values; a slow disk must not block the window."""
        try:
            while self._is_unkept:
                self._is_unkept = False
                await asyncio.to_thread(self._save, self._now)
        except OSError as error:
            self._is_unkept = True
            self.keeping_failed.emit(f"Your settings could not be saved: {os_cause(error)}.")
        finally:
            self._keeping = None
