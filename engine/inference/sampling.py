"""Samples tokens with mlx-lm's samplers and processors, and reports how likely they were.

Engine thread.
"""

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.sample_utils import (
    apply_min_p,
    apply_top_k,
    apply_top_p,
    make_logits_processors,
)

from engine.grammar.masks import TokenConstraint
from engine.library.configuration import MAX_FIGURE
from engine.library.model_files import read_json
from engine.values.no_effect import MIN_TEMPERATURE
from engine.values.request import Sampling
from engine.values.tokens import PromptScores, PromptScoring, TokenStats

# About the most memory for the logits of all prompts that are read in one step.
_LOGITS_BYTES = 128 << 20


@dataclass(frozen=True, slots=True)
class Xtc:
    """The settings for excluding the likeliest tokens (XTC).

    https://github.com/oobabooga/text-generation-webui/pull/6335

    ``probability``, in (0, 1], is how often they are excluded; ``threshold``, in [0, 0.5], that
    above which a token is one of them. ``exempt`` ids are never excluded.
    """

    probability: float
    threshold: float
    exempt: tuple[int, ...]

    def apply(self, logprobs: mx.array, key: mx.array | None) -> mx.array:
        """Return log-probabilities of shape (rows, vocabulary) without the likeliest, or all."""
        probabilities = mx.softmax(logprobs, axis=-1)
        above = mx.where(probabilities > self.threshold, probabilities, mx.inf)
        excluded = probabilities > above.min(axis=-1, keepdims=True)
        if self.exempt:
            excluded[..., list(self.exempt)] = False
        is_due = mx.random.uniform(shape=(logprobs.shape[0], 1), key=key) <= self.probability
        return mx.where(is_due & excluded, -mx.inf, logprobs)


class Sampler:
    """Draws tokens with the settings of one request; a temperature of 0 draws the likeliest.

    Without a seed it uses MLX's random state: equal settings are one object (``sampler``), which
    mlx-lm calls once for all rows that share it. With a seed it has a ``state`` of its own, so that
    its row does not depend on the others. A draw ahead of its turn puts the state back.
    """

    def __init__(
        self,
        temperature: float = 0.0,
        top_p: float = 1.0,
        top_k: int = 0,
        min_p: float = 0.0,
        xtc: Xtc | None = None,
        seed: int | None = None,
    ) -> None:
        self.is_greedy = temperature == 0
        # Negative seeds are valid in most APIs.
        self.state = None if seed is None else mx.random.key(seed % (1 << 64))
        self._temperature = temperature
        self._top_p = top_p
        self._top_k = top_k
        self._min_p = min_p
        self._xtc = xtc

    def __call__(self, logprobs: mx.array) -> mx.array:
        """Draw ids (rows,) for log-probabilities (rows, vocabulary); a seed is for one row."""
        if self.is_greedy:
            return mx.argmax(logprobs, axis=-1)
        if 0 < self._top_p < 1:
            logprobs = apply_top_p(logprobs, self._top_p)
        if self._min_p > 0:
            logprobs = apply_min_p(logprobs, self._min_p)
        key = chance = None
        if self.state is not None:
            self.state, key = mx.random.split(self.state)
        if self._xtc is not None:
            if key is not None:
                key, chance = mx.random.split(key)
            logprobs = self._xtc.apply(logprobs, chance)
        if self._top_k > 0:
            logprobs = apply_top_k(logprobs, self._top_k)
        return mx.random.categorical(logprobs * (1 / self._temperature), key=key)

    def peek(self, logits: mx.array) -> int:
        """Return the next draw from logits (1, vocabulary), of a seeded or a greedy sampler."""
        state = self.state
        drawn: Any = self(logits - mx.logsumexp(logits, axis=-1, keepdims=True))
        self.state = state
        return int(drawn.item())

    def draw_each(self, logprobs: mx.array) -> tuple[mx.array, list[mx.array]]:
        """Draw for consecutive positions of one row; also return the state after each draw."""
        if self.state is None:
            return self(logprobs), []
        drawn, states = [], []
        for position in range(logprobs.shape[0]):
            drawn.append(self(logprobs[position : position + 1]))
            states.append(self.state)
        return mx.concatenate(drawn, axis=0), states


GREEDY = Sampler()
_unseeded = lru_cache(maxsize=128)(Sampler)


def sampling_defaults(folder: Path) -> dict[str, float]:
    """Return a model's own settings (``generation_config.json``), by names of ``Sampling``."""
    path = folder / "generation_config.json"
    values = read_json(path) if path.is_file() else {}
    if values.get("do_sample") is False:
        return {}
    found: dict[str, float] = {}
    for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty"):
        value: Any = values.get(name)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if is_number and -MAX_FIGURE <= value <= MAX_FIGURE:  # NaN is in no range
            found[name] = int(value) if name == "top_k" else float(value)
    return found


def with_defaults(requested: Sampling, defaults: Mapping[str, float]) -> Sampling:
    """Return the settings of a request with the model's own where it has none."""
    unset = {name: own for name, own in defaults.items() if getattr(requested, name) is None}
    return replace(requested, **unset)  # type: ignore[arg-type]


def sampler(
    requested: Sampling,
    vocabulary_size: int,
    *,
    exempt: Iterable[int] = (),
    is_drawn_ahead: bool = False,
) -> Sampler:
    """Return the sampler of a request."""
    temperature, min_p = requested.temperature or 0.0, requested.min_p or 0.0
    top_p = 1.0 if requested.top_p is None else requested.top_p
    top_k = requested.top_k or 0
    if top_k >= vocabulary_size:  # mlx-lm rejects a top_k that keeps every token
        top_k = 0
    if temperature < MIN_TEMPERATURE:
        return GREEDY
    xtc = _xtc_of(requested, exempt, vocabulary_size)
    seed = requested.seed
    if seed is None and is_drawn_ahead:
        # From the state that all processes of a model share, so that they draw alike.
        drawn: Any = mx.random.randint(0, 1 << 31, (1,)).item()
        seed = int(drawn)
    if seed is None:
        return _unseeded(temperature, top_p, max(top_k, 0), min_p, xtc)
    return Sampler(temperature, top_p, max(top_k, 0), min_p, xtc, seed)


def _xtc_of(requested: Sampling, ids: Iterable[int], size: int) -> Xtc | None:
    """Return the settings of XTC; None if it is off or excludes nothing."""
    threshold = 0.1 if requested.xtc_threshold is None else requested.xtc_threshold  # as mlx-lm
    # Two tokens cannot both be likelier than a half.
    if not requested.xtc_probability or threshold > 0.5:
        return None
    exempt = tuple(token_id for token_id in sorted(set(ids)) if token_id < size)
    return Xtc(requested.xtc_probability, threshold, exempt)


def processors(requested: Sampling, prompt_tokens: int) -> list[Any]:
    """Return the logits processors of a request; empty if it needs none.

    As in vLLM, all tokens count: those of the answer for presence and frequency, and those of the
    prompt as well for repetition. mlx-lm's own default is the last 20 tokens.
    """
    repetition, all_tokens = requested.repetition_penalty, 1 << 30
    of_answer = make_logits_processors(
        presence_penalty=requested.presence_penalty or None,
        presence_context_size=all_tokens,
        frequency_penalty=requested.frequency_penalty or None,
        frequency_context_size=all_tokens,
    )
    return [
        *make_logits_processors(
            logit_bias=dict(requested.logit_bias) or None,
            repetition_penalty=repetition if repetition != 1 else None,
            repetition_context_size=all_tokens,
        ),
        *(partial(_process_answer, processor, prompt_tokens) for processor in of_answer),
    ]


def _process_answer(
    processor: Any, prompt_tokens: int, context: mx.array, logits: mx.array
) -> mx.array:
    processed: mx.array = processor(context[prompt_tokens:], logits)
    return processed


class ConstraintProcessor:
    """A logits processor that leaves only the tokens that a constraint allows.

    mlx-lm calls it for the next step before it returns the token of this step, so it waits for that
    token. Rows without a constraint never wait.
    """

    # It needs the token of each position before the next; see ``speculation.verification``.
    is_stateful = True

    def __init__(self, constraint: TokenConstraint, prompt_tokens: int) -> None:
        self.only: int | None = None
        self._constraint = constraint
        self._seen = prompt_tokens
        self._bits = b""
        self._mask = mx.array(False)

    @property
    def has_failed(self) -> bool:
        return self._constraint.failure is not None

    def __call__(self, context: mx.array, logits: mx.array) -> mx.array:
        sampled: Any = context[self._seen :].tolist()
        # From here on the model computes while the constraint finds the allowed tokens.
        mx.async_eval(logits)  # type: ignore[no-untyped-call]
        self._seen += len(sampled)
        for token_id in sampled:
            self._constraint.advance(token_id)
        self.only = self._constraint.only()
        if self.only is not None:
            mask = mx.arange(logits.shape[-1]) == self.only
            return mx.where(mask, logits, mx.array(-math.inf, logits.dtype))
        bits = self._constraint.allowed()
        if bits != self._bits:
            self._bits = bits
            self._mask = _mask(bits, logits.shape[-1])
        return mx.where(self._mask, logits, mx.array(-math.inf, logits.dtype))


class ForkProcessor:
    """A logits processor that forces the first tokens of an answer."""

    def __init__(self, tokens: Sequence[int], prompt_tokens: int) -> None:
        self._tokens = tokens
        self._prompt_tokens = prompt_tokens

    def __call__(self, context: mx.array, logits: mx.array) -> mx.array:
        position = context.size - self._prompt_tokens
        if position >= len(self._tokens):
            return logits
        is_forced = mx.arange(logits.shape[-1]) == self._tokens[position]
        return mx.where(is_forced, mx.zeros_like(logits), mx.array(-math.inf, logits.dtype))


def _mask(bits: bytes, width: int) -> mx.array:
    """Return booleans of shape (width,), lowest bits first; False beyond the bits."""
    view: Any = memoryview(bits)
    octets = mx.array(view)
    mask = (octets[:, None] >> mx.arange(8, dtype=mx.uint8)).reshape(-1) & 1
    if mask.size < width:
        mask = mx.pad(mask, (0, width - mask.size))
    return mask[:width].astype(mx.bool_)


def likelihoods(logprobs: mx.array, tokens: Sequence[int], count: int) -> list[mx.array]:
    """Return how likely tokens and ``count`` others were, by log-probabilities (tokens, ids).

    Not computed yet: the tokens' own and their ranks; the likeliest ids, best first, and theirs.
    """
    own = mx.take_along_axis(logprobs, mx.array(list(tokens))[:, None], axis=-1)
    count = min(count, logprobs.shape[-1])
    ids = mx.zeros((len(tokens), 0), mx.int32)
    if count:
        ids = mx.argpartition(-logprobs, kth=count - 1, axis=-1)[:, :count]
        order = mx.argsort(-mx.take_along_axis(logprobs, ids, axis=-1), axis=-1)
        ids = mx.take_along_axis(ids, order, axis=-1)
    best = mx.take_along_axis(logprobs, ids, axis=-1)
    return [own[:, 0], mx.sum(logprobs > own, axis=-1), ids, best]


def token_stats(
    sampled: Sequence[tuple[int, mx.array]], eos: Sequence[int], count: int
) -> list[TokenStats]:
    """Return how likely sampled tokens were, computed on the device and fetched at once."""
    logprobs = mx.stack([token_logprobs for _, token_logprobs in sampled])
    found = likelihoods(logprobs, [token for token, _ in sampled], count)
    ending = mx.sum(mx.exp(logprobs[:, mx.array(list(eos), mx.int32)]), axis=-1)
    mx.eval(found, ending)
    columns: list[Any] = [array.tolist() for array in (*found, ending)]
    return [
        TokenStats(
            logprob=own,
            rank=rank,
            # A constraint makes most tokens impossible; they are left out.
            top=tuple(pair for pair in zip(ids, best, strict=True) if pair[1] > -math.inf),
            eos_probability=end,
        )
        for own, rank, ids, best, end in zip(*columns, strict=True)
    ]


class PromptScorer:
    """Scores the tokens of one prompt while they are read.

    Reading gives the model's logits after each token, which mlx-lm drops. Only a few numbers per
    token are kept: the logits of a whole prompt would not fit into memory.

    Attributes:
        begins: The first token whose logits are needed. The tokens before it may come from a cache.
    """

    def __init__(self, tokens: Sequence[int], scoring: PromptScoring, vocabulary_size: int) -> None:
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
