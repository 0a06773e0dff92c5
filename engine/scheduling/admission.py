"""Whether a request can be accepted: its values, and the memory that its answers need."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.errors import InvalidRequest, MemoryShort, PromptTooLong
from engine.inference.backend import Prompt
from engine.library.memory import Memory, room_for_caches
from engine.library.models import CacheSize
from engine.output.answer import AnswerBuilder, AnswerSetup, RunSetting
from engine.output.channels import continues_text
from engine.scheduling.generation import Generation
from engine.scheduling.preparation import choices_field
from engine.scheduling.sequence import ScheduledSequence
from engine.values.request import GenerationRequest, Limits, TraceLevel
from engine.values.tokens import PromptScoring
from engine.wording import counted

if TYPE_CHECKING:
    from engine.inference.mlx_backend import MlxBackend

# A batch gives each of its sequences as much memory as its longest takes. An answer without
# ``max_tokens`` counts with a usual length, because few answers come near the end of the context.

_UNITS = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"))


@dataclass(frozen=True, slots=True)
class Wanted:
    """The memory that the choices of one request need."""

    choices: Sequence[tuple[int, int | None]]
    choices_field: str
    prompt_field: str


class CacheRoom:
    """The memory for the caches of one model's answers."""

    def __init__(self, size: CacheSize, context: int, size_bytes: int) -> None:
        self._size = size
        self._context = context
        self.size_bytes = size_bytes

    def check(self, wanted: Wanted) -> None:
        """Make sure that the choices of a request fit while nothing else runs."""
        count = len(wanted.choices)
        tokens, prompt, cost = self._longest(wanted)
        if count * cost <= self.size_bytes:
            return
        if cost <= self.size_bytes:
            fewer = self.size_bytes // cost
            shorter = self._size.tokens_in(self.size_bytes // count, self._context) - prompt
            or_shorter = f", or for answers of {_at_most(shorter, prompt)}" if shorter > 1 else ""
            raise InvalidRequest(
                wanted.choices_field,
                f"{count:,} answers of {tokens:,} tokens each, their prompt included, take "
                f"{_figure(count * cost)} of memory for their context, and {self._free}; ask for "
                f"at most {fewer:,} at once{or_shorter}",
            )
        left = self._size.tokens_in(self.size_bytes, self._context) - prompt
        if left > 1:
            raise InvalidRequest(
                "max_tokens",
                f"a prompt and an answer of {tokens:,} tokens together take {_figure(cost)} of "
                f"memory for their context, and {self._free}; set it to {_at_most(left, prompt)}",
            )
        if not prompt:  # it was not counted, because not even the shortest one fits
            raise InvalidRequest(
                wanted.prompt_field,
                f"the shortest prompt and answer take {_figure(cost)} of memory for their context, "
                f"and {self._free}; choose a smaller model, or give answers more memory",
            )
        raise InvalidRequest(
            wanted.prompt_field,
            f"a prompt of {prompt:,} tokens and its answer take {_figure(cost)} of memory for "
            f"their context, and {self._free}; shorten it",
        )

    def check_now(self, wanted: Wanted) -> None:
        """Make sure that choices, which fit into more memory than this, fit into this."""
        *_, cost = self._longest(wanted)
        if (needed := len(wanted.choices) * cost) > self.size_bytes:
            raise MemoryShort(_figure(needed), _figure(self.size_bytes))

    def _longest(self, wanted: Wanted) -> tuple[int, int, int]:
        """Return the tokens of the longest choice, those of its prompt, and its bytes."""
        tokens, prompt = max(
            (min(self._context, prompt + (limit or 1)), prompt) for prompt, limit in wanted.choices
        )
        return tokens, prompt, self._size.allocated_bytes(tokens)

    def context_of(self, choices: int) -> int:
        """Return how many tokens each of ``choices`` answers can have while nothing else runs."""
        return self._size.tokens_in(self.size_bytes // choices, self._context)

    def holds(self, lengths: Collection[int]) -> bool:
        """Whether answers of these lengths, in tokens with their prompts, fit together."""
        return len(lengths) * self._size.allocated_bytes(max(lengths, default=0)) <= self.size_bytes

    @property
    def _free(self) -> str:
        return f"at most {_figure(self.size_bytes)} can be free for that"


def _at_most(tokens: int, prompt: int) -> str:
    """Return a limit in words; "less than" while the length of the prompt is not known yet."""
    return f"at most {tokens:,} tokens" if prompt else f"less than {tokens:,} tokens"


def _figure(size_bytes: int) -> str:
    for unit, name in _UNITS:
        if size_bytes >= unit:
            return f"{size_bytes / unit:.1f} {name}"
    return counted(size_bytes, "byte")


class AnswerMemory:
    """The memory for the answers of a loaded model.

    Args:
        backend: The model.
        limits: The limits of the engine.
        machine: The memory that the model and its answers may use beside the other models.
        largest: The same once all others have left that may.
        total: The memory that all models may take together.
        make_room: Unloads another model: whether it did; None if no room can be made.

    Attributes:
        running: The answers in the batch, by number; whoever decodes them adds and removes them.
    """

    def __init__(
        self,
        backend: "MlxBackend",
        limits: Limits,
        *,
        machine: Callable[[], Memory],
        largest: Callable[[], Memory],
        total: Callable[[], int],
        make_room: Callable[[], bool | None],
    ) -> None:
        self._backend = backend
        self.running: dict[int, ScheduledSequence] = {}
        self._limits = limits
        self._machine = machine
        self._largest = largest
        self._total = total
        self._make_room = make_room
        self._room: CacheRoom | None = None
        # What cached prompts may take beside answers that use all of the room; None without limit.
        self._prompts_bytes: int | None = None

    @property
    def room(self) -> CacheRoom:
        """The memory for the answers; measured when it is first asked for."""
        if self._room is None:
            if self._limits.context_bytes is None:
                self._room, self._prompts_bytes = self._room_in(self._machine())
            else:
                model = self._backend.info
                self._room = CacheRoom(
                    model.answer_cache, model.context_length, self._limits.context_bytes
                )
        return self._room

    @property
    def largest_room(self) -> CacheRoom:
        """The memory for the answers once other models have left."""
        is_given = self._limits.context_bytes is not None
        return self.room if is_given else self._room_in(self._largest())[0]

    @property
    def possible_room(self) -> CacheRoom:
        """The memory for the answers once all other programs have left, too."""
        if self._limits.context_bytes is not None:
            return self.room
        total = self._total()
        return self._room_in(Memory(total, total))[0]

    def _room_in(self, memory: Memory) -> tuple[CacheRoom, int]:
        model = self._backend.info
        size_bytes, cached = room_for_caches(
            memory, model.answer_cache, model.weights_bytes, self._limits.prompt_cache_bytes
        )
        return CacheRoom(model.answer_cache, model.context_length, size_bytes), cached

    @property
    def max_prompts_bytes(self) -> int | None:
        """How much cached prompts may take beside the answers; None for their own limit."""
        room = self.room
        if self._prompts_bytes is None:
            return None
        return self._prompts_bytes + max(0, room.size_bytes - self.reserved_bytes)

    @property
    def reserved_bytes(self) -> int:
        """The memory that the caches of the answers in the batch will take."""
        running = self.running.values()
        return self.bytes_of(max((sequence.reserved_tokens for sequence in running), default=0))

    def bytes_of(self, longest: int) -> int:
        """Return the memory that the batch takes if its longest sequence has so many tokens."""
        return len(self.running) * self._backend.info.answer_cache.allocated_bytes(longest)

    def check(self, wanted: Wanted) -> None:
        """Make sure that the choices of a request fit while no other answers run."""
        self.possible_room.check(wanted)
        self.largest_room.check_now(wanted)

    def measure_again(self) -> None:
        """Measure it again with the next request, because other models came or left."""
        self._room = None

    def has_room_beside(self, sequence: ScheduledSequence) -> bool:
        """Return whether another answer fits beside those in the batch.

        For the only answer, idle models are unloaded if that helps, and answers of other models are
        waited for. If neither is possible, it fits.
        """
        while not self.holds(sequence):
            if self.running:
                return False
            made = self._make_room()
            if not made:
                return made is None
            self.measure_again()
        return True

    def holds(self, *others: ScheduledSequence) -> bool:
        """Return whether other answers fit beside those in the batch as the memory is now."""
        together = (*self.running.values(), *others)
        return self.room.holds([sequence.reserved_tokens for sequence in together])

    def overgrown(self) -> ScheduledSequence | None:
        """Return the longest answer without a limit of its own, where memory is short."""
        running = self.running.values()
        if self.room.holds([sequence.tokens for sequence in running]):
            return None
        endless = [
            sequence for sequence in running if sequence.generation.request.max_tokens is None
        ]
        return max(endless, key=lambda sequence: sequence.tokens, default=None)


MAX_TOP_LOGPROBS = 20
# The most ids whose log-probabilities are listed for each token.
MAX_CHOSEN_IDS = 128
# How many last tokens of a prompt can change the text of an answer's first token.
_NEIGHBOURS = 4


def admit(
    backend: "MlxBackend",
    generation: Generation,
    prompt: Prompt,
    submitted_at: float,
    *,
    max_tokens: int | None = None,
) -> ScheduledSequence:
    """Return the sequence of a request, with its limits."""
    request = generation.request
    context = backend.info.context_length
    if len(prompt.tokens) + request.least_answer_tokens > context:
        raise PromptTooLong(_prompt_field(request), len(prompt.tokens), context)
    family = backend.answer_format(request, prompt)
    vocabulary = backend.vocabulary_of(request, prompt.beginning)
    left_out = () if generation.form is None else generation.form.left_out
    generation.not_applied = (*request.not_applied, *prompt.not_applied, *left_out)
    generation.prompt_tokens = len(prompt.tokens)
    generation.vocabulary = backend.vocabulary
    continues = continues_text(request, prompt.beginning)
    memory_room = None
    if max_tokens is not None and request.max_tokens is None and max_tokens < context:
        memory_room = max_tokens - len(prompt.tokens)
    generation.setting = setting = RunSetting(
        model=backend.info.id,
        family=family,
        beginning=prompt.beginning,
        eos=tuple(end.token_id for end in backend.info.eos),
        eos_sources=tuple(end.source for end in backend.info.eos),
        context_room=context - len(prompt.tokens),
        memory_room=memory_room,
        has_bytes=backend.vocabulary.raw is not None,
        strips_first_space=vocabulary.strips_first_space,
    )
    builder = AnswerBuilder(
        AnswerSetup(
            setting=setting,
            rules=request.stops,
            max_tokens=request.max_tokens,
            vocabulary=vocabulary,
            detokenizer=backend.detokenizer(
                vocabulary, prompt.tokens[-_NEIGHBOURS:] if continues else ()
            ),
            new_reader=backend.call_readers(request),
            tells_spans=request.trace is TraceLevel.FULL,
        )
    )
    return ScheduledSequence(generation, prompt, builder, submitted_at)


def check(backend: "MlxBackend", generation: Generation) -> None:
    """Check everything that can be checked before the prompt is rendered."""
    request = generation.request
    backend.check_form(request, generation.form)
    size = backend.vocabulary.size
    if request.max_tokens is not None and request.max_tokens < 0:
        raise InvalidRequest("max_tokens", f"must be at least 0, not {request.max_tokens}")
    if (budget := request.thinking_budget) is not None:
        if budget < 0:
            raise InvalidRequest("thinking_budget", f"must be at least 0, not {budget}")
        if request.prompt is not None:
            raise InvalidRequest(
                "thinking_budget",
                "the answer to a raw prompt is plain text, whose reasoning cannot be told apart; "
                "send messages instead",
            )
    if not 0 <= request.top_logprobs <= MAX_TOP_LOGPROBS:
        raise InvalidRequest("top_logprobs", f"must be from 0 to {MAX_TOP_LOGPROBS}")
    _check_chosen(request.chosen_logprobs, "chosen_logprobs", size)
    if request.prompt_scoring is not None:
        _check_scoring(request.prompt_scoring, size)
    for token_id, _ in request.sampling.logit_bias:
        _check_id(token_id, "sampling.logit_bias", size)
    for index, token_id in enumerate(request.stops.token_ids):  # compared, never an index of logits
        _check_id(token_id, f"stops.token_ids[{index}]", backend.vocabulary.id_count)


def _check_scoring(wanted: PromptScoring, size: int) -> None:
    if wanted.start < 0:
        raise InvalidRequest("prompt_scoring.start", f"must be at least 0, not {wanted.start}")
    if not 0 <= wanted.top <= MAX_TOP_LOGPROBS:
        raise InvalidRequest("prompt_scoring.top", f"must be from 0 to {MAX_TOP_LOGPROBS}")
    _check_chosen(wanted.token_ids, "prompt_scoring.token_ids", size)


def _check_chosen(token_ids: Sequence[int], field: str, size: int) -> None:
    if len(token_ids) > MAX_CHOSEN_IDS:
        raise InvalidRequest(field, f"at most {MAX_CHOSEN_IDS} ids are possible")
    for token_id in token_ids:
        _check_id(token_id, field, size)


def _check_id(token_id: int, field: str, size: int) -> None:
    if not 0 <= token_id < size:
        raise InvalidRequest(field, f"token id {token_id} is outside the vocabulary of {size}")


def wanted(requests: Sequence[GenerationRequest], prompts: Sequence[Prompt] = ()) -> Wanted:
    """Return the memory that the choices of a request need."""
    lengths = [len(prompt.tokens) for prompt in prompts] or [
        len(request.prompt) if isinstance(request.prompt, tuple) else 0 for request in requests
    ]
    return Wanted(
        [(length, request.max_tokens) for length, request in zip(lengths, requests, strict=True)],
        choices_field(requests),
        _prompt_field(requests[0]),
    )


def _prompt_field(request: GenerationRequest) -> str:
    return "messages" if request.prompt is None else "prompt"
