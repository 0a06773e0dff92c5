"""Computes how icons, controls and gaps grow with the text size. Pure values; any thread.

Icons, switches, boxes and rows keep their proportion to the letters beside them. Gaps grow half as
fast, so that large text leaves room for words. With smaller text both stay nearly the same, so that
controls do not become too small to click.
"""

_LEAST = 0.9


def of_glyphs(text_percent: int) -> float:
    """Return the factor for icons and controls beside text; 1 at a text size of 100 %."""
    return max(_LEAST, text_percent / 100)


def of_gaps(text_percent: int) -> float:
    """Return the factor for gaps and margins; 1 at a text size of 100 %."""
    return max(_LEAST, (1 + text_percent / 100) / 2)
