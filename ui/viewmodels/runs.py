"""One answer as the window remembers it: what was asked, what came, and why it ended.

Plain records without Qt; changed on the main thread only.
"""

import time
import uuid
from dataclasses import dataclass, field
from enum import StrEnum

from engine.chat import ToolCall
from engine.events import (
    Event,
    Finished,
    PromptProgress,
    TextDelta,
    ThinkingDelta,
    TokenTrace,
    ToolCallDelta,
)


class RunState(StrEnum):
    """The stages of a run. ``REFUSED`` ones never reached the model."""

    QUEUED = "queued"
    PREFILL = "prefill"
    STREAMING = "streaming"
    FINISHED = "finished"
    REFUSED = "refused"


@dataclass(eq=False)
class Run:
    """One generation and its result.

    Attributes:
        stops: The stop sequences it ran with, in their order.
        max_tokens: Its limit, None for none.
        model_id: The model that answered.
        state: Its stage.
        text: The answer so far.
        thinking: The reasoning so far.
        thinking_s: How long the reasoning took, in seconds; None while it lasts or without any.
        tool_calls: Calls the model made.
        prompt_processed: Prompt tokens read so far.
        prompt_total: Prompt tokens to read.
        prompt_cached: Prompt tokens that needed no reading.
        finished: The engine's last word, once there is one.
        refusal: Why it was refused, for ``REFUSED``.
        is_cancelling: Whether a cancel has been asked for and has not yet ended it.
        started_at: Unix time of the request, in seconds.
        id: Unique.
    """

    stops: tuple[str, ...] = ()
    max_tokens: int | None = None
    model_id: str = ""
    state: RunState = RunState.QUEUED
    text: str = ""
    thinking: str = ""
    thinking_s: float | None = None
    tool_calls: list[ToolCall] = field(default_factory=list)
    prompt_processed: int = 0
    prompt_total: int = 0
    prompt_cached: int = 0
    finished: Finished | None = None
    refusal: str = ""
    is_cancelling: bool = False
    started_at: float = field(default_factory=time.time)
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    _thinking_began_s: float | None = field(default=None, repr=False)

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self.state in (RunState.FINISHED, RunState.REFUSED)

    def apply(self, event: Event) -> None:
        """Take one event of the engine into the record."""
        match event:
            case PromptProgress():
                self.state = RunState.PREFILL
                self.prompt_processed = event.processed
                self.prompt_total = event.total
                self.prompt_cached = event.cached
            case ThinkingDelta():
                self.state = RunState.STREAMING
                if self._thinking_began_s is None:
                    self._thinking_began_s = time.monotonic()
                self.thinking += event.text
            case TextDelta():
                self.state = RunState.STREAMING
                self._end_thinking()
                self.text += event.text
            case ToolCallDelta():
                self.state = RunState.STREAMING
                self._end_thinking()
                self.tool_calls.append(event.call)
            case Finished():
                self._end_thinking()
                self.state = RunState.FINISHED
                self.finished = event
                self.is_cancelling = False
            case TokenTrace():
                pass

    def _end_thinking(self) -> None:
        if self._thinking_began_s is not None and self.thinking_s is None:
            self.thinking_s = time.monotonic() - self._thinking_began_s
