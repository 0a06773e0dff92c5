"""Finds the lane of the model that a request names, or the default lane.

Knows nothing of turns or of the work of a lane. Engine thread only.
"""

from collections.abc import Callable, Sequence

from engine.scheduling.offering import OfferedModel
from engine.scheduling.thread.board import StatusBoard
from engine.scheduling.thread.commands import EngineStatus
from engine.scheduling.thread.models.lane import Lane, LeftLane

MakeLane = Callable[[OfferedModel | None, Callable[[EngineStatus], None]], Lane]
"""Makes a lane for one of several models, or for any that is loaded; gets a status callback."""


class LaneRegister:
    """All lanes. With one model, all requests are for its lane."""

    def __init__(
        self,
        board: StatusBoard,
        make_lane: MakeLane,
        on_forgotten: Callable[[Lane], None],
        left: Sequence[LeftLane] = (),
    ) -> None:
        self._board = board
        self._make_lane = make_lane
        self._on_forgotten = on_forgotten
        self._number_of: dict[Lane, int] = {}
        self._by_id: dict[str, Lane] = {}
        self.lanes: list[Lane] = []
        for one in left:
            lane = self.new(one.offered)
            lane.slot.inherit(one.info, one.hang)
            if one.is_default:
                self.default = lane
        if not left:
            self.default = self.new(None)
        board.choose(self._number_of[self.default])
        board.begin(min(self._number_of.values()))

    def new(self, offered: OfferedModel | None) -> Lane:
        """Return a new lane for one of several models, or for any model that is loaded."""
        number = self._board.open_lane()

        def on_status(status: EngineStatus) -> None:
            self._board.post(number, lane.slot.offered, status)

        lane = self._make_lane(offered, on_status)
        self.lanes.append(lane)
        self._number_of[lane] = number
        if offered is not None:
            self._by_id[offered.id] = lane
        return lane

    def lane_of(self, model: OfferedModel | None) -> Lane:
        """Return the lane of one of several models, or of the default one."""
        if model is None:
            return self.default
        lane = self._by_id.get(model.id)
        if lane is not None and lane.slot.offered != model:
            lane.slot.become(model)
        if lane is not None:
            return lane
        default = self.default
        source = default.slot.source if default.slot.offered is None else None
        if source is not None and source.folder.resolve() == model.folder.resolve():
            # The only model so far becomes the first of several.
            default.slot.become(model)
            self._by_id[model.id] = default
            return default
        return self.new(model)

    def choose(self, lane: Lane) -> None:
        """Let a model answer requests that name none."""
        before, self.default = self.default, lane
        self._board.choose(self._number_of[lane])
        if before is not lane and before.slot.source is None and before.is_idle:
            self._forget(before)

    def _forget(self, lane: Lane) -> None:
        """Forget a lane that has no model and nothing to do."""
        self.lanes.remove(lane)
        self._board.remove(self._number_of.pop(lane))
        self._on_forgotten(lane)
