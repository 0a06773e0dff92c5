"""Says what a model lacks for an agent. Pure; any thread."""

from app.launching.agents import AgentProgram
from engine import counted


def lacks(agent: AgentProgram, context: int | None, can_call_tools: bool | None) -> str:
    """Return what a model lacks, as the end of a sentence; empty if it is suitable.

    Args:
        agent: The agent.
        context: Tokens that the model's context holds; None if not known.
        can_call_tools: Whether it can call tools; None if not known.
    """
    found = []
    if context is not None and context < agent.least_context:
        found.append(
            f"its context holds {counted(context, 'token')}, and {agent.title} needs at "
            f"least {agent.least_context:,} for its instructions, its tools and your work"
        )
    if agent.needs_tools and can_call_tools is False:
        found.append(f"it cannot call tools, which {agent.title} needs for all its work")
    return "; ".join(found)
