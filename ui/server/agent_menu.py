"""The menu that copies setup commands of coding agents. Main thread."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from engine.library.model_info import ModelInfo
from ui.kit.commands import Command, Entry
from ui.kit.dialogs import confirm, show_error, show_message
from ui.kit.menus import copy_text, escape_mnemonics
from ui.preferences import API_KEY_VARIABLE
from ui.server.local_server import LocalServerState
from ui.server.server_switch import free_port
from ui.words import display_name


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
        server: LocalServerState,
        agents: AgentLines,
        model: Callable[[], ModelInfo | None],
        parent: QWidget,
    ) -> None:
        super().__init__(parent)
        self._server = server
        self._agents = agents
        self._model = model
        self._parent = parent
        self._titles = agents.titles()
        # The agent whose lines are copied as soon as the server is on; empty for none.
        self._pending_agent = ""
        self._was_off = False  # the server is turned on for these lines
        server.switch.changed.connect(self._go_on)

    @property
    def model_name(self) -> str:
        """The model that answers requests which name none; empty for none."""
        model = self._model()
        return "" if model is None else display_name(model.id)

    def entries(self) -> list[Entry]:
        return [
            Command(escape_mnemonics(title), partial(self.copy, word))
            for word, title in self._titles.items()
        ]

    def copy(self, agent: str) -> None:
        title = self._titles[agent]
        if self._model() is None:
            detail = f"Load a model, then copy the lines for {title} again."
            show_error(self._parent, "No model is loaded.", detail)
            return
        self._pending_agent = agent
        self._was_off = self._server.switch.stage != "on"
        self._server.switch.turn(True)
        self._go_on()

    def _go_on(self) -> None:
        switch, agent = self._server.switch, self._pending_agent
        if not agent or switch.stage not in ("on", "failed", "off"):
            return
        if switch.stage == "on":
            self._pending_agent = ""
            self._copy_now(agent, switch.url)
        elif not switch.is_requested:
            self._pending_agent = ""
            if switch.stage == "failed":
                self._show_failure(agent)

    def _show_failure(self, agent: str) -> None:
        switch, failure = self._server.switch, "The server could not be started."
        if not switch.is_port_taken:
            show_error(self._parent, failure, switch.message)
            return
        port = free_port(self._server.preferences.now.server.port)

        def start() -> None:
            self._server.start_at(port)
            self.copy(agent)

        answers = [Command(f"Use Port {port}", start)]
        confirm(self._parent, failure, switch.message, answers=answers, is_warning=True)

    def _copy_now(self, agent: str, url: str) -> None:
        model, title = self._model(), self._titles[agent]
        if model is None:
            return
        server = self._server.preferences.now.server
        has_key = server.is_key_required
        copy_text(self._agents.lines(agent, url, model, has_key=has_key))
        parts = [f"Paste them into a terminal. {title} then uses {model.id} at {url}."]
        if self._was_off:
            parts.append(f"The local server was off and is on now. {self._server.reach_text}")
        if has_key:
            parts.append(f"Set {API_KEY_VARIABLE} to the server’s key first.")
        if lacks := self._agents.lacks(agent, model):
            parts.append(f"{model.id} is not suitable for {title}, however: {lacks}.")
        show_message(self._parent, f"Setup command for {title} copied.", "\n\n".join(parts))
