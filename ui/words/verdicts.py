"""Shows why an answer ended: an icon and a tone for each stop kind, with the engine's words.

Renders the engine's record and decides nothing. Pure; knows no Qt. Any thread.
"""

from dataclasses import dataclass

from engine import (
    INTERRUPTED,
    UNRECORDED,
    WRITTEN,
    Finished,
    StopKind,
    VerdictWords,
    figures,
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


INTERRUPTED_VERDICT = Verdict("fault", Tone.FAULT, INTERRUPTED)
WRITTEN_VERDICT = Verdict("pencil", Tone.QUIET, WRITTEN)
UNRECORDED_VERDICT = Verdict("report", Tone.QUIET, UNRECORDED)


def verdict(finished: Finished, max_tokens: int | None = None) -> Verdict:
    """Return the verdict on a finished answer.

    Args:
        finished: The engine's last event.
        max_tokens: The limit that the request had, if any.
    """
    return Verdict(*_LOOKS[finished.stop.kind], verdict_words(finished, max_tokens))


def answer_line(finished: Finished, max_tokens: int | None = None) -> str:
    """Return the line under an answer: figures, then the reason by name."""
    return " · ".join([*figures(finished), verdict_words(finished, max_tokens).label])
