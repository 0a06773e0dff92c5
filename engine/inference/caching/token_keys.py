"""Sequences of token ids as bytes: fast to compare, and usable as keys. Pure."""

from array import array
from collections.abc import Sequence

TOKEN_BYTES = array("I").itemsize


def key_of(tokens: Sequence[int]) -> bytes:
    """Return token ids as bytes, ``TOKEN_BYTES`` for each."""
    return array("I", tokens).tobytes()


def common_tokens(one: bytes, other: bytes) -> int:
    """Return how many first tokens two keys share."""
    low, high = 0, min(len(one), len(other)) // TOKEN_BYTES
    if one[: high * TOKEN_BYTES] == other[: high * TOKEN_BYTES]:
        return high
    # Comparing bytes is fast, so a binary search is much faster than a loop.
    while low < high:
        middle = (low + high + 1) // 2
        part = slice(low * TOKEN_BYTES, middle * TOKEN_BYTES)
        if one[part] == other[part]:
            low = middle
        else:
            high = middle - 1
    return low
