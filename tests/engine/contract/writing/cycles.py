"""Exact cycles at the end of a list of tokens, found by trying every period."""

from collections.abc import Sequence

from engine.stopping.repetition import Repetition, RepetitionDetection


def copies_at_end(tokens: Sequence[int], period: int) -> int:
    """Return how many copies of the last ``period`` tokens stand at the end."""
    copies, pattern = 0, tokens[len(tokens) - period :]
    for begin in range(len(tokens) - period, -1, -period):
        if tokens[begin : begin + period] != pattern:
            break
        copies += 1
    return copies


def cycle_at_end(tokens: Sequence[int], detection: RepetitionDetection) -> Repetition | None:
    for period in range(detection.min_pattern_size, detection.max_pattern_size + 1):
        if period > len(tokens):
            return None
        copies = copies_at_end(tokens, period)
        if copies >= detection.min_count and copies * period >= detection.min_tokens:
            return Repetition(period, copies, len(tokens) - copies * period)
    return None
