"""Calls of tools and their results, which are kept with the answer. Plain values."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from engine import counted
from engine.files.fields import Fields


class CallState(StrEnum):
    """How a call ended: the person refused ``DENIED`` calls, and stopped ``CANCELLED`` ones."""

    DONE = "done"
    FAILED = "failed"
    DENIED = "denied"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a call.

    Attributes:
        call_id: The id of the call in its run.
        state: How it ended.
        text: Its whole text.
        server: The server that was called; empty for none.
        tool: The tool's name on the server.
        took_s: How long the server took, in seconds.
        sent_chars: How many characters of the text the model gets; None for all.
    """

    call_id: str
    state: CallState
    text: str
    server: str = ""
    tool: str = ""
    took_s: float = 0.0
    sent_chars: int | None = None

    @property
    def is_cut(self) -> bool:
        """Whether the model gets only the beginning of the text."""
        return self.sent_chars is not None and self.sent_chars < len(self.text)

    @property
    def sent(self) -> str:
        """The text that the model gets; a note at its end says what was cut off."""
        if not self.is_cut:
            return self.text
        kept = self.text[: self.sent_chars]
        return f"{kept}\n[Cut: {self.sent_words}.]"

    @property
    def sent_words(self) -> str:
        """How much of the text the model gets, in words."""
        if not self.is_cut:
            return f"all {counted(len(self.text), 'character')}"
        return f"the first {self.sent_chars:,} of {counted(len(self.text), 'character')}"


NOT_RUN = "This call was not run."


@dataclass(frozen=True, slots=True)
class CallProgress:
    """A call that waits for approval, or is running.

    Attributes:
        server: The server.
        tool: The tool's name, for a person.
        asks: Whether it waits for the person's approval.
        running_s: For how many seconds it has been running.
        done: How much is done, in the server's own unit; None if the server does not say.
        total: How much there is to do; None if the server does not say.
        message: The server's message about the progress.
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
        permission: Whether it may run, and for which later calls that counts.
        reason: Why it may not, for the model.
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
    if result.is_cut:
        values["sent_chars"] = result.sent_chars
    kept = ("text", "sent_chars")
    return {name: value for name, value in values.items() if value or name in kept}


def result_from(fields: Fields) -> CallResult:
    """Return a result; raises ``DamagedFile`` if a value has a wrong type."""
    found, sent = fields.maybe("state", str), fields.maybe("sent_chars", int)
    return CallResult(
        call_id=fields.take("call_id", str),
        # A later version may know other states: they count as a call that did not succeed.
        state=CallState(found) if found in set(CallState) else CallState.FAILED,
        text=fields.maybe("text", str) or "",
        server=fields.maybe("server", str) or "",
        tool=fields.maybe("tool", str) or "",
        took_s=max(fields.maybe("took_s", float) or 0.0, 0.0),
        sent_chars=None if sent is None else max(sent, 0),
    )
