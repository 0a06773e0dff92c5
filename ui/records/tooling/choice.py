"""The tools that a conversation may use, and those allowed without asking. Plain values.

The choice belongs to the conversation on this computer. No exported file contains it, so that only
tools run that this person has switched on.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from engine.files.fields import Fields
from ui.records.tooling.servers import ToolInfo

Approval = tuple[str, str, str]
"""Server, tool and fingerprint of a tool that may run without asking."""


def approval_of(tool: ToolInfo) -> Approval:
    """Return the approval of a tool, as it is kept."""
    return tool.server, tool.name, tool.fingerprint


@dataclass(frozen=True, slots=True)
class ToolsInUse:
    """The tool servers of a conversation.

    Attributes:
        servers: The names of the servers that are on.
        without: The tools of these servers that are off, as (server, tool).
        approved: The tools that may run without asking in this conversation.
    """

    servers: tuple[str, ...] = ()
    without: tuple[tuple[str, str], ...] = ()
    approved: tuple[Approval, ...] = ()

    def with_server(self, name: str, is_on: bool) -> "ToolsInUse":
        """Return a copy with a server on or off; switching it off removes its approvals."""
        others = tuple(one for one in self.servers if one != name)
        if is_on:
            return replace(self, servers=(*others, name))
        kept = tuple(one for one in self.approved if one[0] != name)
        return replace(self, servers=others, approved=kept)

    def with_tool(self, tool: ToolInfo, is_on: bool) -> "ToolsInUse":
        """Return a copy with one tool on or off; switching it off removes its approval."""
        others = tuple(one for one in self.without if one != tool.key)
        if is_on:
            return replace(self, without=others)
        return replace(self.without_approval(tool), without=(*others, tool.key))

    def with_approval(self, approval: Approval) -> "ToolsInUse":
        """Return a copy with one more tool that may run without asking."""
        others = tuple(one for one in self.approved if one[:2] != approval[:2])
        return replace(self, approved=(*others, approval))

    def without_approval(self, tool: ToolInfo) -> "ToolsInUse":
        """Return a copy without the approval of a tool."""
        return replace(self, approved=tuple(one for one in self.approved if one[:2] != tool.key))

    def uses(self, tool: ToolInfo) -> bool:
        """Return whether the model may call a tool."""
        return tool.server in self.servers and tool.key not in self.without


def choice_values(choice: ToolsInUse) -> dict[str, Any]:
    """Return a conversation's tools as JSON values; empty if it has none."""
    values = {
        "servers": list(choice.servers),
        "without": [list(one) for one in choice.without],
        "approved": [list(one) for one in choice.approved],
    }
    return {name: value for name, value in values.items() if value}


def choice_from(fields: Fields) -> ToolsInUse:
    """Return a conversation's tools; invalid entries are left out.

    Raises:
        DamagedFile: A value has a wrong type.
    """
    return ToolsInUse(
        tuple(one for one in fields.maybe("servers", list) or () if isinstance(one, str)),
        tuple(_texts(fields.maybe("without", list) or (), 2)),
        tuple(_texts(fields.maybe("approved", list) or (), 3)),
    )


def _texts(values: Iterable[Any], count: int) -> Iterable[Any]:
    """Yield the values that are lists of ``count`` texts."""
    for one in values:
        if isinstance(one, list) and len(one) == count and all(isinstance(t, str) for t in one):
            yield tuple(one)
