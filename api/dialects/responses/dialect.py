"""OpenAI's Responses API, and its stored answers: continued, listed, compacted.

Runs on the server's loop. https://platform.openai.com/docs/api-reference/responses
"""

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter

from api.dialects.openai.read import form_names
from api.dialects.openai.wire import ErrorAnswer
from api.dialects.openai.write import FIELD_NAMES, error_to_wire
from api.dialects.responses.read import (
    not_stored,
    request_body,
    requests_from_wire,
    summary_requests,
)
from api.dialects.responses.wire import (
    CompactedResponse,
    Item,
    ItemList,
    ItemReference,
    MessageItem,
    ResponseAnswer,
    ResponseParams,
)
from api.dialects.responses.write import ResponseEncoder, usage_to_wire, write_response
from api.dialects.shared.answers import text_of
from api.dialects.shared.dialect import (
    AnswerRoute,
    Dialect,
    ParsedRequest,
    StoreAnswer,
    query,
)
from api.dialects.shared.sealed import SUMMARY_MARK, seal_text
from api.service.errors import ApiError, ErrorKind, invalid, shown, unsupported
from api.service.generations import collect_events, run_generations
from api.service.models import address_requests, check_model
from api.service.record import RequestRecord
from api.service.response_store import StoredResponse
from api.service.service import Service, new_id
from engine.values.request import GenerationRequest

# Built at its first use: it takes 1.5 MB.
_ITEMS: TypeAdapter[list[Item]] = TypeAdapter(list[Item], config=ConfigDict(defer_build=True))


def recall(service: Service, record: RequestRecord, params: ResponseParams) -> ResponseParams:
    """Return a request with the items of the stored answers that it refers to. Any thread."""
    responses, owner, earlier = service.responses, record.client_id, []
    known: dict[str, dict[str, Any]] = {}
    if params.previous_response_id is not None:
        chain = responses.chain(owner, params.previous_response_id)
        if chain is None:
            raise not_stored()
        earlier = [item for response in chain for item in _items_with_ids(response)]
    own: list[Item] = []
    for index, item in enumerate(params.input):
        if isinstance(item, ItemReference):
            if item.id not in known and (response := responses.of_item(owner, item.id)) is not None:
                known |= {one["id"]: one for one in _items_with_ids(response)}
            if item.id not in known:
                raise _item_not_found(item.id, index)
            item = _ITEMS.validate_python([known[item.id]])[0]
        own.append(item)
    return params.with_recalled(_ITEMS.validate_python(earlier), own)


@query("GET", "/v1/responses/{response_id}", answer=ResponseAnswer)
async def retrieve(request: ParsedRequest[None]) -> str:
    """A stored response."""
    if request.url.get("stream", "false") != "false":
        raise unsupported(("stream",), "the stream of a response that has ended")
    return (await _find_stored(request)).answer


@query(
    "DELETE",
    "/v1/responses/{response_id}",
    answer=dict[Literal["id", "object", "deleted"], str | bool],
)
async def delete(request: ParsedRequest[None]) -> dict[str, str | bool]:
    """Deletes a stored response."""
    response_id, responses = (await _find_stored(request)).id, request.service.responses
    await asyncio.to_thread(responses.delete, response_id)
    found = await asyncio.to_thread(responses.get, request.record.client_id, response_id)
    return {"id": response_id, "object": "response", "deleted": found is None}


@query("GET", "/v1/responses/{response_id}/input_items", answer=ItemList)
async def list_input_items(request: ParsedRequest[None]) -> ItemList:
    """The input of a stored response."""
    url = request.url
    items = await asyncio.to_thread(_input_of, request.service, request.record, url["response_id"])
    order = url.get("order", "desc")
    if order not in ("asc", "desc"):
        raise invalid(("order",), 'must be "asc" or "desc"')
    if order == "desc":
        items.reverse()
    if (after := url.get("after")) is not None:
        ids = [item["id"] for item in items]
        if after not in ids:
            raise _missing("Item", after)
        items = items[ids.index(after) + 1 :]
    limit = url.get("limit", "20")
    if not limit.isdecimal() or not 1 <= int(limit[:6]) <= 100:
        raise invalid(("limit",), "must be a whole number from 1 to 100")
    page = items[: int(limit)]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": len(items) > len(page),
    }


def _input_of(service: Service, record: RequestRecord, response_id: str) -> list[dict[str, Any]]:
    chain = service.responses.chain(record.client_id, response_id)
    if chain is None:
        raise _missing("Response, or one before it,", response_id)
    items = [item for earlier in chain[:-1] for item in _items_with_ids(earlier)]
    return items + _sent_of(chain[-1])


async def _find_stored(request: ParsedRequest[None]) -> StoredResponse:
    response_id, responses = request.url["response_id"], request.service.responses
    response = await asyncio.to_thread(responses.get, request.record.client_id, response_id)
    if response is None:
        raise _missing("Response", response_id)
    return response


def _missing(what: str, item_id: str) -> ApiError:
    return ApiError(
        ErrorKind.NOT_FOUND,
        f"{what} with id {shown(item_id)!r} not found: it was not stored, was deleted, or was "
        "evicted",
    )


def _item_not_found(item_id: str, index: int) -> ApiError:
    return ApiError(
        ErrorKind.NOT_FOUND,
        f"Item with id {shown(item_id)!r} not found: items are not stored if store is false, "
        "and are evicted when the space is full; send the item itself",
        field=("input", index, "id"),
    )


def _items_with_ids(response: StoredResponse) -> list[dict[str, Any]]:
    output: list[dict[str, Any]] = json.loads(response.answer)["output"]
    return _sent_of(response) + output


def _sent_of(response: StoredResponse) -> list[dict[str, Any]]:
    return [
        {"id": item_id, **json.loads(text)}
        for item_id, text in zip(response.sent_ids, response.sent, strict=True)
    ]


def _addressed(request: ParsedRequest[ResponseParams]) -> list[GenerationRequest]:
    service, model = request.service, request.params.model
    if model:
        check_model(service, model)
    return address_requests(service, request.generations, model)


@query(
    "POST",
    "/v1/responses/input_tokens",
    request=ResponseParams,
    read=requests_from_wire,
    answer=dict[Literal["object", "input_tokens"], str | int],
    field_names=form_names,
)
async def count_input(request: ParsedRequest[ResponseParams]) -> dict[str, str | int]:
    """The number of tokens of a Responses prompt."""
    [generation] = _addressed(request)
    count = await request.service.engine.count_tokens(generation)
    return {"object": "response.input_tokens", "input_tokens": count}


@query(
    "POST",
    "/v1/responses/compact",
    request=ResponseParams,
    read=summary_requests,
    answer=CompactedResponse,
    field_names=form_names,
)
async def compact(request: ParsedRequest[ResponseParams]) -> CompactedResponse:
    """A long conversation as its questions and a summary.

    The loaded model writes the summary. It is not encrypted, but UTF-8 in base64 after a prefix.
    Nothing is stored: the client sends the items with its next request.
    """
    requests = _addressed(request)
    async with run_generations(request.service, request.record, requests) as [generation]:
        events, finished = await collect_events(generation)
    items = [
        {
            "id": new_id("msg_"),
            "status": "completed",
            **item.model_dump(by_alias=True, exclude_none=True),
        }
        for item in request.params.input
        if isinstance(item, MessageItem) and item.role == "user"
    ]
    summary = {
        "id": new_id("cmp_"),
        "type": "compaction",
        "encrypted_content": seal_text(text_of(events), SUMMARY_MARK),
    }
    return {
        "id": new_id("resp_"),
        "object": "response.compaction",
        "created_at": int(time.time()),
        "output": [*items, summary],
        "usage": usage_to_wire(finished.usage),
    }


class ResponsesRoute(AnswerRoute[ResponseParams]):
    """``POST /v1/responses``, whose answers are stored."""

    def storage(self, request: ParsedRequest[ResponseParams]) -> StoreAnswer | None:
        service, record, params = request.service, request.record, request.params
        if params.store is False or not service.responses.is_on:
            return None
        sent = params.sent_items()

        def store(answer_id: str, answer: str, item_ids: Sequence[str]) -> None:
            ids = tuple(new_id("in_") for _ in sent)
            previous = params.previous_response_id or ""
            service.responses.put(
                StoredResponse(
                    answer_id, previous, sent, ids, answer, tuple(item_ids), record.client_id
                )
            )

        return store


RESPONSES = Dialect(
    name="Responses",
    title="OpenAI Responses",
    vendor="OpenAI",
    error_type=ErrorAnswer,
    render_error=error_to_wire,
    request_body=request_body,
    field_names={
        **FIELD_NAMES,
        "tool_choice.name": "tool_choice",
        "messages": "input",
        "max_tokens": "max_output_tokens",
        "constraint.json_schema": "text.format.schema",
        "constraint": "text.format",
    },
    recall=recall,
    routes=(
        ResponsesRoute(
            path="/v1/responses",
            summary="OpenAI Responses",
            request=ResponseParams,
            answer=ResponseAnswer,
            read=requests_from_wire,
            write_whole=write_response,
            encoder=ResponseEncoder,
            field_names=form_names,
            id_prefix="resp_",
        ),
        count_input,
        compact,
        retrieve,
        delete,
        list_input_items,
    ),
)
