"""The answers that are no dialect's: health, models, metrics, the OpenAPI document.

Run on the server's loop.
"""

from datetime import UTC, datetime
from typing import Any, Literal

from aiohttp import web

from api.dialects.lmstudio import model_entry
from api.dialects.shared.dialect import ParsedRequest, query
from api.dialects.shared.encoding import json_text
from api.service.config import GREETING
from api.service.metrics import CONTENT_TYPE
from api.service.models import ListedModel, adapter_base, find_model, list_models

# The words of "status" are ok, no_model, loading and failed; the others are counts.
_HEALTH = dict[Literal["status", "running", "waiting"], str | int]


@query("GET", "/health", needs_key=False, answer=_HEALTH, other_answers={503: _HEALTH})
async def get_health(request: ParsedRequest[None]) -> web.Response:
    """Whether a model is ready, and how much is running.

    The readiness of containers; their liveness is ``GET /``.
    """
    service = request.service
    status, models = service.engine.status, service.models
    if status.state == "failed":
        # Clients that wait for a healthy server send no request that would load the model: start
        # loading now.
        service.restart_engine()
    # Several models are loaded when they are needed, and fail independently.
    is_empty = status.state == "unloaded" and status.info is None
    can_load = is_empty and service.is_choosing and bool(models)
    has_others = status.state == "failed" and any(
        model.is_loaded or model.is_unloaded for model in models
    )
    health: str = "no_model" if is_empty else status.state
    if can_load or has_others or health in ("ready", "unloaded"):
        health = "ok"
    body = {
        "status": health,
        "running": sum(model.running for model in models) if models else status.running,
        "waiting": sum(model.waiting for model in models) if models else status.waiting,
    }
    return web.json_response(body, status=200 if health == "ok" else 503, dumps=json_text)


@query("GET", "/", needs_key=False, media_type="text/plain")
async def get_root(request: ParsedRequest[None]) -> web.Response:
    """Whether a server is running."""
    return web.Response(text=GREETING)


def model_to_wire(model: ListedModel, *, is_anthropic: bool) -> dict[str, Any]:
    """Return a model with the fields that clients of both vendors and of open servers read.

    Anthropic's clients have other ``capabilities``, and get none.
    """
    open_servers = {**model_entry(model), "capabilities": model.capabilities}
    return {
        **({} if is_anthropic else open_servers),
        "id": model.status.id,
        # OpenAI's
        "object": "model",
        "created": model.since,
        "owned_by": "fullstop",
        # Anthropic's
        "type": "model",
        "display_name": model.status.id,
        "created_at": datetime.fromtimestamp(model.since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
        "max_input_tokens": model.context_length,
        "max_tokens": model.context_length,
        # Open servers'
        "max_model_len": model.context_length,
        "context_length": model.context_length,
        # vLLM's
        "parent": adapter_base(model.status),
        # Ours: the draft model beside it, whether its chat template is the user's, whether it is
        # in memory, whether it reads pictures, the bytes of its weights
        "draft_model": model.draft,
        "has_user_template": model.status.user_template is not None,
        "loaded": model.status.is_loaded,
        "vision": model.can_see,
        "size_bytes": model.size_bytes,
    }


@query("GET", "/v1/models", answer=dict[str, Any])
async def get_models(request: ParsedRequest[None]) -> dict[str, Any]:
    """The models that requests may name, for clients of Anthropic and OpenAI."""
    models = await list_models(request.service.models)
    data = [model_to_wire(model, is_anthropic=request.is_anthropic) for model in models]
    return {
        "object": "list",
        "data": data,
        "has_more": False,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
    }


@query("GET", "/v1/models/{id}", answer=dict[str, Any])
async def retrieve_model(request: ParsedRequest[None]) -> dict[str, Any]:
    """One model by its name."""
    [model] = await list_models([find_model(request.service, request.url["id"])])
    return model_to_wire(model, is_anthropic=request.is_anthropic)


@query("GET", "/metrics", media_type="text/plain")
async def get_metrics(request: ParsedRequest[None]) -> web.Response:
    """Metrics for Prometheus."""
    service = request.service
    statuses = service.models or (service.engine.status,)
    body = service.metrics.exposition(statuses, service.engine.limits.prompt_cache_bytes)
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})
