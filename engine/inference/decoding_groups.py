"""The decoding sequences in groups of like length. Engine thread.

Each group is a ``GenerationBatch`` of mlx-lm, whose caches are padded to its longest sequence. A
step decodes every group: mlx-lm computes one pass ahead, so the device has the other groups' passes
while Python waits for one.
"""

import copy
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

from engine.inference.mlx_lm_internals import DecodingRows
from engine.inference.running_cache import prepare_to_run
from engine.library.length_groups import StepReads


class DecodingGroups:
    """The groups of one model's decoding sequences.

    Attributes:
        groups: Each a ``GenerationBatch``, the one of the shortest sequences first.
        reads: Decides which sequences share a group; None for one group.
    """

    def __init__(self, reads: StepReads | None) -> None:
        self.groups: list[Any] = []
        self.reads = reads
        # The tokens of the shortest sequence, and the number of them at which groups are due.
        self._shortest: list[int] = []
        self._due_at = 1

    def __len__(self) -> int:
        return sum(map(len, self.groups))

    @property
    def numbers(self) -> list[int]:
        return [number for group in self.groups for number in group.uids]

    @property
    def rows(self) -> list[DecodingRows]:
        return [DecodingRows(group) for group in self.groups]

    def split(self, lengths: Sequence[int]) -> list[int]:
        """Return the group of each of some sequences, by their lengths."""
        if self.reads is None:
            return [0] * len(lengths)
        ends, _ = self.reads.split(lengths)
        return [bisect_left(ends, length) for length in lengths]

    def add(self, group: Any) -> None:
        """Add the sequences of a ``GenerationBatch``."""
        self.groups.append(group)
        self._regroup()

    def remove(self, numbers: Collection[int]) -> None:
        is_changed = False
        for group in self.groups:
            kept = [row for row, number in enumerate(group.uids) if number not in numbers]
            if len(kept) < len(group):
                is_changed = True
                group.filter(kept)
        if is_changed:
            self.groups = [group for group in self.groups if len(group)]
            self._regroup()

    def clear(self) -> None:
        self.groups = []

    def regroup_if_due(self) -> None:
        """Regroup once the shortest sequence has doubled its length since the last time."""
        if len(self._shortest) >= self._due_at:
            self._regroup()

    def _regroup(self) -> None:
        """Move sequences to the groups whose steps read the fewest bytes."""
        tokens = [tokens for group in self.groups for tokens in group.tokens]
        self._shortest = min(tokens, key=len, default=[])
        self._due_at = max(1, 2 * len(self._shortest))
        indices = iter(self.split([len(one) for one in tokens]))
        parts: defaultdict[int, list[Any]] = defaultdict(list)
        for group in self.groups:
            rows: defaultdict[int, list[int]] = defaultdict(list)
            for row in range(len(group)):
                rows[next(indices)].append(row)
            for index, chosen in rows.items():
                parts[index].append(group if len(rows) == 1 else _part(group, chosen))
        self.groups = []
        for _, (first, *others) in sorted(parts.items()):
            for other in others:
                first.extend(other)
            prepare_to_run(first.prompt_cache)
            self.groups.append(first)


def _part(group: Any, rows: list[int]) -> Any:
    """Return some rows of a ``GenerationBatch`` as a batch of their own; the group is unchanged."""
    part = copy.copy(group)
    part.prompt_cache = copy.deepcopy(group.prompt_cache)  # arrays are not copied
    part.filter(rows)
    return part
