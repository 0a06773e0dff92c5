"""Prompts that begin alike: which sequence reads the beginning, and which follow it.

Only sequences of one owner share: no number and no time reveals another's prompt.
"""

from collections.abc import Mapping
from operator import itemgetter

from engine.inference.cache.index import common_tokens
from engine.inference.sequence import Sequence


class SharedBeginnings:
    """The sequences of a batch that wait until another, their donor, has read what both share.

    Attributes:
        worth_tokens: A prompt takes its beginning from another where that saves reading so many
            tokens. Reading fewer takes about as long as copying them.
        followers: The waiting sequences, each with its donor and how many tokens they share.
    """

    worth_tokens = 256
    # Answers to one prompt with several seeds read it once, unless it is as short as this.
    _WORTH_SAME = 16

    def __init__(self, sequences: Mapping[int, Sequence], *, can_cut: bool) -> None:
        self._sequences, self._can_cut = sequences, can_cut
        self.followers: dict[Sequence, tuple[Sequence, int]] = {}

    @property
    def ready(self) -> list[Sequence]:
        """The followers whose wait has ended, also by the donor's end."""
        return [
            sequence
            for sequence, (donor, shared) in self.followers.items()
            if donor.number not in self._sequences or donor.read >= shared
        ]

    def read_for(self, sequence: Sequence) -> int:
        """Return how many tokens the donor has read for a follower, beyond its cached ones."""
        donor, shared = self.followers[sequence]
        return max(0, min(shared, donor.read) - sequence.cached)

    def find_donor(self, sequence: Sequence) -> tuple[Sequence | None, int]:
        """Return the sequence from which a prompt takes its beginning, and how many tokens of it.

        It is the one that shares the most tokens, unless another has read nearly as many already.
        """
        found: list[tuple[Sequence, int, int]] = []
        for other in self._sequences.values() if sequence.scorer is None else ():
            if (
                other is sequence
                or other in self.followers
                or other.owner.name != sequence.owner.name
            ):
                continue
            # Each reads at least its last token itself.
            shared = min(common_tokens(sequence.key, other.key), len(sequence) - 1, len(other) - 1)
            is_same = len(other) == len(sequence) == shared + 1
            worth = self._WORTH_SAME if is_same else self.worth_tokens
            if shared - sequence.cached >= worth and (self._can_cut or other.read < shared):
                found.append((other, shared, worth))
        # One with a cache of its own has not begun to read.
        ready = [
            (other, min(shared, other.read))
            for other, shared, _ in found
            if self._can_cut and other.cache is None and other.read > sequence.cached
        ]
        nearest = max(ready, key=itemgetter(1), default=(None, sequence.cached))
        unread = [(other, shared) for other, shared, worth in found if shared - nearest[1] >= worth]
        return max(unread, key=lambda each: (each[1], each[0].read), default=nearest)
