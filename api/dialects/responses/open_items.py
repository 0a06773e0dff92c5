"""The items of a response that is being streamed. Values; any thread."""

from dataclasses import dataclass, field
from typing import Literal

from api.transport.json_text import GrowingList
from engine import ToolCall

TextKind = Literal["output_text", "reasoning_text"]


@dataclass(slots=True)
class OpenItem:
    """The item to which text is being added.

    Attributes:
        kind: What its text is.
        item_id: Its id.
        index: Its place in the output.
        delta_head: How the JSON of each of its deltas begins.
        texts: Its text so far.
        entries: The likelihoods of its tokens. Four events repeat them at the item's end, so
            their JSON is kept.
    """

    kind: TextKind
    item_id: str
    index: int
    delta_head: str
    texts: list[str] = field(default_factory=list)
    entries: GrowingList = field(default_factory=GrowingList)


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
