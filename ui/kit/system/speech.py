"""Reads text aloud with the system's own program, where there is one. Main thread.

The text goes to the program's standard input, so that it is never taken for an option.
"""

import shutil
import sys

from PySide6.QtCore import QObject, QProcess, Signal

# In this order: the system's voice first. Each reads standard input and ends when all is said.
_MAC = (("say", "-f", "-"),)
_OTHERS = (
    ("spd-say", "--wait", "--pipe-mode"),
    ("espeak-ng", "--stdin"),
    ("espeak", "--stdin"),
)
_ENDED_WITHIN_MS = 1_000


def speech_command() -> tuple[str, ...] | None:
    """Return the command that reads its standard input aloud; None where there is none."""
    for name, *options in _MAC if sys.platform == "darwin" else _OTHERS:
        program = shutil.which(name)
        if program is not None:
            return (program, *options)
    return None


class Speech(QObject):
    """Reads one text at a time.

    Signals:
        changed: It began or ended to speak.
    """

    changed = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._command = speech_command()
        self._process: QProcess | None = None

    @property
    def is_possible(self) -> bool:
        """Whether this system can read aloud."""
        return self._command is not None

    @property
    def is_speaking(self) -> bool:
        """Whether a text is being read."""
        return self._process is not None

    def speak(self, text: str) -> None:
        """Read a text, in place of one that is being read."""
        self.stop()
        if self._command is None:
            return
        process = self._process = QProcess(self)
        process.setStandardOutputFile(QProcess.nullDevice())
        process.setStandardErrorFile(QProcess.nullDevice())
        process.finished.connect(lambda: self._end(process))
        process.errorOccurred.connect(lambda: self._end(process))
        process.start(self._command[0], list(self._command[1:]))
        process.write(text.encode())
        process.closeWriteChannel()
        self.changed.emit()

    def stop(self) -> None:
        """Fall silent."""
        process = self._process
        if process is not None:
            self._end(process)
            process.terminate()
            if not process.waitForFinished(_ENDED_WITHIN_MS):
                process.kill()
                process.waitForFinished(_ENDED_WITHIN_MS)

    def _end(self, process: QProcess) -> None:
        if self._process is process:
            self._process = None
            process.deleteLater()
            self.changed.emit()
