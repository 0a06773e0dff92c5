"""The models of a server: which one a request names, what each can do, and how they are listed.

Functions of a name raise ``UnknownModel`` if several models are offered, and none has that name.
"""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from api.service.errors import ApiError, ErrorKind, required, shown
from api.service.service import Service
from engine import GenerationRequest, ModelInfo, ModelStatus, NoModel
from engine.library.local_models import chat_template

# Open WebUI's requests for titles, tags, suggestions and searches begin with this. Nobody waits for
# them: a model that does not end its answer would run until the context is full.
_TASK_PREFIX = "### Task:"
# Parts of the chat templates of models that can reason.
_THINKING_SIGNS = ("<think>", "enable_thinking", "<|channel|>analysis")


def engine_name(service: Service, model: str) -> str | None:
    """Return the name by which the engine finds a model; None for the default one."""
    return (model or None) if service.is_choosing else None


def _info(service: Service, name: str | None) -> ModelInfo | None:
    """Return a model's description; None if it was never loaded."""
    if not service.is_choosing:
        return service.engine.model
    status = service.engine.resolve_model(name)
    return None if status is None else status.info


async def loaded_model(service: Service, model: str = "") -> ModelInfo:
    """Return the model of a name, after loading it if needed.

    Raises:
        NoModel: The model cannot be loaded, or there is no model.
    """
    name = engine_name(service, model)
    info = _info(service, name)
    if info is None:
        # This waits for a load in progress, and raises if no model is loading.
        await service.engine.tokenize("", name)
        info = _info(service, name)
    if info is None:
        raise NoModel("no model is loaded")
    return info


def check_model(service: Service, model: str) -> None:
    """Refuse an unknown model name; if one model answers all requests, only in strict mode.

    Raises:
        ApiError: The named model is not the loaded one, or none is named.
    """
    if service.is_choosing:
        service.engine.resolve_model(model or None)
        return
    loaded = service.engine.status
    if service.config.strict and not model:
        raise required(("model",))
    if service.config.strict and loaded.info is not None and not loaded.has_name(model):
        raise ApiError(
            ErrorKind.NOT_FOUND,
            f"{shown(model)} is not loaded; {loaded.id} is",
            field=("model",),
            code="model_not_found",
        )


def model_name(service: Service, model: str) -> str:
    """Return the name that an answer reports: that of the model that answers."""
    if service.is_choosing:
        status = service.engine.resolve_model(model or None)
        return model if status is None else status.id
    loaded = service.engine.model
    return loaded.id if loaded is not None else model


def address_requests(
    service: Service, requests: Sequence[GenerationRequest], model: str
) -> list[GenerationRequest]:
    """Return requests for the named model, with the server's limits where they set none."""
    name, config = engine_name(service, model), service.config
    return [
        replace(
            request,
            model=name,
            stops=replace(request.stops, ignore_template_eos=True)
            if config.ignore_template_eos
            else request.stops,
            thinking_budget=_thinking_budget(request, config.thinking_budget),
            max_tokens=_max_tokens(request, config.task_max_tokens),
        )
        for request in requests
    ]


def _max_tokens(request: GenerationRequest, task_limit: int) -> int | None:
    """Return the limit of a request; the server's for a background task that sets none."""
    if request.max_tokens is not None or not request.messages:
        return request.max_tokens
    last = request.messages[-1]
    is_task = last.role == "user" and last.content.lstrip().startswith(_TASK_PREFIX)
    return task_limit or None if is_task else None


def _thinking_budget(request: GenerationRequest, default: int | None) -> int | None:
    """Return the reasoning budget of a request; the server's if the request sets none."""
    is_open = request.thinking_budget is None and request.effort is None
    return default if is_open and request.prompt is None else request.thinking_budget


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model that requests may name, whether it is in memory or not.

    Attributes:
        memory_bytes: Memory of its weights; 0 if it is not loaded. Without caches, whose size
            would show what other clients do.
        since: When it was loaded, or else when its files were written, in Unix seconds.
    """

    id: str
    folder: Path
    is_loaded: bool
    context_length: int
    size_bytes: int
    memory_bytes: int
    architecture: str
    draft: str | None
    since: int
    unloads_at: float | None


def listed_models(service: Service) -> list[ListedModel]:
    """Return the models that requests may name; the only one if it answers all requests."""
    return [
        _list_model(status)
        for status in service.engine.models
        if status.is_default or service.is_choosing
    ]


def listed_model(service: Service, name: str) -> ListedModel | None:
    """Return the model with a name; None if it is not listed."""
    if not service.is_choosing:
        status = service.engine.resolve_model()
        return None if status is None or not status.has_name(name) else _list_model(status)
    status = service.engine.resolve_model(name or None)
    return None if status is None else _list_model(status)


def _list_model(status: ModelStatus) -> ListedModel:
    info, offered = status.info, status.offered
    known = info if info is not None else None if offered is None else offered.found
    draft = None if info is None or info.draft is None else info.draft.id
    if draft is None and offered is not None and offered.draft is not None:
        draft = offered.draft.name
    return ListedModel(
        status.id,
        status.folder,
        status.is_loaded,
        0 if known is None else known.context_length,
        0 if known is None else known.size_bytes,
        info.weights_bytes if info is not None and status.is_loaded else 0,
        "" if known is None else known.architecture,
        draft,
        int(_written_at(status.folder) if info is None else info.loaded_at),
        status.unloads_at,
    )


def _written_at(folder: Path) -> float:
    try:
        return os.stat(folder / "config.json").st_mtime
    except OSError:
        return 0.0


async def can_render_tools(service: Service, name: str | None) -> bool:
    """Whether a model's chat template renders tools; True if that is not known yet."""
    info = _info(service, name)
    if info is None and service.is_choosing:
        status = service.engine.resolve_model(name)
        if status is not None:
            return "tools" in await asyncio.to_thread(chat_template, status.folder)
    return info is None or info.takes_tools


async def capabilities_of(service: Service, name: str) -> tuple[bool, bool, int | None]:
    """Return whether a model can reason, whether it can call tools, and its vocabulary's size.

    Before its first load, a model is judged by its chat template, and the size is None.

    Raises:
        NoModel: There is no model.
    """
    status = service.engine.resolve_model(name) if service.is_choosing else None
    if status is None or status.info is not None:
        info = await loaded_model(service, name)
        return info.can_think, info.can_call_tools, info.vocabulary_size
    template = await asyncio.to_thread(chat_template, status.folder)
    return any(sign in template for sign in _THINKING_SIGNS), "tools" in template, None
