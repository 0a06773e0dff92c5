"""The values that pass between the engine thread and a model, also while it is loaded. No MLX."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from engine.conversation.prompt_parts import RenderedPrompt
from engine.errors import ModelLoadFailed
from engine.inference.cache.disk import DiskCache
from engine.library.length_groups import StepReads
from engine.output.channels import Beginning
from engine.stopping.record import Channel
from engine.values.events import BudgetEnd, PromptDifference, VerifiedDrafts
from engine.values.tokens import PromptScores

if TYPE_CHECKING:
    from engine.inference.vision.vision import PlacedPictures


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request as the model reads it.

    ``prediction`` is what its answer may repeat. Where it ``is_on_disk``, files have a beginning of
    it that memory lacks. ``has_user_template`` says whose chat template made it.
    """

    tokens: list[int]
    beginning: Beginning = field(default_factory=Beginning)
    prediction: list[int] = field(default_factory=list)
    is_on_disk: bool = False
    not_applied: tuple[str, ...] = ()
    rendered: RenderedPrompt = field(default_factory=RenderedPrompt)
    difference: PromptDifference | None = None
    has_user_template: bool = False
    pictures: "PlacedPictures | None" = None

    @property
    def keys(self) -> list[int]:
        """Its tokens, as caches compare them."""
        return self.tokens if self.pictures is None else self.pictures.keys

    @property
    def thinks(self) -> bool:
        return self.beginning.channel is Channel.THINKING


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Limits of the batch of one model; ``is_shared`` where other processes decode it as well.

    ``reads`` decides which sequences share a cache; None where all do. ``cache_bits`` holds earlier
    prompts in 8 bits; None as they are.
    """

    prefill_chunk: int
    cache_bytes: int
    rows: int
    drafts: bool = True
    disk: DiskCache | None = None
    is_shared: bool = False
    reads: StepReads | None = None
    cache_bits: int | None = None


@dataclass(slots=True)
class RowStep:
    """The outcome of one step of the batch for one sequence.

    Attributes:
        sampled: Its tokens, each with its log-probabilities or None; several where drafts were
            accepted.
        drafts: Its drafts that were verified.
        read: How many tokens of its prompt it has read beyond its cached ones, also where another
            sequence reads for it; 0 again with more cached ones; None where nothing was read.
        scores: The scores of the tokens of its prompt that it has read.
        budget_end: Where its thinking was ended.
        failure: Why it cannot go on after these tokens; empty where it can.
        is_invalid: Its logits are not numbers (NaN); its tokens mean nothing.
    """

    sampled: list[tuple[int, Any]] = field(default_factory=list)
    drafts: VerifiedDrafts | None = None
    read: int | None = None
    scores: PromptScores | None = None
    budget_end: BudgetEnd | None = None
    failure: str = ""
    is_invalid: bool = False


Step = defaultdict[int, RowStep]
"""The outcome of one step of the batch, by the numbers of its sequences."""


LoadPhase = Literal["checking", "libraries", "weights", "tokenizer"]


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """The progress of loading a model; ``total_bytes`` is 0 while it is not known."""

    phase: LoadPhase
    done_bytes: int = 0
    total_bytes: int = 0


class LoadCancelled(ModelLoadFailed):
    """Loading was cancelled on request."""

    def __init__(self) -> None:
        super().__init__("loading was cancelled")


# Called on the engine thread between two parts of the work; raises ``LoadCancelled`` to cancel.
OnLoadProgress = Callable[[LoadProgress], None]


def unobserved(_progress: LoadProgress) -> None:
    """Ignore the progress."""
