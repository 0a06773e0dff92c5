"""The routes that list the models, in one object for both vendors. Server's loop."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from api.transport.context import service_of, shown_name
from api.transport.errors import ApiError, ErrorKind
from api.transport.json_text import json_text
from api.transport.listing import ListedModel, listed_model, listed_models


class ModelObject(TypedDict):
    """``GET /v1/models/{id}``: a model that requests may name."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    type: Literal["model"]
    display_name: str
    created_at: str
    lifecycle: Literal["active"]
    max_input_tokens: int
    max_tokens: int
    max_model_len: int
    context_length: int
    draft_model: Annotated[
        str | None, Field(description="the draft model that is loaded beside it")
    ]
    loaded: Annotated[
        bool, Field(description="whether it is in memory; if not, the first request loads it")
    ]
    size_bytes: Annotated[int, Field(description="size of its weight files")]


class ModelList(TypedDict):
    """``GET /v1/models``: the models that requests may name."""

    object: Literal["list"]
    data: list[ModelObject]
    has_more: bool
    first_id: str | None
    last_id: str | None


def model_to_wire(model: ListedModel) -> ModelObject:
    """Return a model with the fields that clients of both vendors and of open servers read."""
    return {
        "id": model.id,
        # OpenAI's
        "object": "model",
        "created": model.since,
        "owned_by": "fullstop",
        # Anthropic's
        "type": "model",
        "display_name": model.id,
        "created_at": datetime.fromtimestamp(model.since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
        "max_input_tokens": model.context_length,
        "max_tokens": model.context_length,
        # Open servers'
        "max_model_len": model.context_length,
        "context_length": model.context_length,
        # Ours
        "draft_model": model.draft,
        "loaded": model.is_loaded,
        "size_bytes": model.size_bytes,
    }


async def list_models(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /v1/models``."""
    data = [model_to_wire(one) for one in listed_models(service_of(request))]
    body: ModelList = {
        "object": "list",
        "data": data,
        "has_more": False,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
    }
    return web.json_response(body, dumps=json_text)


async def retrieve_model(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /v1/models/{id}``."""
    asked = request.match_info["id"]
    model = listed_model(service_of(request), asked)
    if model is None:
        raise ApiError(
            ErrorKind.NOT_FOUND,
            f"no model named {shown_name(asked)} is loaded; GET /v1/models lists what is",
            code="model_not_found",
        )
    return web.json_response(model_to_wire(model), dumps=json_text)
