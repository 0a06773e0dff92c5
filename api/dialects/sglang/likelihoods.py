"""Writes the logprobs of a prompt and its answer as ``/generate`` spells them.

Pure except for their own state; any thread. https://docs.sglang.ai/basic_usage/native_api.html
"""

from collections.abc import Sequence
from math import isfinite
from typing import NamedTuple

from api.dialects.sglang.wire import GenerateMeta, GenerateParams, Likelihood
from engine import PromptScores, TokenTrace, Vocabulary

# The value for an impossible token; JSON has no infinity.
_LEAST = -9999.0


class TokenLikelihoods(NamedTuple):
    """The logprobs of a sampled token, of the likeliest ones, and of the requested ids."""

    own: Likelihood
    top: list[Likelihood]
    chosen: list[Likelihood]


class Likelihoods:
    """The logprobs that one answer includes, for its own tokens and for its prompt's."""

    def __init__(self, params: GenerateParams, texts: Vocabulary | None) -> None:
        self.is_wanted = bool(params.return_logprob)
        self.has_chosen = self.is_wanted and bool(params.token_ids_logprob)
        self._texts = texts if params.return_text_in_logprobs else None
        self._prompt: list[Likelihood] = []
        self._prompt_top: list[list[Likelihood] | None] = []
        self._prompt_chosen: list[list[Likelihood] | None] = []
        self._names_top = False

    def add_prompt(self, scores: PromptScores) -> None:
        """Take the scores of some tokens of the prompt."""
        for token in scores.tokens():
            self._prompt.append(self._told(token.token_id, token.logprob))
            self._names_top = self._names_top or bool(token.top)
            is_known = token.logprob is not None
            self._prompt_top.append(self._list(token.top) if is_known else None)
            self._prompt_chosen.append(self._list(token.chosen) if is_known else None)

    def put_prompt(self, meta: GenerateMeta) -> None:
        """Add the logprobs of the prompt's tokens."""
        if not self.is_wanted:
            return
        meta["input_token_logprobs"] = self._prompt
        if not self._prompt:
            return
        if self._names_top:
            meta["input_top_logprobs"] = self._prompt_top
        if self.has_chosen:
            meta["input_token_ids_logprobs"] = self._prompt_chosen
        known = [one[0] for one in self._prompt if one[0] is not None]
        meta["normalized_prompt_logprob"] = sum(known) / len(known) if known else None

    def of(self, trace: TokenTrace) -> TokenLikelihoods | None:
        """Return the logprobs that the client gets for a sampled token."""
        stats = trace.stats
        if stats is None or not self.is_wanted:
            return None
        return TokenLikelihoods(
            self._told(trace.token_id, stats.logprob),
            self._list(stats.top),
            self._list(stats.chosen),
        )

    def _list(self, pairs: Sequence[tuple[int, float]]) -> list[Likelihood]:
        return [self._told(token_id, logprob) for token_id, logprob in pairs]

    def _told(self, token_id: int, logprob: float | None) -> Likelihood:
        text = None if self._texts is None else self._texts.text_of(token_id)
        if logprob is not None and not isfinite(logprob):
            logprob = _LEAST
        return logprob, token_id, text
