"""The head of the inspector: the verdict, the three steps to it, and what can be done now.

Main thread.
"""

import math
from dataclasses import replace

from PySide6.QtGui import QFont
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from engine import StopKind, figures, quoted, steps
from ui.inspector.run.inspector import Inspector
from ui.inspector.run.shown_run import RunSource, ShownRun
from ui.inspector.tape.tape import Tape, percent
from ui.kit.controls.buttons import IconBadge
from ui.kit.look.theme import Theme
from ui.kit.text.labels import label
from ui.records.runs import Run, RunState, progress_words
from ui.words.tones import Tone


class VerdictHead(QWidget):
    """Says why a run ended, or what it is doing; each state has its own text."""

    def __init__(self, theme: Theme, inspector: Inspector) -> None:
        super().__init__()
        self._inspector = inspector
        self._badge = IconBadge(theme, 32)
        self.sentence = label("", "title", 1.2, is_wrapped=True, weight=QFont.Weight.DemiBold)
        self.steps = label("", "muted", 0.98, is_wrapped=True)
        self.figures = label("", "muted", 0.95)
        self.keep_on = QPushButton("Continue")
        self.raise_limit = QPushButton("Raise the Limit and Continue")
        self.without = QPushButton("Answer Again Without This Stop")
        self.past = QPushButton("Continue Past It")
        self._actions = (self.keep_on, self.raise_limit, self.past, self.without)
        self.keep_on.clicked.connect(self._continue)
        self.raise_limit.clicked.connect(self._raise_limit)
        self.without.clicked.connect(self._answer_without)
        self.past.clicked.connect(self._continue)
        self._lay_out()
        self.show_run(None)

    def show_run(self, shown: ShownRun | None) -> None:
        """Say why a run ended, or what it is doing."""
        for action in self._actions:
            action.hide()
        self.figures.setText("")
        if shown is None:
            model = self._inspector.workspace.model
            if model.stage == "loading":
                self._say("clock", Tone.BUSY, f"{model.name} is loading", [])
            elif model.stage in ("none", "failed"):
                self._say("chat", Tone.QUIET, "No model is loaded", ["Open a model to begin."])
            else:
                words = "Send a message, or open a saved run, to see why an answer ends."
                self._say("stop-match", Tone.QUIET, "No run is shown", [words])
            return
        run, finished = shown.run, shown.run.finished
        if run.state is RunState.REFUSED:
            self._say("fault", Tone.FAULT, "This message was not sent to the model", [run.refusal])
        elif (said := run.verdict) is None:
            self._say("clock", Tone.BUSY, progress_words(run), [self._held_words(shown)])
        elif finished is None:
            self._say(said.icon, said.tone, said.words.sentence, [said.words.detail])
            is_known = run.state is not RunState.UNRECORDED
            self.keep_on.setVisible(is_known and self._can_continue(shown))
        else:
            told = why(run, None if shown.trace is None else Tape(shown.trace))
            # A message that never reached the model has no tokens that could have been recorded.
            if shown.trace is None and shown.source is RunSource.CHAT and finished.timing.total_s:
                told.append("The tokens of this run were not recorded, or have been forgotten.")
            self._say(said.icon, said.tone, said.words.sentence, told)
            self.figures.setText("  ·  ".join(figures(finished)))
            self._offer(shown)

    def refresh(self) -> None:
        """Say what the shown run is doing now."""
        self.show_run(self._inspector.shown)

    # -- what can be done ------------------------------------------------------------------

    def _offer(self, shown: ShownRun) -> None:
        finished = shown.run.finished
        if finished is None or self._inspector.message() is None:
            return
        kind = finished.stop.kind
        can_continue = self._can_continue(shown)
        is_rule = shown.run.stopped_by is not None
        self.keep_on.setVisible(can_continue and kind is StopKind.CANCELLED)
        self.raise_limit.setVisible(can_continue and kind is StopKind.MAX_TOKENS)
        self.past.setVisible(can_continue and is_rule)
        self.without.setVisible(is_rule)

    def _can_continue(self, shown: ShownRun) -> bool:
        return shown.run.can_be_continued and self._inspector.message() is not None

    def _continue(self) -> None:
        message = self._inspector.message()
        if message is not None:
            self._inspector.workspace.continue_answer(message)

    def _raise_limit(self) -> None:
        workspace = self._inspector.workspace
        settings = workspace.current.conversation.settings
        if settings.max_tokens is not None:
            workspace.settings.change(replace(settings, max_tokens=settings.max_tokens * 2))
        self._continue()

    def _answer_without(self) -> None:
        message = self._inspector.message()
        if message is not None:
            self._inspector.workspace.answer_without_stop(message)

    # -- looks -----------------------------------------------------------------------------

    @staticmethod
    def _held_words(shown: ShownRun) -> str:
        trace = shown.trace
        if trace is not None and trace.tokens and trace.tokens[-1].held:
            held = trace.tokens[-1].held
            return f"Holding {quoted(held, 40)} back: it could still become a stop."
        watched = ", ".join(quoted(stop, 16) for stop in shown.run.stops)
        return f"Watching for {watched}." if watched else "No stop sequences are set."

    def _say(self, icon: str, tone: Tone, sentence: str, steps: list[str]) -> None:
        self._badge.show_icon(icon, tone)
        self.sentence.setText(sentence)
        wanted = [step for step in steps if step]
        numbered = [f"{number}.  {step}" for number, step in enumerate(wanted, 1)]
        self.steps.setText("\n".join(numbered if len(wanted) > 1 else wanted))
        self.steps.setVisible(bool(wanted))

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.setSpacing(10)
        head.addWidget(self._badge)
        head.addWidget(self.sentence, 1)
        words = QVBoxLayout(self)
        words.setContentsMargins(0, 0, 0, 0)
        words.setSpacing(4)
        words.addLayout(head)
        words.addWidget(self.steps)
        words.addWidget(self.figures)
        actions = QHBoxLayout()
        actions.setSpacing(8)
        for action in self._actions:
            actions.addWidget(action)
        actions.addStretch(1)
        words.addLayout(actions)


def why(run: Run, tape: Tape | None) -> list[str]:
    """Return the steps that led to a run's end; an empty list while it is running."""
    finished, said = run.finished, run.verdict
    if finished is None or said is None:
        return []
    if run.state is RunState.INTERRUPTED:
        return [said.words.detail]
    began, probability = None, ""
    if tape is not None and tape.tokens:
        if (row := tape.first_matched_row()) is not None:
            began = (tape.tokens[row].index, tape.texts[row])
        if (stats := tape.tokens[-1].stats) is not None:
            probability = percent(math.exp(stats.logprob))
    return steps(finished, run.context, began=began, probability=probability)
