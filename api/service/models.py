"""The models of a server: whether a request may have one, what each can do, how they are listed.

``Service.resolve_model`` finds the model of a name.
"""

import asyncio
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from api.service.errors import ApiError, ErrorKind, invalid, required, shown
from api.service.service import Service
from engine import ModelStatus
from engine.errors import NoModel, UnknownModel
from engine.library.local_models import FoundModel
from engine.library.model_files import model_name as folder_name
from engine.library.model_info import ModelInfo
from engine.library.purpose import Purpose, purpose_of
from engine.library.template_files import chat_template
from engine.library.weights import Weights, weights_of
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


def adapted_model(service: Service, adapter: str, base: str, field: str) -> str:
    """Return the name of the model of an adapter, which a request names beside its base.

    A path names the offered adapter of this folder, and is never opened.

    Raises:
        ApiError: No offered adapter has this name, several have, or it is of another base.
    """
    adapters = [model for model in service.models if model.base is not None]
    last = adapter.rstrip("/").rpartition("/")[2]
    for name in (adapter, last):
        if named := [model for model in adapters if name in _adapter_names(model)]:
            break
    else:
        known = ", ".join(model.id for model in adapters[:5]) or "none"
        text = f"there is no adapter {shown(adapter)}; adapters here: {known}"
        raise ApiError(ErrorKind.NOT_FOUND, text, field=(field,), code="model_not_found")
    if base and (status := service.resolve_model(base)) is not None:
        of_base = [m for m in named if status.folder in (m.folder, m.base)]
        if not of_base:
            text = f"{shown(adapter)} is an adapter of {adapter_base(named[0])}, not of {status.id}"
            raise invalid((field,), text)
        named = of_base
    if len(named) > 1:
        text = f"{shown(adapter)} may mean {', '.join(model.id for model in named)}; name one"
        raise invalid((field,), text)
    return named[0].id


def _adapter_names(model: ModelStatus) -> tuple[str, ...]:
    aliases = () if model.offered is None else model.offered.aliases
    return model.id, folder_name(model.folder), str(model.folder), *aliases


def adapter_base(model: ModelStatus) -> str | None:
    """Return the name of an adapter's base; None for a model that is no adapter."""
    return None if model.base is None else folder_name(model.base)


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
        can_think: Whether it can reason; before its first load, whether its chat template can.
        can_call_tools: Likewise.
        template: The chat template that its prompts have: the user's, or its own.
    """

    status: ModelStatus
    context_length: int
    size_bytes: int
    architecture: str
    draft: str | None
    since: int
    can_see: bool
    can_think: bool
    can_call_tools: bool
    purpose: Purpose
    template: str
    weights: Weights

    @property
    def capabilities(self) -> list[str]:
        """The capabilities by Ollama's names, and ``rerank``."""
        if self.purpose == "embeddings":
            return ["embedding"]
        if self.purpose == "ranking":
            return ["rerank"]
        can = {"tools": self.can_call_tools, "vision": self.can_see, "thinking": self.can_think}
        return ["completion", *(name for name, has in can.items() if has)]

    @property
    def parameter_size(self) -> str:
        """The number of weights as Ollama and LM Studio spell it: ``134.52M``, ``8B``."""
        count = self.weights.count
        for divisor, digits, unit in ((10**9, 1, "B"), (10**6, 2, "M"), (10**3, 0, "K")):
            if count >= divisor:
                number = f"{count / divisor:.{digits}f}"
                return f"{number.removesuffix('.' + '0' * digits)}{unit}"
        return str(count) if count else ""


def architecture_of(status: ModelStatus) -> str:
    """Return a model's architecture; empty where its folder was not read yet."""
    known = _known(status)
    return "" if known is None else known.architecture


def _known(status: ModelStatus) -> ModelInfo | FoundModel | None:
    return status.info or (None if status.offered is None else status.offered.found)


def _listed(status: ModelStatus) -> ListedModel:
    """Return a model with its figures; reads its template and the headers of its weights."""
    info, offered, known = status.info, status.offered, _known(status)
    draft = None if info is None or info.draft is None else info.draft.id
    folder, template = status.model_folder, _template(status)
    if draft is None and offered is not None and offered.draft is not None:
        draft = offered.draft.name
    return ListedModel(
        status,
        0 if known is None else known.context_length,
        0 if known is None else known.size_bytes,
        architecture_of(status),
        draft,
        int(_written_at(status.model_folder) if info is None else info.loaded_at),
        known is not None and known.can_see,
        any(sign in template for sign in _THINKING_SIGNS) if info is None else info.can_think,
        "tools" in template if info is None else info.can_call_tools,
        purpose_of(folder, architecture_of(status)),
        template,
        weights_of(folder),
    )


async def list_models(statuses: Iterable[ModelStatus]) -> list[ListedModel]:
    """Return models with their figures, read on a thread."""
    return await asyncio.to_thread(lambda: list(map(_listed, statuses)))


def find_model(service: Service, name: str, field: str = "model") -> ModelStatus:
    """Return the model of a name, never a sole model of another name.

    Raises:
        ApiError: No model has it.
        UnknownModel: Requests choose among several models, and none has it.
    """
    status = service.resolve_model(name)
    if status is None or not (service.is_choosing or status.has_name(name)):
        raise ApiError(
            ErrorKind.NOT_FOUND,
            f"no model named {shown(name)} is loaded; GET /v1/models lists what is",
            field=(field,),
            code="model_not_found",
        )
    return status


def refuse_download(error: ApiError | UnknownModel) -> NoReturn:
    """Raise the error for a model that is not here, with the way to get it; others as they are."""
    if isinstance(error, ApiError) and error.kind is not ErrorKind.NOT_FOUND:
        raise error
    raise ApiError(
        ErrorKind.NOT_FOUND,
        f"{error}; requests download nothing: use fullstop models download, or Models in the "
        "window, and serve it",
        field=("model",),
        code="model_not_found",
    ) from None


def keep_loaded(service: Service, model: str, idle_s: float | None) -> None:
    """Free a model's memory once it was idle for ``idle_s``: 0 after the accepted requests.

    A negative time keeps it, None changes nothing. If one model answers all requests, clients may
    unload it, but not set how long it remains loaded.
    """
    name = service.engine_name(model)
    if idle_s == 0:
        service.engine.unload_when_idle(name)
    elif idle_s is not None and service.is_choosing:
        service.engine.unload_after(idle_s if idle_s > 0 else None, name)


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
    return "tools" in await asyncio.to_thread(_template, status)


def _template(status: ModelStatus) -> str:
    own = status.user_template
    return own if own is not None else chat_template(status.model_folder)
