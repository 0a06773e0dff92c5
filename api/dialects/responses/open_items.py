"""The open call and the finished items of a response that is being streamed. Values; any thread."""

from dataclasses import dataclass, field

from engine import ToolCall


@dataclass(slots=True)
class OpenCall:
    """The call whose arguments are being written.

    Attributes:
        call: The call, without arguments.
        delta_head: The beginning of each delta's JSON.
        texts: Its arguments so far.
    """

    call: ToolCall
    delta_head: str
    texts: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DoneItem:
    """A finished item: its kind, its id and its JSON."""

    type: str
    id: str
    json: str
