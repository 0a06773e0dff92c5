"""The rows of the list of runs. Main thread."""

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from ui.inspector.run.shown_run import RunSource, ShownRun, ended_words, when_words

Index = QModelIndex | QPersistentModelIndex
_HEADS = ("When", "Conversation", "Question", "Model", "Ended", "Tokens")
_MOST_CHARS = 200
_LEFT = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
_RIGHT = int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)


class RunTable(QAbstractTableModel):
    """Runs, newest first; those of the open conversation come before the others."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._runs: list[ShownRun] = []
        self._shown_id: str | None = None

    def show_runs(self, runs: Sequence[ShownRun], shown_id: str | None) -> None:
        """List these runs."""
        self.beginResetModel()
        self._runs, self._shown_id = list(runs), shown_id
        self.endResetModel()

    def run_at(self, row: int) -> ShownRun | None:
        """Return the run of a row."""
        return self._runs[row] if 0 <= row < len(self._runs) else None

    def row_of(self, run_id: str | None) -> int | None:
        """Return the row of a run; None if it is not listed."""
        return next((n for n, one in enumerate(self._runs) if one.run.id == run_id), None)

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        """Return the number of runs."""
        return 0 if parent.isValid() else len(self._runs)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        """Return the number of columns."""
        return 0 if parent.isValid() else len(_HEADS)

    def headerData(
        self,
        section: int,
        orientation: Qt.Orientation,
        role: int = int(Qt.ItemDataRole.DisplayRole),
    ) -> Any:
        """Return a column's name or its alignment."""
        if orientation is Qt.Orientation.Horizontal:
            if role == Qt.ItemDataRole.DisplayRole:
                return _HEADS[section]
            if role == Qt.ItemDataRole.TextAlignmentRole:
                return _alignment(section)
        return None

    def data(self, index: Index, role: int = int(Qt.ItemDataRole.DisplayRole)) -> Any:
        """Return the text of a cell."""
        shown = self.run_at(index.row())
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(index.column())
        if shown is None or role not in (
            Qt.ItemDataRole.DisplayRole,
            Qt.ItemDataRole.ToolTipRole,
            Qt.ItemDataRole.AccessibleTextRole,
        ):
            return None
        return self._cells(shown)[index.column()]

    def _cells(self, shown: ShownRun) -> tuple[str, ...]:
        run, finished = shown.run, shown.run.finished
        mark = "● " if run.id == self._shown_id else ""
        place = shown.name if shown.source is RunSource.PAST else "This conversation"
        question = " ".join(shown.question[:_MOST_CHARS].split())
        tokens = "" if finished is None else f"{finished.usage.output_tokens:,}"
        return mark + when_words(run), place, question, run.model_id, ended_words(run), tokens


def _alignment(column: int) -> int:
    return _RIGHT if _HEADS[column] == "Tokens" else _LEFT
