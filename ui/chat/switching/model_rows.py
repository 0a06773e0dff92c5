"""The models that can answer a conversation, as rows that typed words filter.

Main thread. Reads no disk: the library was listed on another thread.
"""

from dataclasses import dataclass

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from engine import size_in_words
from engine.library.memory import Fit
from ui.models.model_library import LibraryModel, ModelLibrary
from ui.models.model_words import used
from ui.words.tones import Tone

Index = QModelIndex | QPersistentModelIndex

_FITS = {
    Fit.FITS: ("Fits", Tone.DONE),
    Fit.TIGHT: ("Tight", Tone.LIMIT),
    Fit.TOO_LARGE: ("Too large", Tone.FAULT),
}


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One model of the list."""

    model: LibraryModel
    is_chosen: bool = False
    is_loaded: bool = False
    is_loading: bool = False

    @property
    def can_be_loaded(self) -> bool:
        """Whether its files are complete."""
        return not (self.model.found.is_partial or self.model.found.problem)

    @property
    def facts(self) -> str:
        """Its facts, in a few words."""
        found = self.model.found
        if not self.can_be_loaded:
            return "Incomplete" if found.is_partial else "Damaged"
        words = [found.architecture] if found.architecture else []
        if found.bits is not None:
            words.append(f"{found.bits} bit")
        if self.model.used_at:
            words.append(used(self.model.used_at))
        return " · ".join(words)

    @property
    def size(self) -> str:
        """The size of its weights."""
        size = self.model.found.size_bytes
        return size_in_words(size) if size else ""

    @property
    def state(self) -> tuple[str, Tone]:
        """Whether it is in memory or would fit, with a tone."""
        if self.is_loading:
            return "Loading", Tone.LIMIT
        if self.is_loaded:
            return "Loaded", Tone.DONE
        if not self.can_be_loaded or self.model.need is None:
            return "", Tone.QUIET
        return _FITS[self.model.fit]

    @property
    def spoken(self) -> str:
        """The row for a screen reader."""
        chosen = "answers this conversation" if self.is_chosen else ""
        parts = (self.model.found.name, self.size, self.state[0], self.facts, chosen)
        return ", ".join(part for part in parts if part)


class ModelRows(QAbstractListModel):
    """The rows that match the typed words: the chosen and the loaded one, then by last use."""

    row_role = int(Qt.ItemDataRole.UserRole) + 1

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._every: list[ModelRow] = []
        self._shown: list[ModelRow] = []
        self._words: tuple[str, ...] = ()

    def show(self, rows: list[ModelRow]) -> None:
        """Show other models, with the same filter."""
        self._every = sorted(rows, key=_order)
        self._narrow()

    def look_for(self, text: str) -> None:
        """Show only the models whose name or architecture contains all of these words."""
        self._words = tuple(text.casefold().split())
        self._narrow()

    @property
    def total(self) -> int:
        """The number of all models, shown or not."""
        return len(self._every)

    def at(self, row: int) -> ModelRow:
        """Return the model of a row."""
        return self._shown[row]

    def row_of(self, model: LibraryModel) -> int:
        """Return the row of a model; -1 if it is not shown."""
        folder = model.found.folder
        return next(
            (n for n, one in enumerate(self._shown) if one.model.found.folder == folder), -1
        )

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        """Return how many models are shown."""
        return 0 if parent.isValid() else len(self._shown)

    def data(self, index: Index, role: int = int(Qt.ItemDataRole.DisplayRole)) -> object:
        """Return a name, the row itself, or what a screen reader says."""
        if not index.isValid() or index.row() >= len(self._shown):
            return None
        row = self._shown[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return row.model.found.name
        if role == self.row_role:
            return row
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return row.spoken
        if role == Qt.ItemDataRole.ToolTipRole:
            found = row.model.found
            return f"{found.problem}\n{found.folder}" if found.problem else str(found.folder)
        return None

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Models with missing files cannot be chosen."""
        if index.isValid() and not self._shown[index.row()].can_be_loaded:
            return Qt.ItemFlag.ItemIsSelectable
        return super().flags(index)

    def _narrow(self) -> None:
        self.beginResetModel()
        found = [row for row in self._every if self._matches(row)]
        # Models whose name has the words come before those whose architecture has them.
        self._shown = sorted(found, key=lambda row: not self._is_named(row))
        self.endResetModel()

    def _is_named(self, row: ModelRow) -> bool:
        name = row.model.found.name.casefold()
        return all(word in name for word in self._words)

    def _matches(self, row: ModelRow) -> bool:
        found = row.model.found
        text = f"{found.name} {found.architecture}".casefold()
        return all(word in text for word in self._words)


def rows_of(library: ModelLibrary, chosen: str) -> list[ModelRow]:
    """Return a row for each model of the library."""
    state = library.model
    loaded = state.loaded_folders()
    rows = []
    for model in library.models:
        folder = model.found.folder
        place = folder.resolve()
        rows.append(
            ModelRow(
                model,
                is_chosen=bool(chosen) and str(place) == chosen,
                is_loaded=place in loaded,
                is_loading=state.stage == "loading" and state.is_at(place),
            )
        )
    return rows


def _order(row: ModelRow) -> tuple[bool, bool, bool, float, str]:
    found = row.model.found
    in_use = row.is_loaded or row.is_loading
    return (
        not row.is_chosen,
        not in_use,
        not row.can_be_loaded,
        -row.model.used_at,
        found.name.casefold(),
    )
