"""Scores the shared prompt of a request's choices only once.

Scoring is the expensive part of reading a prompt, so only the first choice does it. The others wait
for the last score, get all scores at once, and then join the batch, where they take the prompt from
the first one. Belongs to the engine thread.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from engine.scheduling.queue.row import Row
from engine.values.tokens import PromptScores


@dataclass(slots=True)
class _Followers:
    """Rows that wait for another row to score their prompt."""

    rows: list[Row]
    found: list[PromptScores] = field(default_factory=list)


class SharedScores:
    """The rows that wait until their prompt has been scored."""

    def __init__(self) -> None:
        self._behind: dict[Row, _Followers] = {}
        self._ready: list[Row] = []

    def __len__(self) -> int:
        """Return the number of waiting rows."""
        return len(self._ready) + sum(len(one.rows) for one in self._behind.values())

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows. Any thread."""
        for one in self._behind.copy().values():
            yield from one.rows.copy()
        yield from self._ready.copy()

    def hold_back(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows that join the batch now; each of the others waits for one of them."""
        first: list[Row] = []
        for row in rows:
            leader = next((one for one in first if _is_shared(one, row)), None)
            if leader is None:
                first.append(row)
            elif leader in self._behind:
                self._behind[leader].rows.append(row)
            else:
                self._behind[leader] = _Followers([row])
        return first

    def found(self, row: Row, scores: PromptScores) -> Sequence[tuple[Row, list[PromptScores]]]:
        """Note scores of a row's prompt."""
        behind = self._behind.get(row)
        if behind is None:
            return ()
        behind.found.append(scores)
        if scores.start + len(scores) < row.prompt_tokens:
            return ()
        del self._behind[row]
        self._ready += behind.rows
        told = [(one, [*one.first_scores(), *behind.found]) for one in behind.rows]
        for one in behind.rows:
            one.has_scores = True
        return told

    def gone(self, row: Row) -> None:
        """Forget a row that has ended; the next one that waited for it is scored instead."""
        if not self:
            return
        if row in self._ready:  # an heir that has not joined yet may have others behind it
            self._ready.remove(row)
        if (behind := self._behind.pop(row, None)) is not None:
            heir, *others = behind.rows
            self._ready.append(heir)
            if others:
                self._behind[heir] = _Followers(others)
            return
        for leader, followers in self._behind.items():
            if row in followers.rows:
                followers.rows.remove(row)
                if not followers.rows:
                    del self._behind[leader]
                return

    def take_ready(self) -> list[Row]:
        """Return the rows that may join now."""
        ready, self._ready = self._ready, []
        return ready

    def clear(self) -> None:
        """Forget all rows."""
        self._behind.clear()
        self._ready.clear()


def _is_shared(first: Row, row: Row) -> bool:
    """Return whether two rows have the same scores for their prompts, and any at all."""
    wanted = first.generation.request.prompt_scoring
    return (
        wanted is not None
        and wanted == row.generation.request.prompt_scoring
        and max(1, wanted.start) < first.prompt_tokens
        and (first.prompt is row.prompt or first.prompt.tokens == row.prompt.tokens)
    )
