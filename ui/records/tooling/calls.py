"""Calls of tools: what came of each, kept with the answer that made it. Plain values."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from engine.files.fields import Fields


class CallState(StrEnum):
    """How a call ended. ``DENIED`` calls were refused by the person, ``CANCELLED`` ones stopped."""

    DONE = "done"
    FAILED = "failed"
    DENIED = "denied"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class CallResult:
    """What came of a call.

    Attributes:
        call_id: The id of the call in its run.
        state: How it ended.
        text: What the model is told.
        server: The server that was asked; empty where none was.
        tool: The tool's name as the server knows it.
        took_s: How long the server took, in seconds.
    """

    call_id: str
    state: CallState
    text: str
    server: str = ""
    tool: str = ""
    took_s: float = 0.0


NOT_RUN = "This call was not run."


@dataclass(frozen=True, slots=True)
class CallProgress:
    """A call that is being asked about, or is running.

    Attributes:
        server: The server.
        tool: The tool's name, for a person.
        asks: Whether it waits for the person's approval.
        running_s: For how long it has been running, in seconds.
        done: How much of it is done, in the server's own measure; None where it does not say.
        total: How much there is to do; None where the server does not say.
        message: What the server says of its progress.
    """

    server: str
    tool: str
    asks: bool = False
    running_s: float = 0.0
    done: float | None = None
    total: float | None = None
    message: str = ""


Permission = Literal["once", "conversation", "always", "denied"]


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's decision about a call.

    Attributes:
        permission: Whether it may run, and for how long that counts.
        reason: Why not, for the model.
    """

    permission: Permission
    reason: str = ""


def result_values(result: CallResult) -> dict[str, object]:
    """Return a result as JSON values."""
    values: dict[str, object] = {
        "call_id": result.call_id,
        "state": result.state.value,
        "text": result.text,
        "server": result.server,
        "tool": result.tool,
        "took_s": result.took_s,
    }
    return {name: value for name, value in values.items() if value or name == "text"}


def result_from(fields: Fields) -> CallResult:
    """Return a result; raises ``DamagedFile`` where a value has a wrong type."""
    found = fields.maybe("state", str)
    return CallResult(
        call_id=fields.take("call_id", str),
        # A later version may know other states; what matters is that the call did not succeed.
        state=CallState(found) if found in set(CallState) else CallState.FAILED,
        text=fields.maybe("text", str) or "",
        server=fields.maybe("server", str) or "",
        tool=fields.maybe("tool", str) or "",
        took_s=max(fields.maybe("took_s", float) or 0.0, 0.0),
    )
