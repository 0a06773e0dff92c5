"""How well each of some documents answers a query, by a model that was trained to judge it."""

from dataclasses import dataclass
from typing import ClassVar

from engine.errors import InvalidRequest
from engine.values.embedding import MAX_INPUTS

MAX_RANKED_TOKENS = 4_096_000
"""1,000 documents of 4,096 tokens, as Cohere takes them; each is read with the query."""
INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
"""The task that Qwen3-Reranker was trained with where none is given."""


@dataclass(frozen=True, slots=True)
class RankingRequest:
    """Pairs of a query and a document.

    Attributes:
        max_document_tokens: Longer documents lose their end; None refuses those beyond the context.
    """

    field: ClassVar[str] = "documents"

    pairs: tuple[tuple[str, str], ...]
    instruction: str = INSTRUCTION
    max_document_tokens: int | None = None
    model: str | None = None

    def check(self) -> None:
        if not self.pairs:
            raise InvalidRequest("documents", "at least one document is needed")
        if len(self.pairs) > MAX_INPUTS:
            raise InvalidRequest(
                "documents",
                f"at most {MAX_INPUTS:,} documents are possible, got {len(self.pairs):,}",
            )


@dataclass(frozen=True, slots=True)
class Ranking:
    """For each pair, in their order, a score from 0 to 1, and how many tokens were read."""

    scores: tuple[float, ...]
    tokens: tuple[int, ...]
