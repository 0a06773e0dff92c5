"""The end tokens of an answer: the model's, and those that a person added. Main thread."""

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from engine import ModelInfo, visible
from ui.kit.controls.buttons import IconButton
from ui.kit.look.theme import Theme, fixed_font
from ui.kit.system.boxes import ask_number
from ui.kit.text.elided import ElidedChip
from ui.kit.text.labels import ElidedLabel, clear_layout_of, rescale


class EndTokens(QWidget):
    """Lists the token ids with their texts and sources; a person can add more.

    Signals:
        added: A person added a token id that ends answers; carries the id.
        removed: A person removed an added token id; carries the id.
    """

    added = Signal(int)
    removed = Signal(int)

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._shown: tuple[str, ModelInfo | None, tuple[int, ...]] = "", None, ()
        self._rows = QVBoxLayout(self)
        self._rows.setContentsMargins(0, 0, 0, 0)
        self._rows.setSpacing(5)

    def show_tokens(self, info: ModelInfo | None, added: Sequence[int], name: str = "") -> None:
        """List the end tokens: the model's, and those that a person added."""
        before = self._shown[1]
        if info is not None:
            name = info.id
        elif before is not None and before.id == name:
            info = before
        wanted = name, info, tuple(added)
        if wanted == self._shown:
            return
        self._shown = wanted
        clear_layout_of(self)
        if name:
            self._list(name, info, added)
        # Qt would show them a frame later than it makes room for them.
        for row in range(self._rows.count()):
            item = self._rows.itemAt(row)
            if item is not None and (widget := item.widget()) is not None:
                widget.show()

    def _list(self, name: str, info: ModelInfo | None, added: Sequence[int]) -> None:
        layout = self._rows
        head = ElidedLabel(f"End tokens of {name}")
        head.setProperty("role", "muted")
        rescale(head, 0.93)
        layout.addWidget(head)
        if info is None:
            layout.addWidget(_end_token("…", "known once the model is loaded"))
        for token in () if info is None else info.eos:
            words = f"token {token.token_id}, from {token.source}"
            layout.addWidget(_end_token(visible(token.text), words))
        for token_id in added:
            is_known = info is None or token_id < info.vocabulary_size
            row = _end_token(str(token_id), "added by you" if is_known else "not in this model")
            remove = IconButton(self._theme, "close", f"Remove end token {token_id}", size=14)
            remove.clicked.connect(lambda _=False, one=token_id: self.removed.emit(one))
            inner = row.layout()
            assert inner is not None
            inner.addWidget(remove)
            layout.addWidget(row)
        more = QPushButton("Add a Token ID…")
        more.setProperty("kind", "link")
        more.setProperty("is_flush", True)
        more.setAccessibleName("Add a token id that ends answers")
        if info is None:
            more.setEnabled(False)
        else:
            more.clicked.connect(lambda: self._ask_token(info))
        layout.addWidget(more, 0, Qt.AlignmentFlag.AlignLeft)

    def _ask_token(self, info: ModelInfo) -> None:
        most = info.vocabulary_size - 1
        question = f"A token id from 0 to {most:,} that ends an answer:"
        ask_number(self, "End Token", question, self.added.emit, least=0, most=most)


def _end_token(text: str, words: str) -> QWidget:
    """Return a line that shows a token and says where it comes from."""
    row = QWidget()
    line = QHBoxLayout(row)
    line.setContentsMargins(0, 0, 0, 0)
    chip = ElidedChip(text)
    chip.setFont(fixed_font(chip.font(), 0.92))
    source = ElidedLabel(words)
    source.setProperty("role", "faint")
    source.setToolTip(words)
    row.setAccessibleName(f"End token {text}, {words}")
    line.addWidget(chip)
    line.addWidget(source, 1)
    return row
