"""The field that a captured answer is pasted into; it shows only the beginning of a long one.

Main thread. A text view takes seconds to lay out megabytes, so it gets only the first part.
"""

from PySide6.QtCore import QMimeData
from PySide6.QtWidgets import QPlainTextEdit

from engine import counted

SHOWN_CHARS = 60_000
_LINE_CHARS = 4_000


class CaptureSource(QPlainTextEdit):
    """An editor for a text of any length; ``textChanged`` says that ``capture`` has changed."""

    def __init__(self) -> None:
        super().__init__()
        self._whole: str | None = None

    @property
    def capture(self) -> str:
        """The whole text, even if only its beginning is shown."""
        return self.toPlainText() if self._whole is None else self._whole

    def set_capture(self, text: str) -> None:
        """Show a text; a long one cannot be edited here."""
        lines = text[:SHOWN_CHARS].split("\n")
        is_short = len(text) <= SHOWN_CHARS and all(len(line) <= _LINE_CHARS for line in lines)
        self._whole = None if is_short else text
        self.setReadOnly(not is_short)
        if is_short:
            self.setPlainText(text)
            return
        shown = "\n".join(
            line if len(line) <= _LINE_CHARS else f"{line[:_LINE_CHARS]} …" for line in lines
        )
        hidden = counted(len(text), "character")
        self.setPlainText(f"{shown}\n\n… the beginning of {hidden}, all of which are read")

    def insertFromMimeData(self, source: QMimeData) -> None:
        """Paste; a long text replaces the present one."""
        text = source.text()
        if len(text) > SHOWN_CHARS:
            self.set_capture(text)
        else:
            super().insertFromMimeData(source)
