"""Reads a text aloud with the system's voice, on the standard input of a program. Main thread."""

import shutil
import sys
from pathlib import Path

from PySide6.QtCore import QObject, QProcess, Signal

# The system's own voice comes first. Each program reads standard input and ends after speaking.
_MAC = (("say", "-f", "-"),)
_OTHERS = (
    ("spd-say", "--wait", "--pipe-mode"),
    ("espeak-ng", "--stdin"),
    ("espeak", "--stdin"),
)
_INSTALL = "Install speech-dispatcher (which has spd-say) or espeak-ng, and choose Speak again."
_SERVICE = "Check that the system’s speech service is running and has a voice."


def speech_command() -> tuple[str, ...] | None:
    """Return the command that reads its standard input aloud; None if there is none."""
    for name, *options in _MAC if sys.platform == "darwin" else _OTHERS:
        program = shutil.which(name)
        if program is not None:
            return (program, *options)
    return None


class Speech(QObject):
    """Reads one text at a time."""

    failed = Signal(str, str)  # reason, remedy

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.process: QProcess | None = None  # while a text is read

    def speak(self, text: str) -> None:
        """Read a text; a text that is being read is stopped."""
        self.stop()
        command = speech_command()  # looked for each time: it may have been installed since
        if command is None:
            self.failed.emit("This computer has no program that reads text aloud.", _INSTALL)
            return
        program, *options = command
        process = self.process = QProcess(self)
        process.setStandardOutputFile(QProcess.nullDevice())
        process.finished.connect(lambda code, status: self._finish(process, code, status))
        process.errorOccurred.connect(lambda error: self._notice(process, error))
        process.start(program, options)
        process.write(text.encode(errors="replace"))
        process.closeWriteChannel()

    def stop(self) -> None:
        process = self.process
        if process is not None:
            self._end(process)
            process.terminate()
            if not process.waitForFinished(1_000):
                process.kill()
                process.waitForFinished(1_000)

    def _notice(self, process: QProcess, error: QProcess.ProcessError) -> None:
        # Every other failure ends the program, which is reported by its end.
        if error == QProcess.ProcessError.FailedToStart:
            self._finish(process, -1, QProcess.ExitStatus.CrashExit)

    def _finish(self, process: QProcess, code: int, status: QProcess.ExitStatus) -> None:
        """Report a failure of the program, unless it was stopped."""
        if self.process is process:
            program = Path(process.program()).name
            error_output = (
                bytes(process.readAllStandardError().data()).decode(errors="replace").strip()
            )
            self._end(process)
            if code or status != QProcess.ExitStatus.NormalExit:
                cause = f"{program} says: {error_output[:300]}" if error_output else ""
                why = f"{program} could not read the text aloud."
                self.failed.emit(why, cause or f"{program} ended with code {code}. {_SERVICE}")

    def _end(self, process: QProcess) -> None:
        if self.process is process:
            self.process = None
            process.deleteLater()
