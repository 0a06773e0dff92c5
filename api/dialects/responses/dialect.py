"""OpenAI's Responses API as one value, and its kept answers: continued, listed, compacted.

Runs on the server's loop and in threads. https://platform.openai.com/docs/api-reference/responses
"""

import asyncio
import json
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import TypeAdapter

from api.dialects.openai.read import form_names
from api.dialects.openai.wire import ErrorAnswer
from api.dialects.openai.write import FIELD_NAMES, error_to_wire
from api.dialects.responses.read import (
    ask,
    not_kept,
    requests_from_wire,
    summary_asked,
)
from api.dialects.responses.wire import (
    CompactedResponse,
    CompactParams,
    DeletedResponse,
    InputTokens,
    Item,
    ItemList,
    ItemReference,
    ResponseAnswer,
    ResponseEvent,
    ResponseParams,
    SummaryItem,
)
from api.dialects.responses.write import ResponseEncoder, answer_id, usage_to_wire, write_response
from api.dialects.shared.answers import text_of
from api.dialects.shared.dialect import (
    EVENTS,
    AnswerRoute,
    Dialect,
    KeepAnswer,
    QueryRoute,
    UrlParameters,
)
from api.dialects.shared.requests import ParsedRequest
from api.dialects.shared.sealed import SUMMARY_MARK, sealed
from api.transport.answer_text import SseEvent, json_text
from api.transport.errors import ApiError, ErrorKind, invalid
from api.transport.response_store import KeptResponse, KeptResponses
from api.transport.service import (
    Service,
    addressed,
    check_model,
    client_id,
    collected,
    new_id,
    running,
    shown_name,
)

# -- kept answers ------------------------------------------------------------------------------


_ITEMS: TypeAdapter[list[Item]] = TypeAdapter(list[Item])
_LISTED = 20
_MAX_LISTED = 100


def recall(service: Service, params: ResponseParams) -> ResponseParams:
    """Return a request with the items of the kept answers that it refers to added."""
    if not params.needs_recall:
        return params
    kept, owner, earlier = service.kept_responses, client_id(), []
    if params.previous_response_id is not None:
        chain = kept.chain(owner, params.previous_response_id)
        if chain is None and kept.get(owner, params.previous_response_id) is not None:
            raise not_kept("a response before this one")
        if chain is None:
            raise not_kept()
        earlier = [item for response in chain for item in _items_with_ids(response)]
    own = [
        _referred(kept, owner, item, index) if isinstance(item, ItemReference) else item
        for index, item in enumerate(params.input)
    ]
    return params.with_recalled(_ITEMS.validate_python(earlier), own)


def keeper(service: Service, params: ResponseParams) -> KeepAnswer | None:
    """Return the function that keeps the answer to a request, or None if it is not to be kept."""
    if params.store is False or not service.kept_responses.is_on:
        return None
    owner, sent = client_id(), params.sent_items()

    def keep(answer_id: str, answer: str, item_ids: Sequence[str]) -> None:
        ids = tuple(new_id("in_") for _ in sent)
        previous = params.previous_response_id or ""
        kept = KeptResponse(answer_id, previous, sent, ids, answer, tuple(item_ids), owner)
        service.kept_responses.keep(kept)

    return keep


async def retrieve(service: Service, asked: UrlParameters) -> str | list[SseEvent]:
    """Answer ``GET /v1/responses/{response_id}``, as a stream if asked to."""
    answer = _kept(service, asked).answer
    match asked.query.get("stream", "false"):
        case "false":
            return answer
        case "true":
            after = asked.query.get("starting_after", "-1")
            if not re.fullmatch(r"-1|[0-9]{1,9}", after):
                raise invalid(("starting_after",), "must be the number of an event")
            return await asyncio.to_thread(replayed, answer, int(after))
        case _:
            raise invalid(("stream",), "must be true or false")


async def delete(service: Service, asked: UrlParameters) -> DeletedResponse:
    """Answer ``DELETE /v1/responses/{response_id}``."""
    response_id = _kept(service, asked).id
    service.kept_responses.forget(response_id)
    return {"id": response_id, "object": "response", "deleted": True}


async def list_input_items(service: Service, asked: UrlParameters) -> ItemList:
    """Answer ``GET /v1/responses/{response_id}/input_items``: newest first by default."""
    response = _kept(service, asked)
    chain = service.kept_responses.chain(client_id(), response.id)
    if chain is None:
        raise _missing("A response before the one", response.id)
    items = [item for earlier in chain[:-1] for item in _items_with_ids(earlier)]
    items += _sent_of(response)
    order = asked.query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise invalid(("order",), 'must be "asc" or "desc"')
    if order == "desc":
        items.reverse()
    if (after := asked.query.get("after")) is not None:
        places = [place for place, item in enumerate(items) if item["id"] == after]
        if not places:
            raise _missing("Item", after)
        items = items[places[0] + 1 :]
    count = _limit(asked.query.get("limit"))
    page = items[:count]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": len(items) > count,
    }


async def count_input(service: Service, asked: ParsedRequest[ResponseParams]) -> InputTokens:
    """Answer ``POST /v1/responses/input_tokens``."""
    if asked.params.model:
        check_model(service, asked.params.model)
    [wanted] = addressed(service, asked.requests(), asked.params.model)
    count = await service.engine.count_tokens(wanted)
    return {"object": "response.input_tokens", "input_tokens": count}


def _limit(text: str | None) -> int:
    if text is None:
        return _LISTED
    if not text.isdecimal() or not 1 <= int(text[:6]) <= _MAX_LISTED:
        raise invalid(("limit",), f"must be a whole number from 1 to {_MAX_LISTED}")
    return int(text)


def _kept(service: Service, asked: UrlParameters) -> KeptResponse:
    response_id = asked.path["response_id"]
    response = service.kept_responses.get(client_id(), response_id)
    if response is None:
        raise _missing("Response", response_id)
    return response


def _missing(what: str, its_id: str) -> ApiError:
    return ApiError(
        ErrorKind.NOT_FOUND,
        f"{what} with id {shown_name(its_id)!r} not found: it was not stored, was deleted, or was "
        "forgotten to make room",
    )


def _referred(kept: KeptResponses, owner: str, reference: ItemReference, index: int) -> Item:
    response = kept.of_item(owner, reference.id)
    items = [] if response is None else _items_with_ids(response)
    for item in items:
        if item["id"] == reference.id:
            return _ITEMS.validate_python([item])[0]
    raise ApiError(
        ErrorKind.NOT_FOUND,
        f"Item with id {shown_name(reference.id)!r} not found: items are not kept where store is "
        "false, and go when there is no room; send the item itself",
        field=("input", index, "id"),
    )


def _items_with_ids(response: KeptResponse) -> list[dict[str, Any]]:
    return _sent_of(response) + _output_of(response)


def _sent_of(response: KeptResponse) -> list[dict[str, Any]]:
    return [
        {"id": its_id, **json.loads(text)}
        for its_id, text in zip(response.sent_ids, response.sent, strict=True)
    ]


def _output_of(response: KeptResponse) -> list[dict[str, Any]]:
    output: list[dict[str, Any]] = json.loads(response.answer)["output"]
    return output


# -- a kept answer as a stream -----------------------------------------------------------------
# The pieces of the first stream are not kept, so each text is one piece, and events are numbered
# anew: ``starting_after`` counts the events of this stream.
#
# https://platform.openai.com/docs/api-reference/responses/get


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


# -- compaction --------------------------------------------------------------------------------
# ``POST /v1/responses/compact``: shortens a long conversation.
#
# As in the vendor's API, the answer contains all of the user's messages and one item in place of
# the rest. Here that item contains a summary written by the loaded model. It is not encrypted: it
# is UTF-8 in base64 after a prefix, and only items with this prefix are read again. Nothing is
# stored: the client sends the items with its next request.


async def compact(service: Service, asked: ParsedRequest[CompactParams]) -> CompactedResponse:
    """Answer ``POST /v1/responses/compact``."""
    wanted = addressed(service, asked.requests(), asked.params.model)
    async with running(service, wanted) as generations:
        [(events, finished)] = await asyncio.gather(
            *(collected(generation) for generation in generations)
        )
    items = [
        {"id": new_id("msg_"), "status": "completed", **item}
        for item in asked.params.messages_of_user()
    ]
    summary: SummaryItem = {
        "id": new_id("cmp_"),
        "type": "compaction",
        "encrypted_content": sealed(text_of(events), SUMMARY_MARK),
    }
    return {
        "id": new_id("resp_"),
        "object": "response.compaction",
        "created_at": int(time.time()),
        "output": [*items, summary],
        "usage": usage_to_wire(finished.usage),
    }


# -- the dialect -------------------------------------------------------------------------------


DIALECT = Dialect(
    name="Responses",
    title="OpenAI Responses",
    vendor="OpenAI",
    reference="https://platform.openai.com/docs/api-reference/responses",
    render_error=error_to_wire,
    error_type=ErrorAnswer,
    field_names={
        **FIELD_NAMES,
        "tool_choice.name": "tool_choice",
        "messages": "input",
        "max_tokens": "max_output_tokens",
        "constraint.json_schema": "text.format.schema",
        "constraint": "text.format",
    },
    ask=ask,
    answers=(
        AnswerRoute(
            path="/v1/responses",
            summary="OpenAI Responses",
            request=ResponseParams,
            read=requests_from_wire,
            answer=ResponseAnswer,
            write_whole=write_response,
            event=ResponseEvent,
            encoder=ResponseEncoder,
            own_names=form_names,
            recall=recall,
            keeper=keeper,
            answer_id=answer_id,
        ),
    ),
    queries=(
        QueryRoute(
            method="POST",
            path="/v1/responses/input_tokens",
            summary="The number of tokens of a Responses prompt",
            request=ResponseParams,
            read=requests_from_wire,
            reply=count_input,
            answer=InputTokens,
            recall=recall,
        ),
        QueryRoute(
            method="POST",
            path="/v1/responses/compact",
            summary="A long conversation as its questions and a summary",
            request=CompactParams,
            read=summary_asked,
            reply=compact,
            answer=CompactedResponse,
            recall=recall,
        ),
        QueryRoute(
            method="GET",
            path="/v1/responses/{response_id}",
            summary="A response that is kept",
            reply=retrieve,
            answer=ResponseAnswer,
            media_type=EVENTS,
        ),
        QueryRoute(
            method="DELETE",
            path="/v1/responses/{response_id}",
            summary="Deletes a response that is kept",
            reply=delete,
            answer=DeletedResponse,
        ),
        QueryRoute(
            method="GET",
            path="/v1/responses/{response_id}/input_items",
            summary="What a kept response answered",
            reply=list_input_items,
            answer=ItemList,
        ),
    ),
)
