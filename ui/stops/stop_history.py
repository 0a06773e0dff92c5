"""Counts what the stop sequences of a conversation did in its answers.

Pure; knows no Qt. Main thread; computed again when an answer ends, never while tokens arrive.
"""

from dataclasses import dataclass, field

from engine import StopKind
from ui.records.conversations import Conversation
from ui.records.runs import Run

LAST_ANSWERS = 10


@dataclass(frozen=True, slots=True)
class StopUse:
    """How often one sequence ended, or would have ended, answers of a conversation."""

    fired: int = 0
    near: int = 0
    would_have_fired: int = 0
    answers: int = 0
    is_in_prompt: bool = False


@dataclass(frozen=True)
class StopHistory:
    """The texts and ends of a conversation that the counts and remarks need."""

    prompt: str = ""
    answers: tuple[str, ...] = ()
    fired: tuple[str, ...] = ()
    _uses: dict[str, StopUse] = field(default_factory=dict, compare=False, repr=False)

    def use_of(self, sequence: str) -> StopUse:
        """Return the counts of a sequence; they are computed once for each sequence."""
        use = self._uses.get(sequence)
        if use is None:
            use = self._uses[sequence] = self._look(sequence)
        return use

    def _look(self, sequence: str) -> StopUse:
        if not sequence:
            return StopUse()
        beginning = sequence[: max(2, (len(sequence) + 1) // 2)]
        whole = sum(sequence in text for text in self.answers)
        begun = sum(
            len(beginning) < len(sequence) and beginning in text and sequence not in text
            for text in self.answers
        )
        return StopUse(
            fired=self.fired.count(sequence),
            near=begun,
            would_have_fired=whole,
            answers=len(self.answers),
            is_in_prompt=sequence in self.prompt,
        )


def history_of(conversation: Conversation) -> StopHistory:
    """Return the history of a conversation's shown messages."""
    shown = conversation.messages
    runs = [message.run for message in shown if message.run is not None and message.run.is_over]
    prompt = [conversation.settings.system_prompt]
    prompt += [message.text for message in shown if message.role != "assistant"]
    return StopHistory(
        prompt="\n".join(prompt),
        answers=tuple(run.text for run in runs[-LAST_ANSWERS:]),
        fired=tuple(name for run in runs if (name := _ended_by(run))),
    )


def _ended_by(run: Run) -> str:
    if run.finished is None or run.finished.stop.kind is not StopKind.STOP_STRING:
        return ""
    return str(run.finished.stop.value)
