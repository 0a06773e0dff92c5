"""OpenAI's Embeddings API: texts as vectors of any loaded model.

https://platform.openai.com/docs/api-reference/embeddings
Runs on the server's loop.
"""

import base64
from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from api.dialects.openai.wire import Prompts
from api.dialects.shared.answers import vectors_answer
from api.dialects.shared.body import WireModel
from api.dialects.shared.dialect import QueryRoute
from api.dialects.shared.parameters import (
    EMPTY,
    ModelName,
    RefusedParameter,
    refusals,
    refuse,
    with_refused,
)
from api.transport.service import Service, check_model, embedded
from engine import EmbeddingRequest, Embeddings

# Parameters of vLLM that would change the vectors.
_REFUSED = refusals(
    "OpenAI",
    {
        "messages": RefusedParameter("embedding a conversation", EMPTY),
        "add_special_tokens": RefusedParameter("texts without the tokenizer's own tokens", (True,)),
        "normalize": RefusedParameter("vectors of other lengths than 1", (True,)),
        "truncate_prompt_tokens": RefusedParameter("cutting texts"),
    },
)


@with_refused(_REFUSED)
class EmbeddingParams(WireModel):
    """``POST /v1/embeddings``."""

    model: ModelName = ""
    texts: Prompts = Field(alias="input")
    dimensions: int | None = Field(default=None, ge=1)
    encoding_format: Literal["float", "base64"] | None = None


class EmbeddingObject(TypedDict):
    """The vector of one text."""

    object: Literal["embedding"]
    index: int
    embedding: Annotated[
        list[float] | str,
        Field(description="numbers, or their 32-bit floats (little-endian) in base64"),
    ]


class EmbeddingUsage(TypedDict):
    """How many tokens were read."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingAnswer(TypedDict):
    """The answer of ``POST /v1/embeddings``."""

    object: Literal["list"]
    data: list[EmbeddingObject]
    model: str
    usage: EmbeddingUsage


async def embed(service: Service, params: EmbeddingParams) -> EmbeddingAnswer | str:
    """Answer ``POST /v1/embeddings``."""
    refuse(params, _REFUSED)
    check_model(service, params.model)
    wanted = EmbeddingRequest(
        tuple(text if isinstance(text, str) else tuple(text) for text in params.texts),
        params.dimensions,
    )
    encoding = params.encoding_format or "float"
    made, model = await embedded(service, wanted, params.model, encoding)

    def answer(embeddings: Embeddings, tokens: int) -> EmbeddingAnswer:
        return {
            "object": "list",
            "data": [
                {
                    "object": "embedding",
                    "index": index,
                    "embedding": (
                        base64.b64encode(vector.tobytes()).decode()
                        if encoding == "base64"
                        else list(vector)
                    ),
                }
                for index, vector in enumerate(embeddings.vectors)
            ],
            "model": model,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }

    return await vectors_answer(made, answer)


ROUTES = (
    QueryRoute(
        method="POST",
        path="/v1/embeddings",
        summary="OpenAI Embeddings: texts as vectors",
        request=EmbeddingParams,
        reply=embed,
        answer=EmbeddingAnswer,
        operation="embeddings",
        own_names={"inputs": "input"},
    ),
)
