"""Streams a kept response once more, for ``GET /v1/responses/{id}?stream=true``.

The pieces of the first stream are not kept, so each text is one piece, and events are numbered
anew: ``starting_after`` counts the events of this stream. Pure; any thread.

https://platform.openai.com/docs/api-reference/responses/get
"""

import json
from collections.abc import Iterator
from typing import Any

from api.transport.answer_text import SseEvent, json_text

# For the kinds of a part: the names of its events, and the field with its index.
_PARTS = {
    "output_text": ("content_part", "content_index"),
    "reasoning_text": ("content_part", "content_index"),
    "summary_text": ("reasoning_summary_part", "summary_index"),
}
# For the kinds of a call: the name of its events, and the field with its text.
_CALLS = {
    "function_call": ("function_call_arguments", "arguments"),
    "custom_tool_call": ("custom_tool_call_input", "input"),
}


def replayed(answer: str, starting_after: int = -1) -> list[SseEvent]:
    """Return the events of a kept response."""
    events = enumerate(_events(json.loads(answer)))
    return [
        SseEvent(event["type"], json_text({**event, "sequence_number": number}))
        for number, event in events
        if number > starting_after
    ]


def _events(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    unfinished: dict[str, Any] = {
        "status": "in_progress",
        "output": [],
        "usage": None,
        "completed_at": None,
    }
    begun = {**answer, **unfinished, "status": "in_progress", "output": []}
    begun.pop("fullstop", None)
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(answer["output"]):
        place = {"item_id": item["id"], "output_index": index}
        empty, inner = _call(item, place) if item["type"] in _CALLS else _texts(item, place)
        empty = {**item, **empty, "status": "in_progress"}
        yield {"type": "response.output_item.added", "output_index": index, "item": empty}
        yield from inner
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{answer['status']}", "response": answer}


def _call(
    item: dict[str, Any], place: dict[str, Any]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return what differs in the item when it begins, and the events of its text."""
    name, field = _CALLS[item["type"]]
    events = []
    if item[field]:
        events.append({"type": f"response.{name}.delta", **place, "delta": item[field]})
    if item["status"] == "completed":
        done = {"type": f"response.{name}.done", **place, field: item[field]}
        named = {"name": item["name"]} if item["type"] == "function_call" else {}
        events.append({**done, **named})
    return {field: ""}, events


def _texts(
    item: dict[str, Any], place: dict[str, Any]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    holders = [name for name in ("summary", "content") if name in item]
    events = []
    for holder in holders:
        for index, part in enumerate(item[holder]):
            events += _part(part, {**place, _PARTS[part["type"]][1]: index})
    return {holder: [] for holder in holders}, events


def _part(part: dict[str, Any], place: dict[str, Any]) -> list[dict[str, Any]]:
    kind = part["type"]
    frame = f"response.{_PARTS[kind][0]}"
    text = "response.reasoning_summary_text" if kind == "summary_text" else f"response.{kind}"
    scored = {"logprobs": part["logprobs"]} if "logprobs" in part else {}
    unscored: dict[str, Any] = {"logprobs": []} if scored else {}
    pieces = [{"type": f"{text}.delta", **place, "delta": part["text"], **scored}]
    return [
        {"type": f"{frame}.added", **place, "part": {**part, "text": "", **unscored}},
        *(pieces if part["text"] else ()),
        {"type": f"{text}.done", **place, "text": part["text"], **scored},
        {"type": f"{frame}.done", **place, "part": part},
    ]
