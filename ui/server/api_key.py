"""The API key of the server: whether there is one, where it is kept, and making a new one.

Main thread. Knows no keychain: the application composes it with something that keeps the key.
"""

from collections.abc import Coroutine
from typing import Any, Protocol

from PySide6.QtCore import QObject, Signal

from ui.kit.background.tasks import Tasks
from ui.preferences.groups import KeyPlace
from ui.words.failures import failure_words


class KeyKeeper(Protocol):
    """Keeps the key. Calls run on the window's loop and never block it.

    Each raises ``OSError`` with a message for a person if the key cannot be kept or read.
    """

    async def place(self) -> KeyPlace:
        """Return where the key is kept, or ``none`` if there is no key."""

    async def renew(self) -> str:
        """Create a key that replaces the old one, and return it; it cannot be returned again."""

    async def forget(self) -> None:
        """Delete the key."""


class ApiKeyState(QObject):
    """Knows whether there is a key and where it is kept; creates and deletes it.

    Signals:
        changed: The place, the new key, the message or the busy state has changed.
        renewed: The key was replaced or deleted; a running server needs to know.
    """

    changed = Signal()
    renewed = Signal()

    def __init__(self, keeper: KeyKeeper, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._keeper = keeper
        self._tasks = Tasks()
        self.place: KeyPlace = "none"
        self.is_busy = False
        self.fresh_key = ""
        self.message = ""

    @property
    def has_key(self) -> bool:
        """Whether there is a key."""
        return self.place != "none"

    def look(self) -> None:
        """Find out, in the background, whether there is a key."""
        self._tasks.start(self._look(), "look for the API key")

    def renew(self) -> None:
        """Create a key; ``fresh_key`` shows it until ``hide_key`` is called."""
        self._begin(self._renew(), "new API key")

    def forget(self) -> None:
        """Delete the key."""
        self._begin(self._forget(), "forget the API key")

    def hide_key(self) -> None:
        """Forget the shown key; it cannot be shown again."""
        if self.fresh_key:
            self.fresh_key = ""
            self.changed.emit()

    async def finish(self) -> None:
        """Wait until the background work has ended."""
        await self._tasks.finish()

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        if self.is_busy:
            work.close()
            return
        self.is_busy = True
        self.message = ""
        self.changed.emit()
        self._tasks.start(self._while_busy(work), name)

    async def _while_busy(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
            self.renewed.emit()
        except OSError as error:
            self.message = failure_words(error)
        finally:
            self.is_busy = False
            self.changed.emit()

    async def _renew(self) -> None:
        self.fresh_key = await self._keeper.renew()
        self.place = await self._keeper.place()

    async def _forget(self) -> None:
        await self._keeper.forget()
        self.fresh_key = ""
        self.place = "none"

    async def _look(self) -> None:
        try:
            self.place = await self._keeper.place()
        except OSError as error:
            self.message = failure_words(error)
        self.changed.emit()
