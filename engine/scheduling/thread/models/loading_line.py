"""Loads models one at a time, and makes room for them in memory.

While one model is loaded, the others take steps between two parts of the loading. If memory is
short, the least recently used model without answers is unloaded. If all have answers, one of them
takes no more requests until it can be unloaded. Engine thread only.
"""

import threading
from collections.abc import Callable, Sequence

from engine.errors import ModelLoadFailed
from engine.library.memory import Memory
from engine.scheduling.limits import Limits
from engine.scheduling.thread.commands import Command, Load
from engine.scheduling.thread.models.lane import Lane
from engine.scheduling.thread.models.memory_budget import MemoryBudget
from engine.scheduling.thread.models.model_slot import Source


class LoadingLine:
    """Loads the models of lanes in the order in which they were requested."""

    def __init__(
        self,
        limits: Limits,
        budget: MemoryBudget,
        lanes: Sequence[Lane],
        on_loaded: Callable[[Lane, Command | None], None],
    ) -> None:
        self._limits = limits
        self._budget = budget
        self._lanes = lanes
        self._on_loaded = on_loaded
        self._line: list[Lane] = []
        # Whether the first lane in the line waits for room.
        self._is_blocked = False

    @property
    def can_go_on(self) -> bool:
        """Whether a model should be loaded and does not wait for room."""
        return self._wants_load and not self._is_blocked

    @property
    def _wants_load(self) -> bool:
        return any(lane.wants_load for lane in self._lanes)

    def machine(self, lane: Lane) -> Memory:
        """Return the memory that a model and its answers may use beside the other models."""
        return self._budget.machine(lane, self._others(lane))

    def largest(self, lane: Lane) -> Memory:
        """Return the memory that a model and its answers may use once others have left."""
        return self._budget.largest(lane, self._others(lane))

    @property
    def most_bytes(self) -> int:
        """The memory that a model and its answers may use at all."""
        return self._budget.most_bytes

    def make_room(self, lane: Lane) -> bool | None:
        """Free memory of other models for an answer of a model that is in memory."""
        movable = sorted(
            (one for one in self._others(lane) if not one.slot.status.is_pinned),
            key=lambda one: one.slot.status.used_s,
        )
        for one in movable:
            if one.is_evictable:
                one.unload_idle()
                lane.go_on()
                return True
        answering = [one for one in movable if one.has_rows]
        # Those that wait, too, wait for this one.
        return False if answering else None

    def load_next(self, meanwhile: Callable[[], None], turn: threading.Lock) -> None:
        """Load the first model in the line, if there is one and there is room for it."""
        if not self._line and not self._wants_load:
            return
        given_up = [lane for lane in self._line if not lane.wants_load]
        if given_up:  # nobody waits for these any more, so the room for them is not needed either
            self._line = [lane for lane in self._line if lane.wants_load]
            with turn:
                for lane in given_up:
                    lane.slot.unsay()
                self._welcome_all()
        self._line += [lane for lane in self._lanes if lane.wants_load and lane not in self._line]
        if not self._line:
            self._is_blocked = False
            return
        lane = self._line[0]
        change = lane.slot.change
        with turn:
            try:
                self._is_blocked = not self._has_room(lane)
            except ModelLoadFailed as error:
                self._is_blocked = False
                del self._line[0]
                lane.refuse_load(error)
                self._welcome_all()
                return
        if self._is_blocked:
            return
        del self._line[0]
        lane.load(meanwhile, turn)
        with turn:
            self._welcome_all()
            self._on_loaded(lane, change)

    def _welcome_all(self) -> None:
        for lane in self._lanes:
            lane.measure_again()
            lane.stay()

    def _others(self, lane: Lane) -> list[Lane]:
        """Return the other models that are in memory."""
        return [one for one in self._lanes if one is not lane and one.slot.backend is not None]

    def _has_room(self, lane: Lane) -> bool:
        """Make room for the model of a lane; return False if it must wait for room."""
        slot = lane.slot
        change = slot.change
        source = Source(change.folder, change.draft) if isinstance(change, Load) else slot.source
        if source is None:
            return True
        wanted = self._budget.need_of(source)
        others = self._others(lane)
        if wanted is not None:
            if slot.offered is None:
                self._budget.check_alone(source, wanted)
            else:
                self._budget.check(
                    source, wanted, [one for one in others if one.slot.status.is_pinned]
                )
            while others and not self._budget.has_room(wanted, others):
                if not self._let_leave(lane, others):
                    # All others are pinned: it fits only if other programs give memory back.
                    if all(one.slot.status.is_pinned for one in others):
                        break
                    return False
                others = self._others(lane)
        lane.need = wanted if slot.offered is not None else None
        slot.kept_bytes = (
            self._limits.prompt_cache_bytes
            if slot.offered is None
            else self._budget.kept_bytes(wanted)
        )
        return True

    def _let_leave(self, lane: Lane, others: Sequence[Lane]) -> bool:
        """Unload a model without answers; return False if all models have answers.

        In that case the least recently used model takes no more requests.
        """
        movable = sorted(
            (one for one in others if not one.slot.status.is_pinned),
            key=lambda one: one.slot.status.used_s,
        )
        for one in movable:
            if one.is_evictable:
                one.unload_idle()
                return True
        if movable and not any(one.is_leaving for one in movable):
            movable[0].is_leaving = True
        if movable:
            leaving = next(one for one in movable if one.is_leaving)
            lane.slot.status.say(f"waits for memory: {leaving.slot.name} is still answering")
        return False
