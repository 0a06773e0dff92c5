"""Scores the tokens of prompts while a batch reads them. Engine thread."""

from array import array
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.generate import PromptProcessingBatch

from engine.values.tokens import PromptScores, PromptScoring

# Scores the tokens of prompts while a batch reads them. Engine thread.
#
# Reading a prompt gives the model's logits after each of its tokens, which mlx-lm drops. For a
# row that needs them, they are taken from each chunk as it is read, and only a few numbers per
# token are kept: the logits of a whole prompt would not fit into memory.

# About the most memory for the logits of all prompts that are read in one step.
_LOGITS_BYTES = 128 << 20
# Bytes per logit: the logit itself, and its copy as a 32-bit number.
_BYTES_EACH = 8
_FEWEST = 16


class PromptScorer:
    """Scores the tokens of one prompt.

    Args:
        tokens: The prompt.
        wanted: Which tokens are scored, and with which figures.
        vocabulary_size: How many ids the model can produce.

    Attributes:
        begins: The first token whose logits are needed. The tokens before it may come from a cache.
    """

    def __init__(self, tokens: Sequence[int], wanted: PromptScoring, vocabulary_size: int) -> None:
        self.begins = max(0, wanted.start - 1)
        self._tokens = tokens
        self._wanted = wanted
        self._size = vocabulary_size

    def most_tokens(self, prompts: int) -> int:
        """Return how many tokens may be read in one step.

        Args:
            prompts: How many prompts are read together.
        """
        return max(_FEWEST, _LOGITS_BYTES // (self._size * _BYTES_EACH * max(1, prompts)))

    def score(self, logits: mx.array, at: int) -> PromptScores | None:
        """Return the scores from a chunk of logits; None where none of them is wanted.

        Args:
            logits: The logits after consecutive tokens of the prompt, of shape (tokens,
                vocabulary).
            at: The place of the first of these tokens.
        """
        skipped = max(0, self.begins - at)
        following = list(self._tokens[at + skipped + 1 : at + logits.shape[0] + 1])
        if not following:
            return None
        raw = logits[skipped : skipped + len(following)].astype(mx.float32)
        logprobs = raw - mx.logsumexp(raw, axis=-1, keepdims=True)
        own = mx.take_along_axis(logprobs, mx.array(following)[:, None], axis=-1)
        ranks = mx.sum(logprobs > own, axis=-1)
        parts = [own, ranks]
        top = min(self._wanted.top, logprobs.shape[-1])
        if top:
            parts += _best(logprobs, top)
        chosen = self._wanted.token_ids
        if chosen:
            parts.append(logprobs[:, mx.array(chosen)])
        mx.eval(parts)
        flat: list[Any] = [part.flatten().tolist() for part in parts]
        return PromptScores(
            start=at + skipped + 1,
            token_ids=tuple(following),
            logprobs=array("f", flat[0]),
            ranks=array("i", flat[1]),
            top_ids=array("i", flat[2] if top else ()),
            top_logprobs=array("f", flat[3] if top else ()),
            chosen_ids=chosen,
            chosen_logprobs=array("f", flat[-1] if chosen else ()),
        )


def _best(logprobs: mx.array, count: int) -> list[mx.array]:
    """Return the likeliest ids and their log-probabilities, each (tokens, count), best first."""
    ids = mx.argpartition(-logprobs, kth=count - 1, axis=-1)[:, :count]
    found = mx.take_along_axis(logprobs, ids, axis=-1)
    order = mx.argsort(-found, axis=-1)
    return [mx.take_along_axis(part, order, axis=-1) for part in (ids, found)]


class ScoredRows:
    """The rows of a batch whose prompts are scored, and the scores that wait for ``take``."""

    def __init__(self) -> None:
        self._scorers: dict[int, PromptScorer] = {}
        self._found: list[tuple[int, PromptScores]] = []

    def __bool__(self) -> bool:
        """Whether there is any such row."""
        return bool(self._scorers)

    def join(self, row: int, scorer: PromptScorer) -> None:
        """Note how the prompt of a row is scored."""
        self._scorers[row] = scorer

    def leave(self, row: int) -> None:
        """Forget a row."""
        if self._scorers.pop(row, None) is not None:
            self._found = [one for one in self._found if one[0] != row]

    def clear(self) -> None:
        """Forget all rows."""
        self._scorers.clear()
        self._found.clear()

    def scorer_of(self, row: int) -> PromptScorer | None:
        """Return how the prompt of a row is scored; None where it is not."""
        return self._scorers.get(row)

    def chunk(self, chunk: int, depths: dict[int, int], together: int) -> int:
        """Return how many tokens of each prompt the next step may read."""
        for row, depth in depths.items():
            scorer = self._scorers.get(row)
            if scorer is not None and depth + chunk > scorer.begins:
                chunk = min(chunk, scorer.most_tokens(min(together, len(depths))))
        return chunk

    def add(self, row: int, scores: PromptScores) -> None:
        """Keep scores until they are taken."""
        self._found.append((row, scores))

    def take(self) -> list[tuple[int, PromptScores]]:
        """Return the scores that were found since the last call, each with its row."""
        found, self._found = self._found, []
        return found


class ScoringPrompts(PromptProcessingBatch):  # type: ignore[misc]  # mlx-lm has no types
    """Prompts that are read together; some of them are scored meanwhile."""

    scored: ScoredRows | None = None

    def prompt(self, tokens: list[list[int]]) -> None:
        """Read the next tokens of each prompt."""
        rows = self._scored_rows(tokens) if self.scored else []
        if not rows:
            super().prompt(tokens)
            return
        begun = [len(one) for one in self.tokens]
        counts = [len(one) for one in tokens]
        model: Any = self.model  # type: ignore[has-type]
        read = 0

        def reading(inputs: mx.array, cache: Any = None) -> Any:
            nonlocal read
            logits = model(inputs, cache=cache)
            for index, row, scorer in rows:
                count = min(inputs.shape[1], counts[index] - read)  # the rest is padding
                if count > 0:
                    found = scorer.score(logits[index, :count], begun[index] + read)
                    if found is not None and self.scored is not None:
                        self.scored.add(row, found)
            read += inputs.shape[1]
            return logits

        self.model = reading
        try:
            super().prompt(tokens)
        finally:
            self.model = model

    def _scored_rows(self, tokens: list[list[int]]) -> list[tuple[int, int, PromptScorer]]:
        """Return the index, the number and the scorer of each row whose logits are wanted."""
        assert self.scored is not None
        found = []
        for index, row in enumerate(self.uids):
            scorer = self.scored.scorer_of(row)
            if scorer is not None and len(self.tokens[index]) + len(tokens[index]) > scorer.begins:
                found.append((index, row, scorer))
        return found
