"""What belongs to the program and not to a conversation, and how changes of it are kept.

Main thread. Knows no file: the application composes it with something that keeps the values.
"""

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from PySide6.QtCore import QObject, Signal

from engine.files.causes import os_cause
from ui.kit.background.tasks import Tasks
from ui.kit.look.theme_mode import ThemeMode
from ui.records.conversations import ConversationSettings

ServerAtLaunch = Literal["as_left", "on", "off"]

DEFAULT_PORT = 8642
TEXT_PERCENTS = (70, 80, 90, 100, 110, 125, 150, 175, 200)


@dataclass(frozen=True, slots=True)
class ServerPreferences:
    """How other programs are served.

    Attributes:
        port: Where to listen, 1 to 65535.
        is_on_network: Whether other computers can reach it; needs a key.
        is_key_required: Whether programs on this computer have to present the key too.
        allowed_origins: Web origins whose pages may call, such as ``https://example.org``.
        at_launch: Whether it is turned on when the program starts.
        was_on: Whether it was on when the program ended.
    """

    port: int = DEFAULT_PORT
    is_on_network: bool = False
    is_key_required: bool = False
    allowed_origins: tuple[str, ...] = ()
    at_launch: ServerAtLaunch = "as_left"
    was_on: bool = False

    @property
    def starts_on(self) -> bool:
        """Whether the server is to be turned on now that the program starts."""
        return self.was_on if self.at_launch == "as_left" else self.at_launch == "on"


@dataclass(frozen=True, slots=True)
class ModelPreferences:
    """Where models are, and when they free their memory.

    Attributes:
        folders: Folders that a person added.
        rests_after_min: Minutes without a request after which memory is freed; 0 for never.
        last_used: Folder and Unix time of the models that were loaded, oldest first.
    """

    folders: tuple[str, ...] = ()
    rests_after_min: int = 0
    last_used: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Preferences:
    """Everything a person may set for the whole program.

    Attributes:
        theme: Light, dark, or as the system.
        has_high_contrast: Whether lines and small text are drawn stronger than usual.
        text_percent: Size of all text, relative to the usual.
        stays_in_tray: Whether the server goes on when the window is closed.
        server: How other programs are served.
        new_conversation: What a new conversation begins with.
        models: Where models are, and when they free their memory.
    """

    theme: ThemeMode = "system"
    has_high_contrast: bool = False
    text_percent: int = 100
    stays_in_tray: bool = True
    server: ServerPreferences = field(default_factory=ServerPreferences)
    new_conversation: ConversationSettings = field(default_factory=ConversationSettings)
    models: ModelPreferences = field(default_factory=ModelPreferences)


class PreferencesStore(Protocol):
    """Where preferences are kept."""

    def keep(self, preferences: Preferences) -> None:
        """Keep them; called on a thread that may wait for a disk.

        Raises:
            OSError: They cannot be kept.
        """


class PreferencesState(QObject):
    """The preferences as they are now; every change acts at once and is kept on another thread.

    Signals:
        changed: They are others now; carries what they were before.
        keeping_failed: They act, but could not be kept; carries the reason in words.
    """

    changed = Signal(object)
    keeping_failed = Signal(str)

    def __init__(
        self,
        preferences: Preferences | None = None,
        store: PreferencesStore | None = None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._now = preferences or Preferences()
        self._store = store
        self._tasks = Tasks()
        self._keeping: asyncio.Task[None] | None = None
        self._is_unkept = False

    @property
    def now(self) -> Preferences:
        """The preferences as they are."""
        return self._now

    async def finish(self) -> None:
        """Wait until all changes are kept."""
        await self._tasks.finish()

    def change(self, **fields: Any) -> None:
        """Give fields of ``Preferences`` other values."""
        self._take(replace(self._now, **fields))

    def resize_text(self, step: int) -> None:
        """Make all text a step larger (1) or smaller (-1); 0 makes it the usual size."""
        if step == 0:
            self.change(text_percent=100)
            return
        now = self._now.text_percent
        wanted = [p for p in TEXT_PERCENTS if (p > now if step > 0 else p < now)]
        if wanted:
            self.change(text_percent=wanted[0] if step > 0 else wanted[-1])

    def change_server(self, **fields: Any) -> None:
        """Give fields of ``ServerPreferences`` other values."""
        self._take(replace(self._now, server=replace(self._now.server, **fields)))

    def change_models(self, **fields: Any) -> None:
        """Give fields of ``ModelPreferences`` other values."""
        self._take(replace(self._now, models=replace(self._now.models, **fields)))

    def _take(self, preferences: Preferences) -> None:
        if preferences == self._now:
            return
        before, self._now = self._now, preferences
        self._is_unkept = self._store is not None
        if self._is_unkept and self._keeping is None:
            self._keeping = self._tasks.start(self._keep(), "keep the preferences")
        self.changed.emit(before)

    async def _keep(self) -> None:
        """Keep the newest values; a slow disk must not hold up the window."""
        assert self._store is not None
        try:
            while self._is_unkept:
                self._is_unkept = False
                try:
                    await asyncio.to_thread(self._store.keep, self._now)
                except OSError as error:
                    cause = os_cause(error)
                    self.keeping_failed.emit(f"Your settings could not be saved: {cause}.")
        finally:
            self._keeping = None


def origin_problem(text: str) -> str | None:
    """Return what is wrong with a web origin; None where nothing is.

    An origin is scheme and host, perhaps with a port, and nothing after it; ``*`` is every page,
    and ``app://*`` every desktop app of that scheme.
    """
    if text == "*":
        return None
    scheme, separator, rest = text.partition("://")
    if not separator or not scheme:
        return "An origin begins with its scheme, such as https://example.org."
    if rest == "*":
        if scheme.lower() in ("http", "https", "ws", "wss"):
            return "Write * to let every web page call, or one such as https://example.org."
        return None
    if not rest or set(rest) & set("/?#@ *"):
        return "An origin is scheme and host only, such as https://example.org, without a path."
    return None
