"""What has arrived of one answer since the last look, and what the stop matcher holds back of it.

Main thread. An asyncio task adds the engine's batches; the session takes them at its own pace.
"""

import time
from collections import deque
from collections.abc import Iterable

from engine import Event, TokenTrace, merge_deltas
from engine.recording.run_trace import RunTrace
from ui.chat.session.holding import HeldText
from ui.records.runs import Run

# Text is held for a token or two all the time; only what lasts is worth a word.
HOLD_SHOWN_S = 0.4


class ArrivedEvents:
    """Collects the events of a running answer.

    Attributes:
        trace: Records every event; None where the run is not recorded.
    """

    def __init__(self) -> None:
        self.trace: RunTrace | None = None
        self._events: deque[Event] = deque()
        self._held = HeldText()

    def add(self, events: Iterable[Event]) -> None:
        """Note what the engine sent."""
        self._events.extend(events)

    def clear(self) -> None:
        """Drop what has arrived."""
        self._events.clear()

    def take_events(self) -> list[Event]:
        """Return what has arrived, neighbours of a kind joined, token traces left out."""
        arrived = list(self._events)
        self._events.clear()
        if self.trace is None:
            return merge_deltas(arrived)
        now = time.monotonic()
        for event in arrived:
            self.trace.take(event)
            if isinstance(event, TokenTrace):
                self._held.take(event, now)
        # Token traces stand between pieces of text and would keep them from being joined.
        return merge_deltas([event for event in arrived if not isinstance(event, TokenTrace)])

    def note_hold(self, run: Run) -> bool:
        """Tell the run what is held back once that lasts; returns whether there is news to show."""
        if self.trace is None:
            return False
        held, since_s = self._held.text, self._held.since_s
        age_s = time.monotonic() - since_s if held and since_s is not None else 0.0
        # Once text is shown as held it stays shown while anything is held, so as not to flicker.
        is_shown = bool(held) and (age_s >= HOLD_SHOWN_S or bool(run.held))
        shown, age_s = (held, age_s) if is_shown else ("", 0.0)
        # The age is shown in tenths of a second: smaller changes need no repaint.
        if shown == run.held and round(age_s, 1) == round(run.held_s, 1):
            return False
        run.held, run.held_s = shown, age_s
        return True
