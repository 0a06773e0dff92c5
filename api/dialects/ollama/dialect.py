"""Ollama's API as one value, from which the server is built, and the answers to its queries.

Replies run on the server's loop.
"""

import time
from typing import Literal

from api.dialects.ollama.read import (
    ask,
    chat_from_wire,
    is_streamed,
    keep_alive_s,
    prompt_from_wire,
    wants_thinking,
)
from api.dialects.ollama.wire import (
    AnswerParams,
    ChatParams,
    EmbedAnswer,
    EmbedParams,
    ModelParams,
    OldEmbedAnswer,
    OldEmbedParams,
    OllamaAnswer,
    OllamaChatAnswer,
    OllamaChatLine,
    OllamaErrorAnswer,
    OllamaGenerateAnswer,
    OllamaGenerateLine,
    OllamaModel,
    OllamaModels,
    OllamaVersion,
    PromptParams,
    ShowParams,
)
from api.dialects.ollama.write import (
    API_VERSION,
    ChatLineEncoder,
    PromptLineEncoder,
    error_to_wire,
    is_named,
    listed_entry,
    model_to_wire,
    running_entry,
    tagged,
    untagged,
    write_chat,
    write_response,
)
from api.dialects.shared.answers import vectors_answer
from api.dialects.shared.dialect import LINES, AnswerRoute, Dialect, Head, QueryRoute
from api.transport.errors import invalid
from api.transport.service import (
    Service,
    abilities_of,
    check_model,
    embedded,
    engine_name,
    listed_model,
    listed_models,
    loaded_model,
)
from engine import EmbeddingRequest, Embeddings, NoModel

# -- models and their memory -------------------------------------------------------------------


def model_of(params: ModelParams) -> str:
    """Return the name of the model that a request is for."""
    return untagged(params.model)


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
        raise invalid(("think",), f"{tagged(name)} does not support thinking")


def keep_as_wanted(service: Service, params: ModelParams) -> None:
    """Free the model's memory if a request asks for it, once the accepted requests have ended.

    If one model answers all requests, clients may unload it, but not set how long it stays loaded.
    """
    keep_s = keep_alive_s(params)
    if keep_s == 0:
        service.engine.unload_when_idle(engine_name(service, model_of(params)))
    elif keep_s is not None and service.is_choosing:
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
    return {"models": [listed_entry(model) for model in listed_models(service)]}


async def list_running(service: Service, _: None) -> OllamaModels:
    """List the models that are in memory."""
    there = [model for model in listed_models(service) if model.is_loaded]
    return {"models": [running_entry(model) for model in there]}


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
    return model_to_wire(model, abilities)


async def version(service: Service, _: None) -> OllamaVersion:
    """Return the version of the API."""
    return {"version": API_VERSION}


async def _checked(service: Service, asked: str) -> str:
    """Return the model for a requested name.

    If one model answers all requests, it answers to any name, unless the settings are strict. Waits
    for a model that is being loaded.
    """
    if service.is_choosing:
        status = service.engine.model_status(untagged(asked) or None)
        return untagged(asked) if status is None else status.id
    model = await loaded_model(service)
    check_model(service, model.id if is_named(asked, model) else asked)
    return model.id


# -- embeddings --------------------------------------------------------------------------------
# https://github.com/ollama/ollama/blob/main/docs/api.md#generate-embeddings


_NS = 1_000_000_000


async def embed(service: Service, params: EmbedParams) -> EmbedAnswer | str:
    """Answer ``POST /api/embed``."""
    begun_s = time.perf_counter()
    name = await loaded_as_asked(service, params)
    made = Embeddings((), ())
    if params.texts:
        wanted = EmbeddingRequest(
            tuple(params.texts),
            params.dimensions or None,
            truncates=params.truncate is not False,
        )
        made, _ = await embedded(service, wanted, model_of(params))
    keep_as_wanted(service, params)

    def answer(embeddings: Embeddings, tokens: int) -> EmbedAnswer:
        return {
            "model": params.model or tagged(name),
            "embeddings": [list(vector) for vector in embeddings.vectors],
            "total_duration": round((time.perf_counter() - begun_s) * _NS),
            "load_duration": 0,
            "prompt_eval_count": tokens,
        }

    return await vectors_answer(made, answer)


async def embed_one(service: Service, params: OldEmbedParams) -> OldEmbedAnswer:
    """Answer ``POST /api/embeddings``."""
    await loaded_as_asked(service, params)
    vector: list[float] = []
    if params.prompt:
        wanted = EmbeddingRequest((params.prompt,), truncates=True)
        embeddings, _ = await embedded(service, wanted, model_of(params))
        vector = list(embeddings.vectors[0])
    keep_as_wanted(service, params)
    return {"embedding": vector}


_EMBEDDINGS = (
    QueryRoute(
        method="POST",
        path="/api/embed",
        summary="Ollama's embeddings: texts as vectors",
        request=EmbedParams,
        reply=embed,
        answer=EmbedAnswer,
        operation="embeddings",
        own_names={"inputs": "input"},
    ),
    QueryRoute(
        method="POST",
        path="/api/embeddings",
        summary="Ollama's earlier route for one text as a vector",
        request=OldEmbedParams,
        reply=embed_one,
        answer=OldEmbedAnswer,
        operation="embeddings",
        own_names={"inputs[0]": "prompt"},
    ),
)


# -- the dialect -------------------------------------------------------------------------------


DIALECT = Dialect(
    name="Ollama",
    title="Ollama",
    vendor="Ollama",
    reference="https://github.com/ollama/ollama/blob/main/docs/api.md",
    render_error=error_to_wire,
    error_type=OllamaErrorAnswer,
    field_names={
        "stops.strings": "options.stop",
        "max_tokens": "options.num_predict",
        "constraint.json_schema": "format",
        "constraint": "format",
    },
    prefix="/api/",
    ask=ask,
    answers=(
        AnswerRoute(
            path="/api/chat",
            summary="Ollama's chat",
            request=ChatParams,
            read=chat_from_wire,
            answer=OllamaChatAnswer,
            write_whole=write_chat,
            event=OllamaChatLine,
            encoder=ChatLineEncoder,
            media_type=LINES,
            wants_stream=is_streamed,
            admit=admit,
            model_of=model_of,
            on_accepted=keep_as_wanted,
            reply_without_question=reply_without_question,
        ),
        AnswerRoute(
            path="/api/generate",
            operation="text_completion",
            summary="Ollama's single prompts",
            request=PromptParams,
            read=prompt_from_wire,
            answer=OllamaGenerateAnswer,
            write_whole=write_response,
            event=OllamaGenerateLine,
            encoder=PromptLineEncoder,
            media_type=LINES,
            wants_stream=is_streamed,
            admit=admit,
            model_of=model_of,
            has_instructions=lambda params: bool(params.system),
            on_accepted=keep_as_wanted,
            reply_without_question=reply_without_question,
        ),
    ),
    queries=(
        *_EMBEDDINGS,
        QueryRoute(
            method="POST",
            path="/api/show",
            summary="What a model can do, for Ollama's clients",
            request=ShowParams,
            reply=show,
            answer=OllamaModel,
        ),
        QueryRoute(
            method="GET",
            path="/api/tags",
            summary="The models that requests may name, for Ollama's clients",
            reply=list_tags,
            answer=OllamaModels,
        ),
        QueryRoute(
            method="HEAD",
            path="/api/tags",
            summary="Whether the list of models is available",
            reply=list_tags,
        ),
        QueryRoute(
            method="GET",
            path="/api/ps",
            summary="The models in memory, their size and how long they stay, for Ollama's clients",
            reply=list_running,
            answer=OllamaModels,
        ),
        QueryRoute(
            method="GET",
            path="/api/version",
            summary="The version of Ollama's API that is supported",
            reply=version,
            answer=OllamaVersion,
        ),
        QueryRoute(
            method="HEAD",
            path="/api/version",
            summary="Whether Ollama's API is available",
            reply=version,
        ),
    ),
)
