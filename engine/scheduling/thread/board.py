"""The statuses of all models of the engine thread, for other threads to read.

The engine thread writes, or the thread that gives it up; any thread reads.
"""

import itertools
import threading
from dataclasses import dataclass

from engine.scheduling.offering import OfferedModel
from engine.scheduling.thread.commands import EngineStatus


@dataclass(frozen=True, slots=True)
class Posted:
    """The status of one model."""

    offered: OfferedModel | None
    status: EngineStatus
    is_default: bool


class StatusBoard:
    """The statuses of the models, by the numbers of their lanes."""

    def __init__(self) -> None:
        self.status = EngineStatus()
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        # A lane that is not here posts nothing any more: its thread was given up.
        self._by_lane: dict[int, tuple[OfferedModel | None, EngineStatus | None]] = {}
        self._default = 0

    @property
    def posted(self) -> list[Posted]:
        """The status of every model."""
        with self._lock:
            return [
                Posted(offered, status, number == self._default)
                for number, (offered, status) in self._by_lane.items()
                if status is not None
            ]

    def open_lane(self) -> int:
        """Return the number of a new lane."""
        with self._lock:
            number = next(self._numbers)
            self._by_lane[number] = None, None
            return number

    def post(self, lane: int, offered: OfferedModel | None, status: EngineStatus) -> None:
        """Note what the model of a lane is doing."""
        with self._lock:
            if lane not in self._by_lane:
                return
            self._by_lane[lane] = offered, status
            if lane == self._default:
                self.status = status

    def begin(self, lane: int) -> None:
        """Forget the lanes of an earlier thread, once those of the next one have been posted.

        The status of the default model stays until another one is posted.
        """
        with self._lock:
            for number in [number for number in self._by_lane if number < lane]:
                del self._by_lane[number]

    def choose(self, lane: int) -> None:
        """Note the lane whose model answers requests that name no model."""
        with self._lock:
            self._default = lane
            _, status = self._by_lane.get(lane, (None, None))
            if status is not None:
                self.status = status

    def remove(self, lane: int) -> None:
        """Forget a lane."""
        with self._lock:
            self._by_lane.pop(lane, None)

    def clear(self, status: EngineStatus) -> None:
        """Note that no model is in memory any more, and the status of the default one."""
        with self._lock:
            offered, _ = self._by_lane.get(self._default, (None, None))
            self._by_lane = {self._default: (offered, status)}
            self.status = status
