"""What another stop list would have done to a recorded run.

Main thread; the replay itself runs on another one, a moment after the last change, so that typing
never waits for it.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from PySide6.QtCore import QObject, QTimer, Signal

from engine import StopKind, StopRules, counted, headline, quoted
from engine.recording.replay import Recording, Replayed, replay
from engine.recording.saved_run import to_json
from ui.kit.background.tasks import Tasks
from ui.records.conversations import StopEntry
from ui.stops.stop_list import StopListModel
from ui.words.visible import unescaped

DELAY_MS = 60


@dataclass(frozen=True, slots=True)
class WhatIfOutcome:
    """What the tried list would have done."""

    sentence: str
    text: str
    cut: str
    is_same: bool
    strings: tuple[str, ...]


class WhatIf(QObject):
    """A copy of a run's stop list that may be changed at will.

    Signals:
        outcome_changed: ``outcome`` has changed.
    """

    outcome_changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.stops = StopListModel(parent=self)
        self.outcome: WhatIfOutcome | None = None
        self.recording: Recording | None = None
        self._typed = ""
        self._played: Replayed | None = None
        self._asked = 0
        self._tasks = Tasks()
        self._delay = QTimer(self, singleShot=True, interval=DELAY_MS)
        self._delay.timeout.connect(self._start)
        self.stops.edited.connect(self._delay.start)
        self.stops.mode_changed.connect(self._delay.start)

    def set_recording(self, recording: Recording | None) -> None:
        """Try stop lists on another run, beginning with that run's own list."""
        self.recording = recording
        self.outcome = self._played = None
        self._asked += 1
        self.reset()  # the text that is being typed stays in its field and still counts as a stop
        self.stops.undo_stack.clear()
        self.outcome_changed.emit()

    def reset(self) -> None:
        """Go back to the run's own list."""
        rules = StopRules() if self.recording is None else self.recording.rules
        entries = [StopEntry(one, scope=rules.scope_of(one)) for one in rules.strings]
        self.stops.replace_all(entries, "use the run’s list")
        self._delay.start()

    def set_typed(self, typed: str) -> None:
        """Count what is being typed as one more stop."""
        if typed != self._typed:
            self._typed = typed
            self._delay.start()

    def case(self, question: str) -> Callable[[], str] | None:
        """Return a function that writes the run with the tried list as text; it takes a moment."""
        if self.recording is None or self.outcome is None or self._played is None:
            return None
        rules = self._rules(self.recording, self.outcome.strings)
        stop = self._played.stop or self.recording.stop
        case = replace(self.recording, rules=rules, stop=stop)
        return lambda: to_json(case, question)

    async def finish(self) -> None:
        """Wait until a running replay has ended."""
        self._delay.stop()
        await self._tasks.finish()

    def _strings(self) -> tuple[str, ...]:
        enabled = [entry.sequence for entry in self.stops.entries() if entry.is_enabled]
        typed = self._typed
        if typed and self.stops.with_escapes:
            try:
                typed = unescaped(typed)
            except ValueError:
                typed = ""  # an escape that is not yet complete
        return _unique([*enabled, typed] if typed else enabled)

    def _rules(self, recording: Recording, strings: tuple[str, ...]) -> StopRules:
        scopes = tuple((entry.sequence, entry.scope) for entry in self.stops.entries())
        return replace(recording.rules, strings=strings, scopes=scopes)

    def _start(self) -> None:
        if self.recording is None:
            return
        self._asked += 1
        strings = self._strings()
        rules = self._rules(self.recording, strings)
        work = self._play(self._asked, self.recording, rules, strings)
        self._tasks.start(work, "replay of a run")

    async def _play(
        self, asked: int, recording: Recording, rules: StopRules, strings: tuple[str, ...]
    ) -> None:
        played = await asyncio.to_thread(replay, recording, rules)
        if asked != self._asked:
            return  # the list has changed meanwhile
        self._played = played
        rows = {
            entry.sequence: row for row, entry in reversed(list(enumerate(self.stops.entries())))
        }
        self.outcome = outcome_of(recording, played, strings, rows)
        self.outcome_changed.emit()


def outcome_of(
    recording: Recording, played: Replayed, strings: tuple[str, ...], rows: dict[str, int]
) -> WhatIfOutcome:
    """Return the result of a replay, with a sentence about it."""
    kept = f"keeping {counted(len(played.text), 'character')}"
    stop = played.stop
    if stop is None:
        count = counted(len(recording.tokens), "recorded token")
        sentence = f"Nothing would stop within the {count}, {kept}."
    else:
        at = f"at token {played.output_tokens:,}"
        match stop.kind:
            case StopKind.STOP_STRING:
                row = rows.get(str(stop.value))
                by = quoted(str(stop.value), 40) if row is not None else "the sequence being typed"
                sentence = f"Would stop {at} by {by}, {kept}."
            case StopKind.EOS:
                sentence = f"Would end by itself {at}, {kept}."
            case _:
                sentence = f"{headline(stop)} {at}, {kept}."
    return WhatIfOutcome(
        sentence=sentence,
        text=played.text,
        cut="" if stop is None else stop.dropped,
        is_same=stop is not None
        and (stop.kind, stop.value, stop.token_index, stop.text_offset)
        == (
            recording.stop.kind,
            recording.stop.value,
            recording.stop.token_index,
            recording.stop.text_offset,
        ),
        strings=strings,
    )


def _unique(strings: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(strings))
