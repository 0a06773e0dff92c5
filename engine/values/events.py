"""The events of a generation: a closed union, whose last event is always one ``Finished``.

Pure values; any thread.
"""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from engine.stopping.record import Channel, StopInfo
from engine.stopping.repetition import Repetition
from engine.values.request import LimitSource, ToolCall
from engine.values.tokens import PromptScores, TokenOrigin, TokenSpan, TokenStats


@dataclass(frozen=True, slots=True)
class PromptProgress:
    """The prompt has been read up to here (tokens; ``cached`` of them needed no work)."""

    processed: int
    total: int
    cached: int


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More text of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """More text of the reasoning that precedes the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """The model is writing a call, and its tool is certain.

    ``ToolCallArguments`` follow as far as they are certain while it is written, then either the
    ``ToolCallCompleted`` with the same ``call_id`` or a ``ToolCallAbandoned``.
    A call of which nothing was certain early has a ``ToolCallCompleted`` alone.

    Attributes:
        index: The number that the call will have in this answer.
    """

    index: int
    call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolCallArguments:
    """More of the arguments of the call that was started last.

    All of a call's increments, joined, are the ``arguments`` of its ``ToolCall``, character by
    character, and each beginning of them is the beginning of that JSON object.
    """

    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallAbandoned:
    """A call that was started is withdrawn: it was cut short, or its text could not be parsed.

    Its earlier events do not count as a call, and no ``ToolCallCompleted`` follows. Its arguments
    are not complete JSON, unless another call of the same text was started after it. A text that
    could not be parsed follows as text of the answer, as if it had never been a call.
    """

    call_id: str


@dataclass(frozen=True, slots=True)
class ToolCallCompleted:
    """A call is complete, the ``index``-th of this answer.

    Attributes:
        raw: The model's own text; if one text contains several calls, the first one has it.
        text_number: The number of this text, from 1, among all of the answer that may be calls.
    """

    index: int
    call: ToolCall
    raw: str = ""
    text_number: int = 0


@dataclass(frozen=True, slots=True)
class TokenTrace:
    """One sampled token, and what happened to its text.

    Attributes:
        piece: The text it completed (empty while a character is incomplete, and for tags).
        channel: Its channel; a tag belongs to the channel that it opens or closes.
        time_s: Seconds since the request was submitted.
        released: Characters that went out to the reader on this token.
        held: Text held back after it.
        progress: For each stop string, how many of its first characters the text ends with.
        special: Its text, if it is a special token (whose text is not part of an answer).
        stats: At trace level ``full`` only.
        settled: The tokens whose part of the answer's text is now known, in their order; at trace
            level ``full`` only.
    """

    index: int
    token_id: int
    piece: str
    raw: bytes
    channel: Channel
    time_s: float
    released: int
    held: str
    progress: tuple[int, ...]
    special: str | None = None
    stats: TokenStats | None = None
    settled: tuple[TokenSpan, ...] = ()
    origin: TokenOrigin = TokenOrigin.SAMPLED


class CacheMiss(StrEnum):
    """Why a prompt, or a large part of it, did not come from the prompt cache.

    Attributes:
        NOTHING_STORED: No earlier prompt of the same owner is stored.
        OTHER_BEGINNING: The stored prompts begin otherwise.
        NO_SNAPSHOT: A stored prompt begins alike, but this model can continue only from a snapshot
            of its layers, and none was taken in the part that both share.
        EVICTED: A prompt that begins alike was evicted, because memory for it ran out.
        ON_DISK: It is on disk, but was not read from there.
        SCORED: The tokens of the prompt are scored, so the model reads them.
    """

    NOTHING_STORED = "nothing_stored"
    OTHER_BEGINNING = "other_beginning"
    NO_SNAPSHOT = "no_snapshot"
    EVICTED = "evicted"
    ON_DISK = "on_disk"
    SCORED = "scored"


class PromptPart(StrEnum):
    """The part of a request that made a place in its prompt.

    Attributes:
        THINKING: The reasoning of an earlier answer, which one of two prompts has.
        DATE: A date or time that the template writes.
        TEMPLATE: Other text that the template writes before all parts of the request.
        ANSWER_OPENING: The end of a prompt, with which the template opens an answer.
        TOKENS: The texts are equal, and their tokens are not: the model wrote them otherwise than
            the tokenizer reads them.
        PROMPT: A prompt without messages.
        PICTURE: Another picture at the same place.
    """

    SYSTEM = "system"
    TOOLS = "tools"
    MESSAGE = "message"
    THINKING = "thinking"
    DATE = "date"
    TEMPLATE = "template"
    ANSWER_OPENING = "answer_opening"
    TOKENS = "tokens"
    PROMPT = "prompt"
    PICTURE = "picture"


@dataclass(frozen=True, slots=True)
class PromptDifference:
    """The first difference between a prompt and an earlier one of the same owner.

    Attributes:
        token_index: The number of tokens before it, which are equal.
        here: Text around it, in this prompt; none around pictures.
        before: Text around it, in the earlier prompt with its answer.
        read_again: Tokens after it that the earlier prompt has, too, in runs.
        message: The message's number from 1, without system texts; 0 for no message.
    """

    token_index: int
    part: PromptPart
    here: str
    before: str
    read_again: int
    message: int = 0
    role: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one generation.

    The prompt's contain the cached ones, and these those from disk; the output's contain reasoning,
    the stop and EOS. ``cache_miss`` is None where nothing of the prompt is missing.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    thinking_tokens: int = 0
    disk_tokens: int = 0
    cache_miss: CacheMiss | None = None
    prompt_difference: PromptDifference | None = None


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations of one generation, in seconds.

    ``queued_s``, ``first_token_s`` and ``total_s`` count from submission; ``prefill_s`` ends, and
    ``decode_s`` begins, with the first sampled token.
    """

    queued_s: float = 0.0
    prefill_s: float = 0.0
    first_token_s: float | None = None
    decode_s: float = 0.0
    total_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Speculation:
    """The counts of draft tokens of one answer, without those beyond its end.

    ``passes`` are verification passes. ``accepted`` tokens are those of all sources
    that the model drew itself. ``forced`` ones, which the constraint alone allowed, count by
    themselves.
    """

    passes: int = 0
    guessed: int = 0
    accepted: int = 0
    lookup_accepted: int = 0
    draft_accepted: int = 0
    head_accepted: int = 0
    prediction_accepted: int = 0
    prediction_rejected: int = 0
    forced: int = 0


def tokens_per_s(usage: Usage, timing: Timing) -> float | None:
    """Return the decoding speed, or None where fewer than two tokens were sampled."""
    if usage.output_tokens < 2 or timing.decode_s <= 0:
        return None
    return (usage.output_tokens - 1) / timing.decode_s


@dataclass(frozen=True, slots=True)
class BudgetEnd:
    """Where a budget, or a cycle, ended reasoning.

    Attributes:
        token_index: That of the first forced token, from 0.
        budget: The most tokens that reasoning was allowed; None for any.
        repetition: The cycle, where it ended the reasoning before the budget did.
    """

    token_index: int
    forced: int
    budget: int | None
    repetition: Repetition | None = None


@dataclass(frozen=True, slots=True)
class EndDetails:
    """The facts of an end beside its record: limits and who set them, cycles, and missed calls.

    Attributes:
        limit_from: Who set the limit that ended the answer; None where no limit did.
        budget_end: Where the reasoning was ended, if it was.
        budget_from: Who set the thinking budget, where it ended the reasoning.
        preset: The preset that set a limit of the two, where one did.
        repetition: The cycle with which the tokens end; with it, kind ``repetition`` ended them.
        planned_call: The tool of which the reasoning has a call, although the answer then ended by
            itself or by a stop without any call.
        has_user_template: Whether the user's own chat template made the prompt.
        no_effect: The parts of the request that changed nothing, with the reason in parentheses.
    """

    limit_from: LimitSource | None = None
    budget_end: BudgetEnd | None = None
    budget_from: LimitSource | None = None
    preset: str = ""
    repetition: Repetition | None = None
    planned_call: str | None = None
    has_user_template: bool = False
    no_effect: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of every generation, whatever happened.

    Attributes:
        error: For kind ``error``, the cause in words.
        is_request_at_fault: Whether the request caused the error, so that it would fail again.
        unfinished_tool_call: Raw text of a tool call that was cut short.
        residue: Text that appeared only when the last characters were finalised.
        settled: The tokens that were not settled by the last trace; see ``TokenTrace``.
        context_length: Tokens that the model's context holds, prompt and answer together; 0 where
            the request ended before it reached a model.
    """

    stop: StopInfo
    usage: Usage
    timing: Timing
    error: str | None = None
    is_request_at_fault: bool = False
    unfinished_tool_call: str = ""
    residue: str = ""
    settled: tuple[TokenSpan, ...] = ()
    speculation: Speculation = Speculation()
    details: EndDetails = EndDetails()
    context_length: int = 0


Event = (
    PromptProgress
    | PromptScores
    | TextDelta
    | ThinkingDelta
    | ToolCallStarted
    | ToolCallArguments
    | ToolCallAbandoned
    | ToolCallCompleted
    | TokenTrace
    | Finished
)


@dataclass(frozen=True, slots=True)
class VerifiedDrafts:
    """The result of one verification pass for a row.

    The first token of the step was known before the pass; the accepted drafts follow it.
    """

    drafts: tuple[TokenOrigin, ...]
    origins: tuple[TokenOrigin, ...]


def add_pass(
    before: Speculation, verified: VerifiedDrafts, taken: int | None = None
) -> Speculation:
    """Return the counts after one more pass, of which an answer that ended took some tokens."""
    drafts = verified.drafts if taken is None else verified.drafts[: taken - 1]
    if not drafts:
        return before
    accepted = verified.origins[1:taken]
    free = sum(origin is not TokenOrigin.FORCED for origin in drafts)
    predicted = sum(origin is TokenOrigin.PREDICTION for origin in drafts)
    given = Counter(accepted)
    right, forced = given[TokenOrigin.PREDICTION], given[TokenOrigin.FORCED]
    return Speculation(
        passes=before.passes + 1,
        guessed=before.guessed + free,
        accepted=before.accepted + len(accepted) - forced,
        lookup_accepted=before.lookup_accepted + given[TokenOrigin.LOOKUP],
        draft_accepted=before.draft_accepted + given[TokenOrigin.DRAFT],
        head_accepted=before.head_accepted + given[TokenOrigin.HEAD],
        prediction_accepted=before.prediction_accepted + right,
        prediction_rejected=before.prediction_rejected + predicted - right,
        forced=before.forced + forced,
    )
