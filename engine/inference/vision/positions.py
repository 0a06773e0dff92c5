"""Positions of text and pictures in three dimensions (M-RoPE): time, height and width. No MLX.

A picture of h x w tokens takes the positions of a grid that begins behind the text before it; the
text after it goes on behind the largest of them. https://arxiv.org/abs/2409.12191, section 2.1.
"""

from collections.abc import Iterable

import numpy as np

Span = tuple[int, int, tuple[int, int, int]]
"""A picture's first token, its number of tokens, and its grid of tokens (time, height, width)."""


def grid_positions(length: int, spans: Iterable[Span]) -> tuple[np.ndarray, int]:
    """Return the positions of a prompt's tokens, of shape (3, length), and the delta behind them.

    A token behind the prompt with index n has the position n + delta in each dimension.
    """
    positions = np.empty((3, length), np.int32)
    end = following = 0
    for start, count, (frames, height, width) in spans:
        positions[:, end:start] = np.arange(following, following + start - end)
        following += start - end
        grid = np.indices((frames, height, width)).reshape(3, -1)
        positions[:, start : start + count] = grid[:, :count] + following
        following += max(frames, height, width)
        end = start + count
    positions[:, end:] = np.arange(following, following + length - end)
    return positions, following + length - end - length
