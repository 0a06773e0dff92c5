"""The open call and the finished items of a response that is being streamed. Values; any thread."""

from dataclasses import dataclass, field

from api.dialects.openai.offered_tools import GrowingInput, OfferedTool
from engine import ToolCall


@dataclass(slots=True)
class OpenCall:
    """The call whose arguments are being written."""

    call: ToolCall
    tool: OfferedTool | None
    delta_name: str
    delta_head: str
    texts: list[str] = field(default_factory=list)
    input: GrowingInput | None = None


@dataclass(frozen=True, slots=True)
class DoneItem:
    """A finished item: its kind, its id and its JSON."""

    type: str
    id: str
    json: str
