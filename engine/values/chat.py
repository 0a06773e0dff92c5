"""Messages and tools as the domain knows them: plain text, no vendor's block types.

Pure values; any thread.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model made.

    Attributes:
        id: The product's identifier of the call; the API adds vendors' prefixes.
        name: The tool's name.
        arguments: The arguments as one JSON object in text form.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation.

    Attributes:
        role: Who speaks.
        content: The text, possibly empty.
        thinking: The reasoning that preceded an assistant's text, if it is known.
        tool_calls: Calls that an assistant turn made.
        tool_call_id: For a tool's turn, the call that it answers.
        name: For a tool's turn, the tool's name if known.
    """

    role: Role
    content: str
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call.

    Attributes:
        name: Its name.
        description: What it does, in words.
        parameters: JSON Schema of its arguments (an object schema).
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
