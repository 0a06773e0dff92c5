"""Parts of the bodies that ask for a generation, which the inspector shows for each API. Pure."""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from api.dialects.shared.parameters import sampling_to_wire, stop_options_to_wire
from engine.values.request import PICTURE_MARK, GenerationRequest, Message, Picture, ToolCall

JsonObject = dict[str, Any]


def drop_empty(**fields: Any) -> JsonObject:
    """Return the fields that are not empty."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


def sampling_and_stops(
    request: GenerationRequest,
    stop_options: Mapping[str, str],
    renamed: Mapping[str, str] | None = None,
) -> JsonObject:
    """Return the sampling and stop fields of a request, as OpenAI and SGLang spell them."""
    return {
        **drop_empty(
            stop=list(request.stops.strings), stop_token_ids=list(request.stops.token_ids)
        ),
        **stop_options_to_wire(request.stops, stop_options),
        **sampling_to_wire(request.sampling, renamed),
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


def starts_new_assistant_turn(request: GenerationRequest) -> bool:
    """Whether the answer follows an assistant turn, which some APIs would continue."""
    return request.messages[-1].role == "assistant" and not request.continues_last


def system_apart(request: GenerationRequest) -> tuple[str, Sequence[Message]]:
    """Return the system prompt separately from the turns, as some APIs require."""
    system = [message.text for message in request.messages if message.role == "system"]
    return "\n\n".join(system), [m for m in request.messages if m.role != "system"]


def arguments_of(call: ToolCall) -> Any:
    """Return a call's arguments as JSON values, as some APIs require."""
    try:
        return json.loads(call.arguments)
    except (ValueError, RecursionError):
        return {}


def content_to_wire(
    message: Message, kind: str, picture: Callable[[str, str], JsonObject]
) -> str | list[JsonObject]:
    """Return the text of a turn; with pictures, parts of this kind and what ``picture`` makes.

    It is called with the media type of a picture and its data in base64.
    """
    if not message.pictures:
        return message.content
    parts: list[JsonObject] = []
    texts = message.content.split(PICTURE_MARK)
    for text, seen in zip(texts, (*message.pictures, None), strict=True):
        if text:
            parts.append({"type": kind, "text": text})
        if seen is not None:
            data = base64.b64encode(seen.data).decode()
            parts.append(picture(_media_type(seen.data), data))
    return parts


def _media_type(data: bytes) -> str:
    kinds = {b"\x89PNG": "png", b"GIF8": "gif", b"RIFF": "webp"}
    return f"image/{kinds.get(data[:4], 'jpeg')}"


def picture_url(picture: Picture) -> str:
    """Return a picture as a ``data:`` address."""
    return data_url(_media_type(picture.data), base64.b64encode(picture.data).decode())


def data_url(media_type: str, data: str) -> str:
    """Return data in base64 as an address."""
    return f"data:{media_type};base64,{data}"
