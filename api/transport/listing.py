"""The models that a server lists, independent of any vendor. Runs on the server's loop."""

import asyncio
import os
from dataclasses import dataclass

from api.transport.context import Service, loaded_model
from engine import ModelStatus
from engine.library.found import chat_template


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model that requests may name, whether it is in memory or not.

    Attributes:
        id: Its name.
        is_loaded: Whether it is in memory.
        context_length: Most tokens of prompt and answer together.
        size_bytes: Size of its weight files.
        memory_bytes: How much memory its weights take; 0 if it is not loaded. Caches are left out:
            they would tell how much others ask.
        architecture: Its architecture's name; empty if unknown.
        bits: Bits of a quantized weight; None for a model that is not quantized.
        draft: The draft model loaded with it, if there is one.
        since: When it was loaded, or else when its files were written, in Unix seconds.
        unloads_at: When it will be unloaded if no further request arrives, in Unix seconds; None
            for never.
    """

    id: str
    is_loaded: bool
    context_length: int
    size_bytes: int
    memory_bytes: int
    architecture: str
    bits: int | None
    draft: str | None
    since: int
    unloads_at: float | None


def listed_models(service: Service) -> list[ListedModel]:
    """Return the models that requests may name; the loaded one if it answers all requests."""
    if not service.engine.is_choosing:
        model = service.engine.model
        statuses = service.engine.models if model is not None else ()
        return [_listed(one) for one in statuses if one.is_default]
    return [_listed(one) for one in service.engine.models]


def listed_model(service: Service, name: str) -> ListedModel | None:
    """Return the model with a name; None if it is not listed.

    Raises:
        UnknownModel: Several models are offered, and none of them has that name.
    """
    if not service.engine.is_choosing:
        return next((one for one in listed_models(service) if one.id == name), None)
    status = service.engine.model_status(name or None)
    return None if status is None else _listed(status)


def _listed(status: ModelStatus) -> ListedModel:
    info, offered = status.info, status.offered
    found = None if offered is None else offered.found
    drafted = None if info is None or info.draft is None else info.draft.id
    if drafted is None and offered is not None and offered.draft is not None:
        drafted = offered.draft.name
    since = int(_came_at(status) if info is None else info.loaded_at)
    if info is not None:
        architecture, context, size = info.architecture, info.context_length, info.size_bytes
    elif found is not None:
        architecture, context, size = found.architecture, found.context_length, found.size_bytes
    else:
        architecture, context, size = "", 0, 0
    return ListedModel(
        status.id,
        status.is_loaded,
        context,
        size,
        info.weights_bytes if info is not None and status.is_loaded else 0,
        architecture,
        None if found is None else found.bits,
        drafted,
        since,
        status.unloads_at,
    )


def _came_at(status: ModelStatus) -> float:
    try:
        return os.stat(status.folder / "config.json").st_mtime
    except OSError:
        return 0.0


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a model can do.

    Attributes:
        can_think: Whether it can reason before it answers.
        can_call_tools: Whether it can call tools.
        vocabulary_size: The size of its vocabulary; None before it was loaded.
    """

    can_think: bool
    can_call_tools: bool
    vocabulary_size: int | None = None


async def takes_tools(service: Service, name: str | None) -> bool:
    """Whether a model's chat template tells it of tools; True where that is not known yet.

    Args:
        service: The service that the server answers from.
        name: The engine's name of the model; None for the default one.
    """
    info = service.engine.model
    if service.engine.is_choosing:
        status = service.engine.model_status(name)
        info = None if status is None else status.info
        if status is not None and info is None:
            return "tools" in await asyncio.to_thread(chat_template, status.folder)
    return info is None or info.takes_tools


async def abilities_of(service: Service, name: str) -> Abilities:
    """Return what a model can do; for one that was never loaded, judged by its chat template.

    Raises:
        UnknownModel: Several models are offered, and none of them has that name.
        NoModel: There is no model.
    """
    status = service.engine.model_status(name) if service.engine.is_choosing else None
    if status is None or status.info is not None:
        info = await loaded_model(service, name)
        return Abilities(info.can_think, info.can_call_tools, info.vocabulary_size)
    template = await asyncio.to_thread(chat_template, status.folder)
    return Abilities(
        can_think=any(sign in template for sign in ("<think>", "enable_thinking")),
        can_call_tools="tools" in template,
    )
