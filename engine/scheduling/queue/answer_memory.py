"""Whether the answers of the present model fit into the memory that the machine has for them.

``engine.scheduling.queue.room`` reckons with a size; here that size is measured, and the answers
under way are put to it. Engine thread only.
"""

from collections.abc import Callable, Mapping

from engine.library.memory import Memory, room_for_caches
from engine.library.models import ModelInfo
from engine.scheduling.limits import Limits
from engine.scheduling.queue.room import CacheRoom
from engine.scheduling.queue.row import Row


class AnswerMemory:
    """The memory for the answers of a model.

    Args:
        limits: Hold the size, if somebody has set one.
        machine: Returns the memory that the model and its answers may use.
    """

    def __init__(self, limits: Limits, machine: Callable[[], Memory]) -> None:
        self._limits = limits
        self._machine = machine
        self._room: CacheRoom | None = None
        self._room_of_model: ModelInfo | None = None

    def room(self, model: ModelInfo, rows: Mapping[int, Row]) -> CacheRoom:
        """Return the memory for the answers of a model; measured by the first that is asked.

        Args:
            model: The model.
            rows: Its answers in the batch.
        """
        if self._room is None or self._room_of_model is not model:
            limits = self._limits
            room = limits.context_bytes
            if room is None:
                room = room_for_caches(
                    self._machine(),
                    model.answer_cache,
                    model.weights_bytes,
                    limits.prompt_cache_bytes,
                )
                room += rows_bytes(model, rows)  # what they have is not free, but theirs
            self._room = CacheRoom(model.answer_cache, model.context_length, room)
            self._room_of_model = model
        return self._room

    def measure_again(self) -> None:
        """Measure it anew with the next request: other models came or left."""
        self._room_of_model = None

    def has_room_beside(self, model: ModelInfo, rows: Mapping[int, Row], row: Row) -> bool:
        """Return whether another answer fits beside those in the batch.

        Args:
            model: The model of all of them.
            rows: Those in the batch.
            row: The other one; alone it always fits.
        """
        lengths = [one.reserved_tokens for one in (*rows.values(), row)]
        return len(lengths) == 1 or self.room(model, rows).holds(lengths)

    def overgrown(self, model: ModelInfo, rows: Mapping[int, Row]) -> Row | None:
        """Return the longest answer without a limit of its own, where memory is short.

        Args:
            model: The model.
            rows: Its answers in the batch.

        Returns:
            None where memory holds all answers, or each has a limit.
        """
        if self.room(model, rows).holds([one.tokens for one in rows.values()]):
            return None
        endless = [one for one in rows.values() if one.generation.request.max_tokens is None]
        return max(endless, key=lambda one: one.tokens, default=None)


def rows_bytes(model: ModelInfo, rows: Mapping[int, Row]) -> int:
    """Return what the caches of the answers in the batch take in memory."""
    longest = max((one.tokens for one in rows.values()), default=0)
    return len(rows) * model.answer_cache.allocated_bytes(longest)
