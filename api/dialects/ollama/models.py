"""The models in Ollama's API: lists, details, and how a model is pulled.

Runs on the server's loop.
https://github.com/ollama/ollama/blob/main/docs/api.md
"""

import hashlib
from datetime import UTC, datetime
from typing import Any

from api.dialects.ollama.wire import NamedModelParams, OllamaText
from api.dialects.shared.dialect import LINES, ParsedRequest, query
from api.dialects.shared.encoding import json_line
from api.service.errors import ApiError, required
from api.service.models import (
    ListedModel,
    adapter_base,
    check_model,
    list_models,
    loaded_model,
    refuse_download,
)
from api.service.service import Service
from engine.errors import NoModel, UnknownModel

# Codex and others require a minimum version; routes follow the reference of this one.
API_VERSION = "0.32.15"

# The bodies of ``/api/tags`` and ``/api/ps``.
OllamaModels = dict[str, list[dict[str, Any]]]

_TAG = ":latest"
_NEVER = datetime(2318, 1, 1, tzinfo=UTC).timestamp()
# The lines that the reference sends for a model that is downloaded already.
_PULLED = ("pulling manifest", "verifying sha256 digest", "writing manifest", "success")


def add_tag(model_id: str) -> str:
    """Return a model's name as this API spells it, with a tag."""
    return model_id if ":" in model_id.rpartition("/")[2] else f"{model_id}{_TAG}"


def time_text(unix_s: float) -> str:
    """Return a time as this API spells it."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def listed_entry(model: ListedModel) -> dict[str, Any]:
    """Return a model's entry of ``/api/tags``; its digest is that of its description.

    Hashing the weights would take too long.
    """
    known = f"{model.status.id}\n{model.architecture}\n{model.size_bytes}\n{model.context_length}"
    return {
        "name": add_tag(model.status.id),
        "model": add_tag(model.status.id),
        "modified_at": time_text(model.since),
        "size": model.size_bytes,
        "digest": hashlib.sha256(known.encode("utf-8", "surrogatepass")).hexdigest(),
        "details": _details(model),
        "capabilities": model.capabilities,
    }


def running_entry(model: ListedModel) -> dict[str, Any]:
    """Return the entry of ``/api/ps`` of a model that is in memory."""
    entry = listed_entry(model)
    del entry["modified_at"]
    status = model.status
    entry["expires_at"] = time_text(_NEVER if status.unloads_at is None else status.unloads_at)
    # Without caches, whose size would show what other clients do.
    entry["size_vram"] = 0 if status.info is None else status.info.weights_bytes
    entry["context_length"] = model.context_length
    return entry


def model_to_wire(model: ListedModel) -> dict[str, Any]:
    """Return the answer of ``/api/show``."""
    info = {
        "general.architecture": model.architecture,
        f"{model.architecture}.context_length": model.context_length,
    }
    if model.status.info is not None:
        info[f"{model.architecture}.vocab_size"] = model.status.info.vocabulary_size
    if count := model.weights.count:
        info["general.parameter_count"] = count
    return {
        "modelfile": "",
        "parameters": "",
        "template": model.template,
        "details": _details(model),
        "model_info": info,
        "capabilities": model.capabilities,
        "modified_at": time_text(model.since),
    }


def _details(model: ListedModel) -> dict[str, Any]:
    """Return a model's format, family and size."""
    return {
        "parent_model": adapter_base(model.status) or "",
        "format": "safetensors",
        "family": model.architecture,
        "families": [model.architecture],
        "parameter_size": model.parameter_size,
        "quantization_level": model.weights.kind,
    }


@query("GET", "/api/tags", answer=OllamaModels)
async def list_tags(request: ParsedRequest[None]) -> OllamaModels:
    """The models that requests may name, for Ollama's clients."""
    return {"models": list(map(listed_entry, await list_models(request.service.models)))}


@query("GET", "/api/ps", answer=OllamaModels)
async def list_running(request: ParsedRequest[None]) -> OllamaModels:
    """The models in memory, their size and how long they remain, for Ollama's clients."""
    loaded = (status for status in request.service.models if status.is_loaded)
    return {"models": list(map(running_entry, await list_models(loaded)))}


@query("POST", "/api/show", request=NamedModelParams, answer=dict[str, Any])
async def show(request: ParsedRequest[NamedModelParams]) -> dict[str, Any]:
    """What a model can do, for Ollama's clients."""
    service, name = request.service, await _requested_model(request)
    status = service.resolve_model(name)
    if status is None:
        raise NoModel("no model is loaded")
    [model] = await list_models([status])
    return model_to_wire(model)


@query("GET", "/api/version", answer=OllamaText)
async def version(request: ParsedRequest[None]) -> OllamaText:
    """The version of Ollama's API that is supported."""
    return {"version": API_VERSION}


async def check_name(service: Service, requested: str) -> str:
    """Return the model for a requested name.

    If one model answers all requests, it answers to any name, unless the settings are strict.
    """
    check_model(service, requested)
    status = service.resolve_model(requested)
    return (await loaded_model(service, requested)).id if status is None else status.id


async def _requested_model(request: ParsedRequest[NamedModelParams]) -> str:
    requested = request.params.model or request.params.name
    if not requested:
        raise required(("model",))
    return await check_name(request.service, requested)


@query("POST", "/api/pull", request=NamedModelParams, answer=OllamaText, media_type=LINES)
async def pull(request: ParsedRequest[NamedModelParams]) -> OllamaText | list[str]:
    """Whether a model is available, as Ollama reports a download that is complete."""
    try:
        await _requested_model(request)
    except (ApiError, UnknownModel) as error:
        refuse_download(error)
    if request.params.stream is False:
        return {"status": _PULLED[-1]}
    return [json_line({"status": status}) for status in _PULLED]
