"""The prompt that asks the model for a summary of a conversation. Pure functions; any process."""

from collections.abc import Sequence
from dataclasses import replace

from api.dialects.responses.read import requests_from_wire
from api.dialects.responses.wire import CompactParams
from api.transport.errors import required
from engine import GenerationRequest, Message, ToolChoice

_MOST_TOKENS = 2_048
TASK = (
    "Summarise this conversation, so that it can be continued from the summary and my messages "
    "alone: what was found, decided and done, with names, numbers and paths, and what is left to "
    "do. Write only the summary."
)


def summary_asked(params: CompactParams, *, strict: bool = False) -> list[GenerationRequest]:
    """Return the request for the summary; takes and raises the same as ``ReadRequest``."""
    [asked] = requests_from_wire(params, strict=strict)
    return [
        replace(
            asked,
            messages=_with_task(asked.messages),
            max_tokens=params.max_output_tokens or _MOST_TOKENS,
            tools=(),
            tool_choice=ToolChoice(),
            constraint=None,
            thinking=False,
        )
    ]


def _with_task(turns: Sequence[Message]) -> tuple[Message, ...]:
    """Return a conversation that ends with the task, without two user turns in a row."""
    if not turns:
        raise required(("input",))
    *before, last = turns
    if last.role != "user":
        return (*turns, Message("user", TASK))
    return (*before, replace(last, content=f"{last.content}\n\n{TASK}"))
