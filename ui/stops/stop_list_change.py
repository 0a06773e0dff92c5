"""A change of a stop list that can be undone. Main thread."""

from collections.abc import Callable, Sequence

from PySide6.QtGui import QUndoCommand

from ui.records.conversations import StopEntry

Show = Callable[[Sequence[StopEntry], int], None]


class StopListChange(QUndoCommand):
    """Replaces the whole list: lists are short, and undo is then always exact."""

    def __init__(
        self,
        show: Show,
        before: Sequence[StopEntry],
        what: str,
        after: Sequence[StopEntry],
        row: int,
    ) -> None:
        super().__init__(what)
        self._show = show
        self._before, self._after = before, after
        self._row = row

    def redo(self) -> None:
        """Show the list after the change."""
        self._show(self._after, self._row)

    def undo(self) -> None:
        """Show the list before the change."""
        self._show(self._before, min(self._row, len(self._before) - 1))
