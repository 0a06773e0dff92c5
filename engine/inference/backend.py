"""The values that pass between the engine thread and a model, also while it is loaded. No MLX."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.conversation.prompt_parts import RenderedPrompt
from engine.errors import ModelLoadFailed
from engine.inference.cache.disk import DiskCache
from engine.output.channels import Beginning
from engine.stopping.record import Channel
from engine.values.events import BudgetEnd, PromptDifference, VerifiedDrafts
from engine.values.tokens import PromptScores


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request as the model reads it.

    ``prediction`` is what its answer may repeat. Where it ``is_on_disk``, files have a beginning of
    it that memory lacks.
    """

    tokens: list[int]
    beginning: Beginning = field(default_factory=Beginning)
    prediction: list[int] = field(default_factory=list)
    is_on_disk: bool = False
    not_applied: tuple[str, ...] = ()
    rendered: RenderedPrompt = field(default_factory=RenderedPrompt)
    difference: PromptDifference | None = None

    @property
    def thinks(self) -> bool:
        return self.beginning.channel is Channel.THINKING


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Limits of the batch of one model; ``is_shared`` where other processes decode it as well."""

    prefill_chunk: int
    cache_bytes: int
    rows: int
    drafts: bool = True
    disk: DiskCache | None = None
    is_shared: bool = False


@dataclass(slots=True)
class Step:
    """The outcome of one step of the batch.

    Attributes:
        read: For each sequence that is still reading its prompt: (number, tokens read beyond its
            cached ones); also for each that waits until another has read the beginning of both, and
            for each that has stopped waiting, with more cached tokens.
        sampled: For each decoding sequence: (number, token id, log-probabilities or None). One
            whose draft tokens were accepted has several, one after the other.
        failed: For each sequence that cannot go on after its token of this step: (number, reason).
        checked: The sequences whose draft tokens were verified.
        budget_ends: For each sequence whose reasoning went beyond its budget: (number, where it
            was ended).
        scored: For each sequence whose prompt is scored: (number, scores of the tokens that it has
            read).
        invalid: The sequences whose logits are not numbers (NaN); their tokens mean nothing.
    """

    read: list[tuple[int, int]] = field(default_factory=list)
    sampled: list[tuple[int, int, Any]] = field(default_factory=list)
    failed: list[tuple[int, str]] = field(default_factory=list)
    checked: dict[int, VerifiedDrafts] = field(default_factory=dict)
    budget_ends: list[tuple[int, BudgetEnd]] = field(default_factory=list)
    scored: list[tuple[int, PromptScores]] = field(default_factory=list)
    invalid: set[int] = field(default_factory=set)

    def unused(self, number: int, taken: int) -> int:
        """Return how many of a sequence's tokens follow the first ``taken`` ones."""
        checked = self.checked.get(number)
        return 0 if checked is None else len(checked.origins) - taken


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
