"""The models in Ollama's API: lists, details, and how a model is pulled.

Runs on the server's loop; headers of weights are read on a thread.
https://github.com/ollama/ollama/blob/main/docs/api.md
"""

import asyncio
import hashlib
from datetime import UTC, datetime
from typing import Any

from api.dialects.ollama.wire import NamedModelParams, OllamaText
from api.dialects.shared.dialect import LINES, ParsedRequest, query
from api.dialects.shared.encoding import json_line
from api.service.errors import required
from api.service.models import (
    ListedModel,
    capabilities_of,
    check_model,
    list_model,
    loaded_model,
    template_of,
)
from api.service.service import Service
from engine.errors import NoModel
from engine.library.weights import weights_of

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


def model_to_wire(
    model: ListedModel,
    template: str,
    can_think: bool,
    can_call_tools: bool,
    vocabulary_size: int | None,
) -> dict[str, Any]:
    """Return the answer of ``/api/show``."""
    capabilities = ["completion"]
    capabilities += ["tools"] if can_call_tools else []
    capabilities += ["vision"] if model.can_see else []
    capabilities += ["thinking"] if can_think else []
    info = {
        "general.architecture": model.architecture,
        f"{model.architecture}.context_length": model.context_length,
    }
    if vocabulary_size is not None:
        info[f"{model.architecture}.vocab_size"] = vocabulary_size
    details = _details(model)
    if count := weights_of(model.status.model_folder).count:
        info["general.parameter_count"] = count
    return {
        "modelfile": "",
        "parameters": "",
        "template": template,
        "details": details,
        "model_info": info,
        "capabilities": capabilities,
        "modified_at": time_text(model.since),
    }


def _details(model: ListedModel) -> dict[str, Any]:
    """Return a model's format, family and size; reads the headers of its weights, once."""
    weights = weights_of(model.status.model_folder)
    return {
        "parent_model": "",
        "format": "safetensors",
        "family": model.architecture,
        "families": [model.architecture],
        "parameter_size": _count_text(weights.count),
        "quantization_level": weights.kind,
    }


def _count_text(count: int) -> str:
    """Return a number of weights as this API spells it: ``134.52M``, ``8B``."""
    for divisor, digits, unit in ((10**9, 1, "B"), (10**6, 2, "M"), (10**3, 0, "K")):
        if count >= divisor:
            number = f"{count / divisor:.{digits}f}"
            return f"{number.removesuffix('.' + '0' * digits)}{unit}"
    return str(count) if count else ""


@query("GET", "/api/tags", answer=OllamaModels)
async def list_tags(request: ParsedRequest[None]) -> OllamaModels:
    """The models that requests may name, for Ollama's clients."""
    models = [list_model(status) for status in request.service.models]
    return {"models": await asyncio.to_thread(lambda: list(map(listed_entry, models)))}


@query("GET", "/api/ps", answer=OllamaModels)
async def list_running(request: ParsedRequest[None]) -> OllamaModels:
    """The models in memory, their size and how long they remain, for Ollama's clients."""
    loaded = [list_model(status) for status in request.service.models if status.is_loaded]
    return {"models": await asyncio.to_thread(lambda: list(map(running_entry, loaded)))}


@query("POST", "/api/show", request=NamedModelParams, answer=dict[str, Any])
async def show(request: ParsedRequest[NamedModelParams]) -> dict[str, Any]:
    """What a model can do, for Ollama's clients."""
    service, name = request.service, await _requested_model(request)
    capabilities = await capabilities_of(service, name)
    status = service.resolve_model(name)
    if status is None:
        raise NoModel("no model is loaded")
    template = await template_of(status)
    return await asyncio.to_thread(model_to_wire, list_model(status), template, *capabilities)


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
    await _requested_model(request)
    if request.params.stream is False:
        return {"status": _PULLED[-1]}
    return [json_line({"status": status}) for status in _PULLED]
