"""The menu entries that copy what to type in a terminal for a coding agent to use the server.

Main thread. Turns the server on if it is off; starts no agent.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QMenu, QWidget

from engine import ModelInfo
from ui.kit.system.boxes import report_failure, tell
from ui.kit.system.clipboard import copy_text
from ui.kit.system.menus import add_entry, literal
from ui.server.server_panel import ServerPanel


class AgentLines(Protocol):
    """The names of coding agents, and what each of them needs."""

    def titles(self) -> Mapping[str, str]:
        """Return the agents' names by their keys, such as ``claude``."""

    def lines(self, agent: str, url: str, model: ModelInfo, *, has_key: bool) -> str:
        """Return what to paste in a terminal.

        Args:
            agent: The agent's key.
            url: The server's address.
            model: The model that answers.
            has_key: Whether the server asks for a key.
        """

    def lacks(self, agent: str, model: ModelInfo) -> str:
        """Return what the model lacks for an agent; empty if the agent can use it."""


class AgentMenu(QObject):
    """Copies the lines for an agent, once the server is on.

    Args:
        panel: The server's state.
        agents: The agents' names, and their lines.
        model: Returns the model that answers; None while there is none.
        parent: The window that boxes belong to.
    """

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
        self._wanted = ""
        panel.switch.changed.connect(self._go_on)

    def fill(self, menu: QMenu) -> None:
        """Add an entry for each agent."""
        for word, title in self._titles.items():
            add_entry(menu, literal(title), partial(self.copy, word))

    def copy(self, agent: str) -> None:
        """Copy the lines for an agent; turn the server on first if it is off."""
        title = self._titles[agent]
        if self._model() is None:
            detail = f"Load a model, then copy the lines for {title} again."
            report_failure(self._parent, "No model is loaded.", detail)
            return
        self._wanted = agent
        self._panel.switch.turn(True)
        self._go_on()

    def _go_on(self) -> None:
        switch, agent = self._panel.switch, self._wanted
        if not agent or switch.stage not in ("on", "failed", "off"):
            return
        if switch.stage == "on":
            self._wanted = ""
            self._copy_now(agent, switch.url)
        elif not switch.is_wanted:
            self._wanted = ""
            if switch.stage == "failed":
                report_failure(self._parent, "The server could not be started.", switch.message)

    def _copy_now(self, agent: str, url: str) -> None:
        model, title = self._model(), self._titles[agent]
        if model is None:
            return
        server = self._panel.preferences.now.server
        has_key = server.is_key_required
        copy_text(self._agents.lines(agent, url, model, has_key=has_key))
        words = [f"Paste them into a terminal. {title} then uses {model.id} at {url}."]
        if has_key:
            words.append("Set FULLSTOP_API_KEY to the server's key first.")
        if lacks := self._agents.lacks(agent, model):
            words.append(f"{model.id} is not suitable for {title}, however: {lacks}.")
        tell(self._parent, f"The lines for {title} are on the clipboard.", "\n\n".join(words))
