"""Shows one answer as it is generated, and lets Ctrl-C end it.

Used by the commands that answer in the terminal. Main thread, on its event loop.
"""

import dataclasses
from collections.abc import Callable
from typing import Protocol

from app.process.interrupts import Interrupts
from engine import Answer, Engine, Finished, GenerationRequest, TextDelta, ThinkingDelta, TraceLevel
from engine.recording.recorder import Recorder
from engine.recording.replay import Recording


class AnswerSink(Protocol):
    """Where an answer is shown."""

    def text(self, text: str) -> None:
        """Show more of the answer."""

    def thinking(self, text: str) -> None:
        """Show more of the reasoning."""


class Discard:
    """A sink that shows nothing."""

    def text(self, text: str) -> None:
        """Ignore the text."""

    def thinking(self, text: str) -> None:
        """Ignore the reasoning."""


async def answer(
    engine: Engine,
    request: GenerationRequest,
    sink: AnswerSink,
    interrupts: Interrupts,
    keep: Callable[[Recording], None] | None = None,
) -> Answer:
    """Generate an answer, show it as it arrives, and return all of it.

    Ctrl-C ends it within a step; it is then returned with kind ``cancelled``. If the sink
    raises, the generation is cancelled.

    Args:
        engine: The engine.
        request: The request.
        sink: Where the answer is shown.
        interrupts: Delivers Ctrl-C; must be open.
        keep: Receives the recording of the run, which is then traced.

    Raises:
        EngineError: The request was refused.
    """
    if keep is not None:
        request = dataclasses.replace(request, trace=TraceLevel.STOPS)
    is_interrupted = False

    def note() -> None:
        nonlocal is_interrupted
        is_interrupted = True

    with interrupts.calling(note):
        generation = await engine.generate(request)
    if is_interrupted:
        generation.cancel()
    recorder = Recorder(generation)
    text: list[str] = []
    thinking: list[str] = []
    finished: Finished | None = None
    with interrupts.calling(generation.cancel):
        try:
            async for event in generation.events():
                recorder.take(event)
                match event:
                    case TextDelta():
                        text.append(event.text)
                        sink.text(event.text)
                    case ThinkingDelta():
                        thinking.append(event.text)
                        sink.thinking(event.text)
                    case Finished():
                        finished = event
        finally:
            generation.cancel()
    assert finished is not None, "every generation ends in Finished"
    if keep is not None:
        keep(recorder.recording())
    return Answer("".join(text), "".join(thinking), (), finished)
