"""Documents ranked by a query, as Jina, Cohere, vLLM and llama.cpp spell it; vLLM's scores.

https://jina.ai/reranker, https://docs.cohere.com/reference/rerank and
https://docs.vllm.ai/en/latest/models/pooling_models/scoring. Replies run on the server's loop.
"""

import asyncio
import time
from dataclasses import replace
from typing import Annotated, Any, Literal, NotRequired

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from api.dialects.openai.wire import ErrorFields
from api.dialects.openai.write import error_to_wire as openai_error
from api.dialects.shared.answers import with_field
from api.dialects.shared.dialect import Dialect, ParsedRequest, query
from api.dialects.shared.encoding import long_json_text
from api.dialects.shared.parameters import ModelName
from api.dialects.shared.parsing import WireModel
from api.service.errors import ApiError, ContextOverflow, invalid, required
from api.service.generations import rank_pairs
from api.service.models import check_model
from api.service.service import new_id
from engine.values.ranking import INSTRUCTION, Ranking, RankingRequest

_CUT = "max_tokens_per_doc, which cuts documents"


class RerankText(TypedDict):
    """A document as an object."""

    text: str


def _text_of(value: Any) -> str:
    text = value.get("text") if isinstance(value, dict) else value
    if not isinstance(text, str):
        raise PydanticCustomError("document_type", "must be text, or an object with text")
    return text


Document = Annotated[str, BeforeValidator(_text_of, json_schema_input_type=str | RerankText)]
Documents = Annotated[
    list[Document],
    BeforeValidator(
        lambda value: value if isinstance(value, list) else [value],
        json_schema_input_type=str | list[str | RerankText],
    ),
]


class RankingParams(WireModel):
    """The fields that ranking and scoring have in common."""

    model: ModelName = ""
    instruction: str | None = None
    max_tokens_per_doc: int | None = Field(default=None, ge=1)


class RerankParams(RankingParams):
    """``POST /v1/rerank``."""

    query: str = Field(min_length=1)
    documents: list[Document]
    # vLLM's default of 0 returns all.
    top_n: int | None = Field(default=None, ge=0)
    return_documents: bool | None = None


class ScoreParams(RankingParams):
    """``POST /score``: each document with one of the queries, or with the only one."""

    queries: Documents | None = None
    documents: Documents | None = None
    # As vLLM has spelled them before.
    text_1: Documents | None = None
    text_2: Documents | None = None

    @property
    def field_names(self) -> tuple[str, str]:
        is_old = self.queries is self.documents is None
        return ("text_1", "text_2") if is_old else ("queries", "documents")


class RankedDocument(TypedDict):
    """A document's place in the request, and how well it answers the query."""

    index: int
    relevance_score: Annotated[float, Field(description="from 0 to 1")]
    document: NotRequired[RerankText]


class RankingUsage(TypedDict):
    """Tokens of all prompts, each with the query and one document."""

    prompt_tokens: int
    total_tokens: int


class RerankAnswer(TypedDict):
    """The documents, best first."""

    id: str
    object: Literal["list"]
    model: str
    results: list[RankedDocument]
    usage: RankingUsage
    meta: Annotated[dict[str, Any], Field(description="the tokens, as Cohere spells them")]


class ScoreAnswer(TypedDict):
    """The scores, in the order of the texts."""

    id: str
    object: Literal["list"]
    created: int
    model: str
    data: list[dict[Literal["index", "object", "score"], int | str | float]]
    usage: RankingUsage


class RerankError(TypedDict):
    """An error as vLLM and llama.cpp spell it, with Cohere's ``message`` and Jina's ``detail``."""

    error: ErrorFields
    message: str
    detail: str


def error_to_wire(error: ApiError, request_id: str) -> tuple[int, RerankError]:
    """Return the status and the body of an error answer."""
    status, body = openai_error(error, request_id)
    fields = body["error"]
    if isinstance(error, ContextOverflow):
        fields = {**fields, "message": f"{with_field(error)}; shorten it, or send {_CUT}"}
    return status, {"error": fields, "message": fields["message"], "detail": fields["message"]}


def _usage(ranking: Ranking) -> RankingUsage:
    tokens = sum(ranking.tokens)
    return {"prompt_tokens": tokens, "total_tokens": tokens}


async def _rank(request: ParsedRequest[Any], *pairs: tuple[str, str]) -> Ranking:
    service, params = request.service, request.params
    check_model(service, params.model)
    ranking_request = RankingRequest(
        pairs, params.instruction or INSTRUCTION, params.max_tokens_per_doc
    )
    return await rank_pairs(service, request.record, ranking_request, params.model)


@query("POST", "/v1/rerank", request=RerankParams, answer=RerankAnswer, operation="rerank")
async def rerank(request: ParsedRequest[RerankParams]) -> str:
    """Documents ranked by a query, for clients of Jina, Cohere, vLLM and llama.cpp."""
    params = request.params
    ranking = await _rank(request, *((params.query, text) for text in params.documents))
    scores = ranking.scores
    best = sorted(range(len(scores)), key=lambda index: -scores[index])
    results: list[RankedDocument] = [
        {"index": index, "relevance_score": scores[index]} for index in best[: params.top_n or None]
    ]
    if params.return_documents is not False:  # the default of Jina and vLLM
        for result in results:
            result["document"] = {"text": params.documents[result["index"]]}
    usage = _usage(ranking)
    answer: RerankAnswer = {
        "id": new_id("rerank-"),
        "object": "list",
        "model": request.record.model,
        "results": results,
        "usage": usage,
        "meta": {"tokens": {"input_tokens": usage["prompt_tokens"], "output_tokens": 0}},
    }
    return await asyncio.to_thread(long_json_text, answer)


@query(
    "POST",
    "/score",
    request=ScoreParams,
    answer=ScoreAnswer,
    operation="rerank",
    field_names=lambda params: {"documents": params.field_names[1]},
)
async def score(request: ParsedRequest[ScoreParams]) -> str:
    """How well texts answer others, for vLLM's clients."""
    names = request.params.field_names
    queries, documents = (getattr(request.params, name) for name in names)
    if queries is None or documents is None:
        raise required((names[queries is not None],))
    if len(queries) == 1:
        queries = queries * len(documents)
    if len(queries) != len(documents):
        text = f"has {len(queries):,} texts and {names[1]} {len(documents):,}; send one, or as many"
        raise invalid((names[0],), text)
    ranking = await _rank(request, *zip(queries, documents, strict=True))
    answer: ScoreAnswer = {
        "id": new_id("score-"),
        "object": "list",
        "created": int(time.time()),
        "model": request.record.model,
        "data": [
            {"index": index, "object": "score", "score": value}
            for index, value in enumerate(ranking.scores)
        ],
        "usage": _usage(ranking),
    }
    return await asyncio.to_thread(long_json_text, answer)


RERANK = Dialect(
    name="Rerank",
    title="Rerank",
    vendor="Jina",
    error_type=RerankError,
    render_error=error_to_wire,
    request_body=lambda request, model, prompt: None,
    field_names={},
    routes=(
        rerank,
        replace(rerank, path="/rerank"),
        replace(rerank, path="/v2/rerank"),  # Cohere's
        replace(rerank, path="/reranking"),  # llama.cpp's
        replace(rerank, path="/v1/reranking"),
        score,
        replace(score, path="/v1/score"),
    ),
)
