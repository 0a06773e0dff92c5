"""Ollama's embeddings: texts as vectors of any loaded model.

https://github.com/ollama/ollama/blob/main/docs/api.md#generate-embeddings
Runs on the server's loop.
"""

import time
from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

from api.dialects.ollama.models import tagged
from api.dialects.ollama.queries import keep_as_wanted, loaded_as_asked, model_of
from api.dialects.ollama.wire import ModelParams
from api.dialects.shared.dialect import QueryRoute
from api.dialects.shared.embeddings import vectors_answer
from api.dialects.shared.parameters.content import TextOr
from api.transport.service import Service, embedded
from engine import EmbeddingRequest, Embeddings

_NS = 1_000_000_000


def _as_texts(value: Any) -> Any:
    if value is None or value == "":
        return []
    return [value] if isinstance(value, str) else value


class EmbedParams(ModelParams):
    """``POST /api/embed``; without input it only loads the model."""

    texts: Annotated[list[str], TextOr(_as_texts, accepts_null=True)] = Field(
        default_factory=list, alias="input"
    )
    truncate: bool | None = None
    dimensions: int | None = Field(default=None, ge=0)
    options: dict[str, Any] | None = None


class OldEmbedParams(ModelParams):
    """``POST /api/embeddings``, the earlier route for a single text."""

    prompt: str | None = None
    options: dict[str, Any] | None = None


class EmbedAnswer(TypedDict):
    """The answer of ``POST /api/embed``; durations are in nanoseconds."""

    model: str
    embeddings: list[list[float]]
    total_duration: int
    load_duration: int
    prompt_eval_count: int


class OldEmbedAnswer(TypedDict):
    """The answer of ``POST /api/embeddings``."""

    embedding: list[float]


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
        found, _ = await embedded(service, wanted, model_of(params))
        vector = list(found.vectors[0])
    keep_as_wanted(service, params)
    return {"embedding": vector}


ROUTES = (
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
