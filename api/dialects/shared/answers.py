"""The shared parts of answers: the encoder of streams, the stop report, texts, errors.

Pure but for an encoder's own state; any thread.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Annotated, Any, NotRequired, assert_never, cast

from pydantic import Field
from typing_extensions import TypedDict

from api.dialects.shared.encoding import COMMENT
from api.service.errors import ApiError, ErrorKind, failure_of, path_text
from engine.stopping.record import Channel, StopInfo, StopKind
from engine.stopping.repetition import Repetition
from engine.values.events import (
    BudgetEnd,
    Event,
    Finished,
    PromptProgress,
    TextDelta,
    ThinkingDelta,
    TokenTrace,
    ToolCallAbandoned,
    ToolCallArguments,
    ToolCallCompleted,
    ToolCallStarted,
    tokens_per_s,
)
from engine.values.request import LimitSource
from engine.values.tokens import PromptScores
from engine.values.verdict import sentence


class AnswerEncoder(ABC):
    """Turns the events of one request's generations into the frames of one stream.

    A dialect's methods send frames, or none, for each event. A dialect without fields for thinking
    or calls gets them as the text that the model wrote.

    The events of one choice arrive in this order: ``PromptProgress`` and ``PromptScores`` while the
    prompt is read, each any number of times; for each token the deltas and calls that it completed,
    then its ``TokenTrace`` if the request asks for traces; ``Finished``. Adjacent deltas may arrive
    merged, and the events of other choices in between.

    A call is sent in three steps, while it is written or all at once when it is complete: its
    start, its arguments, its end. If a call is cut off, or turns out not to be a call, the part
    that was sent stays in the stream, and its end says so if the dialect can.
    """

    def __init__(self) -> None:
        self.failure: ApiError | None = None
        # The calls that have been started and not ended.
        self._open_calls: set[str] = set()
        self._frames: list[str] = []

    def encode(self, events: Sequence[Event], choice: int = 0) -> list[str]:
        """Return the next frames; the last frames once every choice has finished."""
        for event in events:
            self._add(event, choice)
        return self._sent()

    def fail(self, error: ApiError) -> list[str]:
        """Return the frames that report a failure, after which the stream is closed."""
        self.failure = error
        self._broken(error)
        return self._sent()

    def keepalive(self) -> str:
        return COMMENT

    def store(self) -> None:
        """Store the answer, if it is complete and to be stored. Blocks; any thread."""

    def _add(self, event: Event, choice: int) -> None:
        match event:
            case TextDelta():
                if event.text:
                    self._text(event.text, choice)
            case TokenTrace():
                self._token(event, choice)
            case ThinkingDelta():
                if event.text:
                    self._thinking(event.text, choice)
            case ToolCallArguments():
                self._call_arguments(event, choice)
            case ToolCallStarted():
                self._open_calls.add(event.call_id)
                self._call_started(event, choice)
            case ToolCallAbandoned():
                self._open_calls.discard(event.call_id)
                self._call_abandoned(event, choice)
            case ToolCallCompleted():
                self._add_call(event, choice)
            case PromptProgress():
                self._progress(event, choice)
            case PromptScores():
                self._prompt(event, choice)
            case Finished():
                # Nothing else decides whether a streamed answer failed.
                self.failure = failure_of(event)
                if self.failure is None:
                    self._end(event, choice)
                else:
                    self._broken(self.failure, event, choice)
            case _:
                assert_never(event)

    def _add_call(self, event: ToolCallCompleted, choice: int) -> None:
        """Send the parts of a complete call that were not sent while it was written."""
        call = event.call
        if call.id in self._open_calls:
            self._open_calls.remove(call.id)
        else:
            self._call_started(ToolCallStarted(event.index, call.id, call.name), choice)
            self._call_arguments(ToolCallArguments(call.id, call.arguments), choice)
        self._call(event, choice)

    def _send(self, frame: str) -> None:
        self._frames.append(frame)

    def _sent(self) -> list[str]:
        frames, self._frames = self._frames, []
        return frames

    @abstractmethod
    def _text(self, text: str, choice: int) -> None:
        """Add text of the answer."""

    def _thinking(self, text: str, choice: int) -> None:
        self._text(text, choice)

    def _call_started(self, call: ToolCallStarted, choice: int) -> None:
        """Report that a call begins."""

    def _call_arguments(self, more: ToolCallArguments, choice: int) -> None:
        """Add to the arguments of the call that was started last."""

    def _call_abandoned(self, call: ToolCallAbandoned, choice: int) -> None:
        """Report that a call that was started is not a call."""

    def _call(self, call: ToolCallCompleted, choice: int) -> None:
        self._text(call.raw, choice)

    def _token(self, trace: TokenTrace, choice: int) -> None:
        """Add the details of one token, whose text was added before."""

    def _progress(self, progress: PromptProgress, choice: int) -> None:
        """Report that the prompt is being read."""

    def _prompt(self, scores: PromptScores, choice: int) -> None:
        """Add the scores of some tokens of the prompt."""

    @abstractmethod
    def _end(self, finished: Finished, choice: int) -> None:
        """Report how a choice ended."""

    @abstractmethod
    def _broken(self, error: ApiError, finished: Finished | None = None, choice: int = 0) -> None:
        """Report a failure; ``finished`` is given if a generation ended with it."""


# The types of all answers are TypedDicts: they cost nothing at run time, mypy checks the code
# that builds the answers, and the OpenAPI document is generated from them.
class StopReport(TypedDict):
    """Why the answer ended."""

    kind: StopKind
    value: Annotated[
        str | int | None, Field(description="the stop that matched: a string or a token id")
    ]
    token_id: Annotated[int | None, Field(description="the token on which the answer ended")]
    token_text: str | None
    channel: Channel
    text_offset: Annotated[int | None, Field(description="where the match began, in characters")]
    token_index: Annotated[int | None, Field(description="of the token that completed the match")]
    held: Annotated[str, Field(description="text that was held back and then released")]
    dropped: Annotated[str, Field(description="the stop and what followed it")]
    source: Annotated[
        str | None,
        Field(description="where the end token is named: a file of the model, or its template"),
    ]


class RepetitionReport(TypedDict):
    """The last tokens are ``copies`` of ``period`` tokens; the first copy begins at an index."""

    period: int
    copies: int
    token_index: int


class BudgetEndReport(TypedDict):
    """The first forced token, how many were forced, and the most tokens of reasoning."""

    token_index: int
    forced: int
    budget: int | None
    repetition: RepetitionReport | None


class FullstopReport(TypedDict):
    """The object ``fullstop`` of an answer, if its request wants it."""

    verdict: Annotated[str, Field(description="why it ended, in one sentence")]
    stop: StopReport
    unfinished_tool_call: str | None
    planned_call: Annotated[
        str | None,
        Field(description="the tool whose call stands in the reasoning, and was not made"),
    ]
    limit_from: Annotated[
        LimitSource | None,
        Field(description="who set the limit that ended it; null if none did"),
    ]
    repetition: Annotated[
        RepetitionReport | None,
        Field(description="the cycle with which the tokens end, of at least 64 tokens"),
    ]
    thinking_budget_end: Annotated[
        BudgetEndReport | None,
        Field(description="where a budget, or a cycle, ended the reasoning"),
    ]
    budget_from: Annotated[
        LimitSource | None,
        Field(description="who set the budget that ended the reasoning; null if none did"),
    ]
    prompt_cache_miss: Annotated[
        str | None, Field(description="why no more of the prompt came from the cache")
    ]
    prompt_difference: NotRequired[
        Annotated[
            dict[str, Any],
            Field(
                description="where the prompt first differs from an earlier one, if tokens after "
                "it were read again: token_index, part, message, role, here, before, read_again"
            ),
        ]
    ]
    has_user_template: Annotated[
        bool, Field(description="whether a chat template of the user made the prompt")
    ]
    no_effect: Annotated[
        tuple[str, ...],
        Field(description="fields, tools and options of the request that changed nothing"),
    ]
    timing: Annotated[
        dict[str, float | None],
        Field(
            description="seconds: queued_s, prefill_s, first_token_s, decode_s, total_s; and "
            "tokens_per_s"
        ),
    ]


def report_to_wire(finished: Finished, no_effect: tuple[str, ...]) -> FullstopReport:
    """Return the object ``fullstop`` of an answer: the stop record, speeds and times (seconds)."""
    stop, details = asdict(finished.stop), finished.details
    del stop["rule_index"]
    speed = tokens_per_s(finished.usage, finished.timing)
    report: FullstopReport = {
        "verdict": sentence(finished),
        "stop": cast(StopReport, stop),
        "unfinished_tool_call": finished.unfinished_tool_call or None,
        "planned_call": details.planned_call,
        "limit_from": details.limit_from,
        "repetition": cast("RepetitionReport | None", _optional(details.repetition)),
        "thinking_budget_end": cast("BudgetEndReport | None", _optional(details.budget_end)),
        "budget_from": details.budget_from,
        "prompt_cache_miss": finished.usage.cache_miss,
        "has_user_template": details.has_user_template,
        "no_effect": no_effect,
        "timing": {**asdict(finished.timing), "tokens_per_s": speed},
    }
    if (difference := finished.usage.prompt_difference) is not None:
        report["prompt_difference"] = asdict(difference)
    return report


def _optional(value: Repetition | BudgetEnd | None) -> dict[str, object] | None:
    return None if value is None else asdict(value)


def text_of(events: Iterable[Event]) -> str:
    """Return the text of an answer."""
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def raw_text_of(events: Iterable[Event], *, has_thinking: bool = False) -> str:
    """Return all text that the model wrote, for dialects without fields for thinking or calls."""
    texts = []
    for event in events:
        if isinstance(event, TextDelta) or (isinstance(event, ThinkingDelta) and not has_thinking):
            texts.append(event.text)
        elif isinstance(event, ToolCallCompleted):
            texts.append(event.raw)
    return "".join(texts)


def reasoning_of(events: Iterable[Event]) -> str:
    """Return the reasoning before an answer."""
    return "".join(event.text for event in events if isinstance(event, ThinkingDelta))


def with_field(error: ApiError) -> str:
    """Return an error's message after the name of its field: ``messages[0].role: …``."""
    field = path_text(error.field)
    return f"{field}: {error.message}" if field else error.message


def not_an_ending(stop: StopInfo) -> ApiError:
    """Return the error of code that renders a failure as the end of an answer."""
    return ApiError(ErrorKind.INTERNAL, f"the generation ended with {stop.kind.value}")
