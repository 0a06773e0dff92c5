"""The form of an answer that is held to a grammar, and which tokens may come next in it."""

import contextlib
import copy
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from itertools import takewhile
from typing import Any

from engine.grammar.compilation import (
    TOO_AMBIGUOUS,
    explain_error,
    is_panic,
    new_tokenizer,
)
from engine.grammar.lark_text import speller
from engine.output.families import Family
from engine.output.vocabulary import Vocabulary
from engine.values.request import GenerationRequest

_GAP = ("\n", "\n\n")
# Processor time of one token in a grammar of the client's own, for which all other streams wait.
# Usual grammars take up to 2 ms with 262,000 tokens; a batch of 32 ambiguous ones waits 0.2 s.
_MAX_TOKEN_S = 0.006
# How the library writes a special token among bytes.
_SPECIAL = re.compile(rb"\xff\[(\d+)\]")
# Added tokens of this form are structure, whether their tokenizer says so or not.
_TAG = re.compile(r"<.+>", re.DOTALL)


@dataclass(frozen=True, slots=True, eq=False)
class CompiledGrammar:
    """A constraint, compiled for one model and one answer."""

    matcher: Any
    left_out: tuple[str, ...] = ()


def is_constrained(request: GenerationRequest) -> bool:
    """Return whether a grammar constrains the answer to a request."""
    return request.constraint is not None or request.tool_choice.mode == "required"


class ConstraintPhase(Enum):
    """The part of an answer that comes next."""

    OPEN = auto()  # the answer or reasoning may begin
    REASONING = auto()
    GAP = auto()  # reasoning has ended; a blank line may stand before the answer
    ANSWER = auto()
    ENDED = auto()


class ConstraintTokens:
    """A model's tokens for the library (llguidance), and the tokens that constraints need.

    Raises ``ValueError`` where the library cannot take them.

    Attributes:
        tokenizer: The library's form of the vocabulary.
        spell: Writes text in a grammar, with the special tokens of the vocabulary.
    """

    def __init__(self, tokenizer: Any, vocabulary: Vocabulary, family: Family) -> None:
        if vocabulary.raw is None:
            raise ValueError("what its tokens stand for depends on their neighbours")
        if not vocabulary.eos:
            raise ValueError("it has no EOS token")
        self._model_tokenizer = tokenizer
        self._size = vocabulary.size
        self.eos = vocabulary.eos
        size = vocabulary.size
        self.opening, self.closing, self.call_start = (
            token_id if token_id is not None and token_id < size else None
            for token_id in map(
                family.id_of, (family.think_start, family.think_end, family.call_tags[0])
            )
        )
        self.gap = frozenset(
            token_id for token_id, text in enumerate(vocabulary.text[:size]) if text in _GAP
        )
        tags = family.tags.keys() | vocabulary.special.keys()
        self.tags = frozenset(token_id for token_id in tags if token_id < size)
        mask_bytes = (size + 31) // 32 * 4
        only_eos = bytearray(mask_bytes)
        _set(only_eos, self.eos)
        self.only_eos = bytes(only_eos)
        reasoning = bytearray(b"\xff" * mask_bytes)
        _clear(reasoning, self.eos)
        self.reasoning_or_call = bytes(reasoning)
        if self.call_start is not None:
            _clear(reasoning, [self.call_start])
        self.while_reasoning = bytes(reasoning)
        # The model may have more ids than the tokenizer, or fewer; the tokenizer's may have gaps.
        known = [*vocabulary.raw[:size], *[b""] * (size - len(vocabulary.raw))]
        added = getattr(tokenizer, "added_tokens_decoder", {}).items()
        special = {i for i, token in added if token.special or _TAG.fullmatch(str(token.content))}
        special |= self.tags | {i for i, raw in enumerate(known) if not raw}
        ids = sorted(i for i in special if i < size)
        raw = [raw or b"<[%d]>" % i for i, raw in enumerate(known)]
        self.tokenizer = new_tokenizer(raw, ids, sorted(vocabulary.eos), self.encode)
        self.spell = speller({vocabulary.text_of(token_id): token_id for token_id in ids[::-1]})

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a plain text, up to the first that the model does not have."""
        fast = self._model_tokenizer.backend_tokenizer
        ids = fast.encode_batch_fast([text], add_special_tokens=False)[0].ids
        return list(takewhile(self._size.__gt__, ids))

    def forced(self, matcher: Any) -> list[int]:
        """Return the tokens of the only text that can follow at a place of a grammar.

        They are the tokens that the tokenizer uses for that text, whatever follows it. Empty where
        several texts can follow, or where the tokens depend on what follows.
        """
        forced: bytes = matcher.compute_ff_bytes()
        run: list[int] = []
        # Text and the ids of special tokens alternate.
        for number, part in enumerate(_SPECIAL.split(forced) if forced else ()):
            if number % 2:
                run.append(int(part))
                continue
            ids, rest = self.tokenizer.tokenize_partial(part)
            # Here the text of a tag is ordinary text, which must not be written with the tag's
            # token.
            tags = (n for n, token_id in enumerate(ids) if token_id in self.tags)
            cut = next(tags, None)
            run += ids[:cut]
            if rest or cut is not None:
                break
        return run[: matcher.validate_tokens(run)] if run else run


class TokenConstraint:
    """The state of one constrained answer.

    Attributes:
        failure: Why the answer can no longer follow its grammar; None while it can.
    """

    def __init__(
        self,
        matcher: Any,
        tokens: ConstraintTokens,
        phase: ConstraintPhase,
        *,
        is_own: bool = False,
    ) -> None:
        self.failure: str | None = None
        self.spent_s = 0.0
        self.is_own = is_own
        self._matcher = matcher
        self._tokens = tokens
        self._phase = phase
        self._gap = 0
        # The tokens that must follow, as far as they are known.
        self._forced: list[int] = []
        # Models call tools in the middle of their reasoning, too.
        self._may_call = (
            phase is not ConstraintPhase.ANSWER
            and tokens.call_start is not None
            and matcher.validate_tokens([tokens.call_start]) == 1
        )

    def advance(self, token_id: int) -> None:
        tokens = self._tokens
        self.spent_s = 0.0
        if self._forced:
            del self._forced[: 1 if self._forced[0] == token_id else None]
        if self._phase is ConstraintPhase.OPEN and token_id == tokens.opening:
            self._phase = ConstraintPhase.REASONING
        elif self._phase is ConstraintPhase.REASONING:
            if token_id == tokens.closing:
                self._phase = ConstraintPhase.GAP
            elif self._may_call and token_id == tokens.call_start:
                self._consume(token_id)
        elif self._phase is ConstraintPhase.GAP and token_id in tokens.gap:
            self._gap += 1
            if self._gap == len(_GAP):
                self._phase = ConstraintPhase.ANSWER
        elif self._phase is not ConstraintPhase.ENDED:
            self._consume(token_id)

    def _consume(self, token_id: int) -> None:
        self._phase = ConstraintPhase.ANSWER
        if token_id in self._tokens.eos and self._matcher.is_accepting():
            self._phase = ConstraintPhase.ENDED
        elif self.failure is None:
            with self._in_library():
                if not self._matcher.consume_token(token_id):
                    self._fail(self._matcher.get_error() or f"token {token_id} does not fit")

    @property
    def _is_decided(self) -> bool:
        return self._phase is ConstraintPhase.ANSWER and self.failure is None

    def only(self) -> int | None:
        """Return the only token that may come next; None where there may be several."""
        if not self._is_decided:
            return None
        if not self._forced:
            with self._in_library():
                self._forced = self._tokens.forced(self._matcher)
        return self._forced[0] if self._forced else None

    def allowed(self) -> bytes:
        """Return which tokens may come next, one bit each, the lowest bit of a byte first.

        Ids beyond the last bit are not allowed. Once the answer is complete or has failed, only EOS
        is allowed.
        """
        if self._phase is ConstraintPhase.REASONING:
            tokens = self._tokens
            return tokens.reasoning_or_call if self._may_call else tokens.while_reasoning
        if (only := self.only()) is not None:
            bits = bytearray(len(self._tokens.only_eos))
            _set(bits, [only])
            return bytes(bits)
        if self._phase is ConstraintPhase.ENDED or self.failure is not None:
            return self._tokens.only_eos
        bits = bytearray()
        with self._in_library():
            bits += self._matcher.compute_bitmask()
        if not bits:
            return self._tokens.only_eos
        if self._matcher.is_error():
            return self._fail(self._matcher.get_error())
        if self._matcher.is_stopped() and not self._matcher.is_accepting():
            return self._fail("nothing can complete the answer")
        if self._phase is ConstraintPhase.OPEN and self._tokens.opening is not None:
            _set(bits, [self._tokens.opening])
        elif self._phase is ConstraintPhase.GAP:
            _set(bits, self._tokens.gap)
        if not any(bits):
            return self._fail("no token of this model can continue the answer")
        return bytes(bits)

    def fork(self) -> "TokenConstraint":
        fork = copy.copy(self)
        vars(fork).update(_matcher=self._matcher.deep_copy(), _forced=list(self._forced))
        return fork

    def forced(self) -> list[int]:
        """Return the tokens of the only text that can follow; empty where several can."""
        return [] if self.only() is None else list(self._forced)

    @property
    def is_costly(self) -> bool:
        """Whether the grammar has become slow to follow, as those become that are ambiguous."""
        return self.is_own and self.spent_s > 0.0005  # then drafts are not worth it

    @contextlib.contextmanager
    def _in_library(self) -> Iterator[None]:
        """Count the time in the block; a panic of the library ends the answer."""
        began_s = time.thread_time()
        try:
            yield
        except BaseException as error:
            if not is_panic(error):
                raise
            self._fail(f"the library failed: {error}")
        finally:
            self.spent_s += time.thread_time() - began_s
            if self.is_own and self.spent_s > _MAX_TOKEN_S:
                self.failure = self.failure or TOO_AMBIGUOUS

    def _fail(self, reason: str) -> bytes:
        self.failure = explain_error(reason)
        return self._tokens.only_eos


def _set(bits: bytearray, ids: Iterable[int]) -> None:
    for token_id in ids:
        bits[token_id >> 3] |= 1 << (token_id & 7)


def _clear(bits: bytearray, ids: Iterable[int]) -> None:
    for token_id in ids:
        bits[token_id >> 3] &= ~(1 << (token_id & 7))
