"""The tokens of stop sequences in the loaded model; each is computed once. Main thread."""

from collections.abc import Awaitable, Callable, Sequence

import shiboken6
from PySide6.QtCore import QObject, Signal

from engine import EngineError, visible
from ui.kit.background.tasks import Tasks

Pieces = tuple[tuple[int, str], ...]
Tokenize = Callable[[str], Awaitable[Pieces]]


class StopTokens(QObject):
    """Knows the tokens of sequences, alone and after a space, in the loaded model.

    Signals:
        changed: More tokens are known, or another model is loaded.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._tokenize: Tokenize | None = None
        self._pieces: dict[str, Pieces] = {}
        self._tasks = Tasks()

    def use(self, tokenize: Tokenize | None, sequences: Sequence[str]) -> None:
        """Set the function that tokenizes; None while no model is loaded."""
        self._tokenize = tokenize
        self._pieces.clear()
        self.fetch(sequences)
        self.changed.emit()

    def fetch(self, sequences: Sequence[str]) -> None:
        """Compute the tokens of these sequences, in the background."""
        if self._tokenize is not None and any(one not in self._pieces for one in sequences):
            work = self._fetch(self._tokenize, list(sequences))
            self._tasks.start(work, "tokens of stop sequences")

    def count(self, sequence: str) -> str:
        """Return the number of tokens, or a dash while it is not known."""
        pieces = self._pieces.get(sequence)
        return "–" if pieces is None else str(len(pieces))

    def words(self, sequence: str) -> str | None:
        """Return the tokens, in words; None while they are not known."""
        pieces = self._pieces.get(sequence)
        if pieces is None:
            return None
        alone = f"In this model, on its own: {_shown(pieces)}"
        spaced = self._pieces.get(f" {sequence}", ())
        return f"{alone}\nAfter a space: {_shown(spaced)}" if spaced else alone

    async def _fetch(self, tokenize: Tokenize, sequences: list[str]) -> None:
        for sequence in sequences:
            if sequence in self._pieces:
                continue
            try:
                spaced = await tokenize(f" {sequence}")
                pieces = await tokenize(sequence)
            except EngineError:
                return  # the model was unloaded; the next model is asked again
            if tokenize is self._tokenize:
                self._pieces[f" {sequence}"] = spaced
                self._pieces[sequence] = pieces
        if shiboken6.isValid(self):  # otherwise its conversation was closed meanwhile
            self.changed.emit()


def _shown(pieces: Pieces) -> str:
    return "  ".join(f"{visible(piece)} ({token_id})" for token_id, piece in pieces)
