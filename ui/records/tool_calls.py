"""Tool calls and their results, which are stored with the answer."""

import json
import re
from dataclasses import dataclass
from typing import Any, Literal, get_args

from engine.files.json_fields import Fields
from engine.values.request import ToolCall
from engine.wording import counted
from ui.records.attachments import (
    Attachment,
    attachment_from,
    attachment_values,
    cut_extent,
    cut_text,
)
from ui.records.tool_servers import ServerQuestion, ToolInfo

NOT_RUN = "This call was not run."
# Stands before the user's reason in the text of a denied call.
DENIAL_REASON = " Reason: "
# Stands for a picture in the text of an MCP tool's result.
PICTURE_NOTE = re.compile(r"\[(image[ /][^\]\n]*?)(?:, which the model cannot read)?\]")

Permission = Literal["once", "conversation", "always", "denied"]
CallState = Literal["done", "failed", "denied", "cancelled"]
"""How a call ended: the user refuses ``denied`` calls, and stops ``cancelled`` ones."""


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a call, and the seconds that it took."""

    call_id: str
    state: CallState
    text: str
    server: str = ""
    tool: str = ""
    took_s: float = 0.0
    sent_chars: int | None = None
    pictures: tuple[Attachment, ...] = ()

    @property
    def is_cut(self) -> bool:
        """Whether the model gets only the beginning of the text."""
        return self.sent_chars is not None and self.sent_chars < len(self.text)

    @property
    def sent(self) -> str:
        """The text that the model gets, with a note at its end if it is cut."""
        return cut_text(self.text, self.sent_chars)

    @property
    def sent_extent(self) -> str:
        """A label for the part of the text that the model gets."""
        if self.sent_chars is None or not self.is_cut:
            return f"all {counted(len(self.text), 'character')}"
        return cut_extent(self.text, self.sent_chars)


@dataclass(frozen=True, slots=True)
class CallProgress:
    """A call that waits for the user or is running."""

    server: str
    tool: str
    needs_user: bool = False
    running_s: float = 0.0
    done: float | None = None
    total: float | None = None
    message: str = ""
    question: ServerQuestion | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The user's decision about a call; the model gets the reason of a denial."""

    permission: Permission
    reason: str = ""


def result_values(result: CallResult) -> dict[str, object]:
    """Return a result as JSON values."""
    values: dict[str, object] = {
        "call_id": result.call_id,
        "state": result.state,
        "text": result.text,
        "server": result.server,
        "tool": result.tool,
        "took_s": result.took_s,
    }
    if result.is_cut:
        values["sent_chars"] = result.sent_chars
    values["pictures"] = [attachment_values(picture) for picture in result.pictures]
    kept = ("text", "sent_chars")
    return {name: value for name, value in values.items() if value or name in kept}


def result_from(fields: Fields) -> CallResult:
    """Return a result; raises ``DamagedFile`` if a value has a wrong type."""
    stored, sent = fields.maybe("state", str), fields.maybe("sent_chars", int)
    states: tuple[CallState, ...] = get_args(CallState)
    return CallResult(
        call_id=fields.take("call_id", str),
        # A later version may have other states: they count as a call that did not succeed.
        state=next((state for state in states if state == stored), "failed"),
        text=fields.maybe("text", str) or "",
        server=fields.maybe("server", str) or "",
        tool=fields.maybe("tool", str) or "",
        took_s=max(fields.maybe("took_s", float) or 0.0, 0.0),
        sent_chars=None if sent is None else max(sent, 0),
        pictures=tuple(
            file for file in map(attachment_from, fields.items("pictures")) if file.kept_file
        ),
    )


def parse_arguments(call: ToolCall, tool: ToolInfo) -> dict[str, Any] | CallResult:
    """Return the arguments of a call, or a failed result if they are no JSON object."""
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        arguments = None
    if isinstance(arguments, dict):
        return arguments
    text = "The arguments are not a JSON object. The call was not run."
    return CallResult(call.id, "failed", text, tool.server, tool.name)
