"""The parts of a page that can be searched: texts, which may be folded, and labels. Main thread.

A folded part counts its places as if it were unfolded; ``show_place`` unfolds it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QWidget

from ui.kit.text.flow_text import FlowText, Highlight
from ui.kit.text.labels import ElidedLabel
from ui.kit.text.places import word_places, words_pattern


class SearchedPart(Protocol):
    """One of the parts of a page, in reading order."""

    def count(self, wanted: Highlight) -> int:
        """Return how often the words occur in it, folded or not."""

    def show_place(self, wanted: Highlight) -> None:
        """Unfold the part if that hides the current place."""

    def mark(self, wanted: Highlight, page: QWidget) -> int | None:
        """Mark the places.

        Args:
            wanted: What to mark; its current place is counted within this part.
            page: The page.

        Returns:
            The distance of the current or first place from the top of the page; None for none.
        """


class SearchedText:
    """A text that may be folded.

    Args:
        view: Returns its view; None while there is none.
        lines: The lines of the unfolded view; None for the lines that the view has now.
        unfold: Unfolds it.
    """

    def __init__(
        self,
        view: Callable[[], FlowText | None],
        lines: Callable[[], Sequence[str]] | None = None,
        unfold: Callable[[], object] | None = None,
    ) -> None:
        self._view = view
        self._lines = lines
        self._unfold = unfold

    def count(self, wanted: Highlight) -> int:
        """Return how often the words occur in it, folded or not."""
        if self._lines is None:
            return self._shown(wanted)
        pattern = words_pattern(wanted.words, wanted.has_case)
        return sum(len(pattern.findall(line)) for line in self._lines())

    def show_place(self, wanted: Highlight) -> None:
        """Unfold the text if that hides the current place."""
        view = self._view()
        is_seen = view is not None and not view.isHidden()
        if self._unfold is not None and not (is_seen and self._has_current(wanted)):
            self._unfold()

    def mark(self, wanted: Highlight, page: QWidget) -> int | None:
        """Mark the places; return the distance of the current or first one from the top."""
        view = self._view()
        if view is None:
            return None
        if not self._has_current(wanted):
            wanted = replace(wanted, current=None)
        place = view.highlight(wanted)
        if place is None or view.isHidden():
            return None
        return view.viewport().mapTo(page, place.topLeft().toPoint()).y()

    def _has_current(self, wanted: Highlight) -> bool:
        return wanted.current is None or wanted.current < self._shown(wanted)

    def _shown(self, wanted: Highlight) -> int:
        view = self._view()
        if view is None:
            return 0
        return len(word_places(view.document(), wanted.words, wanted.has_case))


class SearchedLabel:
    """A label; it is marked as a whole."""

    def __init__(self, label: ElidedLabel) -> None:
        self._label = label

    def count(self, wanted: Highlight) -> int:
        """Return how often the words occur in it."""
        if not wanted.words:
            return 0
        pattern = words_pattern(wanted.words, wanted.has_case)
        return len(pattern.findall(self._label.text()))

    def show_place(self, wanted: Highlight) -> None:
        """Do nothing: a label is never folded."""

    def mark(self, wanted: Highlight, page: QWidget) -> int | None:
        """Mark the label if it has the words; return its distance from the top."""
        if not self.count(wanted):
            self._label.show_found("", "")
            return None
        if wanted.current is None:
            self._label.show_found(wanted.background, wanted.color)
        else:
            self._label.show_found(wanted.current_background, wanted.current_color)
        return self._label.mapTo(page, QPoint()).y()


def unfold_place(parts: Sequence[SearchedPart], wanted: Highlight) -> None:
    """Unfold the part with the current place, if it is folded."""
    for part, own in _divided(parts, wanted):
        if own.current is not None:
            part.show_place(own)


def mark_parts(parts: Sequence[SearchedPart], wanted: Highlight, page: QWidget) -> int | None:
    """Mark the places in all parts.

    Args:
        parts: The parts, in reading order.
        wanted: What to mark; its current place is counted through all parts.
        page: The page.

    Returns:
        The distance of the current or first place from the top of the page; None for none.
    """
    first: int | None = None
    for part, own in _divided(parts, wanted):
        down = part.mark(own, page)
        if down is not None and (own.current is not None or first is None):
            first = down
    return first


def _divided(
    parts: Sequence[SearchedPart], wanted: Highlight
) -> list[tuple[SearchedPart, Highlight]]:
    """Return each part with its own highlight; only one of them has the current place."""
    if wanted.current is None:
        return [(part, wanted) for part in parts]
    divided, left, none = [], wanted.current, replace(wanted, current=None)
    for part in parts:
        found = part.count(wanted) if left >= 0 else 0
        is_here = 0 <= left < found
        divided.append((part, replace(wanted, current=left) if is_here else none))
        left -= found
        if is_here:
            left = -1
    return divided
