"""What the engine publishes about a loaded model."""

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from engine.library.length_groups import StepReads
from engine.library.memory_need import CacheSize


@dataclass(frozen=True, slots=True)
class EosToken:
    """An id that ends generation."""

    token_id: int
    text: str
    source: str


@dataclass(frozen=True, slots=True)
class DraftInfo:
    """A smaller model with the same vocabulary that drafts tokens for the model."""

    id: str
    path: Path
    size_bytes: int
    weights_bytes: int
    cache: CacheSize


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What the rest of the program knows about a loaded model.

    Attributes:
        id: The name under which APIs list it.
        architecture: ``model_type`` of its configuration.
        context_length: Most tokens of prompt and answer together.
        vocabulary_size: The number of ids that it reads and produces: [0, vocabulary_size). Its
            tokenizer may have more.
        can_call_tools: Whether a parser for its tool calls is known.
        loaded_at: Unix seconds.
        cache: The memory of the cache of one answer.
        takes_tools: Whether its chat template tells it of tools.
        own_head_problem: Why the draft head of its own checkpoint is not used, as the end of a
            sentence; empty where it is used, None where there is none, or nothing is drafted.
        own_settings: Its own numbers for sampling, by their names, where its folder has any.
        held_bytes: What its weights and those of its own draft head take in memory; 0 for as much
            as their files.
        user_template: The user's own chat template; None where the model's is used.
        can_see: Whether it reads pictures.
        vision_problem: Why it does not, although it was made to; empty for a model of text alone.
        base: The folder of its base, if ``path`` is that of an adapter.
        shared_bytes: The part of its weights that models of the same base share in memory.
        reads: The bytes that a decode step reads; None where all sequences decode in one group.
    """

    id: str
    path: Path
    architecture: str
    context_length: int
    vocabulary_size: int
    eos: tuple[EosToken, ...]
    can_think: bool
    can_call_tools: bool
    size_bytes: int
    loaded_at: int
    cache: CacheSize = field(default_factory=CacheSize)
    longest_token_bytes: int | None = None
    draft: DraftInfo | None = None
    takes_tools: bool = True
    own_head_problem: str | None = None
    own_settings: tuple[tuple[str, float], ...] = ()
    held_bytes: int = 0
    user_template: str | None = None
    can_see: bool = False
    vision_problem: str = ""
    base: Path | None = None
    shared_bytes: int = 0
    reads: StepReads | None = None

    @property
    def model_folder(self) -> Path:
        """The folder with its configuration, tokenizer and template."""
        return self.base or self.path

    @property
    def weights_bytes(self) -> int:
        draft = 0 if self.draft is None else self.draft.weights_bytes
        return (self.held_bytes or self.size_bytes) + draft

    @property
    def answer_cache(self) -> CacheSize:
        return self.cache if self.draft is None else self.cache + self.draft.cache

    def caches_bytes(self, lengths: Collection[int]) -> int:
        """Return the most memory that caches take until the sequences have these lengths."""
        if self.reads is not None:
            return self.reads.padded_bytes(lengths)
        return len(lengths) * self.answer_cache.allocated_bytes(max(lengths, default=0))
