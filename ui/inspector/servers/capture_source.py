"""The field that a captured answer is pasted into; of a long one it shows the beginning.

Main thread. A text view takes seconds to lay megabytes out, so that only so much is given to it.
"""

from PySide6.QtCore import QMimeData
from PySide6.QtWidgets import QPlainTextEdit

from engine import counted

SHOWN_CHARS = 60_000
_LINE_CHARS = 4_000


class CaptureSource(QPlainTextEdit):
    """An editor for a text of any length; ``textChanged`` says that ``capture`` is another one."""

    def __init__(self) -> None:
        super().__init__()
        self._whole: str | None = None

    @property
    def capture(self) -> str:
        """The whole text, also where only its beginning is shown."""
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
        """Paste; a long text takes the place of what is here."""
        text = source.text()
        if len(text) > SHOWN_CHARS:
            self.set_capture(text)
        else:
            super().insertFromMimeData(source)
