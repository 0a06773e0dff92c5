"""The interface between the engine thread and a loaded model. Types only; no MLX.

An implementation belongs to the engine thread; methods that other threads may call say so.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from engine.constraining.form import Form
from engine.inference.caching.disk.chains import LoadedBeginning, StoredBeginning
from engine.inference.caching.disk.disk_cache import DiskCache
from engine.library.loading import OnLoadProgress
from engine.library.models import ModelInfo
from engine.output.call_readers.arriving import CallParser
from engine.output.channels import Beginning
from engine.output.detokenizer import Detokenizer
from engine.output.families.family import Family
from engine.output.vocabulary import Vocabulary
from engine.speculating.counting import CheckedGuesses
from engine.speculating.prediction import PredictedText
from engine.stopping.record import Channel
from engine.values.embedding import EmbeddingRequest, Vector
from engine.values.events import BudgetEnd
from engine.values.prompt_scores import PromptScores
from engine.values.request import GenerationRequest
from engine.values.tokens import TokenStats


class Joined(NamedTuple):
    """A row that has joined the batch.

    Attributes:
        row: Its number.
        cached: How many tokens of its prompt came from a cache and are not read.
        from_disk: Those of them that came from disk.
    """

    row: int
    cached: int
    from_disk: int = 0


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request as the model reads it.

    Attributes:
        tokens: Its token ids, at least one.
        beginning: Where the answer begins: in the text, in reasoning, or in a header.
        prediction: The text that the answer is expected to repeat, if there is one.
        stored: The files on disk that hold its first tokens, if any do.
        loaded: The cache that was read from them, ready for the batch.
        answered: The tokens of the answer that another batch has given already; this one goes on
            after them.
    """

    tokens: list[int]
    beginning: Beginning = field(default_factory=Beginning)
    prediction: PredictedText | None = None
    stored: StoredBeginning | None = None
    loaded: LoadedBeginning | None = None
    answered: tuple[int, ...] = ()

    @property
    def thinks(self) -> bool:
        """Whether the answer begins inside reasoning."""
        return self.beginning.channel is Channel.THINKING


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Limits of the batch of one model.

    Attributes:
        prefill_chunk: Most tokens of a prompt read in one step.
        cache_bytes: Most bytes of caches kept for earlier prompts.
        rows: Most rows at once.
        guesses: Whether the batch checks guessed tokens.
        disk: Keeps caches on disk after the model is unloaded; None if they are not kept.
    """

    prefill_chunk: int
    cache_bytes: int
    rows: int
    guesses: bool = True
    disk: DiskCache | None = None


@dataclass(slots=True)
class Step:
    """The outcome of one step of the batch.

    Attributes:
        read: For each row that is still reading its prompt: (row, tokens read since it joined);
            also for each row that waits until another has read the beginning that both share.
        shared: For each row that has stopped waiting: (row, tokens of its prompt that it need not
            read).
        sampled: For each decoding row: (row, token id, log-probabilities or None). A row whose
            guesses were accepted has several, one after the other.
        failed: For each row that cannot go on after its token of this step: (row, reason).
        checked: The rows whose guesses were checked.
        budget_ends: For each row whose reasoning went beyond its budget: (row, where it was ended).
        scored: For each row whose prompt is scored: (row, scores of the tokens that it has read).
    """

    read: list[tuple[int, int]] = field(default_factory=list)
    sampled: list[tuple[int, int, Any]] = field(default_factory=list)
    failed: list[tuple[int, str]] = field(default_factory=list)
    checked: dict[int, CheckedGuesses] = field(default_factory=dict)
    shared: list[tuple[int, int]] = field(default_factory=list)
    budget_ends: list[tuple[int, BudgetEnd]] = field(default_factory=list)
    scored: list[tuple[int, PromptScores]] = field(default_factory=list)

    def unused(self, row: int, taken: int) -> int:
        """Return how many of a row's tokens follow the first ``taken`` ones."""
        found = self.checked.get(row)
        return 0 if found is None else len(found.origins) - taken


@dataclass(frozen=True, slots=True)
class PromptCacheUse:
    """The prompt cache: its size, and its hits since the model was loaded.

    Attributes:
        entries: The number of kept prompts.
        size_bytes: The memory that they take.
        hits: Requests that found a part of their prompt in it.
        hit_tokens: Tokens that those requests did not have to read.
        shares: For each owner that has any: how many prompts, and their bytes.
    """

    entries: int = 0
    size_bytes: int = 0
    hits: int = 0
    hit_tokens: int = 0
    shares: Mapping[str, tuple[int, int]] = field(default_factory=dict)


class Backend(Protocol):
    """One loaded model and its running batch.

    ``cache_use`` becomes another object whenever it changes.
    """

    info: ModelInfo
    vocabulary: Vocabulary
    family: Family

    @property
    def cache_use(self) -> PromptCacheUse:
        """The state of the prompt cache."""
        ...

    def render(self, request: GenerationRequest) -> Prompt:
        """Template and tokenise; raises ``InvalidRequest`` where the model cannot take it.

        On any thread, also several at once; ``tokenize`` likewise.
        """
        ...

    def check_form(self, request: GenerationRequest, form: Form | None) -> None:
        """Make sure that a request has the form that its answer needs.

        Raises ``InvalidRequest`` where the answer cannot be constrained as requested,
        ``FormMissing`` where the form is needed and is None.
        """
        ...

    def answer_format(self, request: GenerationRequest, prompt: Prompt) -> Family:
        """Return the model's family with the tags that can occur in the answer.

        Raises ``InvalidRequest`` where an answer with this beginning cannot have the requested
        form.
        """
        ...

    def tokenize(self, text: str) -> list[int]:
        """Return the ids of plain text, no special tokens added.

        Raises ``PromptTooLong`` for a text so long that counting its tokens was given up.
        """
        ...

    def detokenize(self, ids: Sequence[int]) -> str:
        """Return the text of ids, including that of special tokens; on any thread.

        Raises ``InvalidRequest`` where one of them is not an id of the model.
        """
        ...

    def forget_prompts(self, owner: str) -> tuple[int, int]:
        """Drop the caches of an owner's earlier prompts; return how many, and their bytes.

        Running answers have copies of their own and continue.
        """
        ...

    def evict_prompts(self, max_bytes: int) -> None:
        """Evict the least recently used cached prompts until the rest takes at most so much."""
        ...

    def embedding_texts(self, request: EmbeddingRequest) -> list[list[int]]:
        """Return the tokens of each text that becomes a vector; on any thread.

        Raises ``InvalidRequest`` where a text is empty, or longer than the context.
        """
        ...

    def embed(
        self, texts: Sequence[Sequence[int]], dimensions: int | None, most_tokens: int
    ) -> Iterator[Sequence[tuple[int, Vector]]]:
        """Read texts, a part with every item; yield the vectors that it completed.

        A part takes no longer than the answers in the batch allow, and is empty where they allow
        none. Raises ``InvalidRequest`` where the model has no such vectors.

        Args:
            texts: The tokens of each text.
            dimensions: The length of the vectors; None for all that the model has.
            most_tokens: The length of a text for which there is memory.
        """
        ...

    def vocabulary_of(self, request: GenerationRequest, beginning: Beginning) -> Vocabulary:
        """Return what token ids stand for in the answer to a request."""
        ...

    def detokenizer(self, vocabulary: Vocabulary, before: Sequence[int] = ()) -> Detokenizer:
        """Return a fresh streaming detokenizer.

        ``before`` contains the last ids of the text that the answer continues, or nothing.
        """
        ...

    def call_parser(self, request: GenerationRequest) -> CallParser:
        """Return the parser of this model's tool calls."""
        ...

    def fetch(self, prompts: Sequence[Prompt], done: Callable[[tuple[Prompt, ...]], None]) -> bool:
        """Read the caches of prompts' beginnings from disk, on another thread.

        Args:
            prompts: Rendered prompts of one request.
            done: Called once, on another thread, with the prompts; ``loaded`` is set where reading
                succeeded.

        Returns:
            Whether there is anything to read: memory may hold as much. If not, ``done`` is never
            called.
        """
        ...

    def join(self, prompt: Prompt, request: GenerationRequest, form: Form | None) -> Joined:
        """Add a row to the batch.

        Args:
            prompt: What ``render`` returned for the request.
            request: The request.
            form: The form that constrains its answer; None where the answer is free.
        """
        ...

    def step(self) -> Step:
        """Decode one token of each running row and read one chunk of the waiting prompts."""
        ...

    def resume(self) -> None:
        """Note that other work ran since the last step; this batch does not count its time."""
        ...

    def stats(
        self, sampled: Sequence[tuple[int, Any]], count: int, chosen: Sequence[int] = ()
    ) -> list[TokenStats]:
        """Say how likely tokens were.

        Args:
            sampled: Ids and log-probabilities of one step, in order.
            count: How many of the most likely tokens are listed for each.
            chosen: Ids whose log-probabilities are listed for each.
        """
        ...

    def leave(self, rows: Mapping[int, int]) -> None:
        """Take rows out of the batch at any time, and keep their caches.

        The caches of the rows that stay are copied only once.

        Args:
            rows: The rows, each with the number of tokens of its last step that came after the end
                of its answer. The kept cache does not contain those.
        """
        ...

    def reset(self) -> Sequence[int]:
        """Drop the batch itself after a step that failed, and the rows that were in it.

        Returns the rows that go on, because they waited for one of the others.
        """
        ...

    def close(self) -> None:
        """Free the model's memory."""
        ...


class Loader(Protocol):
    """Loads a model from its folder, on the engine thread."""

    def __call__(
        self,
        folder: Path,
        *,
        limits: BatchLimits,
        on_progress: OnLoadProgress,
        draft: Path | None = None,
    ) -> Backend:
        """Load a model."""
        ...
