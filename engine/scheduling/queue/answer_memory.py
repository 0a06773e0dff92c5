"""Checks whether the answers of a model fit into the memory that the machine has for them.

This module measures the memory, ``engine.scheduling.queue.room`` does the arithmetic. Engine thread
only.
"""

from collections.abc import Callable, Mapping

from engine.library.memory import Memory, room_for_caches
from engine.library.models import ModelInfo
from engine.scheduling.limits import Limits
from engine.scheduling.queue.room import CacheRoom, Wanted
from engine.scheduling.queue.row import Row


class AnswerMemory:
    """The memory for the answers of a model."""

    def __init__(
        self,
        limits: Limits,
        machine: Callable[[], Memory],
        largest: Callable[[], Memory] | None = None,
        most: Callable[[], int] | None = None,
        make_room: Callable[[], bool | None] | None = None,
    ) -> None:
        self._limits = limits
        self._machine = machine
        self._largest = largest
        self._most = most
        self._make_room = make_room
        self._room: CacheRoom | None = None
        # What cached prompts may take beside answers that use all of the room; None without limit.
        self._prompts_bytes: int | None = None
        self._room_of_model: ModelInfo | None = None

    def room(self, model: ModelInfo, rows: Mapping[int, Row]) -> CacheRoom:
        """Return the memory for the answers of a model; the first call measures it."""
        if self._room is None or self._room_of_model is not model:
            most = self._limits.context_bytes
            if most is None:
                room, self._prompts_bytes = self._room_in(self._machine(), model)
            else:
                room = CacheRoom(model.answer_cache, model.context_length, most)
            self._room = room
            self._room_of_model = model
        return self._room

    def largest_room(self, model: ModelInfo, rows: Mapping[int, Row]) -> CacheRoom:
        """Return the memory for the answers of a model once other models have left."""
        if self._largest is None or self._limits.context_bytes is not None:
            return self.room(model, rows)
        return self._room_in(self._largest(), model)[0]

    def possible_room(self, model: ModelInfo, rows: Mapping[int, Row]) -> CacheRoom:
        """Return the memory for the answers of a model once all other programs have left, too."""
        if self._most is None or self._limits.context_bytes is not None:
            return self.room(model, rows)
        most = self._most()
        return self._room_in(Memory(most, most), model)[0]

    def _room_in(self, now: Memory, model: ModelInfo) -> tuple[CacheRoom, int]:
        cached = self._limits.prompt_cache_bytes
        room, cached = room_for_caches(now, model.answer_cache, model.weights_bytes, cached)
        return CacheRoom(model.answer_cache, model.context_length, room), cached

    def max_prompts_bytes(self, model: ModelInfo, rows: Mapping[int, Row]) -> int | None:
        """Return how much cached prompts may take beside the answers; None for their own limit."""
        room = self.room(model, rows)
        if self._prompts_bytes is None:
            return None
        return self._prompts_bytes + max(0, room.size_bytes - reserved_bytes(model, rows))

    def check(self, model: ModelInfo, rows: Mapping[int, Row], wanted: Wanted) -> None:
        """Make sure that the choices of a request fit while no other answers run."""
        self.possible_room(model, rows).check(wanted)
        self.largest_room(model, rows).check_now(wanted)

    def measure_again(self) -> None:
        """Measure it again with the next request, because other models came or left."""
        self._room_of_model = None

    def has_room_beside(self, model: ModelInfo, rows: Mapping[int, Row], row: Row) -> bool:
        """Return whether another answer fits beside those in the batch.

        For the only answer, idle models are unloaded if that helps, and answers of other models are
        waited for. If neither is possible, it fits.
        """
        while not self.holds(model, rows, row):
            if rows:
                return False
            made = None if self._make_room is None else self._make_room()
            if not made:
                return made is None
            self.measure_again()
        return True

    def holds(self, model: ModelInfo, rows: Mapping[int, Row], *others: Row) -> bool:
        """Return whether other answers fit beside those in the batch as the memory is now."""
        lengths = [one.reserved_tokens for one in (*rows.values(), *others)]
        return self.room(model, rows).holds(lengths)

    def overgrown(self, model: ModelInfo, rows: Mapping[int, Row]) -> Row | None:
        """Return the longest answer without a limit of its own, where memory is short."""
        if self.room(model, rows).holds([one.tokens for one in rows.values()]):
            return None
        endless = [one for one in rows.values() if one.generation.request.max_tokens is None]
        return max(endless, key=lambda one: one.tokens, default=None)


def reserved_bytes(model: ModelInfo, rows: Mapping[int, Row]) -> int:
    """Return the memory that the caches of the answers in the batch will take."""
    longest = max((one.reserved_tokens for one in rows.values()), default=0)
    return len(rows) * model.answer_cache.allocated_bytes(longest)


def rows_bytes(model: ModelInfo, rows: Mapping[int, Row]) -> int:
    """Return the memory that the caches of the answers in the batch take."""
    longest = max((one.tokens for one in rows.values()), default=0)
    return len(rows) * model.answer_cache.allocated_bytes(longest)
