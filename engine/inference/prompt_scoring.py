"""Scores the tokens of prompts while they are read. Engine thread.

Reading a prompt gives the model's logits after each of its tokens, which mlx-lm drops. For a
sequence that needs them, they are taken from each chunk as it is read, and only a few numbers per
token are kept: the logits of a whole prompt would not fit into memory.
"""

from array import array
from collections import abc
from typing import Any

import mlx.core as mx

from engine.inference.sampling import likelihoods
from engine.values.tokens import PromptScores, PromptScoring

# About the most memory for the logits of all prompts that are read in one step.
_LOGITS_BYTES = 128 << 20


class PromptScorer:
    """Scores the tokens of one prompt.

    Attributes:
        begins: The first token whose logits are needed. The tokens before it may come from a cache.
    """

    def __init__(
        self, tokens: abc.Sequence[int], scoring: PromptScoring, vocabulary_size: int
    ) -> None:
        self.begins = max(0, scoring.start - 1)
        self._tokens = tokens
        self._scoring = scoring
        self._size = vocabulary_size

    def max_tokens(self, prompts: int) -> int:
        # Bytes per logit: the logit itself, and its copy as a 32-bit number.
        return max(16, _LOGITS_BYTES // (self._size * 8 * max(1, prompts)))

    def score(self, logits: mx.array, at: int) -> PromptScores | None:
        """Return the scores from a chunk of logits; None where none of them is scoring.

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
        found = likelihoods(logprobs, following, self._scoring.top)
        mx.eval(found)
        columns: list[Any] = [part.flatten().tolist() for part in found]
        own, ranks, top_ids, top = columns
        return PromptScores(
            start=at + skipped + 1,
            token_ids=tuple(following),
            logprobs=array("f", own),
            ranks=array("i", ranks),
            top_ids=array("i", top_ids),
            top_logprobs=array("f", top),
        )
