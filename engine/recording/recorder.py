"""Collects a traced run's events into a ``Recording``. Pure; the reader's thread."""

from engine.recording.replay import Recording
from engine.recording.run_trace import RunTrace
from engine.scheduling.generation import Generation
from engine.values.events import Event, Finished


class Recorder:
    """Collects the events of one generation whose request asks for a trace.

    Attributes:
        generation: The run.
    """

    def __init__(self, generation: Generation) -> None:
        self.generation = generation
        request = generation.request
        self._trace = RunTrace(generation.setting, request.stops, request.max_tokens, None)
        self._finished: Finished | None = None

    def take(self, event: Event) -> None:
        """Note an event."""
        self._trace.take(event)
        if isinstance(event, Finished):
            self._finished = event

    def recording(self) -> Recording:
        """Return the run.

        Raises:
            ValueError: It has not ended, or was not traced.
        """
        finished = self._finished
        if finished is None:
            raise ValueError("the run has not ended yet")
        if len(self._trace.tokens) != finished.usage.output_tokens:
            raise ValueError("the run was not traced, so it cannot be replayed")
        return self._trace.as_recording(finished.stop)
