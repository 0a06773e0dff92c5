"""Converts the engine's requests to bodies of each API: the reverse of reading.

The inspector shows them, and a test reads each of them back. Pure; any thread.
"""

import json
from collections.abc import Sequence
from typing import Any

from api.dialects.shared.parameters.sampling import sampling_to_wire
from api.dialects.shared.parameters.stop_options import (
    own_stop_options_to_wire,
    stop_options_to_wire,
)
from api.dialects.shared.parameters.vendors import Vendor
from engine import GenerationRequest, Message, ToolCall

JsonObject = dict[str, Any]


def filled(**fields: Any) -> JsonObject:
    """Return the fields that are not empty."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


def sampling_and_stops(request: GenerationRequest, vendor: Vendor) -> JsonObject:
    """Return the sampling and stop fields of a request that all vendors spell the same."""
    return {
        **filled(stop=list(request.stops.strings), stop_token_ids=list(request.stops.token_ids)),
        **stop_options_to_wire(request.stops, vendor),
        **sampling_to_wire(request.sampling, vendor),
    }


def functions(request: GenerationRequest) -> list[JsonObject]:
    """Return the tools of a request as Chat Completions and its relatives spell them."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.parameters),
            },
        }
        for tool in request.tools
    ]


def own_object(request: GenerationRequest, body: JsonObject) -> JsonObject:
    """Return the object ``fullstop`` of a request; empty if its body needs none."""
    own: JsonObject = own_stop_options_to_wire(request.stops, body)
    if request.stops.scopes:
        own["stop_scopes"] = {string: scope.value for string, scope in request.stops.scopes}
    return own


def answers_itself(request: GenerationRequest) -> bool:
    """Whether an answer begins after one of the assistant's, which some APIs would continue."""
    return request.messages[-1].role == "assistant" and not request.continues_last


def system_apart(request: GenerationRequest) -> tuple[str, Sequence[Message]]:
    """Return the system prompt separately from the turns, as some APIs require."""
    system = [message.content for message in request.messages if message.role == "system"]
    return "\n\n".join(system), [m for m in request.messages if m.role != "system"]


def arguments_of(call: ToolCall) -> Any:
    """Return a call's arguments as JSON values, as some APIs require."""
    try:
        return json.loads(call.arguments)
    except (ValueError, RecursionError):
        return {}
