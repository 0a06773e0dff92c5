"""Shows why an answer ended: an icon and a tone for each stop kind, with the engine's words.

Renders the engine's record and decides nothing. Pure; knows no Qt. Any thread.
"""

from dataclasses import dataclass

from engine import (
    UNRECORDED,
    WRITTEN,
    AnswerContext,
    Finished,
    StopKind,
    VerdictWords,
    interrupted,
    verdict_words,
)
from ui.words.tones import Tone

_LOOKS = {
    StopKind.EOS: ("check", Tone.DONE),
    StopKind.STOP_STRING: ("stop-match", Tone.MATCH),
    StopKind.STOP_TOKEN: ("stop-match", Tone.MATCH),
    StopKind.MAX_TOKENS: ("limit", Tone.LIMIT),
    StopKind.CONTEXT_FULL: ("limit", Tone.LIMIT),
    StopKind.MEMORY_FULL: ("limit", Tone.LIMIT),
    StopKind.TOOL_CALL: ("tool", Tone.TOOL),
    StopKind.CANCELLED: ("cancelled", Tone.QUIET),
    StopKind.ERROR: ("fault", Tone.FAULT),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why an answer ended, as the window shows it.

    Attributes:
        icon: Name of the icon.
        tone: How it looks.
        words: The engine's words for the reason.
    """

    icon: str
    tone: Tone
    words: VerdictWords


WRITTEN_VERDICT = Verdict("pencil", Tone.QUIET, WRITTEN)
UNRECORDED_VERDICT = Verdict("report", Tone.QUIET, UNRECORDED)


def interrupted_verdict(*, has_text: bool) -> Verdict:
    """Return the verdict on an answer that was not over when the program ended."""
    return Verdict("fault", Tone.FAULT, interrupted(has_text=has_text))


def verdict(finished: Finished, context: AnswerContext) -> Verdict:
    """Return the verdict on a finished answer.

    Args:
        finished: The engine's last event.
        context: What else is known of the answer.
    """
    return Verdict(*_LOOKS[finished.stop.kind], verdict_words(finished, context))
