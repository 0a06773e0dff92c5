"""A prompt in the batch with the tokens of its answer so far. No MLX. Engine thread."""

from collections import abc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.values.events import CacheMiss
from engine.values.request import LOCAL_OWNER, CacheOwner

if TYPE_CHECKING:
    from engine.grammar.masks import TokenConstraint
    from engine.inference.sampling import PromptScorer
    from engine.inference.speculation.draft_model import ModelDrafts
    from engine.inference.speculation.sources import DraftSource
    from engine.inference.thinking_budget import BudgetProcessor
    from engine.inference.vision.vision import PlacedPictures


@dataclass(slots=True, eq=False)
class Sequence:
    """One request of the batch, by its token ids alone.

    Attributes:
        turn_end: The number of tokens up to the end of the prompt's last turn, where that is near
            the prompt's end; 0 where it is not known.
        scorer: Scores the prompt's tokens while they are read. A cache is used only up to the first
            token whose logits the scorer needs, and nothing is taken from other sequences.
        number: The number by which mlx-lm and the scheduler know it; -1 while it waits.
        cache: The cache with which it joins, of its first ``cached`` tokens; once it has left the
            batch, that of the tokens that were ``held`` there.
        held: These tokens.
        failure: Why it cannot go on; empty where it can.
        read: How many tokens of its prompt it has.
        pictures: The pictures of the prompt; None for none.
        repeats: How many tokens before ``last_token`` are the same.
        snapshots_at: After how many tokens its cache is stored, where that cannot be cut.
    """

    tokens: list[int]
    turn_end: int = 0
    sampler: Callable[[Any], Any] | None = None
    processors: list[Any] = field(default_factory=list)
    owner: CacheOwner = LOCAL_OWNER
    scorer: "PromptScorer | None" = None
    sources: "abc.Sequence[DraftSource]" = ()
    draft: "ModelDrafts | None" = None
    constraint: "TokenConstraint | None" = None
    thinking_budget: "BudgetProcessor | None" = None
    pictures: "PlacedPictures | None" = None

    number: int = field(default=-1, init=False)
    disk_epoch: int | None = field(default=None, init=False)
    cache: list[Any] | None = field(default=None, init=False)
    held: list[int] | None = field(default=None, init=False)
    cached: int = field(default=0, init=False)
    from_disk: int = field(default=0, init=False)
    cache_miss: CacheMiss | None = field(default=None, init=False)
    read: int = field(default=0, init=False)
    snapshots_at: set[int] = field(default_factory=set, init=False)
    last_token: int = field(default=-1, init=False)
    repeats: int = field(default=0, init=False)
    is_invalid: bool = field(default=False, init=False)
    failure: str = field(default="", init=False)
    key: bytes = field(default=b"", init=False, repr=False)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def keys(self) -> list[int]:
        """Its tokens, as caches compare them: with words of its pictures' digests among them."""
        return self.tokens if self.pictures is None else self.pictures.keys

    def keys_of(self, held: list[int]) -> list[int]:
        """Return the keys of its first tokens, perhaps with those of its answer behind them."""
        if self.pictures is None:
            return held
        return self.pictures.keys[: len(held)] + held[len(self.tokens) :]

    @property
    def position_delta(self) -> int:
        return 0 if self.pictures is None else self.pictures.delta

    @property
    def unread(self) -> int:
        """How many tokens of its prompt it has not read yet; at least 1."""
        return max(1, len(self.tokens) - self.read)
