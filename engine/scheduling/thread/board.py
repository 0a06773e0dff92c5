"""The statuses of all models of the engine thread, for other threads to read.

The engine thread writes, or the thread that gives it up; any thread reads.
"""

import threading
from dataclasses import dataclass
from pathlib import Path

from engine.scheduling.offering import OfferedModel
from engine.scheduling.thread.commands import EngineStatus


@dataclass(frozen=True, slots=True)
class Posted:
    """The status of one model.

    Attributes:
        offered: Which of several models it is; None where only one is served.
        status: What it is doing.
        is_default: Whether it answers requests that name no model.
    """

    offered: OfferedModel | None
    status: EngineStatus
    is_default: bool


class StatusBoard:
    """The statuses of the models, by the numbers of their lanes.

    Attributes:
        status: The status of the default model, which answers requests that name no model.
    """

    def __init__(self) -> None:
        self.status = EngineStatus()
        self._lock = threading.Lock()
        self._by_lane: dict[int, tuple[OfferedModel | None, EngineStatus]] = {}
        self._default = 0
        # The folder of the default model, also after its thread has ended.
        self._folder: Path | None = None

    @property
    def default_model(self) -> OfferedModel | None:
        """The default model, if it is one of several; None if only one is served."""
        with self._lock:
            offered, _ = self._by_lane.get(self._default, (None, None))
            return offered

    @property
    def default_folder(self) -> Path | None:
        """The folder of the default model, also after the engine thread has ended.

        None if there is no such model, or it was removed.
        """
        with self._lock:
            return self._folder

    @property
    def posted(self) -> list[Posted]:
        """The status of every model."""
        with self._lock:
            return [
                Posted(offered, status, number == self._default)
                for number, (offered, status) in self._by_lane.items()
            ]

    def post(self, lane: int, offered: OfferedModel | None, status: EngineStatus) -> None:
        """Note what the model of a lane is doing.

        Args:
            lane: The number of the lane.
            offered: Which of several models it is; None where only one is served.
            status: What it is doing.
        """
        with self._lock:
            self._by_lane[lane] = offered, status
            if lane == self._default:
                self.status = status
                self._note_folder(status)

    def begin(self, lane: int) -> None:
        """Note the only lane of a new thread; the last status stays until it posts another one."""
        with self._lock:
            self._by_lane = {lane: (None, self.status)}
            self._default = lane

    def choose(self, lane: int) -> None:
        """Note the lane whose model answers requests that name no model."""
        with self._lock:
            self._default = lane
            if lane in self._by_lane:
                _, self.status = self._by_lane[lane]
                self._note_folder(self.status)

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
            if status.state == "none":
                self._folder = None

    def _note_folder(self, status: EngineStatus) -> None:
        if status.model is not None:
            self._folder = status.model.path
        elif status.state == "none":
            self._folder = None
