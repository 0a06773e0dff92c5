"""``POST /v1/responses/compact``: shortens a long conversation.

As in the vendor's API, the answer contains all of the user's messages and one item in place of the
rest. Here that item contains a summary written by the loaded model. It is not encrypted: it is
UTF-8 in base64 after a prefix, and only items with this prefix are read again. Nothing is stored:
the client sends the items with its next request. Runs on the server's loop.
https://platform.openai.com/docs/api-reference/responses/compact
"""

import asyncio
import time
from typing import Any, Literal

from typing_extensions import TypedDict

from api.dialects.responses.answers import ResponseUsage
from api.dialects.responses.sealing import sealed
from api.dialects.responses.wire import CompactParams
from api.dialects.responses.write import usage_to_wire
from api.dialects.shared.answers.said import text_of
from api.dialects.shared.requested import Asked
from api.transport.service import Service, addressed, collected, new_id, running


class SummaryItem(TypedDict):
    """The item that replaces everything except the user's messages."""

    id: str
    type: Literal["compaction"]
    encrypted_content: str


class CompactedResponse(TypedDict):
    """The answer of ``POST /v1/responses/compact``."""

    id: str
    object: Literal["response.compaction"]
    created_at: int
    output: list[dict[str, Any] | SummaryItem]
    usage: ResponseUsage


async def compact(service: Service, asked: Asked[CompactParams]) -> CompactedResponse:
    """Answer ``POST /v1/responses/compact``."""
    wanted = addressed(service, asked.requests(), asked.params.model)
    async with running(service, wanted) as generations:
        [(events, finished)] = await asyncio.gather(*(collected(one) for one in generations))
    items = [
        {"id": new_id("msg_"), "status": "completed", **item}
        for item in asked.params.messages_of_user()
    ]
    summary: SummaryItem = {
        "id": new_id("cmp_"),
        "type": "compaction",
        "encrypted_content": sealed(text_of(events)),
    }
    return {
        "id": new_id("resp_"),
        "object": "response.compaction",
        "created_at": int(time.time()),
        "output": [*items, summary],
        "usage": usage_to_wire(finished.usage),
    }
