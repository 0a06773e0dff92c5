"""Ollama's questions about the model and its memory. Runs on the server's loop."""

from typing import Literal

from api.dialects.ollama import models
from api.dialects.ollama.read import is_unloading, wants_thinking
from api.dialects.ollama.wire import (
    AnswerParams,
    ChatParams,
    OllamaAnswer,
    OllamaModel,
    OllamaModels,
    OllamaVersion,
    ShowParams,
)
from api.dialects.ollama.write import ChatLineEncoder, PromptLineEncoder
from api.dialects.shared.dialect import Head
from api.transport.context import Service, check_model, loaded_model
from api.transport.errors import invalid
from engine import ModelInfo


async def admit(service: Service, params: AnswerParams) -> None:
    """Refuse a request that the loaded model cannot answer."""
    model = await _model_for(service, params.model)
    if wants_thinking(params) and not model.can_think:
        raise invalid(("think",), f"{models.tagged(model.id)} does not support thinking")


def unload_if_wanted(service: Service, params: AnswerParams) -> None:
    """Free the model's memory where a request says so, once what was accepted has ended."""
    if is_unloading(params):
        service.engine.unload_when_idle()


async def reply_without_question(
    service: Service, params: AnswerParams, head: Head
) -> OllamaAnswer:
    """Bring the model into memory or free its memory, as a request without a question asks."""
    reason: Literal["load", "unload"] = "load"
    if is_unloading(params):
        service.engine.unload_when_idle()
        reason = "unload"
    else:
        await service.engine.tokenize("")  # loads a model again that was unloaded while idle
    encoder = ChatLineEncoder if isinstance(params, ChatParams) else PromptLineEncoder
    return encoder(params, head).unanswered(reason)


async def list_tags(service: Service, _: None) -> OllamaModels:
    """List the loaded model."""
    model = service.engine.model
    return {"models": [] if model is None else [models.listed(model)]}


async def list_running(service: Service, _: None) -> OllamaModels:
    """List the models that are in memory."""
    status = service.engine.status
    model = None if status.is_unloaded else status.model
    return {"models": [] if model is None else [models.running(model)]}


async def show(service: Service, params: ShowParams) -> OllamaModel:
    """Tell what a model is and can do."""
    asked = params.model or params.name
    if not asked:
        raise invalid(("model",), "Field required")
    return models.shown(await _model_for(service, asked))


async def version(service: Service, _: None) -> OllamaVersion:
    """Tell which version of the API is spoken."""
    return {"version": models.API_VERSION}


async def _model_for(service: Service, asked: str) -> ModelInfo:
    """Return the loaded model, which answers to any name where the settings are not strict."""
    model = await loaded_model(service)
    check_model(service, model.id if models.is_named(asked, model) else asked)
    return model
