"""The shell commands for agents that the window copies. Pure.

Fits ``ui.server.server_panel.AgentLines``.
"""

from app.folders.paths import demo_model
from app.launching.agents import AGENTS, NO_KEY, Target
from app.launching.checking import lacks
from app.launching.lines import lines
from engine import ModelInfo

_ANY_KEY = "key"


class CopiedLines:
    """Every agent that ``fullstop launch`` starts."""

    def titles(self) -> dict[str, str]:
        """Return the agents' titles by their names on the command line."""
        return {word: agent.title for word, agent in AGENTS.items()}

    def lines(self, agent: str, url: str, model: ModelInfo, *, has_key: bool) -> str:
        """Return what to paste in a terminal.

        Args:
            agent: The agent's name on the command line.
            url: The server's address.
            model: The model that answers.
            has_key: Whether the server requires a key.
        """
        # The key itself is never written out.
        key = _ANY_KEY if has_key else NO_KEY
        return lines(AGENTS[agent], Target(url, model.id, model.context_length, key))

    def lacks(self, agent: str, model: ModelInfo) -> str:
        """Return what the model lacks for an agent; empty if it is suitable."""
        if model.path == demo_model():
            return "the demo model only counts, repeats and explains itself"
        return lacks(AGENTS[agent], model.context_length, model.can_call_tools)
