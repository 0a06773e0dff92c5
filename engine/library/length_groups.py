"""How many bytes the decode steps of sequences of different lengths read, in the best groups.

mlx-lm pads the caches of sequences that decode together to the longest. No MLX.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from math import inf

from engine.library.memory_need import STEP_TOKENS, CacheSize


@dataclass(frozen=True, slots=True)
class StepReads:
    """The bytes that one decode step of a model reads.

    Attributes:
        weights: Weights that every pass reads.
        cache: The cache of a sequence, of which a step reads as much as mlx-lm allocates.
        experts: Weights of which each token reads ``expert_share``.
    """

    weights: int
    cache: CacheSize
    experts: int = 0
    expert_share: float = 1.0

    def weights_for(self, rows: int) -> float:
        """Return the weights that a pass over one token of each row reads.

        The rows choose their experts independently: some read the same ones.
        """
        return self.weights + self.experts * (1 - (1 - self.expert_share) ** rows)

    def split(self, lengths: Collection[int]) -> tuple[tuple[int, ...], float]:
        """Return the groups whose steps read the fewest bytes, by their longest, and the bytes."""
        counts = Counter(-(-length // STEP_TOKENS) * STEP_TOKENS for length in lengths)
        sizes = sorted(counts.items())
        # For the sequences of the shortest sizes.
        best: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
        for end, (longest, _) in enumerate(sizes, start=1):
            each, rows, begin, fewest = self.cache.bytes_of(longest), 0, 0, inf
            for at in range(end - 1, -1, -1):
                rows += sizes[at][1]
                cost = best[at][1] + self.weights_for(rows) + rows * each
                if cost <= fewest:
                    begin, fewest = at, cost
            best.append(((*best[begin][0], longest), fewest))
        return best[-1]

    def padded_bytes(self, lengths: Collection[int]) -> int:
        """Return the most memory that the caches take until the sequences have these lengths.

        Shorter ones may be in fewer groups, whose padding takes no more than the saved weights.
        """
        return round(max(0.0, self.split(lengths)[1] - self.weights_for(len(lengths))))
