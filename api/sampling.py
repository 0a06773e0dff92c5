"""Sampling parameters whose edge values mean the same in every dialect.

Pure; knows no vendor and no web framework. Any thread.
"""


def nucleus(top_p: float | None, top_k: int | None) -> tuple[float | None, int | None]:
    """Return (top_p, top_k) as the engine takes them.

    A nucleus of mass 0 holds the likeliest token alone, which is the same as a top_k of 1;
    a negative top_k is a common spelling of "off".
    """
    if top_p == 0:
        return None, 1
    return top_p, max(top_k, 0) if top_k is not None else None
