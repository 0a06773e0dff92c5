"""LM Studio's REST API about models: lists, loading, unloading. Replies run on the server's loop.

https://lmstudio.ai/docs/developer/rest (v1) and https://lmstudio.ai/docs/developer/rest/endpoints
(v0).
"""

import re
import time
from collections.abc import Mapping
from typing import Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from api.dialects.shared.answers import with_field
from api.dialects.shared.dialect import Dialect, ParsedRequest, query
from api.dialects.shared.parsing import WireModel
from api.service.errors import ApiError, ErrorKind, path_text, shown
from api.service.models import (
    ListedModel,
    find_model,
    keep_loaded,
    list_models,
    refuse_download,
)
from engine.errors import UnknownModel


class ModelEntry(TypedDict):
    """A model in the lists of v0."""

    id: str
    object: Literal["model"]
    type: Literal["llm", "vlm", "embeddings"]
    publisher: str
    arch: str
    compatibility_type: Literal["mlx"]
    quantization: str
    state: Literal["loaded", "not-loaded"]
    max_context_length: int
    loaded_context_length: NotRequired[int]
    capabilities: list[str]


class LoadConfig(TypedDict):
    """How a model is loaded; ``parallel`` is how many answers it gives at once."""

    context_length: int
    parallel: NotRequired[int]


class LoadedInstance(TypedDict):
    """A model in memory; each is there once, under its own name."""

    id: str
    config: LoadConfig


class Quantization(TypedDict):
    """The type of most weights."""

    name: str | None
    bits_per_weight: int | None


class Abilities(TypedDict):
    """What a model can do."""

    vision: bool
    trained_for_tool_use: bool
    reasoning: NotRequired[dict[Literal["allowed_options", "default"], str | list[str]]]


class ModelDetails(TypedDict):
    """A model in the list of v1."""

    type: Literal["llm", "embedding"]
    publisher: str
    key: str
    display_name: str
    architecture: NotRequired[str]
    quantization: Quantization
    size_bytes: int
    params_string: str | None
    loaded_instances: list[LoadedInstance]
    max_context_length: int
    format: Literal["mlx"]
    capabilities: NotRequired[Abilities]
    description: NotRequired[None]


class LoadParams(WireModel):
    """``POST /api/v1/models/load``."""

    model: str = Field(min_length=1)
    echo_load_config: bool | None = None
    ttl: float | None = Field(default=None, gt=0, le=1e8, allow_inf_nan=False)


class UnloadParams(WireModel):
    """``POST /api/v1/models/unload``."""

    instance_id: str = Field(min_length=1)


class DownloadParams(WireModel):
    """``POST /api/v1/models/download``."""

    model: str = Field(min_length=1)


class LoadAnswer(TypedDict):
    """A model that is in memory now."""

    type: Literal["llm", "embedding"]
    instance_id: str
    load_time_seconds: float
    status: Literal["loaded"]
    load_config: NotRequired[LoadConfig]


class StudioErrorFields(TypedDict):
    """The fields of an error."""

    type: Literal["invalid_request", "model_not_found", "internal_error", "unknown"]
    message: str
    code: NotRequired[str]
    param: NotRequired[str]


class StudioError(TypedDict):
    """An error."""

    error: StudioErrorFields


def error_to_wire(error: ApiError, request_id: str) -> tuple[int, StudioError]:
    """Return the status and the body of an error answer."""
    fields: StudioErrorFields = {"type": "unknown", "message": with_field(error)}
    if error.code == "model_not_found":
        fields["type"] = "model_not_found"
    elif error.kind is ErrorKind.INTERNAL:
        fields["type"] = "internal_error"
    elif error.kind.status < 500:
        fields["type"] = "invalid_request"
    if error.code is not None:
        fields["code"] = error.code
    if error.field:
        fields["param"] = path_text(error.field)
    return error.kind.status, {"error": fields}


def model_entry(model: ListedModel) -> ModelEntry:
    """Return a model as v0 lists it."""
    is_embedding, status = model.purpose == "embeddings", model.status
    entry: ModelEntry = {
        "id": status.id,
        "object": "model",
        "type": "embeddings" if is_embedding else "vlm" if model.can_see else "llm",
        "publisher": _publisher(model),
        "arch": model.architecture,
        "compatibility_type": "mlx",
        "quantization": _quantization(model)["name"] or "",
        "state": "loaded" if status.is_loaded else "not-loaded",
        "max_context_length": model.context_length,
        "capabilities": ["tool_use"] if "tools" in model.capabilities else [],
    }
    if status.is_loaded:
        entry["loaded_context_length"] = model.context_length
    return entry


def model_details(model: ListedModel, max_rows: int) -> ModelDetails:
    """Return a model as v1 lists it."""
    status, is_embedding = model.status, model.purpose == "embeddings"
    config: LoadConfig = {"context_length": model.context_length}
    if not is_embedding:
        config["parallel"] = max_rows
    details: ModelDetails = {
        "type": _type(model),
        "publisher": _publisher(model),
        "key": status.id,
        "display_name": status.id,
        "quantization": _quantization(model),
        "size_bytes": model.size_bytes,
        "params_string": model.parameter_size or None,
        "loaded_instances": [{"id": status.id, "config": config}] if status.is_loaded else [],
        "max_context_length": model.context_length,
        "format": "mlx",
    }
    if not is_embedding:
        abilities: Abilities = {
            "vision": model.can_see,
            "trained_for_tool_use": "tools" in model.capabilities,
        }
        if "thinking" in model.capabilities:
            abilities["reasoning"] = {"allowed_options": ["off", "on"], "default": "on"}
        details["architecture"] = model.architecture
        details["capabilities"] = abilities
        details["description"] = None
    return details


def _type(model: ListedModel) -> Literal["llm", "embedding"]:
    return "embedding" if model.purpose == "embeddings" else "llm"


def _publisher(model: ListedModel) -> str:
    owner, slash, _ = model.status.id.partition("/")
    return owner if slash else ""


def _quantization(model: ListedModel) -> Quantization:
    """Return the type of the weights: ``4bit`` where they are quantized, else ``BF16``."""
    kind = model.weights.kind
    bits = re.search(r"\d+$", kind)
    name = f"{bits[0]}bit" if bits and kind.startswith("int") else kind
    return {"name": name or None, "bits_per_weight": int(bits[0]) if bits else None}


@query("GET", "/api/v0/models", answer=dict[Literal["object", "data"], str | list[ModelEntry]])
async def list_entries(request: ParsedRequest[None]) -> Mapping[str, Any]:
    """The models that requests may name, for LM Studio's clients (v0)."""
    models = await list_models(request.service.models)
    return {"object": "list", "data": list(map(model_entry, models))}


@query("GET", "/api/v0/models/{id}", answer=ModelEntry)
async def retrieve_entry(request: ParsedRequest[None]) -> ModelEntry:
    """One model by its name, for LM Studio's clients (v0)."""
    [model] = await list_models([find_model(request.service, request.url["id"])])
    return model_entry(model)


@query("GET", "/api/v1/models", answer=dict[Literal["models"], list[ModelDetails]])
async def list_details(request: ParsedRequest[None]) -> Mapping[str, Any]:
    """The models that requests may name, for LM Studio's clients (v1)."""
    service = request.service
    rows = service.engine.limits.max_rows
    return {"models": [model_details(one, rows) for one in await list_models(service.models)]}


@query("POST", "/api/v1/models/load", request=LoadParams, answer=LoadAnswer)
async def load(request: ParsedRequest[LoadParams]) -> LoadAnswer:
    """Loads a model, and says when it is in memory, for LM Studio's clients."""
    service, params, begun_s = request.service, request.params, time.perf_counter()
    model_id = find_model(service, params.model).id
    keep_loaded(service, model_id, params.ttl)  # before an earlier time can end after the load
    await service.engine.tokenize("", service.engine_name(model_id))
    [model] = await list_models([find_model(service, model_id)])
    answer: LoadAnswer = {
        "type": _type(model),
        "instance_id": model_id,
        "load_time_seconds": round(time.perf_counter() - begun_s, 3),
        "status": "loaded",
    }
    if params.echo_load_config:
        answer["load_config"] = {"context_length": model.context_length}
    return answer


@query(
    "POST",
    "/api/v1/models/unload",
    request=UnloadParams,
    answer=dict[Literal["instance_id"], str],
    field_names=lambda params: {"model": "instance_id"},
)
async def unload(request: ParsedRequest[UnloadParams]) -> dict[str, str]:
    """Frees a model's memory once its answers have ended, for LM Studio's clients."""
    service, name = request.service, request.params.instance_id
    status = find_model(service, name, "instance_id")
    if not status.is_loaded:
        raise ApiError(
            ErrorKind.NOT_FOUND,
            f"{shown(name)} is not in memory; GET /api/v1/models lists the loaded instances",
            field=("instance_id",),
            code="model_not_found",
        )
    keep_loaded(service, status.id, 0)
    return {"instance_id": name}


@query(
    "POST",
    "/api/v1/models/download",
    request=DownloadParams,
    answer=dict[Literal["status"], Literal["already_downloaded"]],
)
async def download(request: ParsedRequest[DownloadParams]) -> dict[str, str]:
    """Report a local model as LM Studio does; nothing is downloaded."""
    try:
        find_model(request.service, request.params.model)
    except (ApiError, UnknownModel) as error:
        refuse_download(error)
    return {"status": "already_downloaded"}


LM_STUDIO = Dialect(
    name="LM Studio",
    title="LM Studio",
    vendor="LM Studio",
    error_type=StudioError,
    render_error=error_to_wire,
    request_body=lambda request, model, prompt: None,
    field_names={},
    prefix="/api/v1/",
    routes=(list_entries, retrieve_entry, list_details, load, unload, download),
)
