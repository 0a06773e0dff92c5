"""The calls of a response that is being streamed, and its whole items. Values; any thread."""

from dataclasses import dataclass, field

from engine import ToolCall


@dataclass(slots=True)
class OpenCall:
    """The call whose arguments are being written.

    Attributes:
        call: The call, without arguments.
        delta_head: How the JSON of each of its deltas begins.
        texts: Its arguments so far.
    """

    call: ToolCall
    delta_head: str
    texts: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DoneItem:
    """A whole item: its kind, its id and its JSON."""

    type: str
    id: str
    json: str
