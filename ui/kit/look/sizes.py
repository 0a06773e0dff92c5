"""How icons, controls and gaps grow with the size of the text. Pure values; any thread.

Icons, switches, boxes and rows keep their proportion to the letters beside them. Gaps grow half as
fast, so that large text leaves room for words. Smaller text leaves both nearly as they are: what is
clicked must not become tiny.
"""

_LEAST = 0.9


def of_glyphs(text_percent: int) -> float:
    """Return how many times larger what stands beside text is than at 100 %."""
    return max(_LEAST, text_percent / 100)


def of_gaps(text_percent: int) -> float:
    """Return how many times larger gaps and margins are than at 100 %."""
    return max(_LEAST, (1 + text_percent / 100) / 2)
