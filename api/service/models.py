"""The models of a server: whether a request may have one, what each can do, how they are listed.

``Service.resolve_model`` finds the model of a name.
"""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from api.service.errors import ApiError, ErrorKind, required, shown
from api.service.service import Service
from engine import ModelStatus
from engine.errors import NoModel
from engine.library.model_info import ModelInfo
from engine.library.template_files import chat_template
from engine.values.request import GenerationRequest, LimitSource

# Open WebUI's requests for titles, tags, suggestions and searches begin with this. Nobody waits for
# them: a model that does not end its answer would run until the context is full.
_TASK_PREFIX = "### Task:"
# How the user agents of coding tools begin, which set limits that nobody chose in them.
_TOOLS = ("claude-cli", "codex", "opencode", "qwencode")
# Parts of the chat templates of models that can reason.
_THINKING_SIGNS = ("<think>", "enable_thinking", "<|channel|>analysis")


async def loaded_model(service: Service, model: str = "") -> ModelInfo:
    """Return the model of a name, after loading it if needed.

    Raises:
        NoModel: The model cannot be loaded, or there is no model.
    """
    status = service.resolve_model(model)
    if status is None or status.info is None:
        # This waits for a load in progress, and raises if no model is loading.
        await service.engine.tokenize("", service.engine_name(model))
        status = service.resolve_model(model)
    if status is None or status.info is None:
        raise NoModel("no model is loaded")
    return status.info


def check_model(service: Service, model: str) -> None:
    """Refuse an unknown model name; if one model answers all requests, only in strict mode.

    Raises:
        ApiError: The only model has another name, or none is named.
    """
    status = service.resolve_model(model)
    if service.is_choosing or not service.config.strict:
        return
    if not model:
        raise required(("model",))
    if status is not None and not status.has_name(model):
        raise ApiError(
            ErrorKind.NOT_FOUND,
            f"{shown(model)} is not loaded; {status.id} is",
            field=("model",),
            code="model_not_found",
        )


def model_name(service: Service, model: str) -> str:
    """Return the name that an answer reports: that of the model that answers."""
    status = service.resolve_model(model)
    return model if status is None else status.id


def address_requests(
    service: Service, requests: Sequence[GenerationRequest], model: str, user_agent: str = ""
) -> list[GenerationRequest]:
    """Return requests for the named model, with the server's limits where they set none."""
    is_tool = user_agent.lower().startswith(_TOOLS)
    name, config = service.engine_name(model), service.config
    return [
        replace(
            request,
            model=name,
            stops=replace(request.stops, ignore_template_eos=True)
            if config.ignore_template_eos
            else request.stops,
            **_max_tokens(request, config.task_max_tokens, is_tool=is_tool),
            **_thinking_budget(request, config.thinking_budget, is_tool=is_tool),
        )
        for request in requests
    ]


def _max_tokens(request: GenerationRequest, task_limit: int, *, is_tool: bool) -> dict[str, Any]:
    """Return the limit of a request; the server's for a background task that sets none."""
    source = request.max_tokens_from
    if request.max_tokens is not None or not request.messages:
        is_tools = is_tool and source is LimitSource.REQUEST
        return {"max_tokens_from": LimitSource.TOOL if is_tools else source}
    last = request.messages[-1]
    is_task = last.role == "user" and last.content.lstrip().startswith(_TASK_PREFIX)
    limit = task_limit or None if is_task else None
    return {"max_tokens": limit, "max_tokens_from": LimitSource.SERVER}


def _thinking_budget(
    request: GenerationRequest, default: int | None, *, is_tool: bool
) -> dict[str, Any]:
    """Return the reasoning budget of a request; the server's if the request sets none."""
    if request.thinking_budget is not None or request.effort is not None:
        source = LimitSource.TOOL if is_tool else request.thinking_budget_from
        return {"thinking_budget_from": source}
    budget = default if request.prompt is None else None
    return {"thinking_budget": budget, "thinking_budget_from": LimitSource.SERVER}


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model with its figures: of its last load, or else of its files.

    Attributes:
        since: When it was loaded, or else when its files were written, in Unix seconds.
        can_see: Whether it reads pictures.
    """

    status: ModelStatus
    context_length: int
    size_bytes: int
    architecture: str
    draft: str | None
    since: int
    can_see: bool


def list_model(status: ModelStatus) -> ListedModel:
    """Return a model with its figures."""
    info, offered = status.info, status.offered
    known = info if info is not None else None if offered is None else offered.found
    draft = None if info is None or info.draft is None else info.draft.id
    if draft is None and offered is not None and offered.draft is not None:
        draft = offered.draft.name
    return ListedModel(
        status,
        0 if known is None else known.context_length,
        0 if known is None else known.size_bytes,
        "" if known is None else known.architecture,
        draft,
        int(_written_at(status.model_folder) if info is None else info.loaded_at),
        known is not None and known.can_see,
    )


def _written_at(folder: Path) -> float:
    try:
        return os.stat(folder / "config.json").st_mtime
    except OSError:
        return 0.0


async def can_render_tools(service: Service, name: str) -> bool:
    """Whether a model's chat template renders tools; True if there is no model."""
    status = service.resolve_model(name)
    if status is None:
        return True
    if status.info is not None:
        return status.info.takes_tools
    return "tools" in await template_of(status)


async def template_of(status: ModelStatus) -> str:
    """Return the chat template that a model's prompts have: the user's, or its own."""
    own = status.user_template
    return own if own is not None else await asyncio.to_thread(chat_template, status.model_folder)


async def capabilities_of(service: Service, name: str) -> tuple[bool, bool, int | None]:
    """Return whether a model can reason, whether it can call tools, and its vocabulary's size.

    Before its first load, a model is judged by its chat template, and the size is None.

    Raises:
        NoModel: There is no model.
    """
    status = service.resolve_model(name)
    if status is None or status.info is not None:
        info = await loaded_model(service, name)
        return info.can_think, info.can_call_tools, info.vocabulary_size
    template = await template_of(status)
    return any(sign in template for sign in _THINKING_SIGNS), "tools" in template, None
