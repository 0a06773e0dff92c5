"""The switch of the local server, from off to stopping or failed; knows no HTTP. Main thread."""

import contextlib
import errno
import logging
import socket
from typing import Literal, Protocol

from PySide6.QtCore import QObject, Signal

from ui.kit.tasks import finish_tasks, start_task
from ui.preferences import DEFAULT_PORT
from ui.server.requests import RequestEntry
from ui.words import Tone, describe_error

_log = logging.getLogger(__name__)

ServerStage = Literal["off", "starting", "on", "stopping", "failed"]

WINDOW_TITLE = "Local Server"


class AddressRefused(OSError):
    """The server cannot have the address that is wanted; it goes on at its earlier one."""


class ServerControl(Protocol):
    """Starts, changes and stops the server. All calls run on the window's loop."""

    async def start(self) -> str:
        """Start serving and return the address; ``OSError`` if the port cannot be used."""

    async def apply(self) -> str:
        """Serve with the settings of now and return the address; running answers go on.

        Raises:
            AddressRefused: It goes on at its earlier address.
            OSError: It cannot serve with these settings.
        """

    async def stop(self) -> None:
        """Stop serving; open answers are ended cleanly."""

    async def replay(self, entry: RequestEntry) -> None:
        """Send a request of the log to the running server; the answer appears in the log."""


class ServerSwitch(QObject):
    """Turns the server on and off, and keeps the state of that."""

    changed = Signal()

    def __init__(self, control: ServerControl, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._control = control
        self._is_requested = False
        self._is_stale = False
        self._is_following = False
        self.stage: ServerStage = "off"
        self.is_port_taken = False
        self.url = ""
        self.message = ""

    @property
    def is_requested(self) -> bool:
        """Whether the switch is on, even if the server has not started yet."""
        return self._is_requested

    def turn(self, is_on: bool) -> None:
        """Start or stop the server in the background; the last call counts."""
        if is_on == self._is_requested:
            return
        self._is_requested = is_on
        if self._is_following:
            self.changed.emit()
        else:
            self._start_following()

    def apply(self) -> None:
        """Apply changed settings to a running server; its answers continue."""
        if not self._is_requested:
            return
        self._is_stale = True
        if not self._is_following:
            self._start_following()

    async def finish(self) -> None:
        self.turn(False)
        await finish_tasks(self)

    def _start_following(self) -> None:
        # Set before the task begins: two tasks would stop and start the server at the same time.
        self._is_following = True
        start_task(self, self._follow(), "server switch")

    async def _follow(self) -> None:
        try:
            await self._apply_request()
        finally:
            self._is_following = False

    async def _apply_request(self) -> None:
        while self._is_requested != (self.stage == "on") or (self._is_stale and self.stage == "on"):
            if not self._is_requested:
                await self._stop()
                continue
            self._is_stale = False
            if self.stage == "on":
                await self._apply()
            else:
                await self._start()

    async def _start(self) -> None:
        self._set("starting")
        try:
            self.url = await self._control.start()
        except Exception as error:  # the control's own errors are not known here
            self._fail(error)
        else:
            self._set("on")

    async def _apply(self) -> None:
        try:
            self.url = await self._control.apply()
        except AddressRefused as refusal:
            self.message = describe_error(refusal)
            self._set("on", keep_message=True)
        except Exception as error:  # as above
            # What the user wants of the server does not hold: it must not go on without that.
            await self._stop()
            self._fail(error)
        else:
            self._set("on")

    def _fail(self, error: Exception) -> None:
        self._is_requested = False
        self.is_port_taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        if isinstance(error, OSError):  # as for a taken port: its text is for the user
            _log.warning("the server could not be started: %s", describe_error(error))
        else:
            _log.error("the server could not be started", exc_info=error)
        self.message = describe_error(error)
        self._set("failed", keep_message=True)

    async def _stop(self) -> None:
        self._set("stopping")
        try:
            await self._control.stop()
        except Exception as error:  # as above
            _log.error("the server could not be stopped", exc_info=error)
            self.message = describe_error(error)
            self._is_requested = False
            self._set("failed", keep_message=True)
        else:
            self.url = ""
            self._set("off")

    def _set(self, stage: ServerStage, keep_message: bool = False) -> None:
        self.stage = stage
        if not keep_message:
            self.message = ""
            self.is_port_taken = False
        self.changed.emit()


def free_port(taken: int) -> int:
    """Return the next unused port of this computer after a taken one."""
    for port in range(taken + 1, min(taken + 100, 65_536)):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    return DEFAULT_PORT


def pill_of(switch: ServerSwitch) -> tuple[str, str, Tone]:
    """Return word, icon and tone of the server's stage."""
    if switch.stage == "failed":
        word = "Port taken" if switch.is_port_taken else "Could not start"
        return word, "fault", "fault"
    pills: dict[ServerStage, tuple[str, str, Tone]] = {
        "off": ("Off", "cancelled", "quiet"),
        "starting": ("Starting", "clock", "busy"),
        "on": ("On", "check", "done"),
        "stopping": ("Stopping", "clock", "quiet"),
    }
    return pills[switch.stage]
