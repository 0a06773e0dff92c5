"""The contrast of two colors: the ratio of WCAG 2."""

from PySide6.QtGui import QColor

TEXT = 4.5  # https://www.w3.org/TR/WCAG22/#contrast-minimum
SHAPE = 3.0  # https://www.w3.org/TR/WCAG22/#non-text-contrast


def contrast(one: str, other: str) -> float:
    """Return the ratio, 1 to 21."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(name: str) -> float:
    color = QColor(name)
    parts = (color.redF(), color.greenF(), color.blueF())
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
