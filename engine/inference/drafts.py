"""Decides at each step whether to verify drafts, and tells their sources the answers' tokens."""

import time
from collections import abc
from collections.abc import Mapping
from typing import Any

import mlx.core as mx

from engine.inference.backend import Step
from engine.inference.mlx_lm_internals import DecodingRows
from engine.inference.sequence import Sequence
from engine.inference.speculation.cost import COMPARING, WIDTHS, Guess, PassCosts
from engine.inference.speculation.head_drafts import MOST_CHAINED, HeadDrafts, max_rows
from engine.inference.speculation.rollback import Rollback
from engine.inference.speculation.sources import DraftSource
from engine.inference.speculation.verification import Checked, Rounding, check, first_logprobs
from engine.values.events import VerifiedDrafts
from engine.values.tokens import TokenOrigin

# Without guesses, mlx-lm's plain loop runs unchanged: it computes one pass ahead of the tokens
# that it returns. Drafting has to wait for that pass, so it begins only where the hit rates of
# the sources and the measured costs say that it pays. Belongs to the thread of the batch.

# Guesses that are less likely right than this are ignored.
_LEAST_LIKELY = 0.3
_MOST = WIDTHS[-1] - 1
# After ``_CHECKS_IN_A_ROW`` checks the plain loop runs for some steps, so that its time stays up to
# date.
_CHECKS_IN_A_ROW = 64
_PLAIN_IN_A_ROW = 3
# Unused memory is freed after this many checks; mlx-lm's own loop does the same.
_CLEAR_EVERY = 256
# How many decisions are made without the model's own head once it does not pay.
_HEAD_RESTS = 8


class Drafting:
    """Guesses tokens for the sequences of one batch.

    Args:
        model: The model; called as mlx-lm calls it.
        sequences: Those of the batch, by number.
        costs: What passes of the model cost.
    """

    def __init__(self, model: Any, sequences: Mapping[int, Sequence], costs: PassCosts) -> None:
        self._rollback = Rollback(model)
        # The sequences of the last check, each with its place and how many tokens it got there.
        self._checked: dict[int, tuple[int, int]] = {}
        self._sequences = sequences
        self._costs = costs
        self._noise = Rounding()
        self._proposing = costs.proposing
        self._head_rests = 0
        self._max_head_rows = max_rows()
        self._ended_at_s = 0.0
        self._was_checked = False
        # How many of the next steps belong to the plain loop.
        self._plain_due = 0
        self._checks = 0

    def left(self) -> None:
        """Note that sequences have left."""
        self._was_checked = False

    def begin_anew(self) -> None:
        """Note that the batch is empty again."""
        self._forget_check()
        self._was_checked = False
        self._plain_due = 0

    def decoded(self, sampled: abc.Sequence[tuple[int, int, Any]], took_s: float | None) -> None:
        """Take the tokens of a step of the plain loop."""
        self._forget_check()
        # The first step after a check only starts the loop again.
        if took_s is not None and not self._was_checked and sampled:
            self._costs.curve(len(sampled)).note_one(took_s)
        self._was_checked = False
        self._plain_due = max(0, self._plain_due - 1)
        for number, token, _ in sampled:
            sequence = self._sequences[number]
            if sequence.is_ahead:
                sequence.is_ahead = False
            elif sequence.sources:
                sequence.extend_sources((token,))

    def is_due(self, numbers: abc.Sequence[int]) -> bool:
        """Return whether it probably pays to wait for the pending tokens and to guess
        further ones.
        """
        return not self._plain_due and self._width(numbers) > 0

    def step(self, rows: DecodingRows) -> Step | None:
        """Check guesses for the decoding rows, if that pays; None where the plain loop is due."""
        numbers = rows.numbers
        self._forget_check()
        most = self._rollback.most_tokens(rows.cache) // len(numbers)
        if most < WIDTHS[0]:
            return None
        known = rows.pending()
        began_s = self._ended_at_s if self._was_checked else time.perf_counter()
        for number, token in zip(numbers, known, strict=True):
            sequence = self._sequences[number]
            if sequence.sources and not sequence.is_ahead:
                sequence.is_ahead = True
                sequence.extend_sources((token,))
        width, sources = self._planned(numbers)
        if not width:
            return None
        unread = _unread(sources)
        guesses, origins, proposing_s = self._proposed(rows, sources, min(width, most) - 1)
        size = int(rows.pending_logprobs(0).shape[-1])
        guesses = [_within(guess, size) for guess in guesses]
        longest = max(map(len, guesses))
        if not longest:
            return None
        width = next(other for other in WIDTHS if other > longest)
        curve = self._costs.curve(len(numbers))
        proposing = self._extra(sources) * longest
        if unread > longest and curve.one_s:  # this reading is not a part of each draft
            proposing = proposing_s / curve.one_s
        single, comparing_s = None, 0.0
        if self._noise.is_probe_due(width):
            compared_s = time.perf_counter()
            single = self._single_logprobs(rows, known)
            comparing_s = time.perf_counter() - compared_s
            if not curve.goes_on(*_agreeing(single, guesses, origins)):
                curve.balance.add(-COMPARING - proposing)
                self._was_checked = True
                return None
        # Where a state takes tokens in, padding has to be taken back as well.
        checked = check(rows, self._rollback, guesses, longest + 1, self._noise, single)
        self._ended_at_s = time.perf_counter()
        took_s = self._ended_at_s - began_s - proposing_s - comparing_s
        tokens = sum(len(verified.tokens) for verified in checked) / len(checked)
        beside = proposing + (0.0 if single is None else COMPARING)
        curve.note(width, took_s, tokens, beside)
        self._checks += 1
        if self._checks % _CLEAR_EVERY == 0:
            mx.clear_cache()
        self._was_checked = True
        if self._checks % _CHECKS_IN_A_ROW == 0:
            self._plain_due = _PLAIN_IN_A_ROW
        elif not all(verified.tokens for verified in checked):
            self._plain_due = 1  # a row that got no token needs a pass over one token
        step = self._step(numbers, checked, guesses, origins)
        if not step.sampled:
            return None
        self._checked = {
            number: (place, len(verified.tokens))
            for place, (number, verified) in enumerate(zip(numbers, checked, strict=True))
        }
        return step

    def cut(self, number: int, cache: abc.Sequence[Any], unused: int) -> bool:
        """Remove the last tokens of the last step from the cache of a sequence that has left.

        Returns:
            Whether that could be done.
        """
        place, tokens = self._checked.get(number, (0, 0))
        return self._rollback.shorten(cache, place, unused, tokens - unused)

    def _forget_check(self) -> None:
        self._checked = {}
        self._rollback.forget()

    def _width(self, numbers: abc.Sequence[int]) -> int:
        """Return how many tokens of each row the next pass should have; 0 for the plain loop."""
        return self._planned(numbers)[0]

    def _planned(self, numbers: abc.Sequence[int]) -> tuple[int, abc.Sequence[DraftSource | None]]:
        """Return the width of the next pass, 0 for the plain loop, and the source for each row."""
        of_rows = [self._sequences[number].sources for number in numbers]
        others = [
            _best([source for source in sources if not isinstance(source, HeadDrafts)])
            for sources in of_rows
        ]
        width, gain = self._weighed(others)
        if self._head_rests:
            self._head_rests -= 1
        elif len(numbers) <= self._max_head_rows and _has_head(of_rows):
            best = [_best(sources) for sources in of_rows]
            # What is looked up costs nothing, and a long passage may give more than a short chain.
            with_head = self._weighed(best)
            if with_head[1] > gain:
                return with_head[0], [source for _, source in best]
            if not with_head[0]:
                self._head_rests = _HEAD_RESTS
        return width, [source for _, source in others]

    def _weighed(self, chosen: abc.Sequence[tuple[float, DraftSource | None]]) -> tuple[int, float]:
        """Return the width of a pass over the drafts of some sources, and what it gives."""
        guesses = [
            Guess(likelihood, MOST_CHAINED, source.later, source.unread(len(chosen)))
            if isinstance(source, HeadDrafts)
            else Guess(likelihood, _MOST)
            for likelihood, source in chosen
            if source is not None
        ]
        if not guesses:
            return 0, 0.0
        curve = self._costs.curve(len(chosen))
        extra = self._extra([source for _, source in chosen])
        width = curve.choose(len(chosen), guesses, extra)
        if width == 1:
            return 0, 0.0
        return width, curve.gain(len(chosen), guesses, extra, width)

    def _extra(self, sources: abc.Sequence[DraftSource | None]) -> float:
        """Return what one guess for each row costs to make, in passes over one token."""
        curve = self._costs.curve(len(sources))
        proposing_s = head = 0.0
        for source in sources:
            if isinstance(source, HeadDrafts):
                head = curve.draft_cost  # it drafts for all rows at once
            elif source is not None:
                proposing_s += self._proposing[source.origin].value_s or 0.0
        return head + (proposing_s / curve.one_s if curve.one_s else 0.0)

    def _proposed(
        self, rows: DecodingRows, sources: abc.Sequence[DraftSource | None], most: int
    ) -> tuple[list[abc.Sequence[int]], list[TokenOrigin], float]:
        """Return the guesses of each row, where they come from, and how long they took."""
        guesses: list[abc.Sequence[int]] = []
        origins: list[TokenOrigin] = []
        whole_s = self._offer_drafts(rows, sources, most)
        for source in sources:
            if source is None:
                guesses.append(())
                origins.append(TokenOrigin.SAMPLED)
                continue
            began_s = time.perf_counter()
            draft = source.propose(most)
            took_s = time.perf_counter() - began_s
            whole_s += took_s
            if draft and not isinstance(source, HeadDrafts):
                self._proposing[source.origin].note(took_s / len(draft))
            guesses.append(draft)
            origins.append(source.origin)
        return guesses, origins, whole_s

    def _offer_drafts(
        self, rows: DecodingRows, sources: abc.Sequence[DraftSource | None], most: int
    ) -> float:
        """Let the model's own head draft for the rows that want it; return how long that took."""
        drafted = [source for source in sources if isinstance(source, HeadDrafts)]
        if not drafted:
            return 0.0
        unread = _unread(sources)
        began_s = time.perf_counter()
        most = min(most, MOST_CHAINED)
        drafts = drafted[0].head.propose(rows.cache, rows.pending(), most)
        for source, draft in zip(sources, drafts, strict=True):
            if isinstance(source, HeadDrafts):
                source.offer(draft)
        took_s = time.perf_counter() - began_s
        self._costs.curve(len(sources)).note_drafts(took_s, most, unread)
        return took_s

    def _step(
        self,
        numbers: abc.Sequence[int],
        checked: abc.Sequence[Checked],
        guesses: abc.Sequence[abc.Sequence[int]],
        origins: abc.Sequence[TokenOrigin],
    ) -> Step:
        """Tell the sources the rows' new tokens; return these as a step of the batch."""
        step = Step()
        for number, verified, guessed, origin in zip(
            numbers, checked, guesses, origins, strict=True
        ):
            step.sampled += [
                (number, token, logprobs)
                for token, logprobs in zip(verified.tokens, verified.logprobs, strict=True)
            ]
            sequence = self._sequences[number]
            if sequence.sources:
                sequence.extend_sources([*verified.tokens, verified.pending][1:])
                sequence.is_ahead = True
            if guessed and verified.tokens:
                accepted = len(verified.tokens) - 1
                # Where a grammar leaves a choice, its guess repeats the answer, as a lookup does.
                free = TokenOrigin.LOOKUP if origin is TokenOrigin.FORCED else origin
                right: list[TokenOrigin] = [free] * accepted
                for place, is_forced in enumerate(verified.forced):
                    if is_forced:
                        right[place] = TokenOrigin.FORCED
                wrong = 0 if verified.is_cut else len(guessed) - accepted
                step.checked[number] = VerifiedDrafts(
                    (*right, *[free] * wrong), (TokenOrigin.SAMPLED, *right)
                )
        return step

    def _single_logprobs(self, rows: DecodingRows, known: abc.Sequence[int]) -> mx.array:
        """Return what a pass over one token says after the pending ones; the rows stay."""
        logits = self._rollback.read(mx.array([[token] for token in known]), rows.cache)
        logprobs = first_logprobs(logits)
        mx.eval(logprobs)
        self._rollback.take_back(rows.cache, [1] * len(known))
        return logprobs


def _has_head(of_rows: abc.Sequence[abc.Sequence[DraftSource]]) -> bool:
    """Whether the model's own head drafts for one of the rows."""
    return any(isinstance(source, HeadDrafts) for sources in of_rows for source in sources)


def _unread(sources: abc.Sequence[DraftSource | None]) -> int:
    """Return how many tokens of each row the model's own head reads before its next draft."""
    heads = [source for source in sources if isinstance(source, HeadDrafts)]
    return max((source.unread(len(sources)) for source in heads), default=0)


def _agreeing(
    single: mx.array, guesses: abc.Sequence[abc.Sequence[int]], origins: abc.Sequence[TokenOrigin]
) -> tuple[int, int]:
    """Return for how many rows a pass over one token says the first guess, and how many have some.

    What a grammar forces is right, whatever is likely.
    """
    likeliest: Any = mx.argmax(single, axis=-1).tolist()
    agree = [
        origin is TokenOrigin.FORCED or guessed[0] == token
        for guessed, origin, token in zip(guesses, origins, likeliest, strict=True)
        if guessed
    ]
    return sum(agree), len(agree)


def _best(sources: abc.Sequence[DraftSource]) -> tuple[float, DraftSource | None]:
    """Return the likelihood of the best next guess, and the source that makes it."""
    best: DraftSource | None = None
    most = _LEAST_LIKELY
    for source in sources:
        likelihood = source.likelihood()
        if likelihood > most:
            best, most = source, likelihood
    return most, best


def _within(guesses: abc.Sequence[int], size: int) -> abc.Sequence[int]:
    """Return guesses up to the first one that is not an id of the model.

    A draft model may produce more ids than the vocabulary that both models share. MLX does not
    check bounds: with such an id it would read, and with penalties write, foreign memory.
    """
    if not guesses or (max(guesses) < size and min(guesses) >= 0):
        return guesses
    return guesses[: next(n for n, token in enumerate(guesses) if not 0 <= token < size)]
