"""Ollama's API: chat, single prompts, embeddings and models. Replies run on the server's loop.

https://github.com/ollama/ollama/blob/main/docs/api.md
"""

import asyncio
import time
from typing import Any, Literal, TypeVar

from api.dialects.ollama.models import (
    add_tag,
    check_name,
    list_running,
    list_tags,
    pull,
    show,
    version,
)
from api.dialects.ollama.read import (
    chat_from_wire,
    prompt_from_wire,
    request_body,
    wants_thinking,
)
from api.dialects.ollama.wire import (
    AnswerParams,
    ChatParams,
    EmbedParams,
    ModelParams,
    OldEmbedParams,
    OllamaAnswer,
    OllamaText,
    PromptParams,
)
from api.dialects.ollama.write import (
    NS,
    LineEncoder,
    error_to_wire,
    write_answer,
)
from api.dialects.shared.dialect import LINES, AnswerRoute, Dialect, Head, ParsedRequest, query
from api.dialects.shared.encoding import long_json_text
from api.service.errors import invalid
from api.service.generations import embed_texts
from api.service.models import keep_loaded, loaded_model
from api.service.service import Service
from engine.values.embedding import EmbeddingRequest, Embeddings

_Params = TypeVar("_Params", bound=AnswerParams)


class OllamaRoute(AnswerRoute[_Params]):
    """A route whose answer is a line, or several; without a prompt it loads or unloads."""

    def wants_stream(self, params: _Params) -> bool:
        """Whether the answer is a stream, which is the default only in this API."""
        return params.stream is not False

    async def admit(self, service: Service, params: _Params) -> None:
        await check_name(service, params.model)
        check_thinking(service, params)

    def on_accepted(self, service: Service, params: _Params) -> None:
        keep_loaded(service, params.model, params.keep_alive)
        # The model may have been loaded since its admission, while the stream had keepalives.
        check_thinking(service, params)

    async def reply_without_prompt(
        self, service: Service, params: _Params, head: Head
    ) -> OllamaAnswer:
        """Load or unload the model, as a request without a prompt asks."""
        reason: Literal["load", "unload"] = "load"
        if params.keep_alive == 0:
            reason = "unload"
        else:
            await service.engine.tokenize("", service.engine_name(params.model))
        keep_loaded(service, params.model, params.keep_alive)
        answer = LineEncoder(params, head).line()
        answer["done"], answer["done_reason"] = True, reason
        return answer


def check_thinking(service: Service, params: AnswerParams) -> None:
    """Refuse ``think`` if the model is known not to reason, which its first load shows."""
    status = service.resolve_model(params.model)
    if not wants_thinking(params) or status is None or status.info is None:
        return
    if not status.info.can_think:
        raise invalid(("think",), f"{add_tag(status.id)} does not support thinking")


# https://github.com/ollama/ollama/blob/main/docs/api.md#generate-embeddings


async def _load(service: Service, params: ModelParams) -> str:
    name = await check_name(service, params.model)
    await loaded_model(service, params.model)
    return name


@query(
    "POST",
    "/api/embed",
    request=EmbedParams,
    answer=dict[str, Any],
    operation="embeddings",
    field_names=lambda params: {"inputs": "input"},
)
async def embed(request: ParsedRequest[EmbedParams]) -> str:
    """Ollama's embeddings: texts as vectors."""
    service, params, begun_s = request.service, request.params, time.perf_counter()
    name = await _load(service, params)
    embeddings = Embeddings((), ())
    if params.texts:
        embedding = EmbeddingRequest(
            tuple(params.texts),
            params.dimensions or None,
            truncates=params.truncate is not False,
        )
        embeddings = await embed_texts(service, request.record, embedding, params.model)
    keep_loaded(service, params.model, params.keep_alive)
    answer = {
        "model": params.model or add_tag(name),
        "embeddings": [list(vector) for vector in embeddings.vectors],
        "total_duration": round((time.perf_counter() - begun_s) * NS),
        "load_duration": 0,
        "prompt_eval_count": sum(embeddings.tokens),
    }
    return await asyncio.to_thread(long_json_text, answer)


@query(
    "POST",
    "/api/embeddings",
    request=OldEmbedParams,
    answer=dict[str, list[float]],
    operation="embeddings",
    field_names=lambda params: {"inputs[0]": "prompt"},
)
async def embed_one(request: ParsedRequest[OldEmbedParams]) -> dict[str, list[float]]:
    """Ollama's earlier route for one text as a vector."""
    service, params = request.service, request.params
    await _load(service, params)
    vector: list[float] = []
    if params.prompt:
        embedding = EmbeddingRequest((params.prompt,), truncates=True)
        embeddings = await embed_texts(service, request.record, embedding, params.model)
        vector = list(embeddings.vectors[0])
    keep_loaded(service, params.model, params.keep_alive)
    return {"embedding": vector}


OLLAMA = Dialect(
    name="Ollama",
    title="Ollama",
    vendor="Ollama",
    error_type=OllamaText,
    render_error=error_to_wire,
    request_body=request_body,
    field_names={
        "stops.strings": "options.stop",
        "sampling": "options",
        "max_tokens": "options.num_predict",
        "constraint.json_schema": "format",
        "constraint": "format",
    },
    prefix="/api/",
    routes=(
        OllamaRoute(
            path="/api/chat",
            summary="Ollama's chat",
            request=ChatParams,
            answer=OllamaAnswer,
            read=chat_from_wire,
            write_whole=write_answer,
            encoder=LineEncoder,
            media_type=LINES,
        ),
        OllamaRoute(
            path="/api/generate",
            summary="Ollama's single prompts",
            request=PromptParams,
            answer=OllamaAnswer,
            read=prompt_from_wire,
            write_whole=write_answer,
            encoder=LineEncoder,
            media_type=LINES,
            operation="text_completion",
        ),
        embed,
        embed_one,
        show,
        list_tags,
        list_running,
        version,
        pull,
    ),
)
