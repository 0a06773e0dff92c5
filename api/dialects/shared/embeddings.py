"""Answers that are vectors of texts. Runs on the server's loop."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from api.transport.answer_text import long_json_text
from engine import Embeddings

_Answer = TypeVar("_Answer")
# This many numbers are encoded so fast that no stream is delayed.
_FEW_NUMBERS = 4_000


async def vectors_answer(
    embeddings: Embeddings, make: Callable[[Embeddings, int], _Answer]
) -> _Answer | str:
    """Return an answer made from vectors and the tokens that were read; a long one as JSON."""
    tokens = sum(embeddings.tokens)
    if sum(map(len, embeddings.vectors)) <= _FEW_NUMBERS:
        return make(embeddings, tokens)
    return await asyncio.to_thread(lambda: long_json_text(make(embeddings, tokens)))
