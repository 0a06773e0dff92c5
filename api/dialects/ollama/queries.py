"""Answers Ollama's queries about models and their memory. Runs on the server's loop."""

from typing import Literal

from api.dialects.ollama import models
from api.dialects.ollama.read import keep_alive_s, wants_thinking
from api.dialects.ollama.wire import (
    AnswerParams,
    ChatParams,
    ModelParams,
    OllamaAnswer,
    OllamaModel,
    OllamaModels,
    OllamaVersion,
    ShowParams,
)
from api.dialects.ollama.write import ChatLineEncoder, PromptLineEncoder
from api.dialects.shared.dialect import Head
from api.transport.errors import invalid
from api.transport.service import (
    Service,
    abilities_of,
    check_model,
    engine_name,
    listed_model,
    listed_models,
    loaded_model,
)
from engine import NoModel


def model_of(params: ModelParams) -> str:
    """Return the name of the model that a request is for."""
    return models.untagged(params.model)


async def loaded_as_asked(service: Service, params: ModelParams) -> str:
    """Return the name of a request's model; one that is not in memory is loaded."""
    keep_alive_s(params)  # wrong fields are refused before anything is done
    name = await _checked(service, params.model)
    await loaded_model(service, model_of(params))
    return name


async def admit(service: Service, params: AnswerParams) -> None:
    """Refuse a request that its model cannot answer."""
    keep_alive_s(params)  # wrong fields are refused before anything is done
    name = await _checked(service, params.model)
    if wants_thinking(params) and not (await abilities_of(service, name)).can_think:
        raise invalid(("think",), f"{models.tagged(name)} does not support thinking")


def keep_as_wanted(service: Service, params: ModelParams) -> None:
    """Free the model's memory if a request asks for it, once the accepted requests have ended.

    If one model answers all requests, clients may unload it, but not set how long it stays loaded.
    """
    keep_s = keep_alive_s(params)
    if keep_s == 0:
        service.engine.unload_when_idle(engine_name(service, model_of(params)))
    elif keep_s is not None and service.engine.is_choosing:
        service.engine.unload_after(
            keep_s if keep_s > 0 else None, engine_name(service, model_of(params))
        )


async def reply_without_question(
    service: Service, params: AnswerParams, head: Head
) -> OllamaAnswer:
    """Load or unload the model, as a request without a prompt asks."""
    reason: Literal["load", "unload"] = "load"
    if keep_alive_s(params) == 0:
        reason = "unload"
    else:
        await service.engine.tokenize("", engine_name(service, model_of(params)))
    keep_as_wanted(service, params)
    encoder = ChatLineEncoder if isinstance(params, ChatParams) else PromptLineEncoder
    return encoder(params, head).unanswered(reason)


async def list_tags(service: Service, _: None) -> OllamaModels:
    """List the models that requests may name."""
    return {"models": [models.listed(one) for one in listed_models(service)]}


async def list_running(service: Service, _: None) -> OllamaModels:
    """List the models that are in memory."""
    there = [one for one in listed_models(service) if one.is_loaded]
    return {"models": [models.running(one) for one in there]}


async def show(service: Service, params: ShowParams) -> OllamaModel:
    """Return a model's details and capabilities."""
    asked = params.model or params.name
    if not asked:
        raise invalid(("model",), "Field required")
    name = await _checked(service, asked)
    abilities = await abilities_of(service, name)
    model = listed_model(service, name)
    if model is None:
        raise NoModel("no model is loaded")
    return models.shown(model, abilities)


async def version(service: Service, _: None) -> OllamaVersion:
    """Return the version of the API."""
    return {"version": models.API_VERSION}


async def _checked(service: Service, asked: str) -> str:
    """Return the model for a requested name.

    If one model answers all requests, it answers to any name, unless the settings are strict. Waits
    for a model that is being loaded.
    """
    if service.engine.is_choosing:
        status = service.engine.model_status(models.untagged(asked) or None)
        return models.untagged(asked) if status is None else status.id
    model = await loaded_model(service)
    check_model(service, model.id if models.is_named(asked, model) else asked)
    return model.id
