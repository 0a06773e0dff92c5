"""Sampling parameters whose edge values mean the same in every dialect.

Pure; knows no vendor and no web framework. Any thread.
"""

from collections.abc import Mapping
from dataclasses import replace

from api.transport.errors import FieldPath, invalid
from engine import GenerationRequest

# Vendors' seeds may be signed; a generator of random numbers takes them as they are in memory.
_SEEDS = 2**64
# No vocabulary has ids of more digits.
_MOST_DIGITS = 18
_MOST_SHOWN = 40


def nucleus(top_p: float | None, top_k: int | None) -> tuple[float | None, int | None]:
    """Return (top_p, top_k) as the engine takes them.

    A nucleus of mass 0 holds the likeliest token alone, which is the same as a top_k of 1;
    a negative top_k is a common spelling of "off".
    """
    if top_p == 0:
        return None, 1
    return top_p, max(top_k, 0) if top_k is not None else None


def token_biases(
    biases: Mapping[str, float] | None, field: FieldPath
) -> tuple[tuple[int, float], ...]:
    """Return the biases of a request, whose keys are token ids in decimal digits.

    Args:
        biases: As they were sent; None is none.
        field: Where they were sent.

    Raises:
        ApiError: A key is not a token id; the error names it.
    """
    if biases is None:
        return ()
    for key in biases:
        if not (key.isascii() and key.isdigit() and len(key) <= _MOST_DIGITS):
            shown = key if len(key) <= _MOST_SHOWN else f"{key[:_MOST_SHOWN]}…"
            raise invalid((*field, shown), "must be a token id in decimal digits")
    return tuple((int(key), bias) for key, bias in biases.items())


def choices_of(request: GenerationRequest, count: int) -> list[GenerationRequest]:
    """Return a generation for each of ``count`` choices.

    Choices of one seed differ among each other and are the same again next time.
    """
    seed = request.sampling.seed
    if seed is None:
        return [request] * count
    return [
        replace(request, sampling=replace(request.sampling, seed=(seed + index) % _SEEDS))
        for index in range(count)
    ]
