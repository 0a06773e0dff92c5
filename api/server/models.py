"""The routes that list the loaded model, in one object for both vendors. Server's loop."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from api.transport.context import service_of, shown_name
from api.transport.errors import ApiError, ErrorKind
from api.transport.json_text import json_text
from engine import ModelInfo


class ModelObject(TypedDict):
    """``GET /v1/models/{id}``: the loaded model."""

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


class ModelList(TypedDict):
    """``GET /v1/models``: the loaded model, if there is one."""

    object: Literal["list"]
    data: list[ModelObject]
    has_more: bool
    first_id: str | None
    last_id: str | None


def model_to_wire(model: ModelInfo) -> ModelObject:
    """Return a model with the fields of both vendors and what open clients look for."""
    return {
        "id": model.id,
        # OpenAI's
        "object": "model",
        "created": model.loaded_at,
        "owned_by": "fullstop",
        # Anthropic's
        "type": "model",
        "display_name": model.id,
        "created_at": datetime.fromtimestamp(model.loaded_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
        "max_input_tokens": model.context_length,
        "max_tokens": model.context_length,
        # Open servers'
        "max_model_len": model.context_length,
        "context_length": model.context_length,
        # Ours
        "draft_model": None if model.draft is None else model.draft.id,
    }


async def list_models(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /v1/models``."""
    loaded = service_of(request).engine.model
    data = [model_to_wire(loaded)] if loaded is not None else []
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
    loaded = service_of(request).engine.model
    if loaded is None or asked != loaded.id:
        raise ApiError(
            ErrorKind.NOT_FOUND,
            f"no model named {shown_name(asked)} is loaded; GET /v1/models lists what is",
            code="model_not_found",
        )
    return web.json_response(model_to_wire(loaded), dumps=json_text)
