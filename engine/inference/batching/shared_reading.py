"""Finds prompts that begin with the same tokens, so that one row reads these for all.

A prompt that shares a long beginning with a row of the batch takes the beginning from that row:
at once where the row has read it, or else as soon as it has. Only rows of one owner share: nobody
learns from a number or from the time what another asks. Pure but for its own state; knows no
clock and no model, so that several processes that decode together come to the same result.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.inference.batching.reading_turns import lane_of
from engine.inference.caching.token_keys import common_tokens, key_of

# A beginning is shared where that saves reading at least this many tokens. Reading fewer takes
# about as long as copying them.
WORTH_TOKENS = 256


@dataclass(slots=True)
class _Row:
    """A row of the batch."""

    owner: str
    key: bytes
    tokens: int
    lane: int
    begun: int
    read: int
    waiting: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shared:
    """What a prompt can take from a row of the batch."""

    row: int
    tokens: int
    is_read: bool


class SharedReading:
    """Knows the prompts of a batch's rows, and who waits for whom."""

    def __init__(self, *, is_cut_anywhere: bool) -> None:
        self._is_cut_anywhere = is_cut_anywhere
        self._rows: dict[int, _Row] = {}

    def joined(self, row: int, owner: str, tokens: Sequence[int], read: int) -> None:
        """Note a row that has joined the batch."""
        lane = lane_of(len(tokens) - read)
        self._rows[row] = _Row(owner, key_of(tokens), len(tokens), lane, read, read)

    def best(self, owner: str, tokens: Sequence[int], cached: int) -> Shared | None:
        """Return what a prompt should take from which row; None where it should be read alone.

        It waits for a row only if that row has read at least as much as the prompt's own cache
        holds, and is not in a lane of longer prompts, so that waiting never takes longer than
        reading. Of several rows, the one is chosen that saves most, both in waiting and in reading.
        """
        left = len(tokens) - cached
        if left <= WORTH_TOKENS:
            return None
        key, lane = key_of(tokens), lane_of(left)
        best: Shared | None = None
        most = -1
        for row, other in self._rows.items():
            if other.owner != owner:
                continue
            # Each row reads at least its last token itself.
            shared = min(common_tokens(key, other.key), len(tokens) - 1, other.tokens - 1)
            if shared - cached < WORTH_TOKENS:
                continue
            is_read = other.read >= shared
            if is_read:
                if not self._is_cut_anywhere:
                    continue
            elif other.read < cached or other.lane > lane:
                continue
            spared = min(shared, other.read) + shared
            if spared > most:
                best, most = Shared(row, shared, is_read), spared
        return best

    def wait(self, row: int, shared: Shared) -> None:
        """Note that a row waits until another has read what both share."""
        self._rows[shared.row].waiting[row] = shared.tokens

    def waiting(self, row: int) -> list[tuple[int, int]]:
        """Return the rows that wait for a row, each with how many tokens they share."""
        return list(self._rows[row].waiting.items())

    def begun_at(self, row: int) -> int:
        """Return how many tokens of its prompt a row had when it joined."""
        return self._rows[row].begun

    def unread_by(self, row: int) -> int:
        """Return how many tokens of its prompt a row has not read yet; at least 1."""
        known = self._rows[row]
        return max(1, known.tokens - known.read)

    def length_of(self, row: int) -> int:
        """Return how many tokens a row's prompt has."""
        return self._rows[row].tokens

    def read_by(self, row: int) -> int:
        """Return how many tokens of its prompt a row has."""
        return self._rows[row].read

    def has_read(self, row: int, read: int) -> list[int]:
        """Note how much of its prompt a row has read; return the rows that stop waiting for it."""
        known = self._rows[row]
        known.read = read
        found = [other for other, shared in known.waiting.items() if shared <= read]
        for other in found:
            del known.waiting[other]
        return sorted(found)

    def forget(self, row: int) -> list[int]:
        """Forget a row, also one that waits; return those that waited for it, in order."""
        known = self._rows.pop(row, None)
        if known is not None:
            return sorted(known.waiting)
        for other in self._rows.values():
            other.waiting.pop(row, None)
        return []

    def clear(self) -> None:
        """Forget all rows."""
        self._rows.clear()
