"""The state behind the Local Server window; knows no HTTP. Main thread."""

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Protocol

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QMenu, QWidget

from engine import ModelInfo
from ui.kit.dialogs import show_error, show_message
from ui.kit.menus import add_entry, copy_text, escape_mnemonics
from ui.kit.tasks import finish_tasks, start_task
from ui.preferences import API_KEY_VARIABLE, KeyLocation, Preferences
from ui.preferences_state import PreferencesState
from ui.server.requests import RequestLog, usage_text
from ui.server.server_switch import ServerControl, ServerSwitch
from ui.words import describe_error


class KeyKeeper(Protocol):
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

    def __init__(self, keeper: KeyKeeper, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._keeper = keeper
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
        self.fresh_key = await self._keeper.renew()
        self.location = await self._keeper.location()

    async def _forget(self) -> None:
        await self._keeper.forget()
        self.fresh_key = ""
        self.location = "none"

    async def _look(self) -> None:
        try:
            self.location = await self._keeper.location()
        except OSError as error:
            self.message = describe_error(error)
        self.changed.emit()


class ServerPanel(QObject):
    """Keeps the server as the preferences want it, and remembers whether it is on."""

    def __init__(
        self,
        switch: ServerSwitch,
        preferences: PreferencesState,
        key: ApiKeyState,
        log: RequestLog,
        control: ServerControl,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.switch = switch
        self.preferences = preferences
        self.key = key
        self.log = log
        self.control = control
        self._is_ending = False
        switch.show_reach(preferences.now.server.is_on_network)
        switch.changed.connect(self._remember)
        preferences.changed.connect(self._follow_preferences)
        key.renewed.connect(self._follow_key)
        for changed in (log.taken, log.cleared):
            changed.connect(lambda: switch.show_use(usage_text(log.open)))

    @property
    def url(self) -> str:
        return self.switch.url or f"http://127.0.0.1:{self.preferences.now.server.port}"

    def start(self) -> None:
        """Look for the key, and turn the server on if the preferences say so. Needs the loop."""
        self.key.look()
        if self.preferences.now.server.starts_on:
            self.switch.turn(True)

    def end(self) -> None:
        """Stop remembering changes of the switch: from now on the program turns it off."""
        self._is_ending = True

    async def finish(self) -> None:
        await self.key.finish()

    def _remember(self) -> None:
        # Only what the user wants is remembered: not that a port was taken today.
        switch = self.switch
        if self._is_ending or switch.stage not in ("on", "off"):
            return
        if switch.is_requested == (switch.stage == "on"):
            self.preferences.change_value("server.was_on", switch.is_requested)

    def _follow_preferences(self, before: Preferences) -> None:
        then, now = before.server, self.preferences.now.server
        self.switch.show_reach(now.is_on_network)
        acts = ("port", "is_on_network", "is_key_required", "allowed_origins", "allowed_hosts")
        if any(getattr(then, name) != getattr(now, name) for name in acts):
            self.switch.apply()

    def _follow_key(self) -> None:
        if not self.key.has_key:
            self.preferences.change_value("server.is_key_required", False)
        server = self.preferences.now.server
        if server.is_on_network or server.is_key_required:
            self.switch.apply()


class AgentLines(Protocol):
    """The names of coding agents, and what each of them needs."""

    def titles(self) -> Mapping[str, str]:
        """Return the agents' names by their keys, such as ``claude``."""

    def lines(self, agent: str, url: str, model: ModelInfo, *, has_key: bool) -> str:
        """Return what to paste in a terminal."""

    def lacks(self, agent: str, model: ModelInfo) -> str:
        """Return what the model lacks for an agent; empty if the agent can use it."""


class AgentMenu(QObject):
    """Copies the lines for an agent, once the server is on."""

    def __init__(
        self,
        panel: ServerPanel,
        agents: AgentLines,
        model: Callable[[], ModelInfo | None],
        parent: QWidget,
    ) -> None:
        super().__init__(parent)
        self._panel = panel
        self._agents = agents
        self._model = model
        self._parent = parent
        self._titles = agents.titles()
        # The agent whose lines are copied as soon as the server is on; empty for none.
        self._pending_agent = ""
        panel.switch.changed.connect(self._go_on)

    def fill(self, menu: QMenu) -> None:
        for word, title in self._titles.items():
            add_entry(menu, escape_mnemonics(title), partial(self.copy, word))

    def copy(self, agent: str) -> None:
        title = self._titles[agent]
        if self._model() is None:
            detail = f"Load a model, then copy the lines for {title} again."
            show_error(self._parent, "No model is loaded.", detail)
            return
        self._pending_agent = agent
        self._panel.switch.turn(True)
        self._go_on()

    def _go_on(self) -> None:
        switch, agent = self._panel.switch, self._pending_agent
        if not agent or switch.stage not in ("on", "failed", "off"):
            return
        if switch.stage == "on":
            self._pending_agent = ""
            self._copy_now(agent, switch.url)
        elif not switch.is_requested:
            self._pending_agent = ""
            if switch.stage == "failed":
                show_error(self._parent, "The server could not be started.", switch.message)

    def _copy_now(self, agent: str, url: str) -> None:
        model, title = self._model(), self._titles[agent]
        if model is None:
            return
        server = self._panel.preferences.now.server
        has_key = server.is_key_required
        copy_text(self._agents.lines(agent, url, model, has_key=has_key))
        parts = [f"Paste them into a terminal. {title} then uses {model.id} at {url}."]
        if has_key:
            parts.append(f"Set {API_KEY_VARIABLE} to the server’s key first.")
        if lacks := self._agents.lacks(agent, model):
            parts.append(f"{model.id} is not suitable for {title}, however: {lacks}.")
        show_message(self._parent, f"Setup command for {title} copied.", "\n\n".join(parts))
