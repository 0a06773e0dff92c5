"""The state behind the server window: switch, preferences, key and requests, kept in agreement.

Main thread. Knows no HTTP: the application composes it.
"""

from typing import Protocol

from PySide6.QtCore import QObject

from ui.preferences.preferences import Preferences
from ui.preferences.preferences_state import PreferencesState
from ui.server.api_key import ApiKeyState
from ui.server.requests import RequestEntry, RequestLog
from ui.server.server_switch import ServerSwitch


class RequestReplay(Protocol):
    """Sends a request of the log again."""

    async def replay(self, entry: RequestEntry) -> None:
        """Send the request to the running server; the answer appears in the log."""


class ServerPanel(QObject):
    """Keeps the server as the preferences want it, and remembers whether it is on.

    Args:
        switch: On and off.
        preferences: Whom it lets in, and where it listens.
        key: Its key.
        log: What was asked of it.
        replay: Sends a request again.
        parent: Owns this object.

    Attributes:
        switch: On and off.
        preferences: Whom it lets in, and where it listens.
        key: Its key.
        log: What was asked of it.
        replay: Sends a request again.
    """

    def __init__(
        self,
        switch: ServerSwitch,
        preferences: PreferencesState,
        key: ApiKeyState,
        log: RequestLog,
        replay: RequestReplay,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.switch = switch
        self.preferences = preferences
        self.key = key
        self.log = log
        self.replay = replay
        self._is_ending = False
        switch.show_reach(preferences.now.server.is_on_network)
        switch.changed.connect(self._remember)
        preferences.changed.connect(self._follow_preferences)
        key.renewed.connect(self._follow_key)

    def start(self) -> None:
        """Look for the key, and turn the server on if the preferences say so. Needs the loop."""
        self.key.look()
        if self.preferences.now.server.starts_on:
            self.switch.turn(True)

    def end(self) -> None:
        """Stop remembering changes of the switch: from now on the program turns it off."""
        self._is_ending = True

    async def finish(self) -> None:
        """Wait until the background work has ended."""
        await self.key.finish()

    def _remember(self) -> None:
        # Only what the person wants is remembered: not that a port was taken today, and not that a
        # restarting server is off for a moment.
        switch = self.switch
        if self._is_ending or switch.stage not in ("on", "off"):
            return
        if switch.is_wanted == (switch.stage == "on"):
            self.preferences.change_server(was_on=switch.is_wanted)

    def _follow_preferences(self, before: Preferences) -> None:
        then, now = before.server, self.preferences.now.server
        self.switch.show_reach(now.is_on_network)
        if (then.port, then.is_on_network, then.is_key_required, then.allowed_origins) != (
            now.port,
            now.is_on_network,
            now.is_key_required,
            now.allowed_origins,
        ):
            self.switch.restart()

    def _follow_key(self) -> None:
        if not self.key.has_key:
            self.preferences.change_server(is_key_required=False)
        server = self.preferences.now.server
        if server.is_on_network or server.is_key_required:
            self.switch.restart()
