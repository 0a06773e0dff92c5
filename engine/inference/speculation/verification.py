"""Verifies draft tokens of the running rows in one forward pass. Engine thread.

The pass gives the model's logits after each draft. From them each row draws one token per position
with its own processors and sampler, for as long as the token is the drafted one: the tokens are
those of the plain loop, whatever the sampling settings. At temperature 0, where the two likeliest
tokens are closer than the measured rounding error, a pass over one token decides that position.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from engine.inference.mlx_lm_internals import DecodingRows
from engine.inference.sampling import Sampler
from engine.inference.speculation.rollback import Rollback


class Rounding:
    """The largest difference between log-probabilities of passes over several tokens and over one.

    Sums of floating-point numbers depend on their order, which differs between MLX's kernels for
    GPUs. Where two tokens are almost equally likely, that could change the choice.
    """

    def __init__(self) -> None:
        self._max = 0.0
        self._widest = 0

    def is_comparison_due(self, width: int) -> bool:
        """Whether a pass is wider than all that were compared: another kernel may compute it."""
        return width > self._widest

    def compare(self, several: mx.array, single: mx.array, width: int = 1) -> None:
        """Compare log-probabilities of a pass over ``width`` tokens, of any shape."""
        self._widest = max(width, self._widest)
        # Impossible tokens are at minus infinity in both.
        difference = mx.where(several == single, 0.0, mx.abs(several - single)).max()
        self._max = max(self._max, float(difference.item()))  # type: ignore[arg-type]

    def are_close(self, logprobs: mx.array) -> mx.array | None:
        """Return for each position whether rounding could change the likeliest token."""
        if not self._max:
            return None
        best = mx.argmax(logprobs, axis=-1, keepdims=True)
        first = mx.take_along_axis(logprobs, best, axis=-1)
        others = mx.put_along_axis(logprobs, best, mx.array(-mx.inf, logprobs.dtype), axis=-1)
        gap = first[:, 0] - others.max(axis=-1)
        # The largest difference is multiplied by this, because not all positions were compared.
        return gap <= self._max * 8.0

    def is_close(self, logprobs: mx.array) -> bool:
        close = self.are_close(logprobs[None])
        return close is not None and bool(close.item())


@dataclass(frozen=True, slots=True)
class VerifiedSequence:
    """The result of one pass for one row."""

    tokens: list[int]
    logprobs: list[Any]
    pending: int
    pending_logprobs: Any
    is_cut: bool
    forced: Sequence[bool]


class _Draws:
    """Draws the tokens of one row, one after each token of the pass.

    All are drawn at once, unless a constraint has to know each token before it allows the next: a
    row that ``is_stepwise`` draws them one after the other.
    """

    def __init__(
        self, rows: DecodingRows, index: int, inputs: Sequence[int], logits: mx.array
    ) -> None:
        self._rows = rows
        self._index = index
        self._inputs = inputs
        self._logits = logits
        self._sampler: Sampler = rows.sampler(index)
        self._processors = rows.processors(index)
        self._context: Any = None
        if self._processors:
            self._context = rows.context(index, mx.array(list(inputs)))
        stateful = (
            processor for processor in self._processors if getattr(processor, "is_stateful", False)
        )
        self._constraint = next(stateful, None)
        self.is_stepwise = self._constraint is not None
        # For each position that was drawn, whether the constraint allowed only one token.
        self.forced: list[bool] = []
        self.logprobs: list[mx.array] = []
        self._states: list[mx.array] = []
        self._tokens: Any = None
        self._are_close: Any = None

    def draw_all(self, rounding: Rounding) -> list[mx.array]:
        """Draw for all positions; return the arrays that are to be computed."""
        logits = self._logits
        if self._processors:
            logits = mx.concatenate([self._processed(n) for n in range(len(self._inputs))], axis=0)
        logprobs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
        self.logprobs = list(logprobs)
        self._tokens, self._states = self._sampler.draw_each(logprobs)
        if self._sampler.is_greedy:
            self._are_close = rounding.are_close(logprobs)
        return [self._tokens] if self._are_close is None else [self._tokens, self._are_close]

    def wait(self) -> None:
        """Fetch all draws, which have been computed."""
        self._tokens = self._tokens.tolist()
        self._are_close = None if self._are_close is None else self._are_close.tolist()

    def draw(self, position: int, rounding: Rounding) -> tuple[int, bool]:
        """Return the token after a position, and whether rounding could change it.

        All drafts before the position must be right.
        """
        if not self.is_stepwise:
            return self._tokens[position], bool(self._are_close and self._are_close[position])
        logits = self._processed(position)
        logprobs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
        drawn, states = self._sampler.draw_each(logprobs)
        self._states += states
        self.logprobs.append(logprobs[0])
        # A forced token is known without waiting for the draw.
        only: int | None = getattr(self._constraint, "only", None)
        self.forced.append(only is not None)
        if only is not None:
            return only, False
        token: Any = drawn.item()
        return int(token), self._sampler.is_greedy and rounding.is_close(logprobs[0])

    def _processed(self, position: int) -> mx.array:
        logits = self._logits[position : position + 1]
        context = self._context[: self._context.size - len(self._inputs) + position + 1]
        for processor in self._processors:
            logits = processor(context, logits)
        return logits

    @property
    def has_failed(self) -> bool:
        """Whether the constraint has failed; the answer then ends with its last token."""
        return bool(getattr(self._constraint, "has_failed", False))

    def settle(self, drawn: int, kept: int) -> None:
        """Set the row's state back to that after ``drawn`` draws and ``kept`` tokens."""
        if self._states:
            self._sampler.state = self._states[drawn - 1]
        if self._processors:
            self._rows.shorten_context(self._index, len(self._inputs) - kept)


def verify(
    rows: DecodingRows,
    rollback: Rollback,
    drafts: Sequence[Sequence[int]],
    width: int,
    rounding: Rounding,
    single: mx.array | None = None,
) -> list[VerifiedSequence]:
    """Let the model read each row's pending token and its drafts; return which it accepted.

    Afterwards the rows are as the plain loop would leave them after the returned tokens.
    ``single`` has the log-probabilities that a pass over one token gave after the pending ones, of
    shape (rows, vocabulary), where the rounding of both passes is compared.
    """
    pending = rows.pending()
    inputs = [[known, *drafted] for known, drafted in zip(pending, drafts, strict=True)]
    padded = [[*tokens, *[0] * (width - len(tokens))] for tokens in inputs]
    logits = rollback.read(mx.array(padded), rows.cache)
    if single is not None:
        rounding.compare(first_logprobs(logits), single, width)
    draws = [
        _Draws(rows, index, tokens, logits[index, : len(tokens)])
        for index, tokens in enumerate(inputs)
    ]
    at_once = [draw for draw in draws if not draw.is_stepwise]
    mx.eval(logits, [draw.draw_all(rounding) for draw in at_once])
    for draw in at_once:
        draw.wait()
    verified = [
        _accept(draw, tokens, rows.pending_logprobs(index), rounding)
        for index, (draw, tokens) in enumerate(zip(draws, inputs, strict=True))
    ]
    rollback.take_back(rows.cache, [width - len(each.tokens) for each in verified])
    rows.go_on(
        [each.tokens for each in verified],
        mx.array([each.pending for each in verified], dtype=mx.uint32),
        [each.pending_logprobs for each in verified],
    )
    return verified


def first_logprobs(logits: mx.array) -> mx.array:
    """Return the log-probabilities after the first token of each row, (rows, vocabulary)."""
    first = logits[:, 0]
    return first - mx.logsumexp(first, axis=-1, keepdims=True)


def _accept(
    draws: _Draws, inputs: list[int], known_logprobs: Any, rounding: Rounding
) -> VerifiedSequence:
    logprobs = [known_logprobs]  # of the inputs
    position = 0
    while True:
        token, is_close = draws.draw(position, rounding)
        if is_close:
            # A pass over the one token before this position draws it again.
            draws.settle(position, position)
            token, after = inputs[position], logprobs.pop()
            break
        after = draws.logprobs[position]
        position += 1
        if position == len(inputs) or token != inputs[position] or draws.has_failed:
            draws.settle(position, position)
            break
        logprobs.append(after)
    forced = draws.forced[: max(0, position - 1)]
    return VerifiedSequence(inputs[:position], logprobs, token, after, is_close, forced)
