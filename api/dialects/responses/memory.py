"""Kept answers of the Responses API: continues, lists and deletes them.

Runs on the server's loop and in threads. https://platform.openai.com/docs/api-reference/responses
"""

import asyncio
import json
import re
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from api.dialects.responses.read import not_kept
from api.dialects.responses.replay import replayed
from api.dialects.responses.wire import Item, ItemReference, ResponseParams
from api.dialects.shared.dialect import Addressed, KeepAnswer
from api.dialects.shared.requested import Asked
from api.transport.answer_text import SseEvent
from api.transport.errors import ApiError, ErrorKind, invalid
from api.transport.response_store import KeptResponse, KeptResponses
from api.transport.service import Service, addressed, asker, check_model, new_id, shown_name

_ITEMS: TypeAdapter[list[Item]] = TypeAdapter(list[Item])
_LISTED = 20
_MOST_LISTED = 100


class DeletedResponse(TypedDict):
    """``DELETE /v1/responses/{id}``."""

    id: str
    object: Literal["response"]
    deleted: Literal[True]


class ItemList(TypedDict):
    """``GET /v1/responses/{id}/input_items``."""

    object: Literal["list"]
    data: list[dict[str, Any]]
    first_id: str | None
    last_id: str | None
    has_more: bool


class InputTokens(TypedDict):
    """``POST /v1/responses/input_tokens``."""

    object: Literal["response.input_tokens"]
    input_tokens: int


def recall(service: Service, params: ResponseParams) -> ResponseParams:
    """Return a request with the items of the kept answers that it refers to added."""
    if not params.needs_recall:
        return params
    kept, owner, earlier = service.kept_responses, asker(), []
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
    owner, sent = asker(), params.sent_items()

    def keep(answer_id: str, answer: str, item_ids: Sequence[str]) -> None:
        ids = tuple(new_id("in_") for _ in sent)
        previous = params.previous_response_id or ""
        kept = KeptResponse(answer_id, previous, sent, ids, answer, tuple(item_ids), owner)
        service.kept_responses.keep(kept)

    return keep


async def retrieve(service: Service, asked: Addressed) -> str | list[SseEvent]:
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


async def delete(service: Service, asked: Addressed) -> DeletedResponse:
    """Answer ``DELETE /v1/responses/{response_id}``."""
    response_id = _kept(service, asked).id
    service.kept_responses.forget(response_id)
    return {"id": response_id, "object": "response", "deleted": True}


async def list_input_items(service: Service, asked: Addressed) -> ItemList:
    """Answer ``GET /v1/responses/{response_id}/input_items``: newest first by default."""
    response = _kept(service, asked)
    chain = service.kept_responses.chain(asker(), response.id)
    if chain is None:
        raise _missing("A response before the one", response.id)
    items = [item for one in chain[:-1] for item in _items_with_ids(one)] + _sent_of(response)
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
    shown = items[:count]
    return {
        "object": "list",
        "data": shown,
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
        "has_more": len(items) > count,
    }


async def count_input(service: Service, asked: Asked[ResponseParams]) -> InputTokens:
    """Answer ``POST /v1/responses/input_tokens``."""
    if asked.params.model:
        check_model(service, asked.params.model)
    [wanted] = addressed(service, asked.requests(), asked.params.model)
    count = await service.engine.count_tokens(wanted)
    return {"object": "response.input_tokens", "input_tokens": count}


def _limit(text: str | None) -> int:
    if text is None:
        return _LISTED
    if not text.isdecimal() or not 1 <= int(text[:6]) <= _MOST_LISTED:
        raise invalid(("limit",), f"must be a whole number from 1 to {_MOST_LISTED}")
    return int(text)


def _kept(service: Service, asked: Addressed) -> KeptResponse:
    response_id = asked.parts["response_id"]
    found = service.kept_responses.get(asker(), response_id)
    if found is None:
        raise _missing("Response", response_id)
    return found


def _missing(what: str, its_id: str) -> ApiError:
    return ApiError(
        ErrorKind.NOT_FOUND,
        f"{what} with id {shown_name(its_id)!r} not found: it was not stored, was deleted, or was "
        "forgotten to make room",
    )


def _referred(kept: KeptResponses, owner: str, reference: ItemReference, index: int) -> Item:
    response = kept.of_item(owner, reference.id)
    found = [] if response is None else _items_with_ids(response)
    for item in found:
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
