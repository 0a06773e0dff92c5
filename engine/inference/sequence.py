"""A request in the batch; it owns all that it needs from its arrival until it leaves.

Belongs to the thread of the batch.
"""

from collections import abc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx

from engine.grammar.masks import TokenConstraint
from engine.inference.cache.disk import Ticket
from engine.inference.cache.index import DiskPrefix, key_of
from engine.inference.prompt_scoring import PromptScorer
from engine.inference.sampling import greedy
from engine.inference.speculation.draft_model import ModelDrafts
from engine.inference.speculation.sources import DraftSource
from engine.inference.thinking_budget import BudgetProcessor
from engine.values.events import CacheMiss
from engine.values.request import PERSON, CacheOwner


@dataclass(slots=True, eq=False)
class Sequence:
    """One request in the batch.

    Attributes:
        tokens: Its prompt, at least one token, and what another batch has answered already.
        turn_end: The number of tokens up to the end of the prompt's last turn, where that is near
            the prompt's end; 0 where it is not known.
        message_ends: Where messages of the prompt end, in order, as numbers of tokens.
        sampler: Draws its tokens.
        processors: Change its logits before that.
        owner: The owner of the caches that it uses and leaves.
        loaded: The cache of its first tokens that was read from disk.
        scorer: Scores the prompt's tokens while they are read. A cache is used only up to the first
            token whose logits the scorer needs, and nothing is taken from other sequences.
        sources: Where its draft tokens come from, the draft model included.
        draft: The draft model's part of it.
        constraint: What its tokens must meet.
        budget: Ends its reasoning.
        number: The number by which mlx-lm and the scheduler know it.
        ticket: The right to store its cache on disk.
        cache: The cache with which it joins, of its first ``cached`` tokens; once it has left the
            batch, that of the tokens that were ``held`` there.
        held: These tokens.
        from_disk: How many of these came from disk.
        cache_miss: Why no more of them came from a cache; None where nothing is missing.
        read: How many tokens of its prompt it has.
        is_reading: Whether its prompt is read or waits to be read.
        snapshots_at: After how many tokens its cache is stored, where that cannot be cut.
        reader: The sequence that reads for it what both share; None where it reads itself.
        waiting: The sequences that wait for it, each with how many tokens both share.
        is_joined: Whether it is in the batch: waiting, read or decoding.
        is_ahead: Whether its sources have been told a token that the batch has not returned.
        last_token: The token that the batch returned last; -1 before the first.
        is_invalid: Whether its logits are not numbers, so that its cache must not be used again.
    """

    tokens: list[int]
    turn_end: int = 0
    message_ends: abc.Sequence[int] = ()
    sampler: Callable[[mx.array], mx.array] = greedy
    processors: list[Any] = field(default_factory=list)
    owner: CacheOwner = PERSON
    loaded: DiskPrefix | None = None
    scorer: PromptScorer | None = None
    sources: abc.Sequence[DraftSource] = ()
    draft: ModelDrafts | None = None
    constraint: TokenConstraint | None = None
    budget: BudgetProcessor | None = None

    number: int = field(default=-1, init=False)
    ticket: Ticket | None = field(default=None, init=False)
    cache: list[Any] | None = field(default=None, init=False)
    held: list[int] | None = field(default=None, init=False)
    cached: int = field(default=0, init=False)
    from_disk: int = field(default=0, init=False)
    cache_miss: CacheMiss | None = field(default=None, init=False)
    read: int = field(default=0, init=False)
    is_reading: bool = field(default=False, init=False)
    snapshots_at: set[int] = field(default_factory=set, init=False)
    reader: "Sequence | None" = field(default=None, init=False)
    waiting: "dict[Sequence, int]" = field(default_factory=dict, init=False)
    is_joined: bool = field(default=False, init=False)
    is_ahead: bool = field(default=False, init=False)
    last_token: int = field(default=-1, init=False)
    is_invalid: bool = field(default=False, init=False)
    key: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.key = key_of(self.tokens)

    def __len__(self) -> int:
        """Return how many tokens its prompt has."""
        return len(self.tokens)

    @property
    def unread(self) -> int:
        """How many tokens of its prompt it has not read yet; at least 1."""
        return max(1, len(self.tokens) - self.read)

    def tell(self, tokens: abc.Sequence[int]) -> None:
        """Tell the sources of its draft tokens the next tokens of its answer."""
        for source in self.sources:
            source.extend(tokens)
