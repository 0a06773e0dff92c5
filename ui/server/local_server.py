"""The state of the local server: its switch, API key and requests; knows no HTTP. Main thread."""

from collections.abc import Coroutine
from typing import Any, Protocol

from PySide6.QtCore import QObject, Signal

from ui.kit.tasks import finish_tasks, start_task
from ui.preferences import KeyLocation, Preferences
from ui.preferences_state import PreferencesState
from ui.server.requests import RequestLog
from ui.server.server_switch import ServerControl, ServerSwitch
from ui.words import THIS_COMPUTER, describe_error


class ApiKeyStore(Protocol):
    """Keeps the key on other threads; ``OSError`` says for the user why it cannot."""

    async def location(self) -> KeyLocation:
        """Return where the key is kept, or ``none`` if there is no key."""

    async def renew(self) -> str:
        """Create a key that replaces the old one, and return it; it cannot be returned again."""

    async def forget(self) -> None:
        """Delete the key."""


class ApiKeyState(QObject):
    """Knows whether there is a key and where it is kept; creates and deletes it."""

    changed = Signal()
    renewed = Signal()

    def __init__(self, store: ApiKeyStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self.location: KeyLocation = "none"
        self.is_busy = False
        self.fresh_key = ""
        self.message = ""

    @property
    def has_key(self) -> bool:
        return self.location != "none"

    def look(self) -> None:
        start_task(self, self._look(), "look for the API key")

    def renew(self) -> None:
        """Create a key; ``fresh_key`` shows it until ``hide_key`` is called."""
        self._begin(self._renew(), "new API key")

    def forget(self) -> None:
        self._begin(self._forget(), "forget the API key")

    def hide_key(self) -> None:
        """Clear the shown key; it cannot be shown again."""
        if self.fresh_key:
            self.fresh_key = ""
            self.changed.emit()

    async def finish(self) -> None:
        await finish_tasks(self)

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        if self.is_busy:
            work.close()
            return
        self.is_busy = True
        self.message = ""
        self.changed.emit()
        start_task(self, self._while_busy(work), name)

    async def _while_busy(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
            self.renewed.emit()
        except OSError as error:
            self.message = describe_error(error)
        finally:
            self.is_busy = False
            self.changed.emit()

    async def _renew(self) -> None:
        self.fresh_key = await self._store.renew()
        self.location = await self._store.location()

    async def _forget(self) -> None:
        await self._store.forget()
        self.fresh_key = ""
        self.location = "none"

    async def _look(self) -> None:
        try:
            self.location = await self._store.location()
        except OSError as error:
            self.message = describe_error(error)
        self.changed.emit()


class LocalServerState(QObject):
    """Applies the server's preferences, and saves whether it is on for the next start."""

    def __init__(
        self,
        preferences: PreferencesState,
        key: ApiKeyState,
        log: RequestLog,
        control: ServerControl,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.switch = ServerSwitch(control, self)
        self.preferences = preferences
        self.key = key
        self.log = log
        self.control = control
        self._is_ending = False
        self.switch.changed.connect(self._remember)
        preferences.changed.connect(self._follow_preferences)
        key.renewed.connect(self._follow_key)

    @property
    def url(self) -> str:
        return self.switch.url or f"http://127.0.0.1:{self.preferences.now.server.port}"

    @property
    def reach_text(self) -> str:
        """Who can reach the server while it is on."""
        is_on_network = self.preferences.now.server.is_on_network
        return "Visible on your network." if is_on_network else f"For {THIS_COMPUTER} only."

    def start(self) -> None:
        """Look for the key, and turn the server on if the preferences say so. Needs the loop."""
        self.key.look()
        if self.preferences.now.server.starts_on:
            self.switch.turn(True)

    async def finish(self) -> None:
        """Turn the server off, which the next start does not remember."""
        self._is_ending = True
        await self.switch.finish()
        await self.key.finish()

    def start_at(self, port: int) -> None:
        """Start the server at another port, which is kept."""
        self.preferences.change_value("server.port", port)
        self.switch.turn(True)

    def _remember(self) -> None:
        # Only what the user wants is remembered: not that a port was taken today.
        switch = self.switch
        if self._is_ending or switch.stage not in ("on", "off"):
            return
        if switch.is_requested == (switch.stage == "on"):
            self.preferences.change_value("server.was_on", switch.is_requested)

    def _follow_preferences(self, before: Preferences) -> None:
        then, now = before.server, self.preferences.now.server
        acts = ("port", "is_on_network", "is_key_required", "allowed_origins", "allowed_hosts")
        if any(getattr(then, name) != getattr(now, name) for name in acts):
            self.switch.apply()

    def _follow_key(self) -> None:
        if not self.key.has_key:
            self.preferences.change_value("server.is_key_required", False)
        server = self.preferences.now.server
        if server.is_on_network or server.is_key_required:
            self.switch.apply()
