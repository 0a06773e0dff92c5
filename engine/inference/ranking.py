"""Ranks documents with a causal model that answers *yes* or *no* to each. Engine thread.

Qwen3-Reranker: https://github.com/QwenLM/Qwen3-Embedding#reranker-model
"""

import math
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import mlx.core as mx

from engine.errors import InvalidRequest, PromptTooLong, not_numbers
from engine.inference.embedding import TextsPass
from engine.inference.mlx_lm_internals import inner_tokenizer
from engine.inference.speculation.heads import output_of
from engine.inference.text import bounded, encoded, spelled_out
from engine.library.model_info import ModelInfo
from engine.library.purpose import check_reranker
from engine.values.ranking import MAX_RANKED_TOKENS, Ranking, RankingRequest

_BEGIN = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    'the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
    "<|im_start|>user\n"
)
_END = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


class RankingPass(TextsPass):
    """Scores prompts by the probability of *yes*, with *no* as the only other answer."""

    def __init__(
        self,
        prompts: Sequence[Sequence[int]],
        answers: tuple[int, int],
        vocabulary_size: int,
        name: str,
    ) -> None:
        super().__init__(prompts, "last", vocabulary_size, name)
        self._answers = answers

    def _values_of(self, model: Any, states: mx.array, kind: mx.Dtype) -> Sequence[float]:
        # In the model's own type: in a wider one, its whole output layer would be copied.
        logits = output_of(model)(states.astype(kind))[:, mx.array(self._answers)]
        scores: Any = mx.softmax(logits.astype(mx.float32), axis=-1)[:, 1].tolist()
        if any(map(math.isnan, scores)):
            raise not_numbers(self._name)
        return list(scores)

    def _result(self, values: tuple[float, ...], tokens: tuple[int, ...]) -> Ranking:
        return Ranking(values, tokens)


def answer_ids(tokenizer: Any, model: ModelInfo) -> tuple[int, int]:
    """Return the tokens of *no* and *yes*; raises ``InvalidRequest`` if a model ranks nothing."""
    check_reranker(model.id, model.model_folder, model.architecture)
    no, yes = encoded(tokenizer, "no"), encoded(tokenizer, "yes")
    if len(no) != 1 or len(yes) != 1:
        reason = f"the tokenizer of {model.id} has no token for yes or for no; load another model"
        raise InvalidRequest("model", reason)
    return no[0], yes[0]


def ranking_prompts(tokenizer: Any, request: RankingRequest, model: ModelInfo) -> list[list[int]]:
    """Return the tokens of each pair's prompt; raises ``InvalidRequest``."""
    answer_ids(tokenizer, model)
    begin, end = encoded(tokenizer, _BEGIN), encoded(tokenizer, _END)
    added = (mark for mark in inner_tokenizer(tokenizer).get_added_vocab() if len(mark) > 1)
    marks = re.compile(f"(?={'|'.join(map(re.escape, added)) or '(?!)'})")
    prompts: list[list[int]] = []
    total = 0
    for index, (query, document) in enumerate(request.pairs):
        field, limit = f"{request.field}[{index}]", model.context_length + 1
        ids_of = partial(bounded, tokenizer, field=field, context=model.context_length)
        head = f"<Instruct>: {request.instruction}\n<Query>: {query}\n<Document>: "
        if (max_tokens := request.max_document_tokens) is not None:
            limit = min(limit, sum(map(len, map(ids_of, _without_marks(head, marks)))) + max_tokens)
            if model.longest_token_bytes is not None:
                document = document[: max_tokens * model.longest_token_bytes]
        tokens: list[int] = []
        for part in _without_marks(head + document, marks):
            tokens += ids_of(part)
            if len(tokens) >= limit:
                break
        body = spelled_out(tokenizer, tokens[:limit], field, model.vocabulary_size)
        tokens = [*begin, *body, *end]
        if len(tokens) > model.context_length:
            raise PromptTooLong(field, len(tokens), model.context_length)
        total += len(tokens)
        if total > MAX_RANKED_TOKENS:
            raise InvalidRequest(
                request.field,
                f"have more than {MAX_RANKED_TOKENS:,} tokens with the query, which is repeated "
                f"for each; {index:,} documents fit",
            )
        prompts.append(tokens)
    return prompts


def _without_marks(text: str, marks: re.Pattern[str]) -> Iterator[str]:
    """Yield a text in parts that spell special tokens out: a document must not end its turn."""
    start = 0
    for mark in marks.finditer(text):
        yield text[start : mark.start() + 1]
        start = mark.start() + 1
    yield text[start:]
