"""The events of an answer that were not taken yet, and the text that the stop matcher holds back.

Main thread. An asyncio task adds the engine's batches; the session takes them at its own pace.
"""

import time
from collections import deque
from collections.abc import Iterable

from engine import Event, TokenTrace, merge_deltas
from engine.recording.run_trace import RunTrace
from ui.chat.session.holding import HeldText
from ui.records.runs import Run

# Text is often held back for a token or two; only longer times are shown.
HOLD_SHOWN_S = 0.4


class ArrivedEvents:
    """Collects the events of a running answer."""

    def __init__(self) -> None:
        self.trace: RunTrace | None = None
        self._events: deque[Event] = deque()
        self._held = HeldText()

    def add(self, events: Iterable[Event]) -> None:
        """Add events of the engine."""
        self._events.extend(events)

    def clear(self) -> None:
        """Drop the events that were not taken."""
        self._events.clear()

    def take_events(self) -> list[Event]:
        """Return the new events without token traces; neighbours of the same kind are joined."""
        arrived = list(self._events)
        self._events.clear()
        if self.trace is None:
            return merge_deltas(arrived)
        now = time.monotonic()
        for event in arrived:
            self.trace.take(event)
            if isinstance(event, TokenTrace):
                self._held.take(event, now)
        # Token traces between pieces of text would prevent joining these.
        return merge_deltas([event for event in arrived if not isinstance(event, TokenTrace)])

    def note_hold(self, run: Run) -> bool:
        """Note in the run what is held back for long; return whether there is a change to show."""
        if self.trace is None:
            return False
        held, since_s = self._held.text, self._held.since_s
        age_s = time.monotonic() - since_s if held and since_s is not None else 0.0
        # Once held text is shown, it stays shown while any text is held: it must not flicker.
        is_shown = bool(held) and (age_s >= HOLD_SHOWN_S or bool(run.held))
        shown, age_s = (held, age_s) if is_shown else ("", 0.0)
        # The time is shown in tenths of a second: smaller changes need no repaint.
        if shown == run.held and round(age_s, 1) == round(run.held_s, 1):
            return False
        run.held, run.held_s = shown, age_s
        return True
