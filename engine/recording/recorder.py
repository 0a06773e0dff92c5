"""Collects a traced run's events into a ``Recording``. Pure; the reader's thread."""

from engine.recording.replay import RecordedToken, Recording
from engine.scheduling.generation import Generation
from engine.values.chat import ToolCall
from engine.values.events import Event, Finished, TokenTrace, ToolCallCompleted


class Recorder:
    """Collects the events of one generation whose request asks for a trace.

    Attributes:
        generation: The run.
    """

    def __init__(self, generation: Generation) -> None:
        self.generation = generation
        self._tokens: list[RecordedToken] = []
        self._calls: dict[str, tuple[ToolCall, ...]] = {}
        self._call_text: str | None = None
        self._finished: Finished | None = None

    def take(self, event: Event) -> None:
        """Note an event."""
        if isinstance(event, TokenTrace):
            self._tokens.append(
                RecordedToken(
                    event.token_id,
                    event.raw,
                    event.piece,
                    event.special,
                    event.time_s,
                    event.origin,
                )
            )
            self._call_text = None
        elif isinstance(event, ToolCallCompleted):
            # One text may hold several calls, which arrive together; the first carries the text.
            # Equal texts hold equal calls.
            is_first = bool(event.raw) or self._call_text is None
            text = event.raw if is_first else str(self._call_text)
            known = () if is_first else self._calls[text]
            self._calls[text] = (*known, event.call)
            self._call_text = text
        elif isinstance(event, Finished):
            self._finished = event

    def recording(self) -> Recording:
        """Return the run.

        Raises:
            ValueError: It has not ended, or was not traced.
        """
        finished = self._finished
        if finished is None:
            raise ValueError("the run has not ended yet")
        if len(self._tokens) != finished.usage.output_tokens:
            raise ValueError("the run was not traced, so it cannot be replayed")
        request = self.generation.request
        return Recording(
            setting=self.generation.setting,
            rules=request.stops,
            max_tokens=request.max_tokens,
            tokens=tuple(self._tokens),
            residue=finished.residue,
            calls=self._calls,
            stop=finished.stop,
            speculation=finished.speculation,
            budget_end=finished.budget_end,
        )
